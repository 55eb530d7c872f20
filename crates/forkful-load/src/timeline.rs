//! Merges the windows of all threads, for the display and for the report's series. Pure.
//!
//! In a long run the length of windows is doubled as needed by joining neighbours, which is exact.

use std::time::Duration;

use crate::clock::Nanos;
use crate::coarse::Sparse;
use crate::recorder::ThreadWindow;
use crate::report::facts::{Report, Window};

/// All windows so far.
#[derive(Debug)]
pub(crate) struct Timeline {
    threads: usize,
    /// Length of a window of the threads.
    length: Nanos,
    /// Number of thread windows in one of ours.
    joined: u64,
    windows: Vec<Joined>,
}

#[derive(Debug, Clone, Default)]
struct Joined {
    started: u64,
    completed: Vec<u64>,
    errors: u64,
    received: u64,
    times: Sparse,
    open: Vec<u64>,
    backlog: Vec<u64>,
    cpu_seconds: f64,
}

impl Timeline {
    pub(crate) fn new(length: Duration, threads: usize) -> Self {
        Self { threads, length: crate::clock::nanos(length), joined: 1, windows: Vec::new() }
    }

    pub(crate) fn add(&mut self, thread: usize, window: &ThreadWindow) {
        while window.index / self.joined >= Report::WINDOWS_MAX as u64 {
            self.double();
        }
        let index = (window.index / self.joined) as usize;
        let empty = Joined {
            completed: vec![0; self.threads],
            open: vec![0; self.threads],
            backlog: vec![0; self.threads],
            ..Joined::default()
        };
        if self.windows.len() <= index {
            self.windows.resize(index + 1, empty);
        }
        let joined = &mut self.windows[index];
        joined.started += window.started;
        joined.completed[thread] += window.completed;
        joined.errors += window.errors;
        joined.received += window.received;
        joined.times.merge(&window.times);
        joined.open[thread] = window.open_connections;
        joined.backlog[thread] = window.backlog;
        joined.cpu_seconds += window.cpu_seconds;
    }

    /// The report's windows for a measurement of this length.
    pub(crate) fn windows(&self, elapsed: Duration) -> Vec<Window> {
        let length = Duration::from_nanos(self.length.saturating_mul(self.joined));
        let of = |index: usize, joined: &Joined| {
            let start = length.saturating_mul(index as u32);
            let time = |quantile| joined.times.quantile(quantile).map(Duration::from_nanos);
            Window {
                start,
                length: length.min(elapsed.saturating_sub(start)),
                started: joined.started,
                completed: joined.completed.iter().sum(),
                completed_by_thread: joined.completed.clone(),
                errors: joined.errors,
                received: joined.received,
                p50: time(0.5),
                p99: time(0.99),
                max: time(1.0),
                open_connections: joined.open.iter().sum(),
                backlog: joined.backlog.iter().sum(),
                cpu_seconds: joined.cpu_seconds,
            }
        };
        let windows = self.windows.iter().enumerate().map(|(index, joined)| of(index, joined));
        // Events after the end (answers in the drain) have no window.
        windows.filter(|window| !window.length.is_zero()).collect()
    }

    fn double(&mut self) {
        let mut windows = Vec::with_capacity(self.windows.len() / 2 + 1);
        for pair in self.windows.chunks_mut(2) {
            let (first, second) = pair.split_at_mut(1);
            let mut joined = std::mem::take(&mut first[0]);
            if let Some(second) = second.first_mut() {
                let second = std::mem::take(second);
                joined.started += second.started;
                joined.errors += second.errors;
                joined.received += second.received;
                joined.times.merge(&second.times);
                joined.cpu_seconds += second.cpu_seconds;
                for (sum, count) in joined.completed.iter_mut().zip(second.completed) {
                    *sum += count;
                }
                (joined.open, joined.backlog) = (second.open, second.backlog);
            }
            windows.push(joined);
        }
        self.windows = windows;
        self.joined *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coarse::Coarse;

    fn window(index: u64, completed: u64) -> ThreadWindow {
        let mut times = Coarse::new();
        for _ in 0..completed {
            times.record(1_000_000 * (index + 1));
        }
        ThreadWindow { index, completed, started: completed, times: times.take(), ..ThreadWindow::default() }
    }

    #[test]
    fn threads_are_put_together_by_time() {
        let mut timeline = Timeline::new(Duration::from_millis(100), 2);
        timeline.add(0, &window(0, 3));
        timeline.add(1, &window(2, 5));
        timeline.add(1, &window(0, 4));
        let windows = timeline.windows(Duration::from_millis(250));
        assert_eq!(windows.iter().map(|window| window.completed).collect::<Vec<_>>(), [7, 0, 5]);
        assert_eq!(windows[0].completed_by_thread, [3, 4]);
        assert_eq!(
            (windows[2].start, windows[2].length),
            (Duration::from_millis(200), Duration::from_millis(50))
        );
        assert_eq!(windows[1].p50, None);
        assert!((windows[2].p99.unwrap().as_secs_f64() - 0.003).abs() < 0.0001);
    }

    #[test]
    fn a_long_run_joins_windows_and_loses_nothing() {
        let mut timeline = Timeline::new(Duration::from_millis(100), 1);
        for index in 0..10_000 {
            timeline.add(0, &window(index, 2));
        }
        let windows = timeline.windows(Duration::from_secs(1_000));
        assert!(windows.len() <= Report::WINDOWS_MAX && windows.len() > Report::WINDOWS_MAX / 2);
        assert_eq!(windows.iter().map(|window| window.completed).sum::<u64>(), 20_000);
        assert_eq!(windows[0].length, Duration::from_millis(1_600));
        assert!(windows.iter().all(|window| window.p50.is_some()));
    }
}
