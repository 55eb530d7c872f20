//! `tune`: how many workers, and how large a thread pool? Candidates race; the smallest within 2 % of the
//! best wins.
//!
//! This is the acting part. `candidates` and `predict` define the candidates, `race` decides which are
//! dropped and which is chosen, and `outcome` creates the texts.

mod candidates;
mod latency;
mod levels;
mod outcome;
mod pareto;
mod predict;
mod race;
mod time;
mod unfit;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::LabError;
use crate::arms::{Arm, Runner, workers_text};
use crate::compare::{AtRate, Setup, Trial, TrialPlan, run_trial};
use crate::document::{PlanDocument, TuneDocument};
use crate::measure;
use crate::plan;
use crate::progress::{Observer, Stage};
use candidates::{first_with_best_pool, more_pools, pool_matters, scan_pools, star};
pub use candidates::{parse_pools, parse_workers};
use forkful_core::outgoing::HostLoad;
use forkful_core::random::Random;
pub(crate) use pareto::tail;
pub(crate) use race::Candidate;
use race::Race;
use time::{First, Needs, Time};
use unfit::{forbid_refused, note_failed, piloted, unless_unfit};

/// Share of the budget for the race; the rest is for latency at equal load.
const RACE_SHARE: f64 = 0.75;

/// Load of the latency windows, as a share of the best candidate's capacity.
pub(crate) const LOAD: f64 = 0.7;

/// Maximum rounds of a race.
const ROUNDS_MAX: usize = 12;

/// Rounds of all candidates before the pool is judged.
const COARSE_ROUNDS: usize = 2;

/// Bounds of a window.
const WINDOW_MIN: Duration = Duration::from_millis(500);
const WINDOW_MAX: Duration = Duration::from_secs(3);

/// Minimum answers of the best candidate in a window, so that one more or less does not matter.
const ANSWERS_MIN: f64 = 60.0;

/// A candidate with more workers than cores gets a longer warm-up, up to this.
const WARMUP_MAX: Duration = Duration::from_secs(8);

/// The input of `tune`.
#[derive(Debug)]
pub struct TuneSetup {
    /// The app, the request and the limits; its arms are those of the pilot.
    pub setup: Setup,
    /// Numbers of workers to try; `None`: derived from the cores.
    pub workers: Option<Vec<u16>>,
    /// Pool sizes to try; `None`: detects whether they matter.
    pub pools: Option<Vec<u32>>,
    /// Also measure the latency of each number of workers at the same share of its own capacity.
    pub own_load: bool,
}

impl TuneSetup {
    /// The app's current `UV_THREADPOOL_SIZE`.
    pub fn present_pool(&self) -> u32 {
        let given = self.setup.apps[0].launch.env.get("UV_THREADPOOL_SIZE");
        given.and_then(|text| text.parse().ok()).filter(|pool| *pool > 0).unwrap_or(candidates::POOL_DEFAULT)
    }

    /// The number of workers in the current configuration.
    pub fn present_workers(&self) -> u16 {
        self.setup.apps[0].instances
    }
}

/// The arms of the pilot: one worker, and one for each core.
pub fn pilot_arms(cores: u16, workers: Option<&[u16]>) -> Vec<Arm> {
    let most = workers.and_then(|workers| workers.iter().copied().max()).unwrap_or(cores).min(cores.max(1));
    let one = arm(Candidate { workers: 1, pool: 0 });
    if most <= 1 { vec![one] } else { vec![one, arm(Candidate { workers: most, pool: 0 })] }
}

/// The arm of a candidate; pool 0 keeps the app's setting.
fn arm(candidate: Candidate) -> Arm {
    let Candidate { workers, pool } = candidate;
    let name = workers_text(workers);
    let name = if pool == 0 { name } else { format!("{name}, pool {pool}") };
    let runner = Runner::Forkful { workers, balance: None };
    Arm { pool: (pool > 0).then_some(pool), ..Arm::of(name, "", runner) }
}

/// The measurements of a candidate beside its throughput.
#[derive(Debug, Clone, Default)]
pub(crate) struct Costs {
    pub(crate) memory_bytes: Vec<f64>,
    pub(crate) cpu_us: Vec<f64>,
    pub(crate) server_cores: Vec<f64>,
    pub(crate) generator_cores: Vec<f64>,
    pub(crate) generator_busy: f64,
    /// Whether it has the capacity for [`LOAD`], and sustained it if that was tried.
    pub(crate) carries: bool,
    /// The result at [`LOAD`]; `None` if there was no time.
    pub(crate) at_load: Option<AtRate>,
    /// The result at the same share of its own capacity, if requested and if there was time.
    pub(crate) at_own_load: Option<AtRate>,
}

/// A finished race with all measurements.
#[derive(Debug)]
pub(crate) struct Raced {
    pub(crate) race: Race,
    /// By entry of the race.
    pub(crate) costs: Vec<Costs>,
    /// Whether the pool size makes a difference; `None` if only one size was tried.
    pub(crate) pool_matters: bool,
    pub(crate) disturbed: usize,
    pub(crate) trials: usize,
    /// What was not measured for lack of time.
    pub(crate) unmeasured: Option<String>,
    /// Numbers of workers at which a host refused connections.
    pub(crate) refused: BTreeMap<u16, HostLoad>,
    /// How the app failed with candidates that were left out: their names, and what happened.
    pub(crate) failed: Vec<String>,
}

impl Raced {
    fn new(list: Vec<Candidate>, pool_matters: bool, unmeasured: Option<String>) -> Self {
        Self {
            costs: vec![Costs::default(); list.len()],
            race: Race::new(list),
            pool_matters,
            disturbed: 0,
            trials: 0,
            unmeasured,
            refused: BTreeMap::new(),
            failed: Vec::new(),
        }
    }
}

/// Finds the best setting.
pub fn tune(tune: &TuneSetup, observer: &mut dyn Observer) -> Result<TuneDocument, LabError> {
    tuned(tune, observer).map_err(|error| error.unless_stopped(&tune.setup.stop))
}

fn tuned(tune: &TuneSetup, observer: &mut dyn Observer) -> Result<TuneDocument, LabError> {
    let setup = &tune.setup;
    plan::check(setup.budget, None, setup.connections)?;
    let begun = Instant::now();
    let (pilot, refused) = piloted(setup, observer)?;
    let cores = forkful_os::cores::usable_cores().count;
    let mut list = first_candidates(tune, cores);
    list.retain(|candidate| refused.first_key_value().is_none_or(|(from, _)| candidate.workers < *from));
    let deadline = begun + setup.budget;
    let spent = begun.elapsed();
    let left = setup.budget.saturating_sub(spent);
    let overhead = pilot.overhead / setup.arms.len().max(1) as u32;
    // A pool answers in batches, so a window must contain several of them.
    let row = measure::lead_in(pilot.connections, pilot.weakest);
    let most = pilot.curve.iter().map(|point| point.per_second).fold(f64::MIN_POSITIVE, f64::max);
    let enough = Duration::try_from_secs_f64(ANSWERS_MIN / most).unwrap_or(WINDOW_MAX).min(WINDOW_MAX * 4);
    let least = enough.max(3 * row);
    let needs =
        Needs { left, fixed: overhead + pilot.warmup_max(), window: least, pool: tune.present_pool(), cores };
    let wanted = list.len();
    let First { candidates: list, window } =
        needs.first(&list).map_err(|more| time::too_small(setup.budget, spent, more))?;
    let unmeasured = unmeasured(list.len(), wanted);
    if let Some(note) = &unmeasured {
        observer.note(note);
    }
    let trial = TrialPlan {
        connections: pilot.connections,
        warmup: pilot.warmup_max(),
        window,
        latency_window: Duration::ZERO,
        weakest: 0.0,
        seed: setup.seed,
    };
    observer.note(&format!(
        "{} candidates, {} connections, {:.1} s each; those that are certainly worse are dropped (seed {})",
        list.len(),
        pilot.connections,
        window.as_secs_f64(),
        setup.seed
    ));
    let mut time = Time {
        overhead,
        late: Duration::ZERO,
        until: begun + begun.elapsed() + left.mul_f64(RACE_SHARE),
        last: deadline.checked_sub(overhead + trial.warmup + latency::WINDOW_MIN).unwrap_or(deadline),
    };
    let mut raced = Raced::new(list, tune.pools.is_some(), unmeasured);
    raced.refused = refused;
    forbid_refused(&mut raced, observer);
    run_race(tune, &trial, &mut time, cores, &mut raced, observer)?;
    let overhead = overhead + time.late;
    let latency_window = latency::measure(tune, &trial, deadline, overhead, &mut raced, observer)?;
    let document = PlanDocument {
        budget_s: setup.budget.as_secs_f64(),
        took_s: begun.elapsed().as_secs_f64(),
        blocks: raced.race.rounds(),
        looks: (1..=raced.race.rounds()).collect(),
        connections: pilot.connections,
        keep_alive: setup.keep_alive,
        warmup_s: trial.warmup.as_secs_f64(),
        window_s: trial.window.as_secs_f64(),
        latency_window_s: latency_window.as_secs_f64(),
        restarts: "every server is started anew for every round".to_owned(),
    };
    Ok(outcome::document(tune, &raced, document, cores))
}

/// What does not fit into the budget.
fn unmeasured(measured: usize, wanted: usize) -> Option<String> {
    (measured < wanted).then(|| {
        format!(
            "the budget has time for {measured} of {wanted} candidates; a larger `--budget` has time for all"
        )
    })
}

fn first_candidates(tune: &TuneSetup, cores: u16) -> Vec<Candidate> {
    let workers = tune.workers.clone().unwrap_or_else(|| candidates::default_workers(cores));
    let present = tune.present_pool();
    if let Some(pools) = &tune.pools {
        // Set by the user: the whole grid.
        let with_pools = |workers: u16| pools.iter().map(move |pool| Candidate { workers, pool: *pool });
        return workers.iter().copied().flat_map(with_pools).collect();
    }
    let center = Candidate { workers: workers.first().copied().unwrap_or(1), pool: present };
    star(&workers, &scan_pools(present), center)
}

fn run_race(
    tune: &TuneSetup,
    trial: &TrialPlan,
    time: &mut Time,
    cores: u16,
    raced: &mut Raced,
    observer: &mut dyn Observer,
) -> Result<(), LabError> {
    let mut random = Random::new(tune.setup.seed);
    let begun = Instant::now();
    while raced.race.rounds() < ROUNDS_MAX {
        let mut order = raced.race.survivors();
        let takes = |index: usize| time.of(tune, raced.race.entries()[index].candidate, trial);
        let round: Duration = order.iter().map(|index| takes(*index)).sum();
        if Instant::now() + round > time.until && raced.race.rounds() >= COARSE_ROUNDS {
            order = latecomers(tune, trial, time, raced, observer);
            if order.is_empty() {
                break;
            }
        }
        random.shuffle(&mut order);
        let takes = |index: usize| time.of(tune, raced.race.entries()[index].candidate, trial);
        let mut runs: Vec<(usize, Duration)> = order.iter().map(|index| (*index, takes(*index))).collect();
        let round: Duration = runs.iter().map(|(_, takes)| *takes).sum();
        let rounds_to_come = COARSE_ROUNDS.saturating_sub(raced.race.rounds() + 1) as u32;
        let mut results = Vec::new();
        let mut is_over = false;
        while let Some((index, takes)) = runs.pop() {
            // The budget is a limit: the rest of the round does not run.
            if !time.fits(takes) {
                is_over = true;
                break;
            }
            let to_come = runs.iter().map(|(_, takes)| *takes).sum::<Duration>() + round * rounds_to_come;
            let candidate = raced.race.entries()[index].candidate;
            let spent = begun.elapsed().as_secs_f64();
            let whole = time.until.saturating_duration_since(begun).as_secs_f64().max(1.0);
            observer.stage(&Stage {
                text: format!("round {}: {}", raced.race.rounds() + 1, arm(candidate).name),
                done: (RACE_SHARE * spent / whole).min(RACE_SHARE),
            });
            let told = raced.failed.len();
            let per_second = one(tune, candidate, trial, time, to_come, index, raced)?;
            note_failed(&raced.failed[told..], observer);
            results.push((index, Some(per_second)));
        }
        if results.is_empty() {
            break;
        }
        forbid_refused(raced, observer);
        for loser in raced.race.record(&results, tune.present_pool()) {
            let candidate = raced.race.entries()[loser].candidate;
            observer.note(&format!("{} is out after round {}", arm(candidate).name, raced.race.rounds()));
        }
        if raced.race.rounds() == COARSE_ROUNDS && tune.pools.is_none() {
            judge_pool(tune, cores, raced, observer);
        } else if tune.pools.is_none() && raced.pool_matters {
            widen(raced);
        }
        // If the pool matters, more candidates with another pool follow.
        if raced.race.rounds() == COARSE_ROUNDS
            && tune.workers.is_none()
            && (tune.pools.is_some() || !raced.pool_matters)
        {
            add_peak(cores, raced, observer);
        }
        if is_over || raced.race.rounds() > COARSE_ROUNDS && raced.race.over().is_some() {
            break;
        }
    }
    Ok(())
}

/// The candidates that still run when the race's time is up: latecomers, as far as the budget allows, and the
/// leader for comparison. They get as many rounds as all others had, or one if there is no time for more; a
/// candidate without a round is removed.
fn latecomers(
    tune: &TuneSetup,
    trial: &TrialPlan,
    time: &Time,
    raced: &mut Raced,
    observer: &mut dyn Observer,
) -> Vec<usize> {
    let Some(leader) = raced.race.leader() else { return Vec::new() };
    let takes = |index: usize| time.of(tune, raced.race.entries()[index].candidate, trial);
    let left = time.last.saturating_duration_since(Instant::now());
    for rounds in [COARSE_ROUNDS, 1] {
        let late = raced.race.behind(rounds);
        let each: Vec<(Duration, usize)> =
            late.iter().map(|index| (takes(*index), rounds - raced.race.runs(*index))).collect();
        let fitting = &late[..time::fitting(&each, takes(leader), left)];
        if !fitting.is_empty() {
            let beside = Some(leader).filter(|leader| !fitting.contains(leader));
            return fitting.iter().copied().chain(beside).collect();
        }
    }
    for index in raced.race.behind(1) {
        let name = arm(raced.race.entries()[index].candidate).name;
        observer.note(&format!("no time is left for {name}; a larger `--budget` has some"));
        raced.race.withdraw(index);
    }
    Vec::new()
}

/// Runs a candidate once, and again if the first run was disturbed and the second leaves `to_come` for the
/// others.
fn one(
    tune: &TuneSetup,
    candidate: Candidate,
    plan: &TrialPlan,
    time: &mut Time,
    to_come: Duration,
    index: usize,
    raced: &mut Raced,
) -> Result<f64, LabError> {
    let arm = arm(candidate);
    let expected = time.of(tune, candidate, plan);
    let plan = TrialPlan { warmup: warmup(tune, candidate, plan), ..*plan };
    let began = Instant::now();
    let trial = unless_unfit(run_trial(&tune.setup, &arm, &plan), index, raced)?;
    let took = began.elapsed();
    time.took(expected, took);
    let Some(mut trial) = trial else { return Ok(0.0) };
    let until = time.until.checked_sub(to_come);
    let fits = until.is_some_and(|until| Instant::now() + took <= until) && time.fits(took);
    raced.trials += 1;
    if trial.disturbance.is_some() && fits {
        match unless_unfit(run_trial(&tune.setup, &arm, &plan), index, raced)? {
            Some(again) => trial = again,
            None => return Ok(0.0),
        }
    }
    raced.disturbed += usize::from(trial.disturbance.is_some());
    if let Some(load) = trial.refused.take() {
        raced.refused.insert(candidate.workers, load);
    }
    note_costs(&mut raced.costs[index], &trial);
    Ok(trial.per_second)
}

/// The pilot's warm-up was for at most one worker per core; more workers share the cores, and each needs its
/// part.
fn warmup(tune: &TuneSetup, candidate: Candidate, plan: &TrialPlan) -> Duration {
    let of_pilot = tune.setup.workers_max().max(1);
    let stretch = (f64::from(candidate.workers) / f64::from(of_pilot)).max(1.0);
    plan.warmup.mul_f64(stretch).min(WARMUP_MAX.max(plan.warmup))
}

fn note_costs(costs: &mut Costs, trial: &Trial) {
    costs.memory_bytes.push(trial.memory_bytes as f64);
    costs.cpu_us.extend(trial.cpu_per_request.map(|cpu| cpu.as_secs_f64() * 1e6));
    costs.server_cores.push(trial.server_cores);
    costs.generator_cores.push(trial.generator_cores);
    costs.generator_busy = costs.generator_busy.max(trial.generator_busy);
}

/// After the coarse rounds: decides whether the pool matters. If so, more pool sizes run, and the best size
/// with each number of workers; if not, only the current size stays.
fn judge_pool(tune: &TuneSetup, cores: u16, raced: &mut Raced, observer: &mut dyn Observer) {
    let present = tune.present_pool();
    let fewest = raced.race.entries().iter().map(|entry| entry.candidate.workers).min().unwrap_or(1);
    let scan: Vec<(u32, f64)> = raced
        .race
        .entries()
        .iter()
        .zip(raced.race.rates())
        .filter(|(entry, _)| entry.candidate.workers == fewest)
        .map(|(entry, rate)| (entry.candidate.pool, rate.unwrap_or_default()))
        .collect();
    if scan.len() < 2 {
        return;
    }
    let throughputs: Vec<f64> = scan.iter().map(|(_, throughput)| *throughput).collect();
    raced.pool_matters = pool_matters(&throughputs);
    if !raced.pool_matters {
        raced.race.keep(|candidate| candidate.pool == present);
        observer.note("the size of the thread pool makes no difference for this route");
        return;
    }
    observer.note("the size of the thread pool makes a difference for this route");
    let of =
        |pool: u32| scan.iter().find(|(found, _)| *found == pool).map_or(0.0, |(_, throughput)| *throughput);
    for pool in more_pools(cores, of(candidates::POOL_DEFAULT), of(16)) {
        raced.race.add(Candidate { workers: fewest, pool });
    }
    let best = candidates::smallest_good_pool(&scan).unwrap_or(present);
    for workers in first_with_best_pool(&worker_counts(&raced.race), cores) {
        raced.race.add(Candidate { workers, pool: best });
    }
    raced.costs.resize(raced.race.entries().len(), Costs::default());
}

/// After the coarse rounds: numbers of workers around the law's predicted peak run too, as latecomers.
fn add_peak(cores: u16, raced: &mut Raced, observer: &mut dyn Observer) {
    let Some(leader) = raced.race.leader() else { return };
    let pool = raced.race.entries()[leader].candidate.pool;
    let Some(peak) = predict::peak(&raced.race, &raced.costs, pool, cores) else { return };
    let added = predict::add_around(&mut raced.race, pool, peak);
    if !added.is_empty() {
        let names: Vec<String> = added.iter().map(u16::to_string).collect();
        observer.note(&format!(
            "by the first rounds, throughput is highest at about {peak:.1} workers: {} run too",
            names.join(", ")
        ));
    }
    raced.costs.resize(raced.race.entries().len(), Costs::default());
}

/// Numbers of workers in a race, ascending.
fn worker_counts(race: &Race) -> Vec<u16> {
    let counts: std::collections::BTreeSet<u16> =
        race.entries().iter().map(|entry| entry.candidate.workers).collect();
    counts.into_iter().collect()
}

/// If a candidate with several workers and a pool size other than the scanned one leads, all numbers of
/// workers run with that pool size.
fn widen(raced: &mut Raced) {
    let Some(leader) = raced.race.leader() else { return };
    let Candidate { workers, pool } = raced.race.entries()[leader].candidate;
    let counts = worker_counts(&raced.race);
    if Some(&workers) == counts.first() {
        return;
    }
    for workers in counts {
        raced.race.add(Candidate { workers, pool });
    }
    raced.costs.resize(raced.race.entries().len(), Costs::default());
}
