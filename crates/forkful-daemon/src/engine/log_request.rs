//! `GET /v1/logs`: which files and workers a request means.

use forkful_api::types::{ErrorReply, LOG_TAIL_LINES_MAX, LogLine, LogStream, LogsQuery};
use tokio::sync::mpsc;

use super::Engine;
use crate::logs::{FollowFilter, FollowRequest, Followed, TailFile};

impl Engine {
    pub(crate) fn logs_for(&mut self, query: &LogsQuery) -> Result<mpsc::Receiver<LogLine>, ErrorReply> {
        let targets: Vec<String> = if query.targets.is_empty() {
            vec!["all".to_owned()]
        } else {
            query.targets.split(',').map(str::to_owned).collect()
        };
        let selection = if query.targets.is_empty() && self.apps.is_empty() {
            std::collections::BTreeMap::new()
        } else {
            self.select(&targets)?
        };
        let mut files: Vec<TailFile> = Vec::new();
        let mut pm_ids = std::collections::BTreeSet::new();
        for (id, slots) in &selection {
            let Some(entry) = self.apps.get(id) else { continue };
            for place in slots.iter().filter_map(|slot| entry.places.get(slot)) {
                pm_ids.insert(place.pm_id);
                for (stream, path) in [(LogStream::Out, &place.out_file), (LogStream::Err, &place.error_file)]
                {
                    let wanted = query.stream.is_none_or(|only| only == stream);
                    if wanted && !files.iter().any(|file| file.path == *path) {
                        let pm_id = (!entry.spec.logs.merge).then_some(place.pm_id);
                        let app = entry.spec.name.to_string();
                        files.push(TailFile { app, pm_id, stream, path: path.clone() });
                    }
                }
            }
        }
        let lines = query.lines.min(LOG_TAIL_LINES_MAX);
        let who = if query.targets.is_empty() { Followed::All } else { Followed::Workers(pm_ids) };
        let filter = FollowFilter { who, stream: query.stream };
        Ok(self.logs.subscribe(FollowRequest { files, lines, follow: query.follow, filter }))
    }
}
