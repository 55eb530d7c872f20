//! The pilot: starts every arm once and finds out how long things take, where the app saturates, and whether
//! it works at all.

use std::time::{Duration, Instant};

use super::Setup;
use crate::LabError;
use crate::arms::Arm;
use crate::document::CapacityPoint;
use crate::measure::{self, Subject, Window};
use crate::plan;
use crate::progress::{Observer, Stage};
use crate::statistics::steadiness::{MachineUse, disturbance};

/// Length of a warm-up step; after each step the throughput is checked.
const WARMUP_STEP: Duration = Duration::from_millis(500);

/// Maximum steps: an app that is not steady by then does not become steady by load alone.
const WARMUP_STEPS_MAX: usize = 16;

/// Minimum steps: growth shows between the first two and the next two.
const WARMUP_STEPS_LEAST: usize = 4;

/// Share of the budget for all warm-up steps.
const WARMUP_SHARE: f64 = 0.2;

/// Throughput is steady if it grows by less than this factor from two steps to the next two.
const STEADY: f64 = 1.04;

/// At this share of the steady throughput the app is warm.
const WARM: f64 = 0.97;

/// Approximate lead-ins of a trial: two slices at saturation, one at each of two rates.
const LEAD_INS: u32 = 4;

/// Load that is checked for disturbances as one: the system accounts CPU in 1/100 s, so that shorter windows
/// are mostly noise.
const JUDGED: Duration = Duration::from_secs(2);

/// Length of one point of the curve.
const POINT: Duration = Duration::from_millis(300);

/// Length of the window with one request at a time, to measure how long an answer takes.
const ALONE: Duration = Duration::from_millis(150);

/// Maximum length of a pilot window that is extended for a slow route.
const STRETCHED_MAX: Duration = Duration::from_secs(4);

/// The longest window of a plan; connections are chosen for it.
const WINDOW_GUESS: Duration = Duration::from_millis(1200);

/// Throughput within this share of the best counts as saturated.
const SATURATED: f64 = 0.97;

/// When an arm's pilot has used this share of the budget, it continues with the data it has.
pub(crate) const PILOT_SHARE: f64 = 0.4;

/// The pilot's results.
#[derive(Debug)]
pub(crate) struct Pilot {
    /// Time to start and stop all servers once, and to fill their loops.
    pub(crate) overhead: Duration,
    /// The slowest arm's response time for a single request.
    pub(crate) answer: Duration,
    /// For each arm, the full load that it needs until it reaches its final speed. A cluster compiles once in
    /// each worker, on cores that its other workers need, and so takes longer than one process.
    pub(crate) warmups: Vec<Duration>,
    /// Connections that saturate every arm.
    pub(crate) connections: usize,
    /// Capacity of the slowest arm.
    pub(crate) weakest: f64,
    /// The expected share of blocks that will be disturbed by other users of the machine.
    pub(crate) disturbed: f64,
    /// An arm listens on a port of its own choice, so that two arms cannot run at the same time.
    pub(crate) ignores_port: bool,
    pub(crate) curve: Vec<CapacityPoint>,
}

/// How often the machine was undisturbed.
#[derive(Debug, Default)]
struct Quiet {
    /// The current period, shorter than [`JUDGED`].
    machine: MachineUse,
    elapsed: Duration,
    judged: u32,
    disturbed: u32,
}

impl Quiet {
    fn saw(&mut self, window: &Window) {
        self.machine.add(&window.machine);
        self.elapsed += window.report.elapsed;
        if self.elapsed >= JUDGED {
            self.judged += 1;
            self.disturbed += u32::from(disturbance(&self.machine).is_some());
            (self.machine, self.elapsed) = (MachineUse::default(), Duration::ZERO);
        }
    }

    /// The expected share of disturbed blocks with this many arms: one disturbed arm is enough.
    fn disturbed(&self, arms: usize) -> f64 {
        let each = f64::from(self.disturbed) / f64::from(self.judged.max(1));
        1.0 - (1.0 - each).powi(arms as i32)
    }
}

/// Evens out the measured warm-up times: arms with more workers need at least as long as those with fewer,
/// and each arm at least half of the longest. Each time is a single measurement on a machine that may be
/// shared, and an arm that is measured cold looks slow in every block.
fn evened(needs: &[(u16, Duration)]) -> Vec<Duration> {
    let longest = needs.iter().map(|(_, need)| *need).max().unwrap_or_default();
    let of_smaller =
        |workers: u16| needs.iter().filter(move |(other, _)| *other <= workers).map(|(_, need)| *need);
    needs.iter().map(|(workers, _)| of_smaller(*workers).fold(longest / 2, Duration::max)).collect()
}

impl Pilot {
    /// The warm-up of the arm that needs the longest.
    pub(crate) fn warmup_max(&self) -> Duration {
        self.warmups.iter().copied().max().unwrap_or_default()
    }
}

pub(crate) fn run(setup: &Setup, observer: &mut dyn Observer) -> Result<Pilot, LabError> {
    let mut quiet = Quiet::default();
    let mut pilot = Pilot {
        overhead: Duration::ZERO,
        answer: Duration::ZERO,
        warmups: Vec::new(),
        connections: setup.connections.unwrap_or(1),
        weakest: 0.0,
        disturbed: 0.0,
        ignores_port: false,
        curve: Vec::new(),
    };
    let begun = Instant::now();
    for (index, arm) in setup.arms.iter().enumerate() {
        let share = PILOT_SHARE * (index + 1) as f64 / setup.arms.len() as f64;
        let until = begun + setup.budget.mul_f64(share);
        observer.stage(&Stage { text: format!("pilot: {}", arm.name), done: 0.0 });
        // An arm compared with itself is measured once.
        let is_known = setup.self_test && !pilot.curve.is_empty();
        if is_known {
            pilot.overhead *= 2;
            pilot.warmups.resize(setup.arms.len(), pilot.warmup_max());
            break;
        }
        one(setup, arm, until, &mut pilot, &mut quiet)?;
    }
    pilot.weakest = weakest(&pilot.curve);
    pilot.disturbed = quiet.disturbed(setup.arms.len());
    let needs = setup.arms.iter().map(|arm| arm.runner.workers()).zip(pilot.warmups).collect::<Vec<_>>();
    pilot.warmups = evened(&needs);
    if setup.connections.is_none() {
        pilot.connections = chosen(&pilot.curve, setup.workers_max());
    }
    pilot.overhead += measure::lead_in(pilot.connections, pilot.weakest) * LEAD_INS * setup.arms.len() as u32;
    Ok(pilot)
}

fn one(
    setup: &Setup,
    arm: &Arm,
    until: Instant,
    pilot: &mut Pilot,
    quiet: &mut Quiet,
) -> Result<(), LabError> {
    let begun = Instant::now();
    let subject = Subject::start(setup, arm)?;
    let started = begun.elapsed();
    let server = &subject.server;
    pilot.ignores_port |= server.ignores_port();
    // The first answer comes from a cold app; a warm app is faster, so this is a safe estimate.
    let stretched =
        |least: Duration, answers: u32| least.max((server.first_answer() * answers).min(STRETCHED_MAX));
    let counts = counts(setup);
    let steps_max = warmup_steps_max(setup);
    let (needed, steady) =
        warm_up(&subject, counts[counts.len() / 2], stretched(WARMUP_STEP, 2), steps_max, quiet)?;
    pilot.warmups.push(needed);
    let alone = subject.closed(1, stretched(ALONE, 2))?;
    let answer = Duration::from_nanos(alone.report.response.value_at_quantile(0.5));
    pilot.answer = pilot.answer.max(if answer.is_zero() { server.first_answer() } else { answer });
    for connections in counts {
        let lead_in = measure::lead_in(connections, steady);
        let window = subject.closed_as_at_rates(connections, lead_in, stretched(POINT, 4))?;
        let quantile_ms = |quantile| window.report.response.value_at_quantile(quantile) as f64 / 1e6;
        pilot.curve.push(CapacityPoint {
            arm: arm.name.clone(),
            connections,
            per_second: window.per_second(),
            p50_ms: quantile_ms(0.5),
            p99_ms: quantile_ms(0.99),
        });
        // More connections would only make the queue longer.
        let is_piled_up = connections as f64 > window.per_second() * WINDOW_GUESS.as_secs_f64() / 4.0;
        if is_piled_up || Instant::now() > until {
            break;
        }
    }
    let ending = Instant::now();
    drop(subject);
    pilot.overhead += started + ending.elapsed();
    Ok(())
}

/// Maximum warm-up steps, so that all arms together take only a part of the budget.
fn warmup_steps_max(setup: &Setup) -> usize {
    let each = setup.budget.mul_f64(WARMUP_SHARE) / setup.arms.len().max(1) as u32;
    ((each.as_secs_f64() / WARMUP_STEP.as_secs_f64()) as usize).clamp(WARMUP_STEPS_LEAST, WARMUP_STEPS_MAX)
}

/// Loads a fresh server until its throughput stops growing. Returns how much of the load was needed, and that
/// throughput.
fn warm_up(
    subject: &Subject<'_>,
    connections: usize,
    step: Duration,
    steps_max: usize,
    quiet: &mut Quiet,
) -> Result<(Duration, f64), LabError> {
    let mut rates = Vec::new();
    loop {
        let window = subject.closed(connections, step)?;
        quiet.saw(&window);
        rates.push(window.per_second());
        // JIT compilation does not speed up a route that takes seconds.
        if step > WARMUP_STEP || is_steady(&rates) || rates.len() >= steps_max {
            return Ok((step * steps_needed(&rates), steady(&rates)));
        }
    }
}

fn is_steady(rates: &[f64]) -> bool {
    let Some([a, b, c, d]) = rates.last_chunk::<4>() else { return false };
    c + d <= STEADY * (a + b)
}

/// The throughput of the last two steps.
fn steady(rates: &[f64]) -> f64 {
    let last = &rates[rates.len().saturating_sub(2)..];
    last.iter().sum::<f64>() / last.len().max(1) as f64
}

/// Steps until the throughput was close to that of the last two steps; at least one.
fn steps_needed(rates: &[f64]) -> u32 {
    let steady = steady(rates);
    let cold = rates.iter().take_while(|rate| **rate < WARM * steady).count();
    cold.max(1) as u32
}

/// Numbers of connections to try, ascending: the user's number, or from few to twice the expected number.
fn counts(setup: &Setup) -> Vec<usize> {
    if let Some(connections) = setup.connections {
        return vec![connections];
    }
    let workers = usize::from(setup.workers_max());
    let mut counts: Vec<usize> =
        [2, 8, 32, 64].map(|each| (each * workers).min(plan::CONNECTIONS_MAX)).to_vec();
    counts.dedup();
    counts
}

/// Chooses the number of connections: enough for every worker without a long queue, or more if more
/// connections gave a higher rate.
fn chosen(curve: &[CapacityPoint], workers_max: u16) -> usize {
    let bearable = plan::connections(workers_max, weakest(curve), WINDOW_GUESS);
    let reached = curve.iter().map(|point| point.connections).max().unwrap_or(bearable);
    let is_piled_up = bearable < reached.min(usize::from(workers_max) * 32);
    match knee(curve) {
        Some(knee) if !is_piled_up => knee.max(bearable),
        // Still growing at the end of the curve: the route mostly waits.
        None if !is_piled_up && is_growing(curve) => reached.max(bearable),
        _ => bearable,
    }
}

/// Whether every arm was best with the most connections.
fn is_growing(curve: &[CapacityPoint]) -> bool {
    let most = curve.iter().map(|point| point.connections).max();
    curve
        .iter()
        .filter(|point| Some(point.connections) == most)
        .all(|point| point.per_second >= best_of(curve, &point.arm))
}

/// The fewest connections at which every arm is within [`SATURATED`] of its best.
fn knee(curve: &[CapacityPoint]) -> Option<usize> {
    let mut counts: Vec<usize> = curve.iter().map(|point| point.connections).collect();
    counts.sort_unstable();
    counts.dedup();
    let best = |arm: &str| best_of(curve, arm);
    counts.into_iter().find(|count| {
        let mut at = curve.iter().filter(|point| point.connections == *count).peekable();
        at.peek().is_some() && at.all(|point| point.per_second >= SATURATED * best(&point.arm))
    })
}

fn best_of(curve: &[CapacityPoint], arm: &str) -> f64 {
    curve.iter().filter(|point| point.arm == arm).map(|point| point.per_second).fold(0.0, f64::max)
}

fn weakest(curve: &[CapacityPoint]) -> f64 {
    curve.iter().map(|point| best_of(curve, &point.arm)).reduce(f64::min).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_load::Report;

    fn point(arm: &str, connections: usize, per_second: f64) -> CapacityPoint {
        CapacityPoint { arm: arm.to_owned(), connections, per_second, p50_ms: 1.0, p99_ms: 2.0 }
    }

    #[test]
    fn what_gets_faster_is_warmed_up_until_it_does_no_more() {
        let express = [1200.0, 2400.0, 3800.0, 4400.0, 5300.0, 5600.0, 5500.0, 5700.0];
        let steady_at = (1..=express.len()).find(|steps| is_steady(&express[..*steps]));
        assert_eq!(steady_at, Some(8));
        assert_eq!(steps_needed(&express), 5);
        assert!(is_steady(&[9000.0, 9100.0, 9050.0, 8990.0]));
        assert_eq!(steps_needed(&[9000.0, 9100.0, 9050.0, 8990.0]), 1);
        assert!(!is_steady(&[9000.0, 9000.0, 9000.0]));
        assert_eq!(steps_needed(&[0.5]), 1);
    }

    #[test]
    fn one_reading_does_not_leave_an_arm_cold() {
        let half_seconds = |needs: &[(u16, u32)]| {
            let needs: Vec<_> = needs.iter().map(|(workers, need)| (*workers, WARMUP_STEP * *need)).collect();
            evened(&needs).iter().map(|need| need.as_millis() / 500).collect::<Vec<_>>()
        };
        assert_eq!(half_seconds(&[(1, 2), (2, 4)]), [2, 4], "each its own");
        assert_eq!(half_seconds(&[(1, 1), (2, 6)]), [3, 6]);
        assert_eq!(half_seconds(&[(1, 4), (2, 1)]), [4, 4], "two workers compile twice");
        assert_eq!(half_seconds(&[(2, 1), (2, 5)]), [5, 5], "equals are treated equally");
        assert_eq!(half_seconds(&[]), [0; 0]);
    }

    #[test]
    fn a_block_is_disturbed_when_one_of_its_arms_is() {
        let mut quiet = Quiet::default();
        let window = |stolen_ms: u64| Window {
            report: Report { elapsed: Duration::from_millis(500), ..Report::empty("test") },
            server_cpu: Duration::ZERO,
            machine: MachineUse {
                capacity: Duration::from_secs(1),
                stolen: Duration::from_millis(stolen_ms),
                ..MachineUse::default()
            },
        };
        assert!(quiet.disturbed(2).abs() < 1e-9);
        // A single tick in two seconds is no disturbance; five are.
        [10, 0, 0, 0, 50, 0, 0, 0, 50].iter().for_each(|stolen| quiet.saw(&window(*stolen)));
        assert!((quiet.disturbed(1) - 0.5).abs() < 1e-9);
        assert!((quiet.disturbed(2) - 0.75).abs() < 1e-9);
    }

    #[test]
    fn the_knee_is_where_all_arms_have_had_enough() {
        let curve = [
            point("single", 4, 990.0),
            point("single", 16, 1000.0),
            point("single", 64, 995.0),
            point("cluster", 4, 1500.0),
            point("cluster", 16, 1950.0),
            point("cluster", 64, 2000.0),
        ];
        assert_eq!(knee(&curve), Some(16));
        assert!((weakest(&curve) - 1000.0).abs() < 1e-9);
        assert_eq!(knee(&[]), None);
    }
}
