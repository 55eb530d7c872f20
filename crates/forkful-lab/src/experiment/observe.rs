//! What goes on inside of workers while they are under load: a small script preloaded into them writes it down, and
//! here it is read.

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forkful_core::spec::AppSpec;
use serde::Deserialize;
use tempfile::TempDir;

use crate::LabError;

const PROBE: &str = include_str!("probe.cjs");

/// A worker's line, about every 50 ms, later when its loop was held up.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq)]
pub(super) struct Look {
    /// Milliseconds since 1970.
    pub(super) at: f64,
    /// Since the last look.
    pub(super) length_ms: f64,
    /// How late the timer was.
    pub(super) late_ms: f64,
    /// Part of the time that the event loop was busy, 0 to 1.
    #[serde(rename = "loop")]
    pub(super) event_loop: f64,
    /// Requests since the worker's start.
    pub(super) requests: u64,
    /// CPU of the thread that runs JavaScript.
    pub(super) main_cpu_ms: f64,
    /// CPU of the threads that came after the start: the pool's.
    pub(super) pool_cpu_ms: f64,
    /// How many they are.
    pub(super) pool_threads: u32,
    /// How long the last tiny job waited for the pool.
    pub(super) pool_wait_ms: Option<f64>,
}

/// One process's looks, in order of time.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Watched {
    pub(super) pid: u32,
    pub(super) looks: Vec<Look>,
}

impl Watched {
    /// Requests between two moments.
    pub(super) fn requests(&self) -> u64 {
        let (first, last) = (self.looks.first(), self.looks.last());
        last.map_or(0, |look| look.requests) - first.map_or(0, |look| look.requests)
    }
}

/// Watches all processes of one server.
#[derive(Debug)]
pub(super) struct Observer {
    directory: TempDir,
    is_pool_watched: bool,
}

impl Observer {
    pub(super) fn new(is_pool_watched: bool) -> Result<Self, LabError> {
        let directory = tempfile::Builder::new()
            .prefix("forkful-probe-")
            .tempdir()
            .map_err(LabError::system("cannot make a temporary directory"))?;
        fs_err::write(script(directory.path()), PROBE).map_err(LabError::system("cannot write the probe"))?;
        Ok(Self { directory, is_pool_watched })
    }

    /// The app, with the probe preloaded.
    pub(super) fn watch(&self, app: &AppSpec) -> AppSpec {
        let mut app = app.clone();
        let env = &mut app.launch.env;
        let path = script(self.directory.path()).to_string_lossy().replace('\\', "\\\\").replace('"', "\\\"");
        let given = env.get("NODE_OPTIONS").map(|given| format!("{given} ")).unwrap_or_default();
        env.insert("NODE_OPTIONS".to_owned(), format!("{given}--require=\"{path}\""));
        let directory = self.directory.path().to_string_lossy().into_owned();
        env.insert("FORKFUL_EXPERIMENT_PROBE".to_owned(), directory);
        if self.is_pool_watched {
            env.insert("FORKFUL_EXPERIMENT_POOL".to_owned(), "1".to_owned());
        }
        app
    }

    /// What was seen between two moments (milliseconds since 1970), by process, those without a look left out.
    pub(super) fn seen(&self, from: f64, to: f64) -> Vec<Watched> {
        let Ok(entries) = fs_err::read_dir(self.directory.path()) else { return Vec::new() };
        let mut watched: Vec<Watched> = entries
            .flatten()
            .filter_map(|entry| {
                let path = entry.path();
                let pid = path.file_stem()?.to_str()?.parse().ok()?;
                let text = fs_err::read_to_string(&path).ok()?;
                let looks =
                    looks(&text).into_iter().filter(|look| look.at >= from && look.at <= to).collect();
                Some(Watched { pid, looks })
            })
            .filter(|watched| !watched.looks.is_empty())
            .collect();
        watched.sort_by_key(|watched| watched.pid);
        watched
    }
}

fn script(directory: &Path) -> PathBuf {
    directory.join("probe.cjs")
}

/// The complete lines; the last may be half written.
fn looks(text: &str) -> Vec<Look> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Milliseconds since 1970, as the probe counts.
pub(super) fn now_ms() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64() * 1000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_line_is_passed_over() {
        let line = r#"{"at":1,"length_ms":50,"late_ms":0,"loop":0.5,"requests":3,"main_cpu_ms":1,"pool_cpu_ms":2,"pool_threads":1,"pool_wait_ms":null}"#;
        let read = looks(&format!("{line}\n{line}\n{}", &line[..20]));
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].requests, read[0].pool_wait_ms), (3, None));
    }

    #[test]
    fn requests_are_counted_between_looks() {
        let line = |requests| Look {
            at: 0.0,
            length_ms: 0.0,
            late_ms: 0.0,
            event_loop: 0.0,
            requests,
            main_cpu_ms: 0.0,
            pool_cpu_ms: 0.0,
            pool_threads: 0,
            pool_wait_ms: None,
        };
        assert_eq!(Watched { pid: 1, looks: vec![line(5), line(9)] }.requests(), 4);
        assert_eq!(Watched { pid: 1, looks: vec![] }.requests(), 0);
    }
}
