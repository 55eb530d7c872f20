//! What the engine keeps of a process of a worker, and which workers an app has.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forkful_api::conversation::WorkerReports;
use forkful_cluster::WorkerId;
use forkful_cluster::protocol::incoming::NodeVersion;
use forkful_core::Time;
use forkful_core::primary_habits::Lack;
use forkful_core::slot::Exit;
use forkful_os::cgroup::WorkerGroup;
use forkful_os::keeper::Hold;
use forkful_os::process::Child;

use super::metrics::ProcessMetrics;

/// The processes of an app by the ids of their workers.
pub(crate) type Workers = forkful_core::workers::Workers<WorkerId>;

/// Our end of a worker's stdin; outlives the process while somebody writes.
pub(crate) type Stdin = Rc<tokio::sync::Mutex<std::os::fd::OwnedFd>>;

/// A process of a worker, from its spawn until it and its tree are gone.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) worker: WorkerId,
    /// What its descendants are known by.
    pub(crate) mark: forkful_os::tree::Mark,
    /// Where its stdin is written to, by one writer at a time; only in fork mode.
    pub(crate) stdin: Option<Stdin>,
    /// The file that holds its process id.
    pub(crate) pid_file: Option<PathBuf>,
    /// Its control group, with all that it started.
    pub(crate) group: Option<WorkerGroup>,
    pub(crate) spawned: Time,
    /// The same in wall-clock milliseconds.
    pub(crate) started_at_ms: u64,
    /// It has ended; its tree is being cleared away.
    pub(crate) ended: Option<Ended>,
    /// What is measured of it.
    pub(crate) metrics: ProcessMetrics,
    /// The version of its Node.js, when its agent has said so.
    pub(crate) node_version: Option<NodeVersion>,
    /// What its `@pm2/io` says of it.
    pub(crate) reports: WorkerReports,
    /// What it expects of a primary and does not get.
    pub(crate) lacks: BTreeSet<Lack>,
    /// It was found to owe an answer.
    pub(crate) doubt: Option<Doubt>,
    pub(crate) kept: Bonds,
}

/// What another daemon needs in order to take a process over.
#[derive(Default)]
pub(crate) struct Bonds {
    /// What the other end of its channel is known by.
    pub(crate) cookie: Option<u64>,
    /// What keeps its descriptors; dropped with them.
    pub(crate) _holds: Vec<Hold>,
}

/// A process that did not answer a ping in time, as it was when this was first noticed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Doubt {
    /// When the unanswered ping was sent.
    pub(crate) since: Time,
    pub(crate) asked: Time,
    /// CPU time that the process had used when this was noticed.
    pub(crate) used: Duration,
    /// Major page faults that it had had then.
    pub(crate) major_faults: u64,
}

impl Process {
    /// A process that has just been started.
    pub(crate) fn new(
        child: Child,
        worker: WorkerId,
        mark: forkful_os::tree::Mark,
        (spawned, started_at_ms): (Time, u64),
    ) -> Self {
        Self {
            child,
            worker,
            mark,
            stdin: None,
            pid_file: None,
            group: None,
            spawned,
            started_at_ms,
            ended: None,
            metrics: ProcessMetrics::default(),
            node_version: None,
            reports: WorkerReports::default(),
            lacks: BTreeSet::new(),
            doubt: None,
            kept: Bonds::default(),
        }
    }
}

/// An ended process whose tree is not gone yet.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    pub(crate) at: Time,
}
