//! The verdict over all workers of an app.

use super::evidence::{Evidence, Quantity, Rows};
use super::remedy::{self, BoundsChange, Gain, Remedy};
use super::setting::Setting;
use super::worker::{Examined, examine_worker};
use super::{Certainty, SECONDS_MIN, Signs, Split, Unclear, Verdict};
use crate::autoscale::ScaleBounds;
use crate::outgoing::HostLoad;

/// Loads that differ by more than this are uneven.
const SPREAD: f64 = 0.3;
/// In an uneven app, a worker above this load is the bottleneck.
const BUSY: f64 = 0.8;
/// A verdict with this share of the load is the app's verdict.
const MAJORITY: f64 = 0.6;

/// The data of an app.
#[derive(Debug, Clone, PartialEq)]
pub struct App {
    pub name: String,
    /// Cores available to its processes; fractional with a quota.
    pub cores: f64,
    /// Its workers share their ports, so the number of workers can be increased.
    pub is_scalable: bool,
    /// The bounds of its number of workers, if that follows its load.
    pub bounds: Option<ScaleBounds>,
    pub workers: Vec<WorkerSeconds>,
    /// The arguments of its interpreter.
    pub node_args: Vec<String>,
    /// The host that refused most connections in these seconds because it had too many, with their number.
    pub refusing: Option<HostLoad>,
}

/// The measurements of one worker, second by second.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerSeconds {
    pub slot: u16,
    pub seconds: Vec<Signs>,
}

/// The diagnosis of an app.
#[derive(Debug, Clone, PartialEq)]
pub struct Diagnosis {
    pub verdict: Verdict,
    pub certainty: Certainty,
    pub evidence: Vec<Evidence>,
    pub remedy: Option<Remedy>,
    /// The setting that makes the change of the remedy.
    pub setting: Option<Setting>,
    pub gain: Option<Gain>,
    /// Bounds of the number of workers that fit the verdict, if the app's do not.
    pub bounds_change: Option<BoundsChange>,
    /// The host that the verdict is about.
    pub host: Option<HostLoad>,
    /// The largest number of measured seconds of a worker.
    pub seconds: usize,
    pub workers: Vec<WorkerDiagnosis>,
}

/// The diagnosis of one worker.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerDiagnosis {
    pub slot: u16,
    pub verdict: Verdict,
    pub certainty: Certainty,
    pub evidence: Vec<Evidence>,
    /// How its time was spent; `None` without the agent.
    pub split: Option<Split>,
}

/// Diagnoses an app.
pub fn examine(app: &App) -> Diagnosis {
    let examined: Vec<Examined> =
        app.workers.iter().map(|worker| examine_worker(&worker.seconds, app.cores)).collect();
    let means: Vec<Signs> = examined.iter().map(|worker| worker.mean).collect();
    let seconds = app.workers.iter().map(|worker| worker.seconds.len()).max().unwrap_or(0);
    let (verdict, certainty, evidence) =
        connection_limit(app, seconds).or_else(|| imbalance(&examined)).unwrap_or_else(|| vote(&examined));
    let remedy = remedy::remedy(verdict, app, &means);
    Diagnosis {
        verdict,
        certainty,
        evidence,
        remedy,
        setting: remedy.map(|remedy| remedy.setting(&app.node_args)),
        gain: remedy::gain(verdict, remedy, app, &means),
        bounds_change: remedy::bounds_change(verdict, app, &means),
        host: app.refusing.clone().filter(|_| verdict == Verdict::ConnectionLimit),
        seconds,
        workers: app
            .workers
            .iter()
            .zip(examined)
            .map(|(worker, examined)| of_worker(worker.slot, examined))
            .collect(),
    }
}

fn of_worker(slot: u16, examined: Examined) -> WorkerDiagnosis {
    WorkerDiagnosis {
        slot,
        verdict: examined.finding.verdict,
        certainty: examined.certainty,
        evidence: examined.finding.evidence,
        split: Split::of(&examined.mean),
    }
}

/// The load of a worker: of its event loop or of its thread pool.
pub(super) fn load(signs: &Signs) -> f64 {
    signs.loop_busy.or(signs.main_cpu).unwrap_or(0.0).max(signs.pool_busy.unwrap_or(0.0))
}

type Answer = (Verdict, Certainty, Vec<Evidence>);

/// A host refuses connections. Its answer says why, so the first rule of all needs no bound; and requests fail
/// by it, whatever else limits the app.
fn connection_limit(app: &App, seconds: usize) -> Option<Answer> {
    let load = app.refusing.as_ref().filter(|load| load.refused > 0 && seconds >= SECONDS_MIN)?;
    let count = |value: u32| Some(f64::from(value));
    let rows = Rows::default()
        .row("connections that it refused", Quantity::Count, Some(load.refused as f64))
        .row("connections that it had of this app", Quantity::Count, load.limit.and_then(count))
        .row("most connections of one worker", Quantity::Count, count(load.most))
        .row("workers", Quantity::Count, Some(app.workers.len() as f64));
    Some((Verdict::ConnectionLimit, Certainty::Certain, rows.list()))
}

/// One worker is saturated and has waiting requests, while others are idle.
fn imbalance(workers: &[Examined]) -> Option<Answer> {
    let by_load = |a: &&Examined, b: &&Examined| load(&a.mean).total_cmp(&load(&b.mean));
    let (busiest, idlest) = (workers.iter().max_by(by_load)?, workers.iter().min_by(by_load)?);
    let (most, least) = (load(&busiest.mean), load(&idlest.mean));
    let (queue, requests) = (busiest.mean.accept_queue, busiest.mean.together());
    let has_waiting =
        queue.is_some_and(|queue| queue >= 1.0) || requests.is_some_and(|requests| requests >= 2.0);
    // Limits shared by all workers make them wait at different times.
    let is_shared =
        matches!(busiest.finding.verdict, Verdict::CpuQuota | Verdict::CpuContention | Verdict::MemoryLimit);
    // It could not take more, however connections are spread.
    let stands = busiest.mean.standing.is_some_and(|share| share > 0.0);
    let is_known = workers.iter().all(|worker| worker.finding.verdict != Verdict::Unclear(Unclear::TooShort));
    if workers.len() < 2
        || most - least <= SPREAD
        || most <= BUSY
        || !has_waiting
        || is_shared
        || stands
        || !is_known
    {
        return None;
    }
    let certainty = if most - least > 2.0 * SPREAD { Certainty::Certain } else { Certainty::Likely };
    let rows = Rows::default()
        .above("busiest worker", Quantity::Share, Some(most), BUSY)
        .below("idlest worker", Quantity::Share, Some(least), most - SPREAD)
        .row("requests at the same time in the busiest worker", Quantity::Count, requests)
        .row("connections in its accept queue", Quantity::Count, queue);
    Some((Verdict::Imbalance, certainty, rows.list()))
}

/// The verdict with most of the load; among its workers, the one with the highest load provides the evidence.
fn vote(workers: &[Examined]) -> Answer {
    // A worker without load has a small weight, so that an idle app gets the verdict idle.
    let weight = |worker: &Examined| load(&worker.mean) + 0.01;
    let of = |verdict: Verdict| -> f64 {
        workers.iter().filter(|worker| worker.finding.verdict == verdict).map(weight).sum()
    };
    let all: f64 = workers.iter().map(weight).sum();
    let by_votes = |a: &&Examined, b: &&Examined| {
        let votes = of(a.finding.verdict).total_cmp(&of(b.finding.verdict));
        votes.then(weight(a).total_cmp(&weight(b)))
    };
    let Some(chosen) = workers.iter().max_by(by_votes) else {
        return (Verdict::Unclear(Unclear::TooShort), Certainty::Inconclusive, Vec::new());
    };
    let (verdict, evidence) = (chosen.finding.verdict, chosen.finding.evidence.clone());
    if of(verdict) < MAJORITY * all && chosen.certainty != Certainty::Inconclusive {
        return (Verdict::Unclear(Unclear::Mixed), Certainty::Inconclusive, evidence);
    }
    (verdict, chosen.certainty, evidence)
}
