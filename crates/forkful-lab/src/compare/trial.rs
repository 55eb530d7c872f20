//! The arms of one block: fresh servers that are warmed up, measured at saturation and at equal rates, and
//! stopped.
//!
//! A window is split into slices. The arms take turns with the slices, forwards and backwards, while the
//! other arms' servers are idle. A core whose neighbour core is busy, on this machine or on another virtual
//! machine of the host, is a third slower for one to ten seconds. No CPU account shows this, and consecutive
//! windows would take it for a difference between the arms.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use forkful_core::outgoing::HostLoad;
use forkful_load::Histogram;

use super::Setup;
use super::overload::Supply;
use super::warming::Warmup;
use crate::LabError;
use crate::arms::Arm;
use crate::measure::{self, Subject, Window};
use crate::plan::LOADS;
use crate::server::{Server, TreeUse};
use crate::statistics::steadiness::{Disturbance, MachineUse, disturbance};

/// Maximum slices of a window: each has a start and an end, which cost time.
const SLICES_MAX: u32 = 4;

/// Minimum length of a slice.
const SLICE_MIN: Duration = Duration::from_millis(250);

/// The parameters of a trial.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TrialPlan {
    pub(crate) connections: usize,
    /// For an arm that runs alone; arms that take turns have their own.
    pub(crate) warmup: Duration,
    pub(crate) window: Duration,
    pub(crate) latency_window: Duration,
    /// Capacity of the slowest arm, in requests per second.
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
    /// At each of [`LOADS`]; empty if latency is not measured.
    pub(crate) at_rates: Vec<AtRate>,
    /// `[seconds, answers per second]` at saturation.
    pub(crate) timeline: Vec<[f64; 2]>,
    pub(crate) disturbance: Option<Disturbance>,
    /// Concurrency by Little's law, relative to the connections.
    pub(crate) little: Option<f64>,
    pub(crate) listen_overflows: u64,
    pub(crate) throttled: Duration,
    /// A host, such as a database, that refused connections of the workers because it had too many.
    pub(crate) refused: Option<HostLoad>,
}

/// A window at a fixed rate.
#[derive(Debug, Clone)]
pub(crate) struct AtRate {
    pub(crate) load: f64,
    pub(crate) rate: f64,
    pub(crate) overloaded: bool,
    pub(crate) sums: Sums,
}

impl AtRate {
    /// A percentile in milliseconds, if there are enough samples.
    pub(crate) fn percentile_ms(&self, percentile: f64) -> Option<f64> {
        is_seen(percentile, self.sums.unfinished, &self.sums.response)
            .then(|| measure::percentile_ms(&self.sums.response, percentile))
            .flatten()
    }
}

/// The share of requests that had no answer at the end of the drain.
pub(crate) fn unfinished_share(unfinished: u64, response: &Histogram) -> f64 {
    unfinished as f64 / (unfinished + response.len()).max(1) as f64
}

/// Whether a percentile lies among the answered requests: requests without an answer are slower.
pub(crate) fn is_seen(percentile: f64, unfinished: u64, response: &Histogram) -> bool {
    unfinished == 0 || 100.0 * unfinished_share(unfinished, response) <= 100.0 - percentile
}

pub(crate) fn run_trial(setup: &Setup, arm: &Arm, plan: &TrialPlan) -> Result<Trial, LabError> {
    let mut trials = run_trials(setup, &[(arm, Warmup::of(plan.warmup))], plan, &mut |_| {})?;
    Ok(trials.remove(0))
}

/// Runs arms in turns, each after its own warm-up; `began` is called with the arm that runs next. The trials
/// are in the order of the arms.
pub(crate) fn run_trials(
    setup: &Setup,
    arms: &[(&Arm, Warmup)],
    plan: &TrialPlan,
    began: &mut dyn FnMut(&Arm),
) -> Result<Vec<Trial>, LabError> {
    let mut turns = Vec::new();
    for (arm, warmup) in arms {
        began(arm);
        let subject = Subject::start(setup, arm)?;
        let per_second = warmup.run(&subject, plan.connections)?;
        turns.push(Turn { subject, lead_in: measure::lead_in(plan.connections, per_second) });
    }
    let lead_in = turns.iter().map(|turn| turn.lead_in).max().unwrap_or_default();
    let full = alternate(&turns, plan.window, 2 * lead_in, began, |turn, slice, _| {
        turn.subject.closed_after(plan.connections, turn.lead_in, slice)
    })?;
    let mut at_rates: Vec<Vec<AtRate>> = arms.iter().map(|_| Vec::new()).collect();
    if !plan.latency_window.is_zero() && plan.weakest > 0.0 {
        for load in LOADS {
            let rate = plan.weakest * load;
            let windows =
                alternate(&turns, plan.latency_window, 2 * lead_in, began, |turn, slice, number| {
                    turn.subject.open(rate, slice, plan.seed.wrapping_add(u64::from(number)))
                })?;
            for (found, windows) in at_rates.iter_mut().zip(windows) {
                found.push(at_rate(load, rate, &windows));
            }
        }
    }
    let parts = turns.iter().zip(full).zip(at_rates);
    Ok(parts.map(|((turn, full), at_rates)| turn.trial(plan, &full, at_rates)).collect())
}

/// Measures every arm for `window`, in alternating slices. Returns the windows of each arm.
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
            began(turns[place].subject.arm);
            let beside = Beside::begin(turns, place);
            let mut window = measure(&turns[place], window / slices, number)?;
            beside.end(&mut window);
            windows[place].push(window);
        }
    }
    Ok(windows)
}

/// The servers that are idle while another is measured.
struct Beside<'a> {
    waiting: Vec<(&'a Server, TreeUse)>,
    since: Instant,
}

impl<'a> Beside<'a> {
    fn begin(turns: &'a [Turn<'_>], measured: usize) -> Self {
        let others = turns.iter().enumerate().filter(|(place, _)| *place != measured);
        let waiting =
            others.map(|(_, turn)| (&turn.subject.server, turn.subject.server.used(false))).collect();
        Self { waiting, since: Instant::now() }
    }

    fn end(self, window: &mut Window) {
        let took = self.since.elapsed();
        let cpu = self.waiting.iter().map(|(server, before)| server.used(false).cpu_since(before)).sum();
        window.add_beside(cpu, took);
    }
}

/// An even number, so that no arm is always first; one slice if there is only one arm.
fn slices(window: Duration, slice_min: Duration, arms: usize) -> u32 {
    let most = (window.as_secs_f64() / slice_min.max(SLICE_MIN).as_secs_f64()) as u32;
    if arms < 2 || most < 2 { 1 } else { most.min(SLICES_MAX) / 2 * 2 }
}

/// A running arm in a block.
struct Turn<'a> {
    subject: Subject<'a>,
    lead_in: Duration,
}

impl Turn<'_> {
    fn trial(&self, plan: &TrialPlan, full: &[Window], at_rates: Vec<AtRate>) -> Trial {
        let server = &self.subject.server;
        let used = server.used(true);
        let sums = Sums::of(full);
        let others = || at_rates.iter().map(|found| &found.sums);
        let seconds = sums.elapsed.as_secs_f64();
        // Includes answers to requests under way at the beginning; requests under way at the end are
        // excluded.
        let completed = sums.completed + sums.carried_in;
        let per_second = if seconds > 0.0 { completed as f64 / seconds } else { 0.0 };
        let mut errors = sums.errors.clone();
        for (cause, count) in others().flat_map(|found| &found.errors) {
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
            started_in: server.started_in(),
            ignores_port: server.ignores_port().then(|| server.address().port()),
            requests: completed + others().map(|found| found.completed).sum::<u64>(),
            errors,
            timeline: timeline(full),
            // Checked separately, so that neither hides a disturbance of the other.
            disturbance: disturbance(&sums.machine).or_else(|| {
                let mut at_rates_machine = MachineUse::default();
                others().for_each(|found| at_rates_machine.add(&found.machine));
                disturbance(&at_rates_machine)
            }),
            little: little(per_second, &sums, plan.connections),
            listen_overflows: sums.listen_overflows
                + others().map(|found| found.listen_overflows).sum::<u64>(),
            throttled: sums.throttled + others().map(|found| found.throttled).sum::<Duration>(),
            service: sums.response,
            refused: server.refused(),
            at_rates,
        }
    }
}

/// The merged slices of an arm, at saturation or at one rate.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sums {
    elapsed: Duration,
    completed: u64,
    carried_in: u64,
    requests: u64,
    /// Requests without an answer at the end of the drain. All of them would be slow.
    pub(crate) unfinished: u64,
    server_cpu: Duration,
    generator_cpu: f64,
    machine: MachineUse,
    pub(crate) response: Histogram,
    /// How late requests were sent; the response times include it.
    pub(crate) slip: Histogram,
    unread: Duration,
    errors: BTreeMap<String, u64>,
    listen_overflows: u64,
    throttled: Duration,
}

impl Sums {
    fn of(windows: &[Window]) -> Self {
        let mut sums = Self::default();
        for window in windows {
            let report = &window.report;
            sums.elapsed += report.elapsed;
            sums.completed += report.counts.completed;
            sums.carried_in += report.counts.carried_in;
            sums.requests += window.requests();
            sums.unfinished += report.counts.unfinished;
            sums.server_cpu += window.server_cpu;
            sums.generator_cpu += report.cpu_seconds;
            sums.machine.add(&window.machine);
            sums.response.merge(&report.response);
            sums.slip.merge(&report.slip);
            sums.unread += report.unread;
            for error in &report.errors {
                *sums.errors.entry(error.cause.words().to_owned()).or_default() += error.count;
            }
            sums.listen_overflows += report.kernel.listen_overflows.unwrap_or(0);
            sums.throttled += report.host.throttled.unwrap_or_default();
        }
        sums
    }
}

/// Merges the slices at one rate.
pub(crate) fn at_rate(load: f64, rate: f64, windows: &[Window]) -> AtRate {
    let mut supply = Supply::default();
    windows.iter().for_each(|window| supply.add(&window.report));
    AtRate { load, rate, overloaded: supply.is_overloaded(), sums: Sums::of(windows) }
}

/// The slices in order of time.
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

/// X · R ÷ c, which is 1 if the counts are right and all connections were always busy. R is the response time
/// plus the time until the answer was read.
fn little(per_second: f64, sums: &Sums, connections: usize) -> Option<f64> {
    let answers = sums.response.len();
    (answers > 0 && connections > 0).then(|| {
        let each = sums.response.mean() / 1e9 + sums.unread.as_secs_f64() / answers as f64;
        per_second * each / connections as f64
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use forkful_load::Report;

    use super::*;

    /// An undisturbed trial with 1,000 answers per second, and these windows at fixed rates.
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
            service: Histogram::default(),
            at_rates,
            timeline: Vec::new(),
            disturbance: None,
            little: None,
            listen_overflows: 0,
            throttled: Duration::ZERO,
            refused: None,
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
        let found = at_rate(0.5, 100.0, &[window(100, 1), window(100, 0)]);
        assert_eq!((found.sums.unfinished, found.sums.slip.len(), found.sums.listen_overflows), (1, 200, 4));
        assert_eq!(found.sums.throttled, Duration::from_millis(60));
        assert_eq!(found.sums.machine.capacity, Duration::from_secs(2));
        assert!(!found.overloaded);
    }

    #[test]
    fn littles_law_finds_the_connections_again() {
        let mut sums = Sums::of(&[]);
        assert_eq!(little(0.0, &sums, 64), None);
        sums.response.record_n(60_000_000, 1000).unwrap();
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
