//! The processes of workers as the kernel has them: which ids are ours, whose end is awaited, and what is known of the trees
//! below them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::{Exit, Generation};
use forkful_core::spec::pid_file_of;
use forkful_core::supervisor::{Event, Observation};
use forkful_core::upkeep::renewal::{LOOK_EVERY, OwnMemory};
use forkful_os::keeper::Keeping;
use forkful_os::procinfo::Resident;
use forkful_os::reactor::{Interest, Reactor};
use forkful_os::{process, procinfo, tree};

use super::app::{App, Process, ProcessKey};
use super::tokens::{KEEPER_TOKEN, PROCESS_BIT};
use crate::pid_files::PidFiles;

/// A view of all processes serves signals for so long.
pub(super) const LOOK_FRESH: Duration = Duration::from_millis(100);

/// See the module's documentation.
pub(super) struct Processes {
    reactor: Rc<Reactor>,
    /// Whose children the workers are, if not ours.
    keeping: Keeping,
    /// Those whose end is awaited, by the number in their reactor token.
    watched: HashMap<u64, ProcessKey>,
    /// The number given last.
    last_watch: u64,
    /// The process ids of our workers, and of the commands of health checks.
    pids: HashSet<u32>,
    pid_files: PidFiles,
    /// All processes, as they were then; taken when needed, kept while there is work.
    snapshot: Option<(Time, tree::Snapshot)>,
    /// How such a view is had.
    pub(super) look: fn(&HashSet<u32>) -> io::Result<tree::Snapshot>,
}

impl Processes {
    pub(super) fn new(reactor: Rc<Reactor>, keeping: &Keeping) -> io::Result<Self> {
        if let Some(socket) = keeping.socket() {
            reactor.add(socket, KEEPER_TOKEN, Interest::READ)?;
        }
        Ok(Self {
            reactor,
            keeping: keeping.clone(),
            watched: HashMap::new(),
            last_watch: 0,
            pids: HashSet::new(),
            pid_files: PidFiles::default(),
            snapshot: None,
            look: tree::Snapshot::take,
        })
    }

    /// Whether neither a process nor a view of processes is kept.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.snapshot.is_none()
    }

    /// Has the end of a process noticed.
    pub(super) fn watch(&mut self, pidfd: &OwnedFd, key: ProcessKey) -> io::Result<()> {
        self.last_watch += 1;
        self.reactor.add(pidfd.as_fd(), PROCESS_BIT | self.last_watch, Interest::READ)?;
        self.watched.insert(self.last_watch, key);
        Ok(())
    }

    /// Whose pidfd it is.
    pub(super) fn watched(&self, watch: u64) -> Option<ProcessKey> {
        self.watched.get(&watch).copied()
    }

    /// How the process of a readable pidfd has ended, if it has; it is not watched any more then.
    pub(super) fn take_exit(&mut self, watch: u64, process: &Process) -> Option<Exit> {
        let exit = match process.child.try_wait(false) {
            Ok(Some(process::Exit::Code(code))) => Exit::Code(code),
            Ok(Some(process::Exit::Signal(signal, _))) => Exit::Signal(signal),
            Ok(None) => return None,
            // Reaped by somebody else.
            Err(_) => Exit::UNKNOWN,
        };
        self.watched.remove(&watch);
        let _gone = self.reactor.remove(process.child.pidfd.as_fd());
        Some(exit)
    }

    /// A process of ours is there.
    pub(super) fn note_begun(&mut self, pid: u32) {
        self.pids.insert(pid);
    }

    /// A process of ours is gone.
    pub(super) fn note_gone(&mut self, pid: u32) {
        self.pids.remove(&pid);
    }

    /// The last that is done for a process whose tree is gone: its number is free after that.
    pub(super) fn bury(&mut self, process: Process) {
        self.pids.remove(&process.child.pid);
        if let Some(path) = process.pid_file {
            self.pid_files.remove(path, process.child.pid);
        }
        let _reaped = process.child.try_wait(true);
    }

    /// Reaps what others have left to us. Zombies that are left are looked for again at the next child's end.
    pub(super) fn reap_orphans(&self, is_being_started: impl Fn(u32) -> bool) {
        let is_ours = |pid| self.pids.contains(&pid) || is_being_started(pid);
        let _failed = tree::reap_orphans(&is_ours, &self.keeping);
    }

    /// Whether the keeper was lost, or has reported the end of a child, while the daemon waited for an answer. Then
    /// [`Self::hear_keeper`] must be called.
    pub(super) fn has_news(&self) -> bool {
        self.keeping.has_news()
    }

    /// What the user should know of a keeper that was lost.
    pub(super) fn keeper_note(&self) -> Option<String> {
        let loss = self.keeping.loss()?;
        Some(format!(
            "{loss}: apps would not survive a crash of this daemon; `forkful kill` and then `forkful resurrect` start \
             another keeper, and the apps with it"
        ))
    }

    /// Takes what the keeper says. When it is lost, workers that it had are nobody's children any more: how they end is
    /// not known then, and workers that are started from now on are ours.
    pub(super) fn hear_keeper(&self, is_being_started: impl Fn(u32) -> bool) {
        let socket = self.keeping.socket();
        match self.keeping.take_news() {
            Ok(true) => self.reap_orphans(is_being_started),
            Ok(false) => {}
            Err(loss) => {
                let _gone = socket.map(|socket| self.reactor.remove(socket));
                tree::set_head(0);
                log_line!("forkful: {loss}: from now on, if this daemon dies, its apps will be restarted");
            }
        }
    }

    /// Whether processes are about that others have left to us.
    pub(super) fn has_orphans(&self, is_being_started: impl Fn(u32) -> bool) -> bool {
        tree::has_foreign_children(&|pid| self.pids.contains(&pid) || is_being_started(pid))
    }

    /// Puts the process id of a worker into its file, once.
    pub(super) fn write_pid_file(&mut self, entry: &mut App, slot: u16, generation: Generation) {
        let Some(pid_file) = entry.spec().pid_file.clone() else { return };
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let path = pid_file_of(&pid_file, place.pm_id);
        let Some(process) = place.processes.get_mut(&generation) else { return };
        if process.pid_file.is_none() {
            process.pid_file = Some(path.clone());
            self.pid_files.write(path, process.child.pid);
        }
    }

    /// Sees to it that a view of all processes is there that is no older than `since`, if it can be had.
    pub(super) fn look_at_all(&mut self, since: Time, now: Time) {
        if self.snapshot.as_ref().is_none_or(|(taken, _)| *taken < since) {
            self.snapshot = (self.look)(&self.pids).ok().map(|snapshot| (now, snapshot));
        }
    }

    /// The view of all processes is of no more use.
    pub(super) fn forget_look(&mut self) {
        self.snapshot = None;
    }

    /// Signals a process and all that it has started.
    pub(super) fn signal_tree(&mut self, process: &Process, signal: i32, now: Time) {
        // One look at all processes serves many signals: stopping hundreds of workers must not keep the
        // connections of others waiting. Who is born meanwhile is cleared away when the worker has ended.
        self.look_at_all(now - LOOK_FRESH, now);
        if process.ended.is_none() {
            let snapshot = self.snapshot.as_ref().map(|(_, snapshot)| snapshot);
            tree::signal_tree_in(snapshot, &process.child, process.mark, signal);
        }
    }

    /// Kills what is left of the tree of a process that has ended; says whether nothing was. With orphans about,
    /// `orphans_since` says how old the view of all processes may be in which they are looked for.
    pub(super) fn kill_rest(&mut self, process: &Process, orphans_since: Option<Time>, now: Time) -> bool {
        // The group knows those, too, that have shed every mark.
        process.group.as_ref().is_none_or(|group| group.kill() == 0)
            && orphans_since.is_none_or(|since| self.kill_tree(process, since, now) == Some(0))
    }

    /// Whether something that was killed of a tree could end if it had a core.
    pub(super) fn rest_is_runnable(&mut self, process: &Process, now: Time) -> bool {
        self.look_at_all(now - LOOK_FRESH, now);
        let snapshot = self.snapshot.as_ref().map(|(_, snapshot)| snapshot);
        snapshot.is_some_and(|snapshot| snapshot.any_runnable(&process.child, process.mark))
    }

    /// How many of a tree were left and have been killed; `None` when nobody can be seen, such as while descriptors
    /// have run out.
    fn kill_tree(&mut self, process: &Process, since: Time, now: Time) -> Option<usize> {
        self.look_at_all(since, now);
        let (_, snapshot) = self.snapshot.as_ref()?;
        Some(tree::signal_tree_in(Some(snapshot), &process.child, process.mark, 9))
    }

    /// The ids of a process and of all that it has started.
    pub(super) fn family(&mut self, process: &Process, now: Time) -> Vec<u32> {
        self.look_at_all(now - LOOK_FRESH, now);
        let snapshot = self.snapshot.as_ref().map(|(_, snapshot)| snapshot);
        snapshot.map(|snapshot| snapshot.pids(&process.child, process.mark)).unwrap_or_default()
    }

    /// Looks at the memory of an app's workers, if each of them has a limit.
    pub(super) fn observe(&mut self, entry: &App, now: Time) -> Event {
        if !entry.spec().limits_workers_memory() {
            return Event::Observed(Vec::new());
        }
        // Looks that come sooner than usual take the trees as they were found before.
        let is_fresh = |(taken, _): &(Time, _)| now.since(*taken) < LOOK_EVERY / 2;
        if !self.snapshot.as_ref().is_some_and(is_fresh) {
            self.look_at_all(now, now);
        }
        let limit = entry.own_memory_limit();
        let observed = entry.slots().filter_map(|(slot, record, place)| {
            let generation = record.online()?;
            let process = place.processes.get(&generation).filter(|process| process.ended.is_none())?;
            let Resident { bytes, own_bytes } = self.tree_memory(process)?;
            let own = limit.map(|limit| OwnMemory { bytes: own_bytes, limit });
            Some(Observation { slot, generation, memory_bytes: bytes, own })
        });
        Event::Observed(observed.collect())
    }

    /// Resident memory of a worker and of everything that it has started.
    fn tree_memory(&self, process: &Process) -> Option<Resident> {
        let leader = procinfo::resident(process.child.pid).ok()?;
        let snapshot = self.snapshot.as_ref();
        let pids = snapshot.map(|(_, snapshot)| snapshot.pids(&process.child, process.mark));
        let others = pids.unwrap_or_default().into_iter().filter(|pid| *pid != process.child.pid);
        let others = others.filter_map(|pid| procinfo::resident(pid).ok());
        Some(others.fold(leader, |sum, other| Resident {
            bytes: sum.bytes + other.bytes,
            own_bytes: sum.own_bytes + other.own_bytes,
        }))
    }
}
