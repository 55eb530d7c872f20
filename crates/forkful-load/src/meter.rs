//! A thread's time windows and its CPU use, the same for both engines.

use std::sync::mpsc::SyncSender;

use rustix::time::{ClockId, clock_gettime};

use crate::clock::{NEVER, Nanos, nanos};
use crate::plan::Plan;
use crate::recorder::Recorder;
use crate::report::facts::ThreadFacts;
use crate::shared::{Life, Times, Totals, Update};

/// A thread's open connections and backlog at the end of a window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gauges {
    pub(crate) thread: usize,
    pub(crate) open: u64,
    pub(crate) backlog: u64,
}

/// When windows end, and a thread's measurements of itself.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    times: Times,
    window: Nanos,
    window_end: Nanos,
    window_index: u64,
    measuring: bool,
    cpu_at_window: f64,
    window_began: Nanos,
    cpu_at_measure: f64,
    switches_at_measure: u64,
    busy_max: f64,
    wakes: u64,
    events: u64,
    pauses: u64,
    open_max: u64,
    /// The longest time for which the thread did not run although something was due.
    stood_still_max: Nanos,
    ended: Option<(Nanos, f64)>,
}

impl Meter {
    /// Before the start.
    pub(crate) fn idle() -> Self {
        Self { times: Times::UNKNOWN, window: NEVER, window_end: NEVER, ..Self::default() }
    }

    pub(crate) fn begin(&mut self, now: Nanos, times: Times, plan: &Plan) {
        self.times = times;
        self.window = nanos(plan.window);
        // Windows before the measurement are for the display only, and end where the measurement begins.
        self.window_end = times.measure_from.min(now.saturating_add(self.window));
        self.window_began = now;
        self.cpu_at_window = thread_cpu();
    }

    /// When the current window ends.
    pub(crate) fn due(&self) -> Nanos {
        self.window_end
    }

    /// Records the number of connections open at this time.
    pub(crate) fn opened(&mut self, open: u64) {
        self.open_max = self.open_max.max(open);
    }

    /// Records a wake-up with this many events, and how long after it the last event was handled.
    #[inline]
    pub(crate) fn woke(&mut self, recorder: &mut Recorder, events: usize, residency: Nanos) {
        if self.measuring {
            self.wakes += 1;
            self.events += events as u64;
            recorder.report.residency.note(residency);
        }
    }

    /// Records that a wait that was to end at `due` ended at `woken`.
    pub(crate) fn waited(&mut self, due: Nanos, woken: Nanos) {
        if self.measuring && self.ended.is_none() {
            self.stood_still_max = self.stood_still_max.max(woken.saturating_sub(due));
        }
    }

    /// Records a pause for answers to gather.
    pub(crate) fn paused(&mut self) {
        self.pauses += u64::from(self.measuring);
    }

    /// Ends the current window and begins the one that contains `now`.
    pub(crate) fn roll(
        &mut self,
        now: Nanos,
        recorder: &mut Recorder,
        gauges: Gauges,
        updates: &SyncSender<Update>,
    ) {
        self.send(now, recorder, gauges, updates);
        let Times { measure_from, .. } = self.times;
        if now < measure_from {
            self.window_end = measure_from.min(now + self.window);
            return;
        }
        if !self.measuring {
            self.measuring = true;
            self.cpu_at_measure = self.cpu_at_window;
            self.switches_at_measure = involuntary_switches();
        }
        self.window_index = (now - measure_from) / self.window;
        self.window_end = measure_from + (self.window_index + 1) * self.window;
    }

    /// The measurement is over; answers may still arrive.
    pub(crate) fn end(&mut self, now: Nanos) {
        self.ended.get_or_insert_with(|| (now, thread_cpu()));
    }

    pub(crate) fn last(
        &mut self,
        now: Nanos,
        recorder: &mut Recorder,
        gauges: Gauges,
        updates: &SyncSender<Update>,
    ) {
        if !self.measuring && now >= self.times.measure_from {
            self.roll(now, recorder, gauges, updates);
        }
        self.end(now);
        self.send(now, recorder, gauges, updates);
        recorder.report.connections.reached = self.open_max;
    }

    pub(crate) fn facts(&self) -> ThreadFacts {
        let (at, cpu) = self.ended.unwrap_or((self.window_began, self.cpu_at_window));
        let cpu_seconds = if self.measuring { cpu - self.cpu_at_measure } else { 0.0 };
        let wall = at.saturating_sub(self.times.measure_from) as f64 / 1e9;
        ThreadFacts {
            cpu_seconds,
            busy: if wall > 0.0 { cpu_seconds / wall } else { 0.0 },
            busy_max: self.busy_max,
            wakes: self.wakes,
            events: self.events,
            pauses: self.pauses,
            involuntary_switches: involuntary_switches().saturating_sub(self.switches_at_measure),
            stood_still_max: std::time::Duration::from_nanos(self.stood_still_max),
            ..ThreadFacts::default()
        }
    }

    fn send(&mut self, now: Nanos, recorder: &mut Recorder, gauges: Gauges, updates: &SyncSender<Update>) {
        let mut window = recorder.take_window(self.window_index);
        window.cpu_seconds = self.roll_cpu(now);
        window.open_connections = gauges.open;
        window.backlog = gauges.backlog;
        let totals = Totals {
            started: recorder.report.counts.started,
            completed: recorder.report.counts.completed,
            failed: recorder.report.counts.failed,
            errors: recorder.errors_total(),
            opened: recorder.report.connections.opened,
            life: Life::of(&recorder.report),
        };
        let update = Update::Window { thread: gauges.thread, measured: self.measuring, window, totals };
        // Blocks while the display is slow: the queue holds minutes of updates, and none may be lost.
        let _ = updates.send(update);
    }

    /// The CPU used in the window; starts the next window.
    fn roll_cpu(&mut self, now: Nanos) -> f64 {
        let cpu = thread_cpu();
        let used = cpu - self.cpu_at_window;
        let wall = now.saturating_sub(self.window_began);
        // A very short window is not meaningful.
        if self.measuring && wall > self.window / 2 {
            self.busy_max = self.busy_max.max(used * 1e9 / wall as f64);
        }
        self.cpu_at_window = cpu;
        self.window_began = now;
        used
    }
}

/// CPU used by this thread, in seconds.
fn thread_cpu() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Involuntary context switches of this thread.
fn involuntary_switches() -> u64 {
    let status = fs_err::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("nonvoluntary_ctxt_switches:"));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}
