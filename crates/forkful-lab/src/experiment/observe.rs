//! Observes the inside of workers under load: a small script preloaded into them writes lines to a file,
//! which are read here.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forkful_core::spec::AppSpec;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::LabError;
use crate::scratch::Scratch;

const PROBE: &str = include_str!("probe.cjs");

/// A line of a worker, about every 50 ms, later if its event loop was blocked.
#[derive(Debug, Clone, Copy, Deserialize, PartialEq)]
pub(super) struct Look {
    /// Milliseconds since the Unix epoch.
    pub(super) at: f64,
    /// Time since the previous line.
    pub(super) length_ms: f64,
    /// How late the timer was.
    pub(super) late_ms: f64,
    /// Share of the time that the event loop was busy, 0 to 1.
    #[serde(rename = "loop")]
    pub(super) event_loop: f64,
    /// Requests since the worker's start.
    pub(super) requests: u64,
    /// CPU time of the main (JavaScript) thread.
    pub(super) main_cpu_ms: f64,
    /// CPU time of the threads created after the start, which are the pool's.
    pub(super) pool_cpu_ms: f64,
    /// The number of pool threads.
    pub(super) pool_threads: u32,
    /// How long the last tiny job waited for the pool.
    pub(super) pool_wait_ms: Option<f64>,
}

/// How long to wait for the last lines of all workers at the end of a measurement: a line comes every 50 ms,
/// later on a busy machine. A worker that exited during the measurement writes none.
const LAST_LOOK_MAX: Duration = Duration::from_secs(5);
/// How often the files are read until then.
const LAST_LOOK_STEP: Duration = Duration::from_millis(10);

/// The observations of one process during a measurement.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Watched {
    pub(super) pid: u32,
    /// Requests before the measurement.
    before: u64,
    /// The lines that cover a part of the measurement, in order of time.
    pub(super) looks: Vec<Look>,
}

impl Watched {
    /// Selects the lines of a process that cover a part of the time between two moments. `None` if there are
    /// none.
    fn between(pid: u32, looks: Vec<Look>, from: f64, to: f64) -> Option<Self> {
        let before = looks.iter().take_while(|look| look.at < from).last().map_or(0, |look| look.requests);
        let covers = |look: &Look| look.at >= from && look.at - look.length_ms <= to;
        let looks: Vec<Look> = looks.into_iter().filter(covers).collect();
        (!looks.is_empty()).then_some(Self { pid, before, looks })
    }

    /// Requests within the measurement.
    pub(super) fn requests(&self) -> u64 {
        self.looks.last().map_or(0, |look| look.requests.saturating_sub(self.before))
    }
}

/// Observes all processes of one server.
#[derive(Debug)]
pub(super) struct Observer {
    directory: Scratch,
    is_pool_watched: bool,
}

impl Observer {
    pub(super) fn new(is_pool_watched: bool) -> Result<Self, LabError> {
        let directory =
            Scratch::new("forkful-probe-").map_err(LabError::system("cannot make a temporary directory"))?;
        fs_err::write(script(directory.path()), PROBE).map_err(LabError::system("cannot write the probe"))?;
        Ok(Self { directory, is_pool_watched })
    }

    /// The app with the probe preloaded.
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

    /// The observations between two times (milliseconds since the Unix epoch) by process, without processes
    /// that have none.
    pub(super) fn seen(&self, from: f64, to: f64) -> Vec<Watched> {
        let seen = self.all().into_iter();
        seen.filter_map(|(pid, looks)| Watched::between(pid, looks, from, to)).collect()
    }

    /// The same for a measurement that has just ended. It waits until every process has written a line after
    /// the end, so that even a measurement shorter than the interval is covered.
    pub(super) fn seen_whole(&self, from: f64, to: f64) -> Vec<Watched> {
        let deadline = Instant::now() + LAST_LOOK_MAX;
        let is_over = |looks: &[Look]| looks.last().is_some_and(|look| look.at >= to);
        while !self.all().iter().all(|(_, looks)| is_over(looks)) && Instant::now() < deadline {
            std::thread::sleep(LAST_LOOK_STEP);
        }
        self.seen(from, to)
    }

    /// All lines so far, by process.
    fn all(&self) -> Vec<(u32, Vec<Look>)> {
        let Ok(entries) = fs_err::read_dir(self.directory.path()) else { return Vec::new() };
        let mut all: Vec<(u32, Vec<Look>)> = entries
            .flatten()
            .filter_map(|entry| {
                let path = entry.path();
                let pid = path.file_stem()?.to_str()?.parse().ok()?;
                Some((pid, looks(&fs_err::read_to_string(&path).ok()?)))
            })
            .collect();
        all.sort_by_key(|(pid, _)| *pid);
        all
    }
}

/// The points of a timeline that starts at `begin`. A line covers the time before it, so the first one has
/// two points and even a single one can be drawn.
pub(super) fn line(looks: &[Look], begin: f64, of: impl Fn(&Look) -> f64) -> Vec<Value> {
    let point = |at: f64, look: &Look| json!([((at - begin) / 1000.0).max(0.0), of(look)]);
    let first = looks.first().map(|look| point(look.at - look.length_ms, look));
    first.into_iter().chain(looks.iter().map(|look| point(look.at, look))).collect()
}

fn script(directory: &Path) -> PathBuf {
    directory.join("probe.cjs")
}

/// The complete lines; the last line may be half written.
fn looks(text: &str) -> Vec<Look> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Milliseconds since the Unix epoch, as in the probe.
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

    fn look(at: f64, length_ms: f64, requests: u64) -> Look {
        Look {
            at,
            length_ms,
            late_ms: 0.0,
            event_loop: 0.0,
            requests,
            main_cpu_ms: 0.0,
            pool_cpu_ms: 0.0,
            pool_threads: 0,
            pool_wait_ms: None,
        }
    }

    #[test]
    fn a_measurement_between_two_looks_is_seen_by_the_look_that_covers_it() {
        let looks = vec![look(50.0, 50.0, 5), look(100.0, 50.0, 9), look(150.0, 50.0, 9)];
        let seen = |from, to| Watched::between(1, looks.clone(), from, to).unwrap();
        let short = seen(60.0, 70.0);
        assert_eq!(
            (short.requests(), short.looks.len()),
            (4, 1),
            "all between the first look and the second"
        );
        let drawn = line(&short.looks, 60.0, |_| 1.0);
        assert_eq!(drawn, [json!([0.0, 1.0]), json!([0.04, 1.0])], "a line from a single look");
        let whole = seen(10.0, 140.0);
        assert_eq!((whole.requests(), whole.looks.len()), (9, 3));
        assert_eq!(seen(110.0, 120.0).requests(), 0);
        assert_eq!(Watched::between(1, looks.clone(), 160.0, 170.0), None, "it ended before");
    }

    #[test]
    fn the_end_of_a_measurement_is_awaited_in_every_process() {
        let observer = Observer::new(false).unwrap();
        let line = |at: f64, requests: u64| {
            format!(
                r#"{{"at":{at},"length_ms":50,"late_ms":0,"loop":0.5,"requests":{requests},"main_cpu_ms":1,"pool_cpu_ms":0,"pool_threads":0,"pool_wait_ms":null}}"#
            ) + "\n"
        };
        let write = |pid: u32, text: &str| {
            fs_err::write(observer.directory.path().join(format!("{pid}.jsonl")), text).unwrap();
        };
        let first = line(50.0, 3);
        write(7, &format!("{first}{}", line(100.0, 8)));
        write(8, &first);
        std::thread::scope(|scope| {
            let seen = scope.spawn(|| observer.seen_whole(60.0, 90.0));
            write(8, &format!("{first}{}", line(100.0, 4)));
            let seen: Vec<(u32, u64)> =
                seen.join().unwrap().iter().map(|one| (one.pid, one.requests())).collect();
            assert_eq!(seen, [(7, 5), (8, 1)]);
        });
    }
}
