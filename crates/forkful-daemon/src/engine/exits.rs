//! Processes end: their tree is cleared away, then the core is told.
//!
//! The leader stays a zombie until its tree is gone, so that neither its id nor its group's can be
//! used by somebody else while signals are still sent to them.

use std::os::fd::AsFd;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::{Exit, Generation};
use forkful_os::{process, tree};

use super::Engine;
use super::app::{AppId, Ended, Later};
use super::exit_tail::ExitTail;

/// Between two looks at a tree that has been sent SIGKILL.
const TREE_LOOK: Duration = Duration::from_millis(5);
/// A process in an uninterruptible wait cannot be killed; it is not waited for longer than this.
const TREE_WAIT_MAX: Duration = Duration::from_secs(2);

const SIGKILL: i32 = 9;

impl Engine {
    /// A pidfd is readable: the process has ended.
    pub(crate) fn on_process_ended(&mut self, watch: u64) {
        let Some((app, slot, generation)) = self.watched.get(&watch).copied() else { return };
        let now = self.clock.now();
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let Some(process) = place.processes.get_mut(&generation) else { return };
        let exit = match process.child.try_wait(false) {
            Ok(Some(process::Exit::Code(code))) => Exit::Code(code),
            Ok(Some(process::Exit::Signal(signal, _))) => Exit::Signal(signal),
            Ok(None) => return,
            // Reaped by somebody else: how it ended is not known.
            Err(_) => Exit::Code(-1),
        };
        self.watched.remove(&watch);
        let _gone = self.reactor.remove(process.child.pidfd.as_fd());
        process.ended = Some(Ended { exit, give_up: now + TREE_WAIT_MAX });
        let worker = process.worker;
        // First of all: what the worker had not taken goes to others.
        entry.primary.detach(worker, now);
        self.forget_triggers(app, worker);
        self.work.clear(app, slot, generation);
    }

    /// Kills what is left of a tree; tells the core when nothing is. With orphans about, `orphans_since` says how
    /// old the view of all processes may be in which they are looked for.
    pub(crate) fn clear_tree(
        &mut self,
        app: AppId,
        slot: u16,
        generation: Generation,
        orphans_since: Option<Time>,
    ) {
        let now = self.clock.now();
        let Some(process) = self.apps.get(&app).and_then(|entry| entry.process(slot, generation)) else {
            return;
        };
        let Some(ended) = process.ended.clone() else { return };
        // The group knows those, too, that have shed every mark.
        let is_group_clear = process.group.as_ref().is_none_or(|group| group.kill() == 0);
        let is_clear = is_group_clear
            && orphans_since.is_none_or(|since| self.kill_tree(app, slot, generation, since) == Some(0));
        if !is_clear && now < ended.give_up {
            self.later(app, TREE_LOOK, Later::ClearTree(slot, generation));
            return;
        }
        let was_killed = ended.exit == Exit::Signal(SIGKILL);
        let cause = self.out_of_memory(app).filter(|_| was_killed);
        if let Some(cause) = &cause {
            let name = self.apps.get(&app).map_or_else(String::new, |entry| entry.spec().name.to_string());
            log_line!("forkful: {name} worker {slot}: {cause}");
        }
        let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot)) else {
            return;
        };
        if let Some(process) = place.processes.remove(&generation) {
            self.pids.remove(&process.child.pid);
            if let Some(path) = process.pid_file {
                self.pid_files.remove(path, process.child.pid);
            }
            let _reaped = process.child.try_wait(true);
        }
        place.exit_cause = cause;
        // Asked for now, because the next process begins with an empty tail.
        place.exit_tail = ExitTail::awaiting(self.logs.stderr_tail(place.pm_id));
        self.exited(app, slot, generation, ended.exit);
        self.after_exit(app);
    }

    /// How many of a tree were left and have been killed; `None` when nobody can be seen, such as while descriptors
    /// have run out.
    fn kill_tree(&mut self, app: AppId, slot: u16, generation: Generation, since: Time) -> Option<usize> {
        self.look_at_processes(since);
        let (_, snapshot) = self.snapshot.as_ref()?;
        let process = self.apps.get(&app).and_then(|entry| entry.process(slot, generation))?;
        Some(tree::signal_tree_in(Some(snapshot), &process.child, process.mark, 9))
    }

    /// When nothing of an app runs any more, its ports are free.
    pub(crate) fn after_exit(&mut self, app: AppId) {
        if let Some(entry) = self.apps.get_mut(&app)
            && entry.is_at_rest()
        {
            entry.primary.close_all();
        }
    }
}
