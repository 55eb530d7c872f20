//! What autoscaling goes by: what the daemon has measured of an app's workers, and what is left of CPU and memory.

use crate::metrics::Sample;
use crate::slot::Generation;

/// Of the periods of a CPU quota, more than this share in which processes were stopped counts as throttling.
const THROTTLED_PERMILLE: u32 = 10;

/// What was seen of an app at one moment. Shares are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signals {
    /// Each worker that serves and was measured.
    pub workers: Vec<WorkerSignals>,
    /// Connections that wait until a worker has room.
    pub waiting: u32,
    /// The CPU that the app may use, with what all use that share it: of each limit that there is.
    pub cpu: Vec<Cpu>,
    /// The memory that another worker could have.
    pub memory: Option<MemoryRoom>,
}

/// One worker during the last second or so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WorkerSignals {
    pub slot: u16,
    pub generation: Generation,
    /// How long its event loop was busy, when its agent says so.
    pub loop_permille: Option<u32>,
    /// The CPU that its process used, in thousandths of a core.
    pub cpu_millicores: u32,
    /// How long its main thread was ready to run and had no core.
    pub wait_permille: u32,
    /// Periods of a CPU quota in which the kernel stopped it.
    pub throttled_permille: u32,
    /// Connections that nobody has accepted yet.
    pub queued: u32,
    pub memory_bytes: u64,
}

/// A limit of CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cpu {
    pub used_millicores: u32,
    pub of_millicores: u32,
}

/// Memory that nobody uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryRoom {
    pub bytes: u64,
    pub of: MemoryOf,
}

/// Whose memory it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryOf {
    /// `memory_max` of the app.
    AppLimit,
    /// The limit of the control group of all apps.
    Group,
    Machine,
}

impl WorkerSignals {
    /// Of what was measured of its process; `None` as long as too little is known.
    pub fn of(slot: u16, generation: Generation, sample: &Sample) -> Option<Self> {
        let permille = |name: &str| sample.get(name).map(|share| (share * 1000.0) as u32);
        Some(Self {
            slot,
            generation,
            loop_permille: permille("event_loop_utilization"),
            cpu_millicores: permille("cpu_cores")?,
            wait_permille: permille("run_queue_wait").unwrap_or(0),
            throttled_permille: permille("cpu_throttled_periods").unwrap_or(0),
            queued: sample.get("accept_queue").unwrap_or(0.0) as u32,
            memory_bytes: sample.get("memory_bytes")? as u64,
        })
    }

    /// How busy it was: its event loop, or without an agent its process.
    fn busy_permille(&self) -> u32 {
        self.loop_permille.unwrap_or(self.cpu_millicores).min(1000)
    }
}

impl Signals {
    /// The work of all workers, in thousandths of a worker that is busy all the time.
    pub(super) fn work(&self) -> u32 {
        self.workers.iter().map(WorkerSignals::busy_permille).sum()
    }

    /// Connections that wait.
    pub(super) fn queued(&self) -> u32 {
        self.workers.iter().fold(self.waiting, |sum, worker| sum.saturating_add(worker.queued))
    }

    /// Whether a CPU quota kept a worker from running.
    pub(super) fn is_throttled(&self) -> bool {
        self.workers.iter().any(|worker| worker.throttled_permille > THROTTLED_PERMILLE)
    }

    /// A mean over all workers.
    pub(super) fn mean(&self, of: impl Fn(&WorkerSignals) -> u32) -> u32 {
        let sum: u64 = self.workers.iter().map(|worker| u64::from(of(worker))).sum();
        (sum / self.workers.len().max(1) as u64) as u32
    }

    /// The memory of the worker in the middle.
    pub(super) fn median_memory(&self) -> u64 {
        let mut all: Vec<u64> = self.workers.iter().map(|worker| worker.memory_bytes).collect();
        all.sort_unstable();
        all.get(all.len() / 2).copied().unwrap_or_default()
    }

    /// `their event loops were 97 % busy`, with the connections that wait.
    pub(super) fn busy_words(&self) -> String {
        let has_agents = self.workers.iter().all(|worker| worker.loop_permille.is_some());
        let (one, percent) = (self.workers.len() == 1, self.mean(WorkerSignals::busy_permille) / 10);
        let busy = match (has_agents, one) {
            (true, true) => format!("the event loop was {percent} % busy"),
            (true, false) => format!("event loops were {percent} % busy"),
            (false, true) => format!("the worker was {percent} % busy"),
            (false, false) => format!("workers were {percent} % busy"),
        };
        match self.queued() {
            0 => busy,
            queued => {
                format!("{busy} and {} waited", crate::words::count(queued as usize, "connection"))
            }
        }
    }
}
