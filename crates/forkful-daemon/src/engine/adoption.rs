//! Takes over the workers of a daemon that died. The keeper provides their processes, channels, sockets and
//! pipes; the stored state provides all decisions about them.
//!
//! A process is taken over if it is in the stored state and all of its descriptors exist; any other process
//! is killed. The supervisor decides what follows for its slot ([`Event::TakenOver`]).

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use forkful_cluster::{KeptSocket, Primary, WorkerId, WrittenPrimary};
use forkful_core::Time;
use forkful_core::app_metrics::Collection;
use forkful_core::doctor::OpenTrial;
use forkful_core::slot::Generation;
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{Adopted, Event};
use forkful_os::channel::RemoteEnd;
use forkful_os::identity::peer_credentials;
use forkful_os::keeper::{Hold, Kept, Kind, Name};
use forkful_os::process::Child;
use forkful_os::reactor::Reactor;
use forkful_os::tree::{Instance, Mark, Snapshot};

use super::EngineOptions;
use super::app::{App, AppId, Bonds, Process};
use super::apps::Apps;
use super::groups::find_group;
use super::launch::CHANNEL_FD;
use super::lifecycle::log_streams;
use super::processes::Processes;
use super::readiness::SOCKETS_LOOKS;
use super::starting::Starts;
use super::written::{WrittenApp, WrittenPlace, WrittenProcess};
use crate::logs::LogService;

const SIGKILL: i32 = 9;

/// The owners that take part in an adoption.
pub(super) struct Owners<'a> {
    pub(super) apps: &'a mut Apps,
    pub(super) processes: &'a mut Processes,
    pub(super) starts: &'a mut Starts,
    pub(super) logs: &'a LogService,
    pub(super) options: &'a EngineOptions,
    pub(super) reactor: &'a Rc<Reactor>,
    pub(super) now: Time,
}

/// The result.
#[derive(Default)]
pub(super) struct Taken {
    /// Events for the supervisors.
    pub(super) events: Vec<(AppId, Event)>,
    /// Apps that cannot be continued: they are started again.
    pub(super) lost: Vec<AppSpec>,
    /// The marks of the processes that were taken over.
    pub(super) marks: HashSet<Mark>,
    /// Their process ids.
    pub(super) pids: HashSet<u32>,
}

/// The kept descriptors that were not taken yet; the remaining ones are closed.
pub(super) struct Inheritance(HashMap<Name, Kept>);

impl Inheritance {
    pub(super) fn new(kept: Vec<Kept>) -> Self {
        Self(kept.into_iter().map(|kept| (kept.name, kept)).collect())
    }

    /// Whether the output of a worker is kept.
    fn has_output(&self, app: AppId, worker: u32) -> bool {
        let mut kinds = [Kind::Out, Kind::Err].into_iter();
        kinds.any(|kind| self.0.contains_key(&Name { kind, app: app.0, of: worker, part: 0 }))
    }

    fn take(&mut self, name: Name) -> Option<(std::os::fd::OwnedFd, Hold)> {
        self.0.remove(&name).map(|Kept { fd, hold, .. }| (fd, hold))
    }
}

impl Owners<'_> {
    /// Takes an app over.
    pub(super) fn take_up(&mut self, written: WrittenApp<'_>, kept: &mut Inheritance, taken: &mut Taken) {
        let WrittenApp { id, supervisor, primary, places, .. } = &written;
        let config = Apps::config_of(*id, supervisor.spec(), &self.options.keeping);
        let primary =
            Primary::take_up(config, Rc::clone(self.reactor), primary, |name| kept.take(name), self.now);
        let mut entry = match primary {
            Ok(primary) => App::new(supervisor.clone(), primary),
            Err(error) => {
                let name = &supervisor.spec().name;
                log_line!("forkful: {name}: cannot take over its workers, so new ones are started: {error}");
                return taken.lost.push(AppSpec::clone(supervisor.spec()));
            }
        };
        entry.created_at_ms = written.created_at_ms;
        entry.workers.started = written.workers_started;
        entry.special_logs.clone_from(&written.special_logs);
        entry.told.lacks.clone_from(&written.told_lacks);
        entry.stalls = written.stalls.clone().into_owned();
        entry.resume_upkeep(written.upkeep, self.now);
        entry.upkeep.trial = written.trial.clone().map(OpenTrial::taken_over);
        entry.unknown_keys = super::written::unknown_keys(written.unknown_keys.clone());
        let folder = self.options.home.logs();
        for WrittenPlace { slot, pm_id, started_at_ms, exit_cause, processes, left } in places {
            entry.add_place(*slot, *pm_id, &folder);
            if let Some(place) = entry.places.get_mut(slot) {
                place.started_at_ms = *started_at_ms;
                place.exit_cause.clone_from(exit_cause);
                place.left = left.iter().map(|(worker, process)| (WorkerId(*worker), *process)).collect();
            }
            let unread = left.iter().filter(|(worker, _)| kept.has_output(*id, *worker));
            for (worker, generation) in unread.copied().collect::<Vec<_>>() {
                self.logs.begin_process(*pm_id, generation);
                self.read_on(&entry, (*id, *slot, generation), worker, kept);
            }
            for process in processes {
                self.logs.begin_process(*pm_id, process.generation);
                let key = (*id, *slot, process.generation);
                match self.take_process(&mut entry, key, process, &written, kept) {
                    Ok(()) => {
                        taken.pids.insert(process.pid);
                        taken.marks.extend(Mark::parse(&process.mark));
                    }
                    Err(why) => {
                        let name = &entry.spec().name;
                        log_line!("forkful: {name} worker {slot}: process {} is gone: {why}", process.pid);
                    }
                }
            }
        }
        let is_there = |worker| entry.workers.process_of(WorkerId(worker)).is_some();
        entry.metrics.own = Collection::resume(&written.counted, is_there);
        entry.count_slots(self.now);
        entry.primary.taken_up(self.now);
        let slots = entry.supervisor.slots().iter();
        let online: Vec<_> = slots.filter_map(|(slot, record)| Some((*slot, record.online()?))).collect();
        for (slot, generation) in online {
            entry.adopt_sockets(slot, generation, SOCKETS_LOOKS, self.now);
        }
        let there = entry.places.iter().flat_map(|(slot, place)| {
            place.processes.keys().map(|generation| Adopted {
                slot: *slot,
                generation: *generation,
                runs: true,
            })
        });
        taken.events.push((*id, Event::TakenOver(there.collect())));
        self.apps.insert_again(*id, entry, self.now);
    }

    /// Takes over a process with all its connections.
    fn take_process(
        &mut self,
        entry: &mut App,
        (app, slot, generation): (AppId, u16, Generation),
        written: &WrittenProcess,
        of_app: &WrittenApp<'_>,
        kept: &mut Inheritance,
    ) -> Result<(), String> {
        let mut take = |kind, of| kept.take(Name { kind, app: app.0, of, part: 0 });
        let mut of_it = |kind| take(kind, written.worker);
        let (pidfd, hold) = of_it(Kind::Process).ok_or("nothing was kept of it")?;
        let (channel, stdin) = (of_it(Kind::Channel), of_it(Kind::Stdin));
        let mark = Mark::parse(&written.mark).ok_or("it carries no mark")?;
        let keeping = self.options.keeping.clone();
        let child =
            Child::adopt(written.pid, pidfd, written.start_time, keeping).ok_or("its number is another's")?;
        let key = (app, slot, generation);
        self.processes.watch(&child.pidfd, key).map_err(|error| format!("it cannot be watched: {error}"))?;
        self.processes.note_begun(child.pid);
        let worker = WorkerId(written.worker);
        if let Some(channel) = channel {
            let pidfd = child.pidfd.try_clone().ok();
            let remote =
                pidfd.zip(written.cookie).map(|(pidfd, cookie)| RemoteEnd::new(pidfd, CHANNEL_FD, cookie));
            let attached =
                entry.primary.attach_again(worker, &of_app.primary, channel, (remote, written.pid), self.now);
            attached.map_err(|error| format!("its channel cannot be watched: {error}"))?;
        }
        let channels = written.below.iter().filter(|below| **below != written.worker);
        let channels = channels.filter_map(|below| Some((WorkerId(*below), take(Kind::Channel, *below)?)));
        for (below, channel) in channels {
            if attach_below(entry, (below, worker), &of_app.primary, channel, self.now) {
                entry.workers.add(below, (slot, generation));
            }
        }
        let group = find_group(self.starts.groups.as_ref(), app, entry, mark);
        let mut holds = vec![hold];
        let stdin = stdin.map(|(stdin, hold)| {
            holds.push(hold);
            Rc::new(tokio::sync::Mutex::new(stdin))
        });
        let process = Process {
            stdin,
            group,
            node_version: written.node_version,
            lacks: written.lacks.clone(),
            kept: Bonds { cookie: written.cookie, _holds: holds },
            ..Process::new(child, worker, mark, (written.spawned, written.started_at_ms))
        };
        entry.add_process(slot, generation, process);
        self.read_on(entry, key, written.worker, kept);
        self.processes.write_pid_file(entry, slot, generation);
        Ok(())
    }

    /// Reads what a process writes, or has written, to its end.
    fn read_on(
        &self,
        entry: &App,
        (app, slot, generation): (AppId, u16, Generation),
        worker: u32,
        kept: &mut Inheritance,
    ) {
        let pipes =
            [Kind::Out, Kind::Err].map(|kind| kept.take(Name { kind, app: app.0, of: worker, part: 0 }));
        let specs = log_streams(self.options, false, entry, (slot, generation));
        for (spec, pipe) in specs.into_iter().zip(pipes) {
            if let (Some(spec), Some((pipe, hold))) = (spec, pipe) {
                self.logs.attach_kept(spec, pipe, hold);
            }
        }
    }
}

/// Takes over the channel of a process below a worker; `false` if that is impossible.
fn attach_below(
    entry: &mut App,
    (below, worker): (WorkerId, WorkerId),
    of_app: &WrittenPrimary,
    channel: KeptSocket,
    now: Time,
) -> bool {
    let Ok(peer) = peer_credentials(&channel.0) else { return false };
    let attached = entry.primary.attach_again(below, of_app, channel, (None, peer.pid), now);
    let is_attached = attached.is_ok_and(|attached| attached);
    if is_attached {
        entry.primary.belongs_to(below, worker);
    }
    is_attached
}

/// Kills the processes with the mark of this home's daemons that were not taken over: health checks, and
/// processes whose start was not stored before the daemon died. The list of processes is read now, before
/// this daemon starts any. Their marks are read on a thread, because clients wait and it needs two files of
/// each process of the machine.
pub(super) fn end_strays(instance: Instance, taken: Taken) {
    let Ok(snapshot) = Snapshot::take(&HashSet::new()) else { return };
    let Taken { marks, pids, .. } = taken;
    let end = move || {
        let is_stray = |mark: Mark| mark.instance() == instance && !marks.contains(&mark);
        snapshot.marked(&pids, is_stray).iter().for_each(|stray| drop(stray.signal(SIGKILL)));
    };
    let thread = std::thread::Builder::new().name("strays".to_owned()).spawn(end);
    if let Err(error) = thread {
        log_line!("forkful: processes that the daemon before has left are not looked for: {error}");
    }
}
