//! The possible verdicts.

/// The bottleneck of an app or a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The load is too low to show a limit.
    Idle,
    /// A CPU quota throttles the control group.
    CpuQuota,
    /// More threads want to run than there are cores.
    CpuContention,
    /// The heap or the control group's memory is nearly full.
    MemoryLimit,
    /// Garbage collection takes much of the time.
    GarbageCollection,
    /// The event loop is blocked in waiting calls.
    SynchronousCall,
    /// JavaScript needs a whole core, in many small pieces.
    CpuShortCallbacks,
    /// JavaScript needs a whole core, in pieces that delay all other requests.
    CpuLongCallbacks,
    /// The thread pool computes.
    PoolCpu,
    /// The thread pool waits.
    PoolWaiting,
    /// Requests wait for HTTP services that the app calls.
    Upstream,
    /// Requests wait for something that is not measured: a database, a timer, a lock, a queue of the app.
    OtherWaiting,
    /// One worker is busy while others are idle.
    Imbalance,
    /// A server, such as a database, refuses connections because it has too many.
    ConnectionLimit,
    /// No verdict.
    Unclear(Unclear),
}

/// Why there is no verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unclear {
    /// Fewer than [`super::SECONDS_MIN`] seconds were measured.
    TooShort,
    /// The agent reports nothing, and the measurements from outside are not sufficient.
    NoAgent,
    /// No rule matches: the app is busy, but not at a limit.
    NothingStandsOut,
    /// Different rules matched in different seconds, or for different workers.
    Mixed,
}

/// The confidence of a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Certainty {
    Inconclusive,
    Likely,
    Certain,
}

impl Verdict {
    /// Its name in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::CpuQuota => "cpu-quota",
            Self::CpuContention => "cpu-contention",
            Self::MemoryLimit => "memory-limit",
            Self::GarbageCollection => "garbage-collection",
            Self::SynchronousCall => "synchronous-call",
            Self::CpuShortCallbacks => "cpu-short-callbacks",
            Self::CpuLongCallbacks => "cpu-long-callbacks",
            Self::PoolCpu => "pool-cpu",
            Self::PoolWaiting => "pool-waiting",
            Self::Upstream => "upstream",
            Self::OtherWaiting => "other-waiting",
            Self::Imbalance => "imbalance",
            Self::ConnectionLimit => "connection-limit",
            Self::Unclear(_) => "unclear",
        }
    }

    /// All verdicts with a cause, in the order of the rules.
    pub const CAUSES: [Self; 14] = [
        Self::ConnectionLimit,
        Self::MemoryLimit,
        Self::Idle,
        Self::CpuQuota,
        Self::CpuContention,
        Self::GarbageCollection,
        Self::SynchronousCall,
        Self::CpuShortCallbacks,
        Self::CpuLongCallbacks,
        Self::PoolCpu,
        Self::PoolWaiting,
        Self::Upstream,
        Self::OtherWaiting,
        Self::Imbalance,
    ];
}

impl Certainty {
    /// Its name in JSON and in output.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Inconclusive => "inconclusive",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}
