//! What the engine keeps of an app: its spec, its places (slots with their processes), its primary.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use forkful_api::conversation::WorkerReports;
use forkful_api::types::{AppDefinition, LogStream};
use forkful_cluster::protocol::incoming::NodeVersion;
use forkful_cluster::{Primary, WorkerId};
use forkful_core::Time;
use forkful_core::primary_habits::Lack;
use forkful_core::slot::{Exit, Generation, State};
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{AppSupervisor, SlotRecord};
use forkful_os::cgroup::{AppGroup, WorkerGroup};
use forkful_os::process::Child;

use super::cpu_sample::CpuSample;
use super::exit_tail::ExitTail;
use super::upkeep::AppUpkeep;

pub(crate) use forkful_core::supervisor::{AppId, ListenFault};

/// An app that exists.
pub(crate) struct App {
    /// What it is, and every decision about its workers.
    pub(crate) supervisor: AppSupervisor,
    pub(crate) primary: Primary,
    pub(crate) places: BTreeMap<u16, Place>,
    pub(crate) created_at_ms: u64,
    /// How many workers were ever started; the last one's `cluster.worker.id`.
    pub(crate) workers_started: u32,
    /// What keeps it in good shape.
    pub(crate) upkeep: AppUpkeep,
    /// What only another version knows of it; saved again with it.
    pub(crate) unknown_keys: Vec<forkful_api::saved::UnknownKey>,
    /// Things to do later, in order of time.
    pub(crate) later: BTreeMap<(Time, u64), Later>,
    /// What was found at the starts so far; see [`SpecialFiles`].
    pub(crate) special_logs: SpecialFiles,
    /// Its control group, once a worker was started.
    pub(crate) group: Option<AppGroup>,
    /// The CPU time of all its processes.
    pub(crate) cpu: CpuSample,
    /// How many of its processes the kernel had killed for lack of memory at the last look.
    pub(crate) out_of_memory_kills: u64,
    /// What its workers expect of a primary and do not get, as far as the daemon's log has it.
    pub(crate) told_lacks: BTreeSet<Lack>,
}

/// What belongs to a slot outside its supervisor: its worker's id and files, and the processes that live in it.
pub(crate) struct Place {
    pub(crate) pm_id: u32,
    pub(crate) processes: BTreeMap<Generation, Process>,
    /// Why the last process ended, where its exit does not say it.
    pub(crate) exit_cause: Option<String>,
    /// When it was last looked up who has the port of a refused listen.
    pub(crate) owner_looked_at: Option<Time>,
    /// The last lines of stderr of the process that ended last, from the log service.
    pub(crate) exit_tail: ExitTail,
    pub(crate) started_at_ms: Option<u64>,
    pub(crate) cpu: CpuSample,
    /// The same of its process's control group.
    pub(crate) group_cpu: CpuSample,
    pub(crate) out_file: PathBuf,
    pub(crate) error_file: PathBuf,
    pub(crate) combined_file: Option<PathBuf>,
}

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
    /// It has ended; its tree is being cleared away.
    pub(crate) ended: Option<Ended>,
    /// When its agent last reported how late its loop was, and that in microseconds (99th percentile).
    pub(crate) loop_delay: Option<(Time, u64)>,
    /// The version of its Node.js, when its agent has said so.
    pub(crate) node_version: Option<NodeVersion>,
    /// What its `@pm2/io` says of it.
    pub(crate) reports: WorkerReports,
    /// What it expects of a primary and does not get.
    pub(crate) lacks: BTreeSet<Lack>,
}

/// An ended process whose tree is not gone yet.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) exit: Exit,
    /// When to stop waiting for what cannot be killed.
    pub(crate) give_up: Time,
}

/// Something to do later.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Later {
    /// Look again whether a tree is gone.
    ClearTree(u16, Generation),
    /// A worker whose loop did not turn has had its time.
    LookStuck {
        slot: u16,
        generation: Generation,
        /// Since when it is watched for this.
        asked: Time,
        /// The CPU time that it had used by then.
        used: Duration,
    },
}

impl AsRef<AppSupervisor> for App {
    fn as_ref(&self) -> &AppSupervisor {
        &self.supervisor
    }
}

impl App {
    /// What it is.
    pub(crate) fn spec(&self) -> &AppSpec {
        self.supervisor.spec()
    }

    /// The process of a slot that people see.
    pub(crate) fn current(&self, slot: u16) -> Option<&Process> {
        self.places.get(&slot)?.current(self.supervisor.slot(slot)?)
    }

    /// The processes that people see, one of each slot that has any.
    pub(crate) fn shown(&self) -> impl Iterator<Item = &Process> {
        self.slots().filter_map(|(_, record, place)| place.current(record))
    }

    /// Its slots, each with its place.
    pub(crate) fn slots(&self) -> impl Iterator<Item = (u16, &SlotRecord, &Place)> {
        self.places.iter().filter_map(|(slot, place)| Some((*slot, self.supervisor.slot(*slot)?, place)))
    }

    /// Says which log files each worker has, by the spec and by what is known of the paths in it.
    pub(crate) fn name_log_files(&mut self, folder: &std::path::Path) {
        for place in self.places.values_mut() {
            let files = log_files(self.supervisor.spec(), folder, place.pm_id, &self.special_logs);
            (place.out_file, place.error_file) = (files.out, files.error);
            place.combined_file = files.combined;
        }
    }

    /// Finds a process by its worker id.
    pub(crate) fn find_worker(&self, worker: WorkerId) -> Option<(u16, Generation)> {
        self.places.iter().find_map(|(number, place)| {
            let found = place.processes.iter().find(|(_, process)| process.worker == worker);
            found.map(|(generation, _)| (*number, *generation))
        })
    }

    /// A process by its worker id, to change what is known of it.
    pub(crate) fn process_of(&mut self, worker: WorkerId) -> Option<&mut Process> {
        let (slot, generation) = self.find_worker(worker)?;
        self.places.get_mut(&slot)?.processes.get_mut(&generation)
    }

    pub(crate) fn process(&self, slot: u16, generation: Generation) -> Option<&Process> {
        self.places.get(&slot).and_then(|place| place.processes.get(&generation))
    }

    pub(crate) fn worker(&self, slot: u16, generation: Generation) -> Option<WorkerId> {
        self.process(slot, generation).map(|process| process.worker)
    }

    /// Nothing that was planned for a slot concerns the next one of its number.
    pub(crate) fn forget_later(&mut self, slot: u16) {
        self.later.retain(|_, later| later.slot() != slot);
    }

    /// When something of this app is due.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        let later = self.later.keys().next().map(|(at, _)| *at);
        let supervisor = self.supervisor.next_wake();
        [later, supervisor, self.primary.next_wake(), self.next_upkeep()].into_iter().flatten().min()
    }

    /// Whether no process is there and none is planned.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.supervisor.is_at_rest() && self.places.values().all(|place| place.processes.is_empty())
    }
}

/// The slots of an app, each with its place, to be changed.
pub(crate) fn places_mut<'a>(
    supervisor: &'a AppSupervisor,
    places: &'a mut BTreeMap<u16, Place>,
) -> impl Iterator<Item = (u16, &'a SlotRecord, &'a mut Place)> {
    places.iter_mut().filter_map(|(slot, place)| Some((*slot, supervisor.slot(*slot)?, place)))
}

impl Later {
    fn slot(self) -> u16 {
        match self {
            Self::ClearTree(slot, _) | Self::LookStuck { slot, .. } => slot,
        }
    }
}

impl App {
    /// When its oldest process was started, in wall-clock milliseconds; `None` unless every worker serves.
    pub(crate) fn oldest_start_ms(&self) -> Option<u64> {
        let starts = self.slots().map(|(_, record, place)| match &record.slot.state {
            State::Online(_) => place.started_at_ms,
            State::Replacing { .. }
            | State::Stopped { .. }
            | State::Starting { .. }
            | State::Stopping { .. }
            | State::Backoff { .. }
            | State::Failed { .. } => None,
        });
        starts.collect::<Option<Vec<u64>>>()?.into_iter().min()
    }
}

impl Place {
    /// The files that a stream of its worker goes to.
    pub(crate) fn log_paths(&self, stream: LogStream) -> Vec<PathBuf> {
        let own = match stream {
            LogStream::Out => &self.out_file,
            LogStream::Err => &self.error_file,
        };
        std::iter::once(own).chain(&self.combined_file).cloned().collect()
    }

    pub(crate) fn all_log_paths(&self) -> impl Iterator<Item = PathBuf> {
        [&self.out_file, &self.error_file].into_iter().chain(&self.combined_file).cloned()
    }

    /// The process that people see: the slot's own, or the one that a scale-down lets finish.
    pub(crate) fn current(&self, record: &SlotRecord) -> Option<&Process> {
        let slot = &record.slot;
        let leaver = || slot.leaving.last().filter(|_| slot.is_going());
        let shown = slot.current().or_else(|| leaver().map(|leaver| leaver.generation));
        shown.and_then(|generation| self.processes.get(&generation))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogFiles {
    pub(crate) out: PathBuf,
    pub(crate) error: PathBuf,
    pub(crate) combined: Option<PathBuf>,
}

/// Log files that were given and are no plain files: devices, pipes and descriptors, which all workers share. What a path
/// is, is looked up off the loop, at each start (see [`LogPlaces`]); until then it counts as a plain file.
pub(crate) type SpecialFiles = BTreeSet<PathBuf>;

/// A worker's log files, as PM2 names them: `-<id>` unless one file serves all.
pub(crate) fn log_files(
    spec: &AppSpec,
    folder: &std::path::Path,
    pm_id: u32,
    special: &SpecialFiles,
) -> LogFiles {
    let name: String = spec
        .name
        .as_str()
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') { c } else { '-' })
        .collect();
    let null = std::path::Path::new("/dev/null");
    if spec.logs.disabled {
        return LogFiles { out: null.to_owned(), error: null.to_owned(), combined: None };
    }
    let single = spec.logs.merge;
    let file = |given: &Option<PathBuf>, kind: &str| match given {
        Some(path) if single || is_devices(path) || special.contains(path) => path.clone(),
        Some(path) => own_file(path, pm_id),
        None if single => folder.join(format!("{name}-{kind}.log")),
        None => folder.join(format!("{name}-{kind}-{pm_id}.log")),
    };
    LogFiles {
        out: file(&spec.logs.out_file, "out"),
        error: file(&spec.logs.error_file, "error"),
        combined: spec.logs.combined_file.clone(),
    }
}

/// Whether a path is that of a device or a descriptor by its name alone.
fn is_devices(path: &std::path::Path) -> bool {
    // Shared memory holds plain files.
    (path.starts_with("/dev") && !path.starts_with("/dev/shm")) || path.starts_with("/proc")
}

/// The log files of an app that are to be looked at before a start, each of which gets a number if it is a plain file.
#[derive(Debug, Clone, Default)]
pub(crate) struct LogPlaces(Vec<PathBuf>);

impl LogPlaces {
    /// Those of which the names do not tell.
    pub(crate) fn of(spec: &AppSpec) -> Self {
        if spec.logs.disabled || spec.logs.merge {
            return Self::default();
        }
        let given = [&spec.logs.out_file, &spec.logs.error_file];
        Self(given.into_iter().flatten().filter(|path| !is_devices(path)).cloned().collect())
    }

    /// Whether this is one of them.
    pub(crate) fn has(&self, path: &std::path::Path) -> bool {
        self.0.iter().any(|own| own == path)
    }

    /// Looks at them, which may wait for a file system: not on the loop. `before` is told each path.
    pub(crate) fn special(self, mut before: impl FnMut(&std::path::Path)) -> SpecialFiles {
        let mut special = SpecialFiles::new();
        for path in self.0 {
            before(&path);
            if fs_err::metadata(&path).is_ok_and(|found| !found.is_file()) {
                special.insert(path);
            }
        }
        special
    }
}

/// A worker's own file, by the path that was given for all.
fn own_file(path: &std::path::Path, pm_id: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let name = match path.extension() {
        Some(extension) => format!("{stem}-{pm_id}.{}", extension.to_string_lossy()),
        None => format!("{stem}-{pm_id}"),
    };
    path.with_file_name(name)
}

/// Shown in replies: everything but the environment's values, and those of its blocks.
pub(crate) fn public_definition(spec: &AppSpec) -> (AppDefinition, Vec<String>) {
    let mut definition = AppDefinition::from(spec);
    let names = definition.env.keys().cloned().collect();
    definition.env.clear();
    let blocks = &mut definition.env_sources.blocks;
    blocks.named.values_mut().chain([&mut blocks.common]).for_each(BTreeMap::clear);
    (definition, names)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_device_a_pipe_or_a_descriptor_gets_no_number() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let there = folder.path().join("there.log");
        fs_err::write(&there, "").unwrap();
        let own = |path: &Path| {
            let mut spec = crate::engine::tests::spec("app", &["/bin/true"], 1);
            spec.logs.merge = false;
            spec.logs.out_file = Some(path.to_owned());
            let special = LogPlaces::of(&spec).special(|_| {});
            log_files(&spec, Path::new("/logs"), 3, &special).out
        };
        let special =
            ["/dev/null", "/dev/full", "/dev/stdout", "/dev/fd/2", "/proc/self/fd/1"].map(Path::new);
        for path in special.into_iter().chain([pipe.as_path()]) {
            assert_eq!(own(path), path);
        }
        assert_eq!(own(&there), folder.path().join("there-3.log"));
        assert_eq!(own(Path::new("/nowhere/out.log")), Path::new("/nowhere/out-3.log"));
        assert_eq!(own(Path::new("/nowhere/out")), Path::new("/nowhere/out-3"));
        assert_eq!(own(Path::new("/dev/shm/out")), Path::new("/dev/shm/out-3"));
    }
}
