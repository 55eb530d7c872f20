//! Processes begin and end.
//!
//! When one has ended, its tree is cleared away, then the core is told. The leader stays a zombie until its tree is gone, so
//! that neither its id nor its group's can be used by somebody else while signals are still sent to them.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use forkful_api::types::LogStream;
use forkful_core::Time;
use forkful_core::clearing::waits_for_rest;
use forkful_core::foreground::{LineTarget, LogPrefix};
use forkful_core::slot::{Event, Exit};
use forkful_core::stalls::Stall;
use forkful_core::supervisor;
use forkful_os::keeper::{Hold, Kind, Name};
use forkful_os::tree;

use super::app::{App, Bonds, Ended, Later, Process, ProcessKey};
use super::exit_tail::{ExitTail, Tail, known_secrets};
use super::launch::Ends;
use super::starting::{Begun, StartOutcome, StartResult};
use super::{Engine, EngineOptions};
use crate::logs::{EchoPrefix, LineStyle, StreamSpec, echoes_to_terminal};

/// Between two looks at a tree that has been sent SIGKILL.
const TREE_LOOK: Duration = Duration::from_millis(5);

pub(super) const SIGKILL: i32 = 9;

impl Engine {
    /// Begins the start of a slot's process.
    pub(super) fn spawn(&mut self, key: ProcessKey) {
        let now = self.clock.now();
        let (app, slot, generation) = key;
        self.feed(app, slot, Event::Begun(generation, now));
        self.apps.plan_memory(app, now);
        let Some(entry) = self.apps.get_mut(app) else { return };
        let Some(place) = entry.places.get(&slot) else { return };
        self.logs.begin_process(place.pm_id, generation);
        if let Err(why) = self.starts.begin(key, entry, &self.options, now) {
            self.fail_spawn(key, why);
        }
    }

    /// Tells the slot that its process could not be started.
    fn fail_spawn(&mut self, (app, slot, generation): ProcessKey, why: String) {
        self.tell(app, supervisor::Event::Slot(slot, Event::SpawnFailed(generation, why)));
    }

    /// A thread has started a process, or could not.
    pub(super) fn on_started(&mut self, number: u64, result: StartResult) {
        let StartResult { child, special_logs } = result;
        let Some((key, outcome)) = self.starts.finish(number, child, self.clock.now()) else { return };
        let (app, slot, generation) = key;
        if let Some(entry) = self.apps.get_mut(app) {
            entry.note_special_logs(special_logs, &self.options.home.logs());
        }
        match outcome {
            StartOutcome::Begun(begun) => {
                let signals = begun.signals.clone();
                self.take_over(key, *begun);
                for signal in signals {
                    self.starts.work.signal(app, slot, generation, signal);
                }
            }
            StartOutcome::Postponed => {}
            StartOutcome::Failed(why) => self.fail_spawn(key, why),
        }
    }

    /// The program of a start runs: from now on it is a process of its slot.
    fn take_over(&mut self, key: ProcessKey, begun: Begun) {
        let now = self.clock.now();
        let (app, slot, generation) = key;
        let Begun { child, ends, mark, worker, group, .. } = begun;
        let remote = ends.remote_of(&child);
        let Ends { channel, cookie, stdin, stdout, stderr } = ends;
        let keeping = self.options.keeping.clone();
        let keep =
            |kind, fd: BorrowedFd<'_>| keeping.keep(Name { kind, app: app.0, of: worker.0, part: 0 }, fd);
        if let Err(error) = self.processes.watch(&child.pidfd, key) {
            // Its end would never be noticed.
            tree::signal_tree(&child, mark, SIGKILL);
            return self.fail_spawn(key, format!("cannot watch the new process: {error}"));
        }
        self.processes.note_begun(child.pid);
        let holds = [keep(Kind::Out, stdout.as_fd()), keep(Kind::Err, stderr.as_fd())];
        self.attach_logs(key, [stdout, stderr], holds);
        let Some(entry) = self.apps.get_mut(app) else { return };
        let channel = channel.map(|channel| {
            let hold = keep(Kind::Channel, channel.as_fd());
            (channel, hold)
        });
        if let Some(channel) = channel
            && let Err(error) = entry.primary.attach(worker, channel, remote)
        {
            log_line!("forkful: cannot watch the channel of worker {slot}: {error}");
        }
        entry.primary.identify(worker, child.pid, slot);
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let started_at_ms = super::clock::wall_ms();
        place.started_at_ms = Some(started_at_ms);
        let mut holds = vec![keep(Kind::Process, child.pidfd.as_fd())];
        holds.extend(stdin.as_ref().map(|stdin| keep(Kind::Stdin, stdin.as_fd())));
        let stdin = stdin.map(|stdin| Rc::new(tokio::sync::Mutex::new(stdin)));
        let began = (now, started_at_ms);
        let kept = Bonds { cookie, _holds: holds };
        let process = Process { stdin, group, kept, ..Process::new(child, worker, mark, began) };
        let is_alone = place.processes.is_empty();
        entry.add_process(slot, generation, process);
        if is_alone {
            // Beside an older process the new one must become ready first, since the older process may stay.
            self.processes.write_pid_file(entry, slot, generation);
        } else {
            entry.kill_first(slot, generation);
        }
        self.supervise(app, supervisor::Event::Runs(slot, generation));
    }

    fn attach_logs(&self, (app, slot, generation): ProcessKey, pipes: [OwnedFd; 2], holds: [Hold; 2]) {
        let is_shared = self.apps.has_several_workers();
        let Some(entry) = self.apps.get(&app) else { return };
        let streams = log_streams(&self.options, is_shared, entry, (slot, generation));
        for ((spec, pipe), hold) in streams.into_iter().zip(pipes).zip(holds) {
            if let Some(spec) = spec {
                self.logs.attach_kept(spec, pipe, hold);
            }
        }
    }

    /// A pidfd is readable: the process has ended.
    pub(super) fn on_process_ended(&mut self, watch: u64) {
        let Some((app, slot, generation)) = self.processes.watched(watch) else { return };
        let now = self.clock.now();
        let Some(entry) = self.apps.get_mut(app) else { return };
        let Some(place) = entry.places.get_mut(&slot) else { return };
        let Some(process) = place.processes.get_mut(&generation) else { return };
        let Some(exit) = self.processes.take_exit(watch, process) else { return };
        let worker = process.worker;
        let silent = process.metrics.silent_since.map(|since| now.since(since));
        let threshold = entry.supervisor.spec().stall_threshold;
        let stall = Stall::without_end(silent, &exit, threshold);
        process.ended = Some(Ended { exit, at: now });
        // First of all: what the worker had not taken goes to others.
        let workers = entry.workers_of(slot, generation);
        for worker in &workers {
            entry.primary.detach(*worker, now);
        }
        // What it said last, too, such as its metrics.
        self.take_primary_events(app);
        if let Some(stall) = stall {
            let noted = self.apps.note_stalls(app, worker, vec![stall]);
            self.conversations.publish_stalls(noted);
        }
        if let Some(entry) = self.apps.get_mut(app) {
            workers.iter().for_each(|worker| entry.metrics.own.gone(worker.0));
        }
        self.conversations.forget_triggers(app, worker);
        self.starts.work.clear(app, slot, generation);
    }

    /// Kills what is left of a tree; tells the core when nothing is. With orphans about, `orphans_since` says how
    /// old the view of all processes may be in which they are looked for.
    pub(super) fn clear_tree(&mut self, key: ProcessKey, orphans_since: Option<Time>) {
        let now = self.clock.now();
        let (app, slot, generation) = key;
        let Some(entry) = self.apps.get_mut(app) else { return };
        let Some(process) = entry.process(slot, generation) else { return };
        let Some(ended) = process.ended.clone() else { return };
        let pid = process.child.pid;
        if !self.processes.kill_rest(process, orphans_since, now)
            && waits_for_rest(now.since(ended.at), || self.processes.rest_is_runnable(process, now))
        {
            return entry.later.plan(now + TREE_LOOK, Later::ClearTree(slot, generation));
        }
        let was_killed = ended.exit == Exit::Signal(SIGKILL);
        let cause = was_killed.then(|| entry.out_of_memory(now)).flatten();
        let told = cause.clone().or_else(|| entry.own_kill(slot, generation));
        if let Some(told) = &told {
            log_line!("forkful: {} worker {slot} (process {pid}): {told}", entry.spec().name);
        }
        let dying = entry.dying(slot, generation, &ended.exit, cause);
        if let Some(process) = entry.remove_process(slot, generation) {
            self.processes.bury(*process);
        }
        let App { places, supervisor, .. } = entry;
        let Some(place) = places.get_mut(&slot) else { return };
        // The old process leaves. Its end must not hide why the new process has failed.
        if !supervisor.slot(slot).is_some_and(|record| record.slot.is_leaving(generation)) {
            place.exit_cause = told;
            let tail = self.logs.stderr_tail(place.pm_id, Some(generation));
            place.exit_tail = ExitTail::awaiting(Tail::new(tail, known_secrets(supervisor.spec())));
        }
        let tail = |pm_id| self.logs.stderr_tail(pm_id, Some(generation));
        let dying = dying.map(|draft| draft.with_tail(tail(place.pm_id)));
        self.feed(app, slot, Event::Exited(generation, ended.exit));
        if let Some(draft) = dying {
            self.conversations.note_death(draft, slot, self.apps.get(&app), now);
        }
        self.apps.free_ports(app);
    }
}

/// Where stdout and stderr of a slot's process go.
pub(super) fn log_streams(
    options: &EngineOptions,
    is_shared: bool,
    entry: &App,
    (slot, process): (u16, forkful_core::slot::Generation),
) -> [Option<StreamSpec>; 2] {
    [LogStream::Out, LogStream::Err].map(|stream| {
        let place = entry.places.get(&slot)?;
        Some(StreamSpec {
            app: entry.spec().name.to_string(),
            pm_id: place.pm_id,
            process,
            stream,
            paths: if options.write_log_files { place.log_paths(stream) } else { Vec::new() },
            style: LineStyle::from(&entry.spec().logs),
            rotation: entry.spec().logs.rotation.clone(),
            echo: options.echo.map(|prefix| echo_prefix(prefix, is_shared, entry, (place.pm_id, stream))),
        })
    })
}

/// What stands before the lines of a worker on our own stdout or stderr.
fn echo_prefix(
    prefix: LogPrefix,
    is_shared: bool,
    entry: &App,
    (pm_id, stream): (u32, LogStream),
) -> EchoPrefix {
    let spec = entry.spec();
    let target = LineTarget { is_terminal: echoes_to_terminal(stream), is_shared };
    EchoPrefix(prefix.text(pm_id, &spec.name, spec.logs.line_format, target))
}
