//! What a supervisor wants to be done and told.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{JobId, ListenFault, SlotRecord};
use crate::autoscale::scaled_words;
use crate::slot::{Fault, Generation, Outcome, Report, Verb};
use crate::spec::{AppSpec, Runtime};
use crate::words;

/// What a driver is to do, in order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Effect {
    /// Start a process of a slot under this generation.
    Spawn(u16, Generation),
    /// Send the first signal of the stop policy.
    Signal(u16, Generation),
    /// Send SIGKILL to the process tree.
    Kill(u16, Generation),
    /// The process may get new connections.
    OpenTraffic(u16, Generation),
    /// The process gets no new connections; others empty its queue.
    CloseTraffic(u16, Generation),
    /// Disconnect the worker, so that it ends when its last request is done.
    Drain {
        slot: u16,
        generation: Generation,
        /// The command that is told what is lost by it.
        job: Option<JobId>,
    },
    /// The app has another definition: its listeners, logs and watches follow.
    Defined,
    SlotAdded(u16),
    /// With what it was at last: effects of the same step that come before this one are about it.
    SlotRemoved(u16, Box<SlotRecord>),
    /// The last slot is gone, and the app with it.
    Removed,
    /// Something has changed that is saved.
    Changed,
    /// Tell what happened in a slot; nobody has to be interested.
    Report(u16, Report),
    /// A slot has answered a command.
    Answered(Answer),
    /// A command waits for one answer more of this app.
    Owed(JobId),
    /// A command has got one of its answers.
    Settled(JobId),
    Note(JobId, Note),
    /// The program of this slot has done its work under an earlier daemon, and is not started.
    FinishedBefore(JobId, u16),
    /// It did not come to what was asked of this slot; comes with [`Effect::Settled`].
    Failed(JobId, Option<u16>, Fault),
    /// A reload is over. The reload of a command comes with [`Effect::Settled`]; a reload that began by itself has no job.
    Reloaded(#[serde(with = "job_or_zero")] Option<JobId>, ReloadResult),
    /// Look at the sockets of a process and send [`Event::Sockets`](super::Event::Sockets), unless it has ended.
    LookAtSockets(u16, Generation),
    /// Send a worker that has no traffic yet a request, and send [`Event::Warmed`](super::Event::Warmed).
    WarmUp {
        slot: u16,
        generation: Generation,
        path: String,
    },
    /// Look at the memory of the workers and send [`Event::Observed`](super::Event::Observed). If the app's memory
    /// limit is used up, ask them whether their event loops turn, and send [`Event::Stalled`](super::Event::Stalled) for
    /// each that owes an answer.
    Observe,
    /// Ask a worker whether it is well, and send [`Event::Health`](super::Event::Health).
    AskHealth(u16, Generation),
    /// The time of a worker that owes an answer is over: see for how long it has owed one, and send
    /// [`Event::Silent`](super::Event::Silent), unless it has ended.
    LookWhetherStuck(u16, Generation),
    /// A line for the log, about one slot or the app.
    Notice(Option<u16>, Notice),
}

impl Effect {
    /// Whether it only looks at something, see [`AppSupervisor::only_looks`](super::AppSupervisor::only_looks).
    pub fn is_look(&self) -> bool {
        matches!(self, Self::LookAtSockets(..))
    }
}

/// Writes "no job" as the number 0, which no job has: earlier versions read a number there.
mod job_or_zero {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};

    use super::JobId;

    #[expect(clippy::ref_option, reason = "serde gives the field by reference")]
    pub(super) fn serialize<S: Serializer>(job: &Option<JobId>, serializer: S) -> Result<S::Ok, S::Error> {
        job.unwrap_or(JobId(0)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<JobId>, D::Error> {
        JobId::deserialize(deserializer).map(|job| Some(job).filter(|job| job.0 != 0))
    }
}

/// Something that is written to the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Notice {
    /// Workers are replaced; the text says why.
    Renewed(String),
    HealthCheckFailed {
        /// How many in a row.
        failures: u32,
        /// How many may fail before the worker is replaced.
        most: u32,
        fault: String,
    },
    /// A worker is killed because its loop does not turn; the text says what it was doing.
    KilledWhileStuck(String),
    /// The client of a reload that waited has gone.
    ReloadDropped,
    /// A worker has got traffic before all requests were answered that were to warm it up; the text says why.
    NotWarm(String),
    /// The number of workers follows the load; the text says why.
    Scaled { from: u16, to: u16, why: String },
    /// There would be more workers; the text says what speaks against it.
    NotScaled { workers: u16, why: String },
}

impl fmt::Display for Notice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Renewed(why) => write!(f, "renewed: {why}"),
            Self::HealthCheckFailed { failures, most, fault } => {
                write!(f, "health check {failures} of {most} failed: {fault}")
            }
            Self::KilledWhileStuck(report) => write!(f, "killed: {report}"),
            Self::ReloadDropped => f.write_str("a reload that waited was dropped: its client has gone"),
            Self::NotWarm(fault) => write!(f, "serves, and is not warmed up: {fault} (`warmup`)"),
            Self::Scaled { from, to, why } => f.write_str(&scaled_words(*from, *to, why)),
            Self::NotScaled { workers, why } => {
                write!(f, "not scaled up from {}: {why}", words::count(usize::from(*workers), "worker"))
            }
        }
    }
}

/// The answer of a slot to a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    pub slot: u16,
    pub asked: Asked,
    pub outcome: Outcome,
    /// Why the worker's last listen was refused.
    pub listen_fault: Option<ListenFault>,
}

/// On whose behalf a slot was given a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Asked {
    Job(JobId, Verb),
    /// The plan of a reload.
    Reload,
    /// No command: autoscaling, or the start of a worker that ran nothing when all were to be replaced.
    Load(Verb),
}

/// How a reload ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadResult {
    /// Whether new workers started beside the old ones.
    pub rolling: bool,
    /// Slots with a new process, in the order in which they got it.
    pub replaced: Vec<u16>,
    /// How many slots the app has.
    pub total: usize,
    pub failure: Option<ReloadFailure>,
}

/// What ended a reload early.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadFailure {
    pub slot: u16,
    pub fault: Fault,
    pub listen_fault: Option<ListenFault>,
    /// Whether the process that served before still does.
    pub old_serves: bool,
}

/// Something that the client of a command is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Note {
    WaitedForReload,
    /// Workers whose ports are not the primary's are stopped first.
    NotRolling,
    Scaled {
        from: u16,
        to: u16,
    },
    /// A worker serves that is not warmed up; the text says why.
    NotWarm(String),
}

impl Note {
    /// The note for an app with this definition, with what to do about it.
    pub fn told(&self, spec: &AppSpec) -> String {
        match self {
            Self::NotRolling => format!("{self}; {}", Alternative::of(spec)),
            Self::WaitedForReload | Self::Scaled { .. } | Self::NotWarm(_) => self.to_string(),
        }
    }
}

/// What lets an app that serves reload without a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alternative {
    /// For Node.js without the agent.
    Agent,
    /// For other apps of Node.js.
    MainThread,
    /// For programs of other runtimes.
    ReusePort,
}

impl Alternative {
    /// For an app with this definition.
    fn of(spec: &AppSpec) -> Self {
        match spec.launch.runtime {
            Runtime::Node if !spec.agent => Self::Agent,
            Runtime::Node => Self::MainThread,
            Runtime::Other => Self::ReusePort,
        }
    }
}

impl fmt::Display for Alternative {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Agent => "a server is replaced without a gap with the agent (without `--no-agent`), or with `-i 1`",
            Self::MainThread => {
                "a server is replaced without a gap when it listens in the main thread, on a port or a named socket, or with `-i 1`"
            }
            Self::ReusePort => {
                "servers are replaced without a gap where two or more share the port (`-i 2`, with SO_REUSEPORT; in Bun `reusePort: true`)"
            }
        })
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WaitedForReload => f.write_str("waited for the reload that was under way"),
            Self::NotRolling => f.write_str(
                "each worker was stopped, then started, because it did not listen through the daemon: it opens its \
                     port itself, does not listen yet, or is no server",
            ),
            Self::Scaled { from, to } => {
                let workers = if *to == 1 { "worker" } else { "workers" };
                write!(f, "scaled from {from} to {to} {workers}")
            }
            Self::NotWarm(fault) => write!(f, "a worker serves that is not warmed up: {fault} (`warmup`)"),
        }
    }
}
