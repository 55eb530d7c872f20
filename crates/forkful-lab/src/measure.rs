//! One window of load on one server, with the CPU of the server's process tree and of the machine.

use std::time::Duration;

use forkful_load::{Arrivals, Load, LoadError, Plan, Report, Reuse, Stop, StopHandle, Think, Threads, run};

use crate::LabError;
use crate::arms::Arm;
use crate::compare::Setup;
use crate::server::{Server, StartOptions};
use crate::statistics::steadiness::MachineUse;
use crate::target::Beside;

/// How long to wait for answers after a window; also limited to the length of the window.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// The minimum in an open loop: a request that is not waited for is slow, and no percentile would include it.
const DRAIN_MIN: Duration = Duration::from_secs(1);

/// An open loop has this many connections more than it would need at the response time of saturation.
const OPEN_CONNECTIONS_MAX: usize = 1024;

/// A closed loop counts as full after this many answers per connection, within these bounds. Node.js accepts
/// a hundred new connections one by one and hands them to workers one by one, which takes a cluster 0.1 s.
const LEAD_IN_ANSWERS: f64 = 1.5;
const LEAD_IN_MIN: Duration = Duration::from_millis(200);
const LEAD_IN_MAX: Duration = Duration::from_secs(2);

/// With a larger share of failed requests a window is refused.
const FAILED_SHARE_MAX: f64 = 0.01;

/// A request that is answered later than this, and later than some turns of all connections take, is not only
/// slow.
const UNANSWERED_MIN: Duration = Duration::from_secs(3);
const UNANSWERED_TURNS: u32 = 3;

/// With fewer samples a 99th percentile is a guess.
pub(crate) const P99_SAMPLES_MIN: u64 = 1_000;

/// Samples needed for a percentile: ten beyond it.
pub(crate) fn samples_min(percentile: f64) -> u64 {
    match percentile {
        p if p > 99.0 => 10_000,
        p if p > 95.0 => P99_SAMPLES_MIN,
        p if p > 90.0 => 200,
        p if p > 50.0 => 100,
        _ => 1,
    }
}

/// A running server of an arm, and the request to repeat.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) arm: &'a Arm,
    pub(crate) server: Server,
}

/// The result of a window.
#[derive(Debug)]
pub(crate) struct Window {
    /// The generator's report.
    pub report: Report,
    /// CPU of the server's process tree, from before the first connection to after the last answer.
    pub server_cpu: Duration,
    /// The machine's CPU use.
    pub machine: MachineUse,
}

impl Window {
    pub(crate) fn per_second(&self) -> f64 {
        self.report.per_second()
    }

    /// Requests that the server processed, including those before and after the measured time.
    pub(crate) fn requests(&self) -> u64 {
        requests(&self.report)
    }

    /// Also counts the CPU time of servers that were idle beside this window as the experiment's own: an app
    /// that polls uses some in every process. `took` is the time of the count, including lead-in and drain.
    pub(crate) fn add_beside(&mut self, cpu: Duration, took: Duration) {
        let share = self.report.elapsed.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
        self.machine.own += cpu.mul_f64(share.min(1.0));
    }

    /// The generator's busiest thread, 0 to 1.
    pub(crate) fn generator_busy(&self) -> f64 {
        self.report.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max)
    }
}

impl<'a> Subject<'a> {
    /// Starts the server of an arm.
    pub(crate) fn start(setup: &'a Setup, arm: &'a Arm) -> Result<Self, LabError> {
        let server = Server::start(&StartOptions {
            app: &setup.apps[arm.app],
            arm,
            target: &setup.target,
            forkful: &setup.forkful,
            port: setup.port,
            start_timeout: setup.start_timeout,
            stop: &setup.stop,
        })?;
        Ok(Self { setup, arm, server })
    }

    /// A closed loop with this many connections.
    pub(crate) fn closed(&self, connections: usize, duration: Duration) -> Result<Window, LabError> {
        self.closed_after(connections, Duration::ZERO, duration)
    }

    /// The same, measured after the loop has run for `lead_in`.
    pub(crate) fn closed_after(
        &self,
        connections: usize,
        lead_in: Duration,
        duration: Duration,
    ) -> Result<Window, LabError> {
        let beside = self.setup.target.beside.as_ref().filter(|beside| !beside.only_for_latency);
        self.window(&self.closed_plan(connections, lead_in, duration)?, beside)
    }

    /// The same, with all that is asked while latency is measured: how much of it an arm can bear.
    pub(crate) fn closed_as_at_rates(
        &self,
        connections: usize,
        lead_in: Duration,
        duration: Duration,
    ) -> Result<Window, LabError> {
        let plan = self.closed_plan(connections, lead_in, duration)?;
        self.window(&plan, self.setup.target.beside.as_ref())
    }

    fn closed_plan(
        &self,
        connections: usize,
        lead_in: Duration,
        duration: Duration,
    ) -> Result<Plan, LabError> {
        let mut plan = self.plan(duration)?;
        plan.connections = connections;
        plan.warmup = lead_in;
        plan.load = Load::Closed { think: Think::None };
        Ok(plan)
    }

    /// An open loop at this rate with independent (Poisson) arrivals, measured after all of its connections
    /// were accepted.
    pub(crate) fn open(&self, rate: f64, duration: Duration, seed: u64) -> Result<Window, LabError> {
        let mut plan = self.plan(duration)?;
        plan.warmup = LEAD_IN_MIN;
        plan.drain = duration.clamp(DRAIN_MIN, DRAIN_MAX);
        // Kept connections are opened before the clock starts; more are opened when all are busy.
        plan.connections = ((rate / 100.0) as usize).clamp(8, 64);
        plan.load =
            Load::Open { rate, connections_max: OPEN_CONNECTIONS_MAX, arrivals: Arrivals::Poisson { seed } };
        self.window(&plan, self.setup.target.beside.as_ref())
    }

    fn plan(&self, duration: Duration) -> Result<Plan, LabError> {
        let mut plan = self.setup.target.plan(self.server.address()).map_err(self.load_failed())?;
        plan.stop = Stop::Duration(duration);
        plan.drain = duration.min(DRAIN_MAX);
        // The generator's adaptive pauses must not add to a difference between two arms.
        plan.gathering = false;
        plan.reuse = Reuse::keep_alive(self.setup.keep_alive);
        if let Some(threads) = self.setup.threads {
            plan.threads = Threads::Count(threads);
        }
        Ok(plan)
    }

    fn window(&self, plan: &Plan, beside: Option<&Beside>) -> Result<Window, LabError> {
        // A window that the user has stopped is no result, so that answers under way are not waited for.
        let stop = &self.setup.stop.always_at_once();
        let before = self.server.used(false);
        let report = match beside {
            None => run(plan, &mut |_| {}, stop).map_err(self.load_failed())?,
            Some(beside) => self.loaded_beside(plan, beside, stop)?,
        };
        let server_cpu = self.server.used(false).cpu_since(&before);
        if stop.is_stopped() {
            return Err(LabError::Interrupted);
        }
        self.must_live()?;
        self.must_be_right(&report)?;
        if let Load::Closed { .. } = plan.load {
            self.must_have_answered(plan, &report)?;
        }
        let machine = machine_use(&report, server_cpu.mul_f64(counted_share(&report)));
        Ok(Window { report, server_cpu, machine })
    }

    /// Runs the measured load, and a second load at the same time that is not measured. Returns after the
    /// last answer of the second load.
    fn loaded_beside(&self, plan: &Plan, beside: &Beside, stop: &StopHandle) -> Result<Report, LabError> {
        let other = beside.plan(&self.setup.target, self.server.address()).map_err(self.load_failed())?;
        let ending = StopHandle::new();
        let (report, asked) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| run(&other, &mut |_| {}, &ending));
            let report = run(plan, &mut |_| {}, stop);
            if stop.is_stopped() {
                ending.stop_at_once();
            } else {
                ending.stop();
            }
            (report, asking.join().expect("a load does not panic"))
        });
        let (report, asked) = (report.map_err(self.load_failed())?, asked.map_err(self.load_failed())?);
        if !stop.is_stopped() {
            self.must_be_right(&asked)?;
        }
        Ok(report)
    }

    /// Refuses a window in which the app ended; its errors are the consequence.
    fn must_live(&self) -> Result<(), LabError> {
        let Some(how) = self.server.ended() else { return Ok(()) };
        let what = format!("the app ended {how} while it was measured");
        Err(LabError::Failed { arm: self.arm.name.clone(), what, tail: self.server.tail() })
    }

    /// Refuses a closed loop in which requests got no answer, even after its end: what was answered is not
    /// what the app does under this load. In a short window, or with many connections to a slow app, they may
    /// only be slow; in an open loop they are a sign of too high a rate.
    fn must_have_answered(&self, plan: &Plan, report: &Report) -> Result<(), LabError> {
        let unanswered = report.counts.unfinished + report.warmup.unfinished;
        let total = report.counts.started + report.warmup.unfinished;
        let bearable = bearable(plan.connections, requests(report), report.elapsed + plan.drain);
        // Those of the warm-up began before the window.
        let is_old = report.warmup.unfinished > 0 && report.elapsed >= bearable
            || u128::from(report.censored.max()) >= bearable.as_nanos();
        if !is_old || unanswered as f64 <= FAILED_SHARE_MAX * total as f64 {
            return Ok(());
        }
        let cause = "no answer, even after the end of the measurement".to_owned();
        let (arm, tail) = (self.arm.name.clone(), self.server.tail());
        Err(LabError::Errors { arm, failed: unanswered, total, cause, refused: None, tail })
    }

    /// Refuses a window with failed requests: its times and rates would be those of errors.
    fn must_be_right(&self, report: &Report) -> Result<(), LabError> {
        let failed = report.errors_total();
        let total = report.counts.started.max(1);
        if failed as f64 / total as f64 <= FAILED_SHARE_MAX {
            return Ok(());
        }
        let worst = report.errors.iter().max_by_key(|error| error.count);
        let mut cause = worst.map_or_else(String::new, |error| error.cause.words().to_owned());
        let wrong: Vec<String> = report
            .statuses
            .iter()
            .filter(|(status, _)| !self.setup.target.accepts(*status))
            .map(|(status, count)| format!("{count} times status {status}"))
            .collect();
        if !wrong.is_empty() {
            cause = wrong.join(", ");
        }
        let (arm, tail) = (self.arm.name.clone(), self.server.tail());
        let refused = self.server.refused().map(Box::new);
        Err(LabError::Errors { arm, failed, total, cause, refused, tail })
    }

    fn load_failed(&self) -> impl FnOnce(LoadError) -> LabError {
        LabError::load(&self.arm.name)
    }
}

/// How long a request may take before it counts as unanswered: a request waits for those of all other
/// connections.
fn bearable(connections: usize, answered: u64, within: Duration) -> Duration {
    let turn = within.mul_f64(connections as f64 / answered.max(1) as f64);
    UNANSWERED_MIN.max(turn * UNANSWERED_TURNS)
}

/// How long a closed loop fills at its beginning: until the first answers on all connections have arrived,
/// the rate is lower than afterwards. A window that included this time would show a throughput that is too
/// low and seems to grow.
pub(crate) fn lead_in(connections: usize, per_second: f64) -> Duration {
    let answer = if per_second > 0.0 { connections as f64 / per_second } else { 0.0 };
    Duration::from_secs_f64((LEAD_IN_ANSWERS * answer).min(LEAD_IN_MAX.as_secs_f64())).max(LEAD_IN_MIN)
}

/// All answered requests. Answers to lead-in requests that arrived after the end are in no figure of the
/// window: with many connections and a slow route, there is one for each connection that Node.js accepted
/// late.
fn requests(report: &Report) -> u64 {
    report.counts.completed + report.counts.late + report.warmup.completed + report.warmup.late
}

/// The share of the processed requests that were answered during the measured time.
fn counted_share(report: &Report) -> f64 {
    let counted = (report.counts.completed + report.counts.carried_in) as f64;
    if counted > 0.0 { counted / requests(report) as f64 } else { 1.0 }
}

/// The CPU time of the machine during a load, with that of the server.
pub(crate) fn machine_use(report: &Report, server_cpu: Duration) -> MachineUse {
    let cores = f64::from(forkful_os::cores::usable_cores().online);
    let capacity = report.elapsed.mul_f64(cores);
    let share = |part: Option<f64>| capacity.mul_f64(part.unwrap_or(0.0).clamp(0.0, 1.0));
    MachineUse {
        capacity,
        // The report counts stolen time as busy.
        busy: share(report.host.busy).saturating_sub(share(report.host.steal)),
        stolen: share(report.host.steal),
        own: server_cpu + Duration::from_secs_f64(report.cpu_seconds.max(0.0)),
    }
}

/// A percentile in milliseconds, if there are enough samples.
pub(crate) fn percentile_ms(histogram: &forkful_load::Histogram, percentile: f64) -> Option<f64> {
    (histogram.len() >= samples_min(percentile))
        .then(|| histogram.value_at_quantile(percentile / 100.0) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_load::Histogram;

    #[test]
    fn a_percentile_needs_samples_enough() {
        let mut histogram = Histogram::default();
        for value in 1..=999_u64 {
            histogram.record(value * 1_000_000).unwrap();
        }
        assert!((percentile_ms(&histogram, 50.0).unwrap() / 500.0 - 1.0).abs() < 0.01);
        assert_eq!(percentile_ms(&histogram, 99.0), None);
        histogram.record(1_000_000_000).unwrap();
        assert!(percentile_ms(&histogram, 99.0).is_some());
        assert_eq!(percentile_ms(&histogram, 99.9), None);
        assert_eq!(percentile_ms(&Histogram::default(), 50.0), None);
        assert_eq!([50.0, 90.0, 95.0, 97.5, 99.0, 99.9].map(samples_min), [1, 100, 200, 1000, 1000, 10_000]);
    }

    #[test]
    fn a_request_that_waits_for_many_others_is_not_unanswered() {
        let seconds = Duration::from_secs;
        assert_eq!(bearable(64, 4_000, seconds(4)), UNANSWERED_MIN);
        assert_eq!(bearable(64, 32, seconds(4)), seconds(24), "each turn takes 8 s");
        assert_eq!(bearable(64, 0, seconds(1)), seconds(192));
    }

    #[test]
    fn a_loop_is_full_when_every_connection_has_had_its_answer() {
        assert_eq!(lead_in(64, 320.0), Duration::from_millis(300));
        assert_eq!(lead_in(64, 64_000.0), LEAD_IN_MIN);
        assert_eq!(lead_in(64, 1.0), LEAD_IN_MAX);
        assert_eq!(lead_in(64, 0.0), LEAD_IN_MIN);
    }

    #[test]
    fn cpu_of_the_lead_in_is_no_part_of_the_machines_use() {
        let mut report = Report::empty("test");
        assert!((counted_share(&report) - 1.0).abs() < 1e-9);
        report.warmup.completed = 90;
        report.counts.carried_in = 10;
        report.counts.completed = 290;
        report.counts.late = 10;
        report.warmup.late = 10;
        assert!((counted_share(&report) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn what_was_asked_before_the_window_and_answered_after_it_was_worked_for() {
        let mut report = Report::empty("test");
        report.counts.completed = 200;
        report.counts.carried_in = 6;
        // Six arrived within the window, 94 after it.
        report.warmup.late = 100;
        assert_eq!(requests(&report), 300);
        assert!((counted_share(&report) - 206.0 / 300.0).abs() < 1e-9);
    }

    #[test]
    fn servers_that_wait_beside_a_window_are_no_other_processes() {
        use crate::statistics::steadiness::disturbance;
        let mut report = Report::empty("test");
        report.elapsed = Duration::from_secs(1);
        report.host.busy = Some(0.6);
        let cores = f64::from(forkful_os::cores::usable_cores().online);
        let machine = machine_use(&report, Duration::from_secs_f64(0.5 * cores));
        let mut window = Window { report, server_cpu: Duration::ZERO, machine };
        assert!(disturbance(&window.machine).is_some(), "a tenth of the cores is not the measured server's");
        // The others polled for 1.5 s, of which the window was two thirds.
        window.add_beside(Duration::from_secs_f64(0.15 * cores), Duration::from_millis(1500));
        assert_eq!(disturbance(&window.machine), None);
        assert!(window.machine.own <= window.machine.busy, "{:?}", window.machine);
        let before = window.machine.own;
        window.add_beside(Duration::from_millis(30), Duration::ZERO);
        assert_eq!(window.machine.own, before + Duration::from_millis(30), "never more than all of it");
    }

    #[test]
    fn the_machines_use_is_the_shares_of_its_cores() {
        let mut report = Report::empty("test");
        report.elapsed = Duration::from_secs(2);
        report.cpu_seconds = 0.5;
        report.host.busy = Some(0.75);
        report.host.steal = Some(0.25);
        let used = machine_use(&report, Duration::from_secs(1));
        assert_eq!(used.busy, used.capacity / 2);
        assert_eq!(used.stolen, used.capacity / 4);
        assert_eq!(used.own, Duration::from_millis(1500));
    }
}
