//! `GET /v1/logs`: the files and workers of a request.

use std::collections::BTreeSet;

use forkful_api::types::{ErrorReply, LOG_TAIL_LINES_MAX, LogStream, LogsQuery, split_targets};

use super::targets::Roster;
use crate::logs::{FollowFilter, FollowRequest, Followed, LogLines, LogService, TailFile};

impl Roster<'_> {
    /// The lines that a client requests.
    pub(super) fn logs_for(self, query: &LogsQuery, logs: &LogService) -> Result<LogLines, ErrorReply> {
        let targets: Vec<String> =
            if query.targets.is_empty() { vec!["all".to_owned()] } else { split_targets(&query.targets) };
        let selection = if query.targets.is_empty() && self.apps.is_empty() {
            std::collections::BTreeMap::new()
        } else {
            self.select(&targets)?
        };
        let mut files: Vec<TailFile> = Vec::new();
        let (mut apps, mut workers) = (BTreeSet::new(), BTreeSet::new());
        for (id, slots) in &selection {
            let Some(entry) = self.apps.get(id) else { continue };
            let app = entry.spec().name.to_string();
            if entry.places.keys().all(|slot| slots.contains(slot)) {
                apps.insert(app.clone());
            }
            for place in slots.iter().filter_map(|slot| entry.places.get(slot)) {
                workers.insert(place.pm_id);
                for (stream, path) in [(LogStream::Out, &place.out_file), (LogStream::Err, &place.error_file)]
                {
                    let wanted = query.stream.is_none_or(|only| only == stream);
                    if wanted && !files.iter().any(|file| file.path == *path) {
                        let pm_id = (!entry.spec().logs.merge).then_some(place.pm_id);
                        files.push(TailFile { app: app.clone(), pm_id, stream, path: path.clone() });
                    }
                }
            }
        }
        let lines = query.lines.min(LOG_TAIL_LINES_MAX);
        let who = if query.targets.is_empty() { Followed::All } else { Followed::Some { apps, workers } };
        let filter = FollowFilter { who, stream: query.stream };
        Ok(logs.subscribe(FollowRequest { files, lines, follow: query.follow, filter }))
    }
}
