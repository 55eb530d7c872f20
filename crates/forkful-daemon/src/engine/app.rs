//! What the engine keeps of an app: its spec, its places (slots with their processes), its primary.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forkful_api::types::AppDefinition;
use forkful_cluster::{Primary, WorkerId};
use forkful_core::Time;
use forkful_core::rollout::{ReloadQueue, Rollout};
use forkful_core::slot::{Exit, Generation, Policy, Slot, State};
use forkful_core::spec::AppSpec;
use forkful_os::process::Child;
use tokio::sync::oneshot;

use super::jobs::JobId;

/// Names an app within the engine; never used again, so that late events find nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AppId(pub(crate) u32);

/// An app that exists.
pub(crate) struct App {
    pub(crate) spec: Rc<AppSpec>,
    pub(crate) policy: Policy,
    pub(crate) primary: Primary,
    pub(crate) places: BTreeMap<u16, Place>,
    pub(crate) created_at_ms: u64,
    /// How many workers were ever started; the last one's `cluster.worker.id`.
    pub(crate) workers_started: u32,
    pub(crate) reload: Option<Reload>,
    pub(crate) reloads: ReloadQueue<ReloadOrder>,
    /// Things to do later, in order of time.
    pub(crate) later: BTreeMap<(Time, u64), Later>,
}

/// A reload that waits for its turn.
#[derive(Debug)]
pub(crate) struct ReloadOrder {
    pub(crate) job: JobId,
    /// What the app becomes; `None` keeps its spec.
    pub(crate) spec: Option<Rc<AppSpec>>,
    /// Only this slot.
    pub(crate) only: Option<u16>,
}

/// A reload under way.
#[derive(Debug)]
pub(crate) struct Reload {
    pub(crate) plan: Rollout,
    pub(crate) job: JobId,
    /// What the app was before, for when the new version fails.
    pub(crate) previous: Option<Rc<AppSpec>>,
    /// Why the last replacement's listen was refused.
    pub(crate) listen_fault: Option<ListenFault>,
}

/// A slot and the processes that live in it.
pub(crate) struct Place {
    pub(crate) pm_id: u32,
    pub(crate) slot: Slot,
    pub(crate) processes: BTreeMap<Generation, Process>,
    pub(crate) deadline: Option<Time>,
    pub(crate) last_exit: Option<Exit>,
    /// Why the last listen was refused.
    pub(crate) listen_fault: Option<ListenFault>,
    /// The last lines of stderr of the process that ended last, from the log service.
    pub(crate) exit_tail: Option<oneshot::Receiver<Vec<String>>>,
    pub(crate) started_at_ms: Option<u64>,
    pub(crate) cpu: CpuSample,
    pub(crate) out_file: PathBuf,
    pub(crate) error_file: PathBuf,
    /// Commands that wait for the slot to go away, which it does when its worker has drained.
    pub(crate) shrinking: Vec<JobId>,
}

/// A refused listen, in words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListenFault {
    pub(crate) error: String,
    pub(crate) hint: Option<String>,
}

/// A process of a worker, from its spawn until it and its tree are gone.
pub(crate) struct Process {
    pub(crate) child: Child,
    pub(crate) worker: WorkerId,
    /// The value of `FORKFUL_WORKER`, which its descendants inherit.
    pub(crate) marker: String,
    pub(crate) spawned: Time,
    /// It has ended; its tree is being cleared away.
    pub(crate) ended: Option<Ended>,
}

/// An ended process whose tree is not gone yet.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    /// When to stop waiting for what cannot be killed.
    pub(crate) give_up: Time,
}

/// Two looks at a process's CPU time.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CpuSample {
    pub(crate) pid: u32,
    pub(crate) at: Time,
    pub(crate) used: Duration,
    pub(crate) percent: f32,
}

/// Something to do later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// A worker has disconnected; if it still runs, it is sent its signal.
    Disconnected(u16, Generation),
    /// Look whether a starting worker listens on a socket of its own.
    LookForSocket {
        /// Where.
        slot: u16,
        /// Which process.
        generation: Generation,
        /// Looks so far; the pauses grow.
        looks: u32,
    },
    /// Look again whether a tree is gone.
    ClearTree(u16, Generation),
    /// A slot that shrinks has had its time to drain.
    Shrink(u16),
    /// A worker that left the cluster by itself has had its time.
    EndLeft(u16, Generation, EndStep),
}

/// How far a worker that left by itself has been pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndStep {
    /// Next: the stop signal.
    Signal,
    /// Next: SIGKILL.
    Kill,
}

impl App {
    /// Finds a process by its worker id.
    pub(crate) fn find_worker(&self, worker: WorkerId) -> Option<(u16, Generation)> {
        self.places.iter().find_map(|(number, place)| {
            let found = place.processes.iter().find(|(_, process)| process.worker == worker);
            found.map(|(generation, _)| (*number, *generation))
        })
    }

    pub(crate) fn process(&self, slot: u16, generation: Generation) -> Option<&Process> {
        self.places.get(&slot).and_then(|place| place.processes.get(&generation))
    }

    pub(crate) fn worker(&self, slot: u16, generation: Generation) -> Option<WorkerId> {
        self.process(slot, generation).map(|process| process.worker)
    }

    /// Whether a slot exists and is to stay.
    pub(crate) fn stays(&self, slot: u16) -> bool {
        self.places.get(&slot).is_some_and(|place| place.shrinking.is_empty())
    }

    /// Nothing that was planned for a slot concerns the next one of its number.
    pub(crate) fn forget_later(&mut self, slot: u16) {
        self.later.retain(|_, later| later.slot() != slot);
    }

    /// When something of this app is due.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let later = self.later.keys().next().map(|(at, _)| *at);
        let slots = self.places.values().filter_map(|place| place.deadline).min();
        [later, slots, self.primary.next_wake()].into_iter().flatten().min()
    }

    /// Whether no process is there and none is planned.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.places.values().all(|place| place.slot.is_at_rest() && place.processes.is_empty())
    }
}

impl Later {
    fn slot(self) -> u16 {
        match self {
            Self::Disconnected(slot, _)
            | Self::LookForSocket { slot, .. }
            | Self::ClearTree(slot, _)
            | Self::Shrink(slot)
            | Self::EndLeft(slot, _, _) => slot,
        }
    }
}

impl Place {
    /// Whether this process is the slot's own, and not on its way out.
    pub(crate) fn serves_by(&self, generation: Generation) -> bool {
        match &self.slot.state {
            State::Starting { generation: current, .. } => *current == generation,
            State::Online(running) | State::Replacing { old: running, .. } => {
                running.generation == generation
            }
            State::Stopped { .. } | State::Stopping { .. } | State::Backoff { .. } | State::Failed { .. } => {
                false
            }
        }
    }

    pub(crate) fn current(&self) -> Option<&Process> {
        self.slot.current().and_then(|generation| self.processes.get(&generation))
    }
}

/// An app's files for stdout and stderr, as PM2 names them: `-<id>` unless one file serves all.
pub(crate) fn log_files(spec: &AppSpec, folder: &std::path::Path, pm_id: u32) -> (PathBuf, PathBuf) {
    let name: String = spec
        .name
        .as_str()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' })
        .collect();
    let single = spec.logs.merge;
    let file = |given: &Option<PathBuf>, kind: &str| match given {
        Some(path) if single || path == std::path::Path::new("/dev/null") => path.clone(),
        Some(path) => with_id(path, pm_id),
        None if single => folder.join(format!("{name}-{kind}.log")),
        None => folder.join(format!("{name}-{kind}-{pm_id}.log")),
    };
    (file(&spec.logs.out_file, "out"), file(&spec.logs.error_file, "error"))
}

fn with_id(path: &std::path::Path, pm_id: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{pm_id}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{pm_id}"),
    };
    path.with_file_name(name)
}

/// Shown in replies: everything but the environment's values.
pub(crate) fn public_definition(spec: &AppSpec) -> (AppDefinition, Vec<String>) {
    let mut definition = AppDefinition::from(spec);
    let names = definition.env.keys().cloned().collect();
    definition.env.clear();
    (definition, names)
}
