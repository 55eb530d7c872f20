//! Possible changes and their expected effect.

use super::app::load;
use super::setting::option_value;
use super::{App, Signs, Verdict};
use crate::autoscale::ScaleBounds;
use crate::outgoing::HostLoad;

/// A waiting pool gets this many times its threads, within these limits.
const POOL_GROWTH: f64 = 4.0;
const POOL_WAITING: (f64, f64) = (16.0, 64.0);
/// The default pool size of a process.
const POOL_DEFAULT: f64 = 4.0;
/// Enough for most young objects to die in it; V8's default is 16.
const SEMI_SPACE_MB: u16 = 64;
pub(super) const SEMI_SPACE_OPTION: &str = "--max-semi-space-size";
/// Above this share all cores count as used.
const CORES_FULL: f64 = 0.8;
/// A smaller gain does not justify a change.
const GAIN_MIN: f64 = 0.03;

/// A change to the app's settings that may help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remedy {
    /// This number of workers.
    Workers(u16),
    /// `UV_THREADPOOL_SIZE`.
    PoolSize(u16),
    /// `--max-semi-space-size`, in MB.
    SemiSpace(u16),
    /// `--max-old-space-size`, in MB.
    HeapLimit(u32),
    /// The balance mode `least`.
    BalanceLeast,
}

/// A change of the bounds of an app whose number of workers follows its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundsChange {
    /// More workers are wanted than the bounds allow.
    Widen(ScaleBounds),
    /// Fewer workers are wanted than run.
    Limit(ScaleBounds),
}

/// The expected factor of requests per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Gain {
    pub low: f64,
    pub high: f64,
}

fn sum(means: &[Signs], value: impl Fn(&Signs) -> Option<f64>) -> f64 {
    means.iter().filter_map(value).sum()
}

fn max(means: &[Signs], value: impl Fn(&Signs) -> Option<f64>) -> f64 {
    means.iter().filter_map(value).fold(0.0, f64::max)
}

/// The number of workers to have by the verdict, if it is another one than now. The bounds of an app whose number follows its load may
/// not allow it.
fn wanted_workers(verdict: Verdict, app: &App, means: &[Signs]) -> Option<u16> {
    let workers = app.workers.len() as u16;
    let cores = app.cores.floor().clamp(1.0, f64::from(u16::MAX)) as u16;
    let more = (cores > workers).then_some(cores);
    let wanted = match verdict {
        Verdict::CpuShortCallbacks | Verdict::CpuLongCallbacks | Verdict::SynchronousCall => more,
        // A larger pool is the smaller change.
        Verdict::PoolCpu if cores_are_full(app, means) || app.cores > pool_threads(means) => None,
        Verdict::PoolCpu => more,
        Verdict::CpuQuota | Verdict::CpuContention => (cores < workers).then_some(cores),
        Verdict::ConnectionLimit => {
            let fitting = app.refusing.as_ref().and_then(HostLoad::workers_max);
            fitting.filter(|fitting| *fitting < workers)
        }
        _ => None,
    };
    wanted.filter(|_| app.is_scalable)
}

/// The wanted number of workers, or what is nearest to it within the bounds. Fewer workers would soon be more again in an app whose
/// number follows its load: only its bounds limit them.
fn workers(verdict: Verdict, app: &App, means: &[Signs]) -> Option<Remedy> {
    let (wanted, now) = (wanted_workers(verdict, app, means)?, app.workers.len() as u16);
    let Some(bounds) = app.bounds else { return Some(Remedy::Workers(wanted)) };
    let allowed = bounds.nearest(wanted);
    (wanted > now && allowed > now).then_some(Remedy::Workers(allowed))
}

/// Other bounds that allow the wanted number of workers, or no more than it.
pub(super) fn bounds_change(verdict: Verdict, app: &App, means: &[Signs]) -> Option<BoundsChange> {
    let (bounds, wanted) = (app.bounds?, wanted_workers(verdict, app, means)?);
    let is_less = wanted < app.workers.len() as u16;
    let min = bounds.min.min(wanted);
    if is_less {
        let limited = ScaleBounds { min, max: wanted };
        return (limited != bounds).then_some(BoundsChange::Limit(limited));
    }
    (wanted > bounds.max).then_some(BoundsChange::Widen(ScaleBounds { min, max: wanted }))
}

fn pool_threads(means: &[Signs]) -> f64 {
    max(means, |signs| signs.pool_threads)
}

/// Jobs of the pool that compute keep all cores busy: more threads gain nothing.
fn cores_are_full(app: &App, means: &[Signs]) -> bool {
    sum(means, |signs| signs.pool_cpu) > CORES_FULL * app.cores
}

/// The change to make; `None` if only the app's code or its environment can be changed.
pub(super) fn remedy(verdict: Verdict, app: &App, means: &[Signs]) -> Option<Remedy> {
    let threads = pool_threads(means);
    match verdict {
        Verdict::CpuShortCallbacks
        | Verdict::CpuLongCallbacks
        | Verdict::SynchronousCall
        | Verdict::CpuQuota
        | Verdict::CpuContention
        | Verdict::ConnectionLimit => workers(verdict, app, means),
        Verdict::MemoryLimit => {
            let is_heap = max(means, Signs::heap_full) > super::rules::MEMORY_FULL;
            let limit = max(means, |signs| signs.heap_limit_bytes) / (1024.0 * 1024.0);
            is_heap.then_some(Remedy::HeapLimit((2.0 * limit).round() as u32))
        }
        Verdict::GarbageCollection => {
            let (minor, all) = (sum(means, |signs| signs.gc_minor), sum(means, |signs| signs.gc));
            let has_room = option_value(&app.node_args, SEMI_SPACE_OPTION)
                .is_some_and(|megabytes| megabytes >= f64::from(SEMI_SPACE_MB));
            (minor > all / 2.0 && !has_room).then_some(Remedy::SemiSpace(SEMI_SPACE_MB))
        }
        Verdict::PoolCpu if cores_are_full(app, means) => None,
        Verdict::PoolCpu if app.cores > threads => {
            Some(Remedy::PoolSize(app.cores.floor().clamp(1.0, f64::from(u16::MAX)) as u16))
        }
        Verdict::PoolCpu => workers(verdict, app, means),
        Verdict::PoolWaiting => {
            let wanted = (POOL_GROWTH * threads.max(POOL_DEFAULT)).clamp(POOL_WAITING.0, POOL_WAITING.1);
            (wanted > threads).then_some(Remedy::PoolSize(wanted as u16))
        }
        Verdict::Imbalance => app.is_scalable.then_some(Remedy::BalanceLeast),
        Verdict::Idle | Verdict::Upstream | Verdict::OtherWaiting | Verdict::Unclear(_) => None,
    }
}

/// The factor by which the app can use more of its cores.
fn unused(app: &App, means: &[Signs]) -> f64 {
    let used = sum(means, |signs| signs.cpu_cores.or(signs.main_cpu)).max(0.1);
    (app.cores / used).max(1.0)
}

/// The expected gain of the change, or the maximum gain of a change of the code; `None` if unknown.
pub(super) fn gain(verdict: Verdict, remedy: Option<Remedy>, app: &App, means: &[Signs]) -> Option<Gain> {
    let workers = means.len().max(1) as f64;
    let up_to = |high: f64| Gain { low: 1.0, high };
    // If a share of the time is saved, the rest increases proportionally.
    let without = |share: f64| 1.0 / (1.0 - share.clamp(0.0, 0.9));
    let mean_of = |value: fn(&Signs) -> Option<f64>| sum(means, value) / workers;
    let gain = match (verdict, remedy) {
        (Verdict::CpuShortCallbacks | Verdict::CpuLongCallbacks, Some(Remedy::Workers(wanted))) => {
            let high = (f64::from(wanted) / workers).min(unused(app, means));
            Gain { low: 1.0 + 0.6 * (high - 1.0), high }
        }
        // A waiting worker does not need a core meanwhile.
        (Verdict::SynchronousCall, Some(Remedy::Workers(wanted))) => {
            let high = f64::from(wanted) / workers;
            Gain { low: 1.0 + 0.5 * (high - 1.0), high }
        }
        (Verdict::SynchronousCall, _) => up_to(without(mean_of(Signs::blocked))),
        (Verdict::CpuQuota, _) => up_to(without(mean_of(|signs| signs.throttled))),
        (Verdict::CpuContention, _) => {
            up_to(without(mean_of(|signs| signs.cpu_wait)).min(unused(app, means)))
        }
        (Verdict::GarbageCollection | Verdict::MemoryLimit, _) => up_to(without(mean_of(|signs| signs.gc))),
        (Verdict::PoolCpu, Some(_)) => {
            let used = sum(means, |signs| signs.pool_cpu).max(0.1);
            let high = (app.cores / used).max(1.0);
            Gain { low: 1.0 + 0.6 * (high - 1.0), high }
        }
        (Verdict::PoolWaiting, Some(Remedy::PoolSize(wanted))) => {
            let high = f64::from(wanted) / max(means, |signs| signs.pool_threads).max(1.0);
            Gain { low: 1.0 + 0.4 * (high - 1.0), high }
        }
        (Verdict::Imbalance, _) => {
            let (most, all) =
                (means.iter().map(load).fold(0.0, f64::max), means.iter().map(load).sum::<f64>());
            up_to((workers * most / all.max(0.1)).max(1.0))
        }
        _ => return None,
    };
    (gain.high - 1.0 >= GAIN_MIN).then_some(gain)
}
