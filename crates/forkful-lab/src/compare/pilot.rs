//! The pilot: starts every arm once and finds out how long things take, where the app saturates, and whether
//! it works at all.

use std::time::{Duration, Instant};

use super::Setup;
use super::warming::{self, Limits, Need, Warmup};
use crate::LabError;
use crate::arms::Arm;
use crate::document::CapacityPoint;
use crate::measure::{self, Subject, Window};
use crate::plan;
use crate::progress::{Observer, Stage};
use crate::statistics::steadiness::{MachineUse, disturbance};

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
    /// For each arm, the full load that it needs until it reaches its final speed.
    pub(crate) warmups: Vec<Warmup>,
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

impl Pilot {
    /// The warm-up of the arm that needs the longest.
    pub(crate) fn warmup_max(&self) -> Duration {
        self.warmups.iter().map(|warmup| warmup.time).max().unwrap_or_default()
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
    let mut needs = Vec::new();
    for (index, arm) in setup.arms.iter().enumerate() {
        let share = PILOT_SHARE * (index + 1) as f64 / setup.arms.len() as f64;
        let until = begun + setup.budget.mul_f64(share);
        observer.stage(&Stage { text: format!("pilot: {}", arm.name), done: 0.0 });
        // An arm compared with itself is measured once.
        let is_known = setup.self_test && !pilot.curve.is_empty();
        if is_known {
            pilot.overhead *= 2;
            needs.resize(setup.arms.len(), needs[0]);
            break;
        }
        needs.push(one(setup, arm, until, &mut pilot, &mut quiet)?);
    }
    pilot.weakest = weakest(&pilot.curve);
    pilot.disturbed = quiet.disturbed(setup.arms.len());
    pilot.warmups = warming::evened(&needs);
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
) -> Result<Need, LabError> {
    let begun = Instant::now();
    let subject = Subject::start(setup, arm)?;
    let started = begun.elapsed();
    let server = &subject.server;
    pilot.ignores_port |= server.ignores_port();
    // The first answer comes from a cold app; a warm app is faster, so this is a safe estimate.
    let stretched =
        |least: Duration, answers: u32| least.max((server.first_answer() * answers).min(STRETCHED_MAX));
    let counts = counts(setup);
    let limits = Limits::of(setup);
    let two_answers = stretched(Duration::ZERO, 2);
    let need = warming::pilot(&subject, counts[counts.len() / 2], two_answers, limits, &mut |window| {
        quiet.saw(window);
    })?;
    let alone = subject.closed(1, stretched(ALONE, 2))?;
    let answer = Duration::from_nanos(alone.report.response.value_at_quantile(0.5));
    pilot.answer = pilot.answer.max(if answer.is_zero() { server.first_answer() } else { answer });
    for connections in counts {
        let lead_in = measure::lead_in(connections, need.per_second);
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
    Ok(need)
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
