//! Arms in one block: fresh servers, warmed up, measured at saturation and at equal rates, ended.
//!
//! A window is cut into slices, and the arms take turns with them, forwards and backwards, while the servers of the
//! others wait idle. A core whose neighbour is busy, on this machine or on another one of the same host, is slower by a
//! third for a second or ten; that is in nobody's account, and windows one after the other would take it for a
//! difference between the arms.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forkful_load::{Histogram, Report, new_histogram};

use super::Setup;
use super::overload::Supply;
use crate::LabError;
use crate::arms::Arm;
use crate::measure::{self, Subject, Window};
use crate::plan::LOADS;
use crate::server::{Server, TreeUse};
use crate::statistics::steadiness::{Disturbance, MachineUse, disturbance};

/// Slices of a window at most: each has a beginning and an end of its own, which cost time.
const SLICES_MAX: u32 = 4;

/// A slice at least.
const SLICE_MIN: Duration = Duration::from_millis(250);

/// How a trial is made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialPlan {
    pub(crate) connections: usize,
    /// Of an arm that runs alone; those that take turns bring their own.
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
    pub(crate) latency_window: Duration,
    /// Capacity of the weakest arm, requests per second.
    pub(crate) weakest: f64,
    pub(crate) seed: u64,
}

#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) per_second: f64,
    pub(crate) cpu_per_request: Option<Duration>,
    pub(crate) server_cores: f64,
    pub(crate) generator_cores: f64,
    pub(crate) generator_busy: f64,
    pub(crate) memory_bytes: u64,
    pub(crate) processes: usize,
    pub(crate) started_in: Duration,
    pub(crate) ignores_port: Option<u16>,
    pub(crate) requests: u64,
    pub(crate) errors: BTreeMap<String, u64>,
    /// At saturation.
    pub(crate) service: Histogram,
    /// At each of [`LOADS`]; empty when latency is not measured.
    pub(crate) at_rates: Vec<AtRate>,
    /// `[seconds, answers per second]` at saturation.
    pub(crate) timeline: Vec<[f64; 2]>,
    pub(crate) disturbance: Option<Disturbance>,
    /// Concurrency that Little's law finds, against the connections.
    pub(crate) little: Option<f64>,
    pub(crate) listen_overflows: u64,
    pub(crate) throttled: Duration,
}

/// A window at a given rate.
#[derive(Debug, Clone)]
pub(crate) struct AtRate {
    pub(crate) load: f64,
    pub(crate) rate: f64,
    pub(crate) response: Histogram,
    /// How late requests were sent: that time is in the response times.
    pub(crate) slip: Histogram,
    /// Requests without an answer when the waiting ended. They would all be slow ones.
    pub(crate) unfinished: u64,
    pub(crate) overloaded: bool,
    completed: u64,
    errors: BTreeMap<String, u64>,
    machine: MachineUse,
    listen_overflows: u64,
    throttled: Duration,
}

impl AtRate {
    /// A percentile in milliseconds, if it can be told.
    pub(crate) fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        is_seen(percentile, self.unfinished, &self.response)
            .then(|| measure::percentile_ms(&self.response, percentile))
            .flatten()
    }
}

/// The share of requests that had no answer when the waiting ended.
pub(crate) fn unfinished_share(unfinished: u64, response: &Histogram) -> f64 {
    unfinished as f64 / (unfinished + response.len()).max(1) as f64
}

/// Whether a percentile lies among the requests that were answered: what was not is slower than it.
pub(crate) fn is_seen(percentile: f64, unfinished: u64, response: &Histogram) -> bool {
    unfinished == 0 || 100.0 * unfinished_share(unfinished, response) <= 100.0 - percentile
}

/// Runs one arm.
pub(crate) fn run_trial(setup: &Setup, arm: &Arm, plan: &TrialPlan) -> Result<Trial, LabError> {
    let mut trials = run_trials(setup, &[(arm, plan.warmup)], plan, &mut |_| {})?;
    Ok(trials.remove(0))
}

/// Runs arms, each after its own warm-up, that take turns; `began` is told whose turn it is. Trials are in the order of
/// the arms.
pub(crate) fn run_trials(
    setup: &Setup,
    arms: &[(&Arm, Duration)],
    plan: &TrialPlan,
    began: &mut dyn FnMut(&Arm),
) -> Result<Vec<Trial>, LabError> {
    let mut turns = Vec::new();
    for (arm, warmup) in arms {
        began(arm);
        let mut turn =
            Turn { setup, arm, server: Server::start(&setup.start_options(arm))?, lead_in: Duration::ZERO };
        let warm = turn.right(measure::closed(&turn.subject(), plan.connections, *warmup)?)?;
        turn.lead_in = measure::lead_in(plan.connections, warm.per_second());
        turns.push(turn);
    }
    let lead_in = turns.iter().map(|turn| turn.lead_in).max().unwrap_or_default();
    let full = alternate(&turns, plan.window, 2 * lead_in, began, |turn, slice, _| {
        measure::closed_after(&turn.subject(), plan.connections, turn.lead_in, slice)
    })?;
    let mut at_rates: Vec<Vec<AtRate>> = arms.iter().map(|_| Vec::new()).collect();
    if !plan.latency_window.is_zero() && plan.weakest > 0.0 {
        for load in LOADS {
            let rate = plan.weakest * load;
            let windows =
                alternate(&turns, plan.latency_window, 2 * lead_in, began, |turn, slice, number| {
                    measure::open(&turn.subject(), rate, slice, plan.seed.wrapping_add(u64::from(number)))
                })?;
            for (found, windows) in at_rates.iter_mut().zip(windows) {
                found.push(at_rate(load, rate, windows));
            }
        }
    }
    let parts = turns.iter().zip(full).zip(at_rates);
    Ok(parts.map(|((turn, full), at_rates)| turn.trial(plan, &full, at_rates)).collect())
}

/// Measures every arm for `window`, in slices by turns. By arm: its windows.
fn alternate(
    turns: &[Turn<'_>],
    window: Duration,
    slice_min: Duration,
    began: &mut dyn FnMut(&Arm),
    measure: impl Fn(&Turn<'_>, Duration, u32) -> Result<Window, LabError>,
) -> Result<Vec<Vec<Window>>, LabError> {
    let slices = slices(window, slice_min, turns.len());
    let mut windows: Vec<Vec<Window>> = turns.iter().map(|_| Vec::new()).collect();
    for number in 0..slices {
        let mut places: Vec<usize> = (0..turns.len()).collect();
        if number % 2 == 1 {
            places.reverse();
        }
        for place in places {
            began(turns[place].arm);
            let beside = Beside::begin(turns, place);
            let mut window = measure(&turns[place], window / slices, number)?;
            beside.end(&mut window);
            windows[place].push(turns[place].right(window)?);
        }
    }
    Ok(windows)
}

/// The servers that wait while another one is measured.
struct Beside<'a> {
    waiting: Vec<(&'a Server, TreeUse)>,
    since: Instant,
}

impl<'a> Beside<'a> {
    fn begin(turns: &'a [Turn<'_>], measured: usize) -> Self {
        let others = turns.iter().enumerate().filter(|(place, _)| *place != measured);
        let waiting = others.map(|(_, turn)| (&turn.server, turn.server.used(false))).collect();
        Self { waiting, since: Instant::now() }
    }

    fn end(self, window: &mut Window) {
        let took = self.since.elapsed();
        let cpu = self.waiting.iter().map(|(server, before)| server.used(false).cpu_since(before)).sum();
        window.add_beside(cpu, took);
    }
}

/// An even number, so that nobody is always the first; nobody to take turns with: one.
fn slices(window: Duration, slice_min: Duration, arms: usize) -> u32 {
    let most = (window.as_secs_f64() / slice_min.max(SLICE_MIN).as_secs_f64()) as u32;
    if arms < 2 || most < 2 { 1 } else { most.min(SLICES_MAX) / 2 * 2 }
}

/// A running arm of a block.
struct Turn<'a> {
    setup: &'a Setup,
    arm: &'a Arm,
    server: Server,
    lead_in: Duration,
}

impl Turn<'_> {
    fn subject(&self) -> Subject<'_> {
        Subject {
            server: &self.server,
            arm: &self.arm.name,
            target: &self.setup.target,
            keep_alive: self.setup.keep_alive,
            threads: self.setup.threads,
            stop: &self.setup.stop,
        }
    }

    fn right(&self, window: Window) -> Result<Window, LabError> {
        measure::must_be_right(&self.subject(), &window.report)?;
        Ok(window)
    }

    fn trial(&self, plan: &TrialPlan, full: &[Window], at_rates: Vec<AtRate>) -> Trial {
        let used = self.server.used(true);
        let sums = Sums::of(full);
        let seconds = sums.elapsed.as_secs_f64();
        let per_second = if seconds > 0.0 { sums.completed as f64 / seconds } else { 0.0 };
        let little = little(per_second, &sums, plan.connections);
        let mut errors = sums.errors;
        for (cause, count) in at_rates.iter().flat_map(|found| &found.errors) {
            *errors.entry(cause.clone()).or_default() += count;
        }
        let cpu_per_request = (sums.requests > 0).then(|| sums.server_cpu.div_f64(sums.requests as f64));
        Trial {
            per_second,
            cpu_per_request,
            server_cores: cpu_per_request.unwrap_or_default().as_secs_f64() * per_second,
            generator_cores: if seconds > 0.0 { sums.generator_cpu / seconds } else { 0.0 },
            generator_busy: full.iter().map(Window::generator_busy).sum::<f64>() / full.len().max(1) as f64,
            memory_bytes: used.memory_bytes,
            processes: used.processes(),
            started_in: self.server.started_in(),
            ignores_port: self.server.ignores_port().then(|| self.server.address().port()),
            requests: sums.completed + at_rates.iter().map(|found| found.completed).sum::<u64>(),
            errors,
            timeline: timeline(full),
            // Apart, so that neither hides what happened to the other.
            disturbance: disturbance(&sums.machine).or_else(|| {
                let mut at_rates_machine = MachineUse::default();
                at_rates.iter().for_each(|found| at_rates_machine.add(&found.machine));
                disturbance(&at_rates_machine)
            }),
            little,
            listen_overflows: sums.listen_overflows
                + at_rates.iter().map(|found| found.listen_overflows).sum::<u64>(),
            throttled: sums.throttled + at_rates.iter().map(|found| found.throttled).sum::<Duration>(),
            service: sums.service,
            at_rates,
        }
    }
}

/// What all slices of an arm brought together.
struct Sums {
    elapsed: Duration,
    completed: u64,
    requests: u64,
    server_cpu: Duration,
    generator_cpu: f64,
    machine: MachineUse,
    service: Histogram,
    unread: Duration,
    errors: BTreeMap<String, u64>,
    listen_overflows: u64,
    throttled: Duration,
}

impl Sums {
    fn of(windows: &[Window]) -> Self {
        let mut sums = Self {
            elapsed: Duration::ZERO,
            completed: 0,
            requests: 0,
            server_cpu: Duration::ZERO,
            generator_cpu: 0.0,
            machine: MachineUse::default(),
            service: new_histogram(),
            unread: Duration::ZERO,
            errors: BTreeMap::new(),
            listen_overflows: 0,
            throttled: Duration::ZERO,
        };
        for window in windows {
            let report = &window.report;
            sums.elapsed += report.elapsed;
            // Those under way at the beginning belong to it as those under way at the end do not.
            sums.completed += report.counts.completed + report.counts.carried_in;
            sums.requests += window.requests();
            sums.server_cpu += window.server_cpu;
            sums.generator_cpu += report.cpu_seconds;
            sums.machine.add(&window.machine);
            add(&mut sums.service, &report.response);
            sums.unread += report.unread;
            count_errors(&mut sums.errors, report);
            sums.listen_overflows += report.kernel.listen_overflows.unwrap_or(0);
            sums.throttled += report.host.throttled.unwrap_or_default();
        }
        sums
    }
}

fn add(sum: &mut Histogram, other: &Histogram) {
    sum.add(other).expect("histograms of the engine have the same bounds");
}

/// What the slices at one rate brought together.
pub(crate) fn at_rate(load: f64, rate: f64, windows: Vec<Window>) -> AtRate {
    let mut found = AtRate {
        load,
        rate,
        response: new_histogram(),
        slip: new_histogram(),
        unfinished: 0,
        overloaded: false,
        completed: 0,
        errors: BTreeMap::new(),
        machine: MachineUse::default(),
        listen_overflows: 0,
        throttled: Duration::ZERO,
    };
    let mut supply = Supply::default();
    for window in windows {
        let report = window.report;
        add(&mut found.response, &report.response);
        add(&mut found.slip, &report.slip);
        count_errors(&mut found.errors, &report);
        found.machine.add(&window.machine);
        found.unfinished += report.counts.unfinished;
        found.completed += report.counts.completed;
        found.listen_overflows += report.kernel.listen_overflows.unwrap_or(0);
        found.throttled += report.host.throttled.unwrap_or_default();
        supply.add(&report);
    }
    found.overloaded = supply.is_overloaded();
    found
}

fn count_errors(errors: &mut BTreeMap<String, u64>, report: &Report) {
    for error in &report.errors {
        *errors.entry(error.cause.words().to_owned()).or_default() += error.count;
    }
}

/// The slices one after the other.
fn timeline(windows: &[Window]) -> Vec<[f64; 2]> {
    let mut points = Vec::new();
    let mut begun = Duration::ZERO;
    for window in windows {
        let full = window.report.windows.iter().filter(|window| !window.length.is_zero());
        points.extend(full.map(|window| {
            let middle = begun + window.start + window.length / 2;
            [middle.as_secs_f64(), window.completed as f64 / window.length.as_secs_f64()]
        }));
        begun += window.report.elapsed;
    }
    points
}

/// X · R ÷ c, which is 1 when the accounts are right and all connections were always busy. R is an answer's time, and how
/// long it lay unread.
fn little(per_second: f64, sums: &Sums, connections: usize) -> Option<f64> {
    let answers = sums.service.len();
    (answers > 0 && connections > 0).then(|| {
        let each = sums.service.mean() / 1e9 + sums.unread.as_secs_f64() / answers as f64;
        per_second * each / connections as f64
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// An undisturbed trial that answered 1,000 requests a second, with these windows at rates.
    pub(crate) fn trial(at_rates: Vec<AtRate>) -> Trial {
        Trial {
            per_second: 1_000.0,
            cpu_per_request: None,
            server_cores: 1.0,
            generator_cores: 0.1,
            generator_busy: 0.1,
            memory_bytes: 50_000_000,
            processes: 1,
            started_in: Duration::from_millis(100),
            ignores_port: None,
            requests: 1_000,
            errors: BTreeMap::new(),
            service: new_histogram(),
            at_rates,
            timeline: Vec::new(),
            disturbance: None,
            little: None,
            listen_overflows: 0,
            throttled: Duration::ZERO,
        }
    }

    #[test]
    fn what_happens_in_windows_at_a_rate_is_part_of_what_is_known_of_them() {
        let window = |offered: u64, unfinished: u64| {
            let mut report = Report::empty("test");
            report.offered = offered;
            report.counts.completed = offered - unfinished;
            report.counts.unfinished = unfinished;
            report.slip.record_n(1_000, offered).unwrap();
            report.kernel.listen_overflows = Some(2);
            report.host.throttled = Some(Duration::from_millis(30));
            let machine = MachineUse { capacity: Duration::from_secs(1), ..MachineUse::default() };
            Window { report, server_cpu: Duration::ZERO, machine }
        };
        let found = at_rate(0.5, 100.0, vec![window(100, 1), window(100, 0)]);
        assert_eq!((found.unfinished, found.slip.len(), found.listen_overflows), (1, 200, 4));
        assert_eq!(found.throttled, Duration::from_millis(60));
        assert_eq!(found.machine.capacity, Duration::from_secs(2));
        assert!(!found.overloaded);
    }

    #[test]
    fn littles_law_finds_the_connections_again() {
        let mut sums = Sums::of(&[]);
        assert_eq!(little(0.0, &sums, 64), None);
        sums.service.record_n(60_000_000, 1000).unwrap();
        sums.unread = Duration::from_secs(4);
        assert!((little(1000.0, &sums, 64).unwrap() - 1.0).abs() < 0.01);
    }

    #[test]
    fn slices_are_even_in_number_long_enough_and_for_company_only() {
        let ms = Duration::from_millis;
        assert_eq!(slices(ms(2000), ms(100), 2), 4);
        assert_eq!(slices(ms(900), ms(100), 2), 2);
        assert_eq!(slices(ms(550), ms(100), 3), 2);
        assert_eq!(slices(ms(490), ms(100), 2), 1);
        assert_eq!(slices(ms(2000), ms(600), 2), 2);
        assert_eq!(slices(ms(2000), ms(100), 1), 1);
    }
}
