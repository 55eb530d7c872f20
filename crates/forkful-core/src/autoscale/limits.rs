//! What speaks against another worker, although the workers are busy.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{MemoryOf, ScaleBounds, Signals, WorkerSignals};
use crate::Time;

/// Workers that wait longer than this for a core lack CPU: another worker would wait, too.
const WAIT_PERMILLE: u32 = 150;
/// A worker needs at least this much CPU.
const WORKER_MILLICORES_MIN: u32 = 50;
/// For so long after it stopped processes a quota is taken for used up.
const THROTTLED_FOR: Duration = Duration::from_secs(10);

/// Why there are not more workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Limit {
    /// The app has as many as it may have.
    Max,
    /// A CPU quota keeps the workers from running.
    Throttled,
    /// Other workers would wait for the same cores.
    Cpu,
    /// Another worker would not fit.
    Memory,
}

/// How many workers more there may be at once; what speaks against any, in words.
pub(super) fn room(
    bounds: ScaleBounds,
    signals: &Signals,
    throttled: Option<Time>,
    now: Time,
) -> Result<u16, (Limit, String)> {
    let by_bounds = bounds.max.saturating_sub(signals.workers.len() as u16);
    if by_bounds == 0 {
        return Err((Limit::Max, format!("there are already {} workers (`instances.max`)", bounds.max)));
    }
    if throttled.is_some_and(|at| now.since(at) < THROTTLED_FOR) {
        return Err((
            Limit::Throttled,
            "a CPU quota keeps the workers from running: more workers would get no more of it".to_owned(),
        ));
    }
    let by_cpu = cpu_room(signals)?;
    let by_memory = memory_room(signals)?;
    Ok(by_bounds.min(by_cpu).min(by_memory))
}

fn cpu_room(signals: &Signals) -> Result<u16, (Limit, String)> {
    let waits = signals.mean(|worker| worker.wait_permille);
    if waits > WAIT_PERMILLE {
        let what = format!("all cores are in use: workers waited {} % of the time for one", waits / 10);
        return Err((Limit::Cpu, what));
    }
    let each = signals.mean(|worker: &WorkerSignals| worker.cpu_millicores).max(WORKER_MILLICORES_MIN);
    let mut room = u16::MAX;
    for cpu in &signals.cpu {
        let free = cpu.of_millicores.saturating_sub(cpu.used_millicores);
        // Half of what a worker uses is worth another one.
        let more = (free + each / 2) / each;
        if more == 0 {
            let cores = |millicores: u32| f64::from(millicores) / 1000.0;
            let (used, of) = (cores(cpu.used_millicores), cores(cpu.of_millicores));
            return Err((Limit::Cpu, format!("{used:.1} of {of:.1} cores are in use")));
        }
        room = room.min(more.try_into().unwrap_or(u16::MAX));
    }
    Ok(room)
}

fn memory_room(signals: &Signals) -> Result<u16, (Limit, String)> {
    let Some(room) = signals.memory else { return Ok(u16::MAX) };
    let each = signals.median_memory().max(1);
    match room.bytes / each {
        0 => {
            let whose = match room.of {
                MemoryOf::AppLimit => "of the app's `memory_max`",
                MemoryOf::Group => "of the control group's memory",
                MemoryOf::Machine => "of the machine's memory",
            };
            let mib = |bytes: u64| bytes >> 20;
            let (free, each) = (mib(room.bytes), mib(each));
            let what = format!("{free} MiB {whose} are free and a worker has {each} MiB");
            Err((Limit::Memory, what))
        }
        more => Ok(more.try_into().unwrap_or(u16::MAX)),
    }
}
