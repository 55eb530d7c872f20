//! Autoscaling: how many workers an app has between two bounds, by how busy its workers are. What was seen of the workers goes
//! in, a decision with its reason in words comes out. It starts and ends nothing: that is the supervisor's.
//!
//! - `signals`: what was seen · `limits`: what speaks against another worker
//!
//! The rule, with its numbers below: workers that have been busy for some seconds get more of them beside them, as far as CPU
//! and memory allow; workers that fewer could replace for a minute become fewer. Between the two is a band in which nothing
//! happens, and a scale-down that was regretted makes the next one wait longer, so that the number does not flap.

mod limits;
mod signals;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;

pub use limits::Limit;
pub use signals::{Cpu, MemoryOf, MemoryRoom, Signals, WorkerSignals};

/// Workers that are busier than this need more beside them. All shares are in thousandths.
pub const BUSY_PERMILLE: u32 = 750;
/// Below this share they do not need more any longer.
const NOT_BUSY_PERMILLE: u32 = 600;
/// Connections that wait count only where workers are this busy; else something other than the workers holds them up.
const QUEUE_BUSY_PERMILLE: u32 = 500;
/// How busy workers are to be after more have come.
const AIM_PERMILLE: u32 = 600;
/// Fewer workers have to be at most this busy.
pub const IDLE_PERMILLE: u32 = 500;
/// Above this share fewer workers are out of the question.
const NOT_IDLE_PERMILLE: u32 = 600;

/// For how long workers have to be busy before there are more.
pub const UP_AFTER: Duration = Duration::from_secs(5);
/// For how long fewer workers would have to suffice before there are fewer.
pub const DOWN_AFTER: Duration = Duration::from_secs(60);
/// A scale-down is regretted when a scale-up follows it within this time.
const REGRETTED_WITHIN: Duration = Duration::from_secs(5 * 60);
/// After so long without a scale-down, regrets are forgotten.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(15 * 60);
/// Maximum number of regrets that are counted. Each regret doubles the time before a scale-down.
const REGRETS_MAX: u32 = 3;
/// Signals that are further apart do not belong to one stretch of time: the machine slept, or another daemon goes on.
const GAP_MAX: Duration = Duration::from_secs(30);
/// Why there are not more workers is told again after this time.
const TOLD_AGAIN_AFTER: Duration = Duration::from_secs(60 * 60);

/// The least and the greatest number of workers of an app whose number follows its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "AutoscaleDefinition", deny_unknown_fields)
)]
pub struct ScaleBounds {
    /// At least 1.
    pub min: u16,
    /// At least `min`.
    pub max: u16,
}

impl ScaleBounds {
    /// The allowed number of workers that is nearest to this one.
    pub fn nearest(self, workers: u16) -> u16 {
        workers.max(self.min).min(self.max)
    }

    pub fn allow(self, workers: u16) -> bool {
        (self.min..=self.max).contains(&workers)
    }
}

impl fmt::Display for ScaleBounds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}–{}", self.min, self.max)
    }
}

/// What becomes of the number of workers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The new number of workers, and the reason.
    Scale { to: u16, why: String },
    /// There would be more, and what speaks against it.
    Hold { limit: Limit, why: String },
}

/// What is remembered of an app for this.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Autoscaler {
    /// When signals came last.
    seen: Option<Time>,
    /// Since when the workers are busy.
    busy_since: Option<Time>,
    /// Since when fewer workers would suffice.
    idle_since: Option<Time>,
    /// The most work since then, in thousandths of a worker.
    idle_peak: u32,
    /// When a quota last kept processes from running.
    throttled: Option<Time>,
    went_down: Option<Time>,
    /// Scale-downs that were regretted.
    regrets: u32,
    /// When each limit was last told.
    told: BTreeMap<Limit, Time>,
    /// The last change of the number, in words.
    last: Option<String>,
}

impl Autoscaler {
    /// The last change of the number of workers by this rule, in words.
    pub fn last(&self) -> Option<&str> {
        self.last.as_deref()
    }

    /// The workers are others than before, or not all of them serve: what was seen until now says nothing of them.
    pub fn interrupt(&mut self) {
        self.busy_since = None;
        self.idle_since = None;
    }

    /// Decides by what was seen just now. `signals` has all workers of the app, and all of them serve.
    pub fn step(&mut self, bounds: ScaleBounds, signals: &Signals, now: Time) -> Option<Decision> {
        let workers = signals.workers.len() as u16;
        if workers == 0 {
            return None;
        }
        if self.seen.is_some_and(|seen| now.since(seen) > GAP_MAX) {
            self.interrupt();
        }
        self.seen = Some(now);
        self.note(signals, now);
        if !bounds.allow(workers) {
            let why = format!("the app is to have {bounds} workers");
            return Some(self.scale(workers, bounds.nearest(workers), why));
        }
        if let Some(since) = self.busy_since.filter(|since| now.since(*since) >= UP_AFTER) {
            return self.up(bounds, signals, now.since(since), now);
        }
        let patience = DOWN_AFTER * 2_u32.pow(self.regrets);
        let since = self.idle_since.filter(|since| now.since(*since) >= patience)?;
        if workers == bounds.min {
            return None;
        }
        Some(self.down(bounds, workers, now.since(since), now))
    }

    /// Notes since when the workers are busy, or fewer would suffice.
    fn note(&mut self, signals: &Signals, now: Time) {
        let (workers, work, queued) = (signals.workers.len() as u32, signals.work(), signals.queued());
        let busy = work / workers;
        let waits = queued >= workers && busy >= QUEUE_BUSY_PERMILLE;
        if busy > BUSY_PERMILLE || waits {
            self.busy_since.get_or_insert(now);
        } else if busy < NOT_BUSY_PERMILLE {
            self.busy_since = None;
        }
        let with_fewer = |share: u32| share * (workers - 1);
        if queued > 0 || work > with_fewer(NOT_IDLE_PERMILLE) {
            self.idle_since = None;
        } else if work <= with_fewer(IDLE_PERMILLE) && self.idle_since.is_none() {
            self.idle_since = Some(now);
            self.idle_peak = 0;
        }
        self.idle_peak = self.idle_peak.max(work);
        if signals.is_throttled() {
            self.throttled = Some(now);
        }
    }

    fn up(
        &mut self,
        bounds: ScaleBounds,
        signals: &Signals,
        busy_for: Duration,
        now: Time,
    ) -> Option<Decision> {
        let workers = signals.workers.len() as u16;
        let because = signals.busy_words();
        let room = match limits::room(bounds, signals, self.throttled, now) {
            Ok(room) => room,
            Err((limit, what)) => {
                let is_fresh = |told: &Time| now.since(*told) < TOLD_AGAIN_AFTER;
                if self.told.get(&limit).is_some_and(is_fresh) {
                    return None;
                }
                self.told.insert(limit, now);
                return Some(Decision::Hold { limit, why: format!("{because}, but {what}") });
            }
        };
        let needed = signals.work().div_ceil(AIM_PERMILLE).try_into().unwrap_or(u16::MAX);
        // The work of workers that are busy all the time may be more than can be seen: at most twice as many at once.
        let wanted = needed.clamp(workers + 1, workers.saturating_mul(2));
        let to = wanted.min(workers.saturating_add(room));
        match self.went_down {
            Some(at) if now.since(at) < REGRETTED_WITHIN => {
                self.regrets = (self.regrets + 1).min(REGRETS_MAX);
            }
            Some(at) if now.since(at) < FORGOTTEN_AFTER => {}
            Some(_) | None => self.regrets = 0,
        }
        Some(self.scale(workers, to, format!("{because} for {} s", busy_for.as_secs())))
    }

    fn down(&mut self, bounds: ScaleBounds, workers: u16, idle_for: Duration, now: Time) -> Decision {
        let enough = self.idle_peak.div_ceil(IDLE_PERMILLE).try_into().unwrap_or(u16::MAX);
        let to = enough.max(workers / 2).max(bounds.min).min(workers - 1);
        let busy = self.idle_peak / u32::from(to) / 10;
        self.went_down = Some(now);
        let with = crate::words::count(usize::from(to), "worker");
        let why =
            format!("with {with}, each would have been at most {busy} % busy for {} s", idle_for.as_secs());
        self.scale(workers, to, why)
    }

    fn scale(&mut self, from: u16, to: u16, why: String) -> Decision {
        self.interrupt();
        self.last = Some(scaled_words(from, to, &why));
        Decision::Scale { to, why }
    }
}

/// `scaled up from 1 to 2 workers: …`.
pub fn scaled_words(from: u16, to: u16, why: &str) -> String {
    let direction = if to > from { "up" } else { "down" };
    format!("scaled {direction} from {from} to {}: {why}", crate::words::count(usize::from(to), "worker"))
}
