//! One window of load on one server, with what the server's tree and the machine did meanwhile.

use std::time::Duration;

use forkful_load::{Arrivals, Load, LoadError, Plan, Report, Reuse, Stop, StopHandle, Think, Threads, run};

use crate::LabError;
use crate::arms::Arm;
use crate::compare::Setup;
use crate::server::{Server, StartOptions};
use crate::statistics::steadiness::MachineUse;
use crate::target::Beside;

/// Answers to the last requests of a window are awaited for so long, and no longer than the window itself took.
const DRAIN_MAX: Duration = Duration::from_secs(3);

/// In an open loop for so long at least: a request that is not waited for is a slow one that no percentile has.
const DRAIN_MIN: Duration = Duration::from_secs(1);

/// An open loop has this many connections more than would do if every request took as long as at saturation.
const OPEN_CONNECTIONS_MAX: usize = 1024;

/// A closed loop is full after so many answers of one connection, within these bounds. A hundred new connections are
/// taken by Node.js one by one and handed to workers one by one, which takes a cluster a tenth of a second.
const LEAD_IN_ANSWERS: f64 = 1.5;
const LEAD_IN_MIN: Duration = Duration::from_millis(200);
const LEAD_IN_MAX: Duration = Duration::from_secs(2);

/// Samples below which a 99th percentile is no figure but a guess.
pub(crate) const P99_SAMPLES_MIN: u64 = 1_000;

/// Samples below which a percentile is no figure but a guess: ten of them lie beyond it.
pub(crate) fn samples_min(percentile: f64) -> u64 {
    match percentile {
        p if p > 99.0 => 10_000,
        p if p > 95.0 => P99_SAMPLES_MIN,
        p if p > 90.0 => 200,
        p if p > 50.0 => 100,
        _ => 1,
    }
}

/// A running server of an arm, and the request that is repeated.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) arm: &'a Arm,
    pub(crate) server: Server,
}

/// What a window brought.
#[derive(Debug)]
pub(crate) struct Window {
    /// Everything that the generator saw.
    pub report: Report,
    /// CPU of the server's whole tree from before the first connection to after the last answer.
    pub server_cpu: Duration,
    /// What the machine did.
    pub machine: MachineUse,
}

impl Window {
    pub(crate) fn per_second(&self) -> f64 {
        self.report.per_second()
    }

    /// Requests that the server has worked for, those of before and after the clock included.
    pub(crate) fn requests(&self) -> u64 {
        requests(&self.report)
    }

    /// Takes the CPU time of servers that waited beside this window for the experiment's own, too: an app that polls uses some
    /// in every process. `took` is how long it was counted for, lead-in and drain included.
    pub(crate) fn add_beside(&mut self, cpu: Duration, took: Duration) {
        let share = self.report.elapsed.as_secs_f64() / took.as_secs_f64().max(f64::MIN_POSITIVE);
        self.machine.own += cpu.mul_f64(share.min(1.0));
    }

    /// The busiest thread of the generator, 0 to 1.
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

    /// A closed loop with so many connections.
    pub(crate) fn closed(&self, connections: usize, duration: Duration) -> Result<Window, LabError> {
        self.closed_after(connections, Duration::ZERO, duration)
    }

    /// The same, counted from when the loop has run for `lead_in`.
    pub(crate) fn closed_after(
        &self,
        connections: usize,
        lead_in: Duration,
        duration: Duration,
    ) -> Result<Window, LabError> {
        let mut plan = self.plan(duration)?;
        plan.connections = connections;
        plan.warmup = lead_in;
        plan.load = Load::Closed { think: Think::None };
        self.window(&plan)
    }

    /// An open loop at so many requests per second, arriving independently of each other and of the answers, counted from
    /// when all of its connections have been taken.
    pub(crate) fn open(&self, rate: f64, duration: Duration, seed: u64) -> Result<Window, LabError> {
        let mut plan = self.plan(duration)?;
        plan.warmup = LEAD_IN_MIN;
        plan.drain = duration.clamp(DRAIN_MIN, DRAIN_MAX);
        // Kept connections are opened before the clock runs; more are made when all are busy.
        plan.connections = ((rate / 100.0) as usize).clamp(8, 64);
        plan.load =
            Load::Open { rate, connections_max: OPEN_CONNECTIONS_MAX, arrivals: Arrivals::Poisson { seed } };
        self.window(&plan)
    }

    fn plan(&self, duration: Duration) -> Result<Plan, LabError> {
        let mut plan = self.setup.target.plan(self.server.address()).map_err(self.load_failed())?;
        plan.stop = Stop::Duration(duration);
        plan.drain = duration.min(DRAIN_MAX);
        // What the generator chooses by itself is no part of a difference between two arms.
        plan.gathering = false;
        plan.reuse = Reuse::keep_alive(self.setup.keep_alive);
        if let Some(threads) = self.setup.threads {
            plan.threads = Threads::Count(threads);
        }
        Ok(plan)
    }

    fn window(&self, plan: &Plan) -> Result<Window, LabError> {
        let stop = &self.setup.stop;
        let before = self.server.used(false);
        let report = match &self.setup.target.beside {
            None => run(plan, &mut |_| {}, stop).map_err(self.load_failed())?,
            Some(beside) => self.loaded_beside(plan, beside)?,
        };
        let server_cpu = self.server.used(false).cpu_since(&before);
        if stop.is_stopped() {
            return Err(LabError::Interrupted);
        }
        self.must_be_right(&report)?;
        let machine = machine_use(&report, server_cpu.mul_f64(counted_share(&report)));
        Ok(Window { report, server_cpu, machine })
    }

    /// Runs the measured load, and for as long a second load that is not measured. Returns when the second load has its last answer, too.
    fn loaded_beside(&self, plan: &Plan, beside: &Beside) -> Result<Report, LabError> {
        let other = beside.plan(&self.setup.target, self.server.address()).map_err(self.load_failed())?;
        let ending = StopHandle::new();
        let (report, asked) = std::thread::scope(|scope| {
            let asking = scope.spawn(|| run(&other, &mut |_| {}, &ending));
            let report = run(plan, &mut |_| {}, &self.setup.stop);
            ending.stop();
            (report, asking.join().expect("a load does not panic"))
        });
        let (report, asked) = (report.map_err(self.load_failed())?, asked.map_err(self.load_failed())?);
        if !self.setup.stop.is_stopped() {
            self.must_be_right(&asked)?;
        }
        Ok(report)
    }

    /// Refuses a window in which requests failed: their times and rates would be those of errors.
    fn must_be_right(&self, report: &Report) -> Result<(), LabError> {
        const SHARE_MAX: f64 = 0.01;
        let failed = report.errors_total();
        let total = report.counts.started.max(1);
        if failed as f64 / total as f64 <= SHARE_MAX {
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
        Err(LabError::Errors { arm: self.arm.name.clone(), failed, total, cause, tail: self.server.tail() })
    }

    fn load_failed(&self) -> impl FnOnce(LoadError) -> LabError {
        LabError::load(&self.arm.name)
    }
}

/// How long a closed loop is empty at its beginning: until the first answers of all connections are there, fewer come
/// than ever after. A window that counts this time finds a throughput that is too low, and "grows".
pub(crate) fn lead_in(connections: usize, per_second: f64) -> Duration {
    let answer = if per_second > 0.0 { connections as f64 / per_second } else { 0.0 };
    Duration::from_secs_f64((LEAD_IN_ANSWERS * answer).min(LEAD_IN_MAX.as_secs_f64())).max(LEAD_IN_MIN)
}

/// All that was answered. Answers to requests of the lead-in that came after the end are in no figure of the window:
/// with many connections and a slow route there is one of each connection that Node.js took up late.
fn requests(report: &Report) -> u64 {
    report.counts.completed + report.counts.late + report.warmup.completed + report.warmup.late
}

/// The share of the requests that the server worked for which it answered while the clock ran.
fn counted_share(report: &Report) -> f64 {
    let counted = (report.counts.completed + report.counts.carried_in) as f64;
    if counted > 0.0 { counted / requests(report) as f64 } else { 1.0 }
}

fn machine_use(report: &Report, server_cpu: Duration) -> MachineUse {
    let cores = f64::from(forkful_os::cores::usable_cores().online);
    let capacity = report.elapsed.mul_f64(cores);
    let share = |part: Option<f64>| capacity.mul_f64(part.unwrap_or(0.0).clamp(0.0, 1.0));
    MachineUse {
        capacity,
        // What was stolen was busy as far as the report goes.
        busy: share(report.host.busy).saturating_sub(share(report.host.steal)),
        stolen: share(report.host.steal),
        own: server_cpu + Duration::from_secs_f64(report.cpu_seconds.max(0.0)),
    }
}

/// A percentile in milliseconds, if there are samples enough for it to mean something.
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
        // Six of them came within the window, 94 after it.
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
