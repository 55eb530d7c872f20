//! The simulated machine: its processes, from the order to start them until their end was reported.

use forkful_core::Time;
use forkful_core::slot::{Exit, Generation, ReadySign};
use forkful_core::supervisor::AppId;
use forkful_dispatch::Event;

use crate::by_pid::ByPid;
use crate::net::Port;
use crate::plan::Plan;
use crate::queue::Happening;
use crate::world::World;

/// A process of the machine; numbers are not reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pid(pub(crate) u64);

/// Identifies a process by app, slot and generation.
pub(crate) type Whose = (AppId, u16, Generation);

/// An action of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Deed {
    Greet,
    Ready(ReadySign),
    /// It listens on an address, or listens again.
    Listen(Port),
    /// It closes a server.
    Close(Port),
    Drained,
    Disconnect,
    Die(Exit),
}

/// The stage of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The daemon has queued its start.
    Queued,
    /// Its start is in progress.
    Starting,
    Alive,
    Dead,
}

/// A process.
#[derive(Debug, Clone)]
pub(crate) struct Process {
    pub(crate) whose: Whose,
    pub(crate) plan: Plan,
    pub(crate) phase: Phase,
    /// Increases with each ordered start.
    pub(crate) ordered: u64,
    /// When it may be killed after it got the stop signal.
    pub(crate) kill_at: Option<Time>,
    /// When its program began.
    pub(crate) began: Time,
    /// It is in its app's control group, whose limits apply to it.
    pub(crate) joins_group: bool,
    /// Signals that are kept until it runs; SIGKILL is last, if present.
    kept_signals: Vec<Signal>,
    pub(crate) exit: Option<Exit>,
    /// The daemon has told it to end, in any way.
    pub(crate) told_to_end: bool,
    pub(crate) has_got_stop: bool,
    /// It has answered its last request, and has reported that its app handles the stop signal.
    pub(crate) awaits_stop: bool,
    /// It has opened its sockets.
    pub(crate) listens: bool,
    /// It has listened, or has reported that it is ready, independent of the app's ready sign.
    pub(crate) has_shown: bool,
    /// It can serve, and has given the app's ready sign.
    pub(crate) is_ready: bool,
    /// It gets new connections.
    pub(crate) has_traffic: bool,
    pub(crate) has_closed_channel: bool,
    pub(crate) hangs: bool,
}

/// A signal sent by the daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Stop,
    Kill,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) processes: ByPid<Process>,
    last_pid: u64,
    pub(crate) refuses_until: Time,
}

impl Process {
    /// Whether it passes health checks.
    pub(crate) fn is_well(&self) -> bool {
        self.phase == Phase::Alive && !self.hangs
    }

    /// Whether it answers requests that arrive now.
    pub(crate) fn serves(&self) -> bool {
        self.phase == Phase::Alive
            && self.has_traffic
            && self.is_ready
            && !self.told_to_end
            && !self.has_closed_channel
    }
}

impl Machine {
    pub(crate) fn order(&mut self, whose: Whose, plan: Plan) -> Pid {
        self.last_pid += 1;
        let process = Process {
            whose,
            plan,
            phase: Phase::Queued,
            ordered: self.last_pid,
            kill_at: None,
            began: Time::default(),
            joins_group: false,
            kept_signals: Vec::new(),
            exit: None,
            told_to_end: false,
            has_got_stop: false,
            awaits_stop: false,
            listens: false,
            has_shown: false,
            is_ready: false,
            has_traffic: false,
            has_closed_channel: false,
            hangs: false,
        };
        self.processes.insert(Pid(self.last_pid), process);
        Pid(self.last_pid)
    }

    /// The machine after a crash of the daemon: no processes are left, and numbers are not reused.
    pub(crate) fn reborn(&self) -> Self {
        Self { processes: ByPid::default(), last_pid: self.last_pid, refuses_until: self.refuses_until }
    }

    /// The daemon is gone, and with it its queued starts and kept signals.
    pub(crate) fn lose_unbegun(&mut self) {
        self.processes.values_mut().for_each(|process| process.kept_signals.clear());
        self.processes.retain(|process| process.phase != Phase::Queued);
    }

    /// The number of ordered starts so far.
    pub(crate) fn ordered(&self) -> u64 {
        self.last_pid
    }

    /// The live process with this number, modulo their count.
    pub(crate) fn nth_living(&self, number: u64) -> Option<Pid> {
        let living = || self.processes.iter().filter(|(_, process)| process.phase == Phase::Alive);
        let count = living().count() as u64;
        if count == 0 { None } else { living().nth((number % count) as usize).map(|(pid, _)| pid) }
    }
}

impl World {
    /// A process's program runs: schedules its actions.
    pub(crate) fn begin_life(&mut self, pid: Pid) {
        let Some(process) = self.machine.processes.get_mut(pid) else { return };
        process.phase = Phase::Alive;
        process.began = self.now;
        let Plan { hello, ready, disconnects, closes, .. } = process.plan;
        let dies = process.plan.dies.clone();
        let signals = std::mem::take(&mut process.kept_signals);
        let deeds = [
            hello.map(|after| (after, Deed::Greet)),
            ready.map(|(after, sign)| (after, Deed::Ready(sign))),
            disconnects.map(|after| (after, Deed::Disconnect)),
            closes.map(|(after, port, _)| (after, Deed::Close(port))),
            closes.map(|(after, port, again)| (after + again, Deed::Listen(port))),
            dies.map(|(after, exit)| (after, Deed::Die(exit))),
        ];
        for (after, deed) in deeds.into_iter().flatten() {
            self.after(after, Happening::Deed(pid, deed));
        }
        for signal in signals {
            self.signal(pid, signal);
        }
    }

    /// Sends a process a signal, or keeps it until the process runs.
    pub(crate) fn signal(&mut self, pid: Pid, signal: Signal) {
        let has_channel = self.has_channel(pid);
        let Some(process) = self.machine.processes.get_mut(pid) else { return };
        process.told_to_end = true;
        match process.phase {
            Phase::Queued | Phase::Starting => process.kept_signals.push(signal),
            Phase::Alive => {
                process.has_got_stop |= signal == Signal::Stop;
                let (after, exit) = match signal {
                    Signal::Stop if process.hangs => return,
                    Signal::Stop if process.plan.closes_when_stopped && has_channel => {
                        return self.close_servers(pid);
                    }
                    Signal::Stop => match process.plan.obeys {
                        Some(after) => (after, Exit::Code(0)),
                        None => return,
                    },
                    Signal::Kill => (std::time::Duration::ZERO, Exit::Signal(9)),
                };
                self.after(after, Happening::Deed(pid, Deed::Die(exit)));
            }
            Phase::Dead => {}
        }
    }

    /// Tells a process to finish its connections.
    pub(crate) fn drain(&mut self, pid: Pid) {
        if let Some(process) = self.machine.processes.get_mut(pid) {
            process.told_to_end = true;
            self.dispatch_for(pid, Event::Drain);
        }
    }

    /// A process need not serve any more, because of its own actions.
    pub(crate) fn excuse(&mut self, pid: Pid) {
        if let Some(process) = self.machine.processes.get(pid).filter(|process| !process.told_to_end) {
            self.watch.excuse(process.whose.0, process.whose.1);
        }
    }

    /// A process performs an action; the daemon is informed later.
    pub(crate) fn perform_deed(&mut self, pid: Pid, deed: Deed) {
        let accepts = self.accepts(pid, &deed);
        let Some(process) = self.machine.processes.get_mut(pid) else { return };
        let is_killed = deed == Deed::Die(Exit::Signal(9));
        if process.phase != Phase::Alive || process.hangs && !is_killed {
            return;
        }
        let latency = process.plan.latency;
        if let Deed::Die(exit) = &deed {
            process.phase = Phase::Dead;
            process.exit = Some(exit.clone());
            let mourning = process.plan.mourning;
            self.excuse(pid);
            self.end_worker(pid);
            return self.after(mourning, Happening::Seen(pid));
        }
        if matches!(deed, Deed::Disconnect) {
            self.excuse(pid);
        }
        if self.has_channel(pid) {
            return self.perform_with_channel(pid, &deed);
        }
        let Some(process) = self.machine.processes.get_mut(pid) else { return };
        match &deed {
            Deed::Greet | Deed::Drained | Deed::Listen(_) | Deed::Close(_) | Deed::Die(_) => {}
            Deed::Ready(_) => {
                process.listens = true;
                process.is_ready |= accepts;
            }
            Deed::Disconnect => process.has_closed_channel = true,
        }
        if self.kept.is_dead {
            self.keep(Happening::Told(pid, deed));
        } else if latency.is_zero() {
            self.tell(pid, &deed);
        } else {
            self.after(latency, Happening::Told(pid, deed));
        }
    }

    /// A live process hangs from now on.
    pub(crate) fn hang(&mut self, pid: Pid) {
        if let Some(process) = self.machine.processes.get_mut(pid) {
            process.hangs = true;
        }
    }
}
