//! A worker's event loop: it reads its channel, listens, and accepts connections.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::{Exit, ReadySign};
use forkful_core::supervisor::AppId;
use forkful_dispatch::{HandleLine, ListeningId, Message};

use super::channel::{Channel, Item, Said};
use super::client::ConnectionState;
use super::{Port, worker_of};
use crate::machine::{Deed, Phase, Pid, Process};
use crate::plan::Drains;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// Connections accepted from one socket in one turn of a loop.
const TAKEN_PER_TURN: usize = 2;
/// Maximum open connections of a worker; above it refuses.
const OPEN_MAX: usize = 10;

/// How a worker handles descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Serves,
    Refuses,
    /// It has no free descriptor.
    LosesHandles,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) app: AppId,
    pub(super) channel: Channel,
    /// What the daemon wrote can be taken back.
    pub(super) recalls: bool,
    /// Its listening addresses, each with its socket if it has one.
    pub(crate) servers: BTreeMap<ListeningId, (Option<usize>, Port)>,
    /// Addresses it has requested but not received yet.
    asked: BTreeSet<Port>,
    /// It reports that it is ready once it has all requested addresses.
    will_say_ready: bool,
    pub(super) manner: Manner,
    pub(super) manner_until: Time,
    pub(super) busy_until: Time,
    /// Its open connections.
    pub(super) open: BTreeSet<u32>,
    /// The number of connections that have ended with it.
    pub(crate) served: u64,
    /// It has closed its end of the channel.
    pub(super) has_closed: bool,
    /// A turn of its loop is scheduled.
    turns: bool,
    /// The daemon is about to read its channel.
    pub(super) will_be_heard: bool,
    /// A planted fault: the reactor does not report room in its channel.
    pub(super) is_unwatched: bool,
}

impl Worker {
    pub(crate) fn new(app: AppId, recalls: bool) -> Self {
        Self {
            app,
            channel: Channel::default(),
            recalls,
            servers: BTreeMap::new(),
            asked: BTreeSet::new(),
            will_say_ready: false,
            manner: Manner::Serves,
            manner_until: Time::default(),
            busy_until: Time::default(),
            open: BTreeSet::new(),
            served: 0,
            has_closed: false,
            turns: false,
            will_be_heard: false,
            is_unwatched: false,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        self.open.len() < OPEN_MAX
    }

    /// Whether all of its messages were read, none waits for room, and nothing is in transit to it.
    pub(super) fn is_in_step(&self) -> bool {
        self.channel.said.is_empty()
            && !self.channel.has_more_to_say()
            && !self.will_be_heard
            && self.asked.is_empty()
    }
}

/// What the daemon's engine does when a process begins and ends.
impl World {
    /// A cluster worker's process begins.
    pub(crate) fn attach(&mut self, pid: Pid) {
        let Some(process) = self.machine.processes.get(pid) else { return };
        let (app, slot, _) = process.whose;
        let recalls = self.dice.percent(90);
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        self.net.workers.insert(pid, Worker::new(app, recalls));
        primary.workers.insert(pid);
        primary.dispatcher.attach(worker_of(pid), recalls);
        primary.dispatcher.identify(worker_of(pid), slot);
    }

    /// A worker's process is dead, and the daemon is informed.
    pub(crate) fn detach(&mut self, pid: Pid) {
        let Some(app) = self.net.workers.get(pid).map(|worker| worker.app) else { return };
        if let Some(primary) = self.net.primaries.get_mut(&app) {
            primary.dispatcher.exited(worker_of(pid));
        }
        self.hear_all(app, pid);
        self.cut_off(app, pid, true);
        self.net.workers.remove(pid);
        self.net.touched.insert(app);
        self.follow_net();
    }

    /// A worker dies: its end of the channel is closed.
    pub(crate) fn end_worker(&mut self, pid: Pid) {
        self.end_connections(pid);
        if let Some(worker) = self.net.workers.get_mut(pid) {
            worker.servers.clear();
            worker.has_closed = true;
            let late = self.dice.micros(5, 3_000);
            self.plan_hearing(pid, late);
        }
    }
}

/// Actions of a worker.
impl World {
    pub(crate) fn has_channel(&self, pid: Pid) -> bool {
        self.net.workers.contains_key(pid)
    }

    /// Whether the daemon can communicate with a process: it has cut off those that violate the protocol.
    pub(crate) fn can_be_asked(&self, pid: Pid) -> bool {
        let primary = self.net.workers.get(pid).and_then(|worker| self.net.primaries.get(&worker.app));
        primary.is_some_and(|primary| primary.dispatcher.channel(worker_of(pid)).is_some())
    }

    /// A live process with a channel performs an action.
    pub(crate) fn perform_with_channel(&mut self, pid: Pid, deed: &Deed) {
        match deed {
            Deed::Greet => self.say(pid, Said::Hello),
            Deed::Ready(sign) => self.begin_listening(pid, *sign),
            Deed::Listen(port) => self.listen(pid, *port),
            Deed::Close(port) => {
                self.excuse(pid);
                self.close_server(pid, *port);
            }
            Deed::Drained => self.report_drained(pid),
            // Either with Node's message, or only by closing the channel.
            Deed::Disconnect if self.dice.percent(60) => self.say(pid, Said::Leaves),
            Deed::Disconnect => self.close_channel(pid),
            Deed::Die(_) => {}
        }
    }

    /// A worker has answered its last request.
    fn report_drained(&mut self, pid: Pid) {
        let Some(process) = self.machine.processes.get_mut(pid) else { return };
        let stops = process.plan.handles_stop;
        process.awaits_stop = stops;
        self.say(pid, Said::Drained { stops });
    }

    /// A disconnect may end a worker at once.
    fn check_stop_heard(&mut self, pid: Pid) {
        let Some(process) = self.machine.processes.get(pid) else { return };
        if process.awaits_stop && !process.has_got_stop {
            let seen = format!("process {} is disconnected before it got the stop signal", pid.0);
            self.watch.fail(Invariant::StopHeard, seen);
        }
    }

    /// The app closes all its servers.
    pub(crate) fn close_servers(&mut self, pid: Pid) {
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        for listening in std::mem::take(&mut worker.servers).into_keys() {
            self.say(pid, Said::Closed(listening));
        }
    }

    /// A worker requests its addresses, and will report that it is ready if the app is configured so.
    pub(crate) fn begin_listening(&mut self, pid: Pid, sign: ReadySign) {
        let Some(process) = self.machine.processes.get(pid) else { return };
        let listens = process.plan.listens.clone();
        for (after, port) in listens {
            if after.is_zero() {
                self.listen(pid, port);
            } else {
                self.after(after, Happening::Deed(pid, Deed::Listen(port)));
            }
        }
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        worker.will_say_ready = sign == ReadySign::Message;
        self.say_ready(pid);
    }

    pub(crate) fn listen(&mut self, pid: Pid, port: Port) {
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        let listens = worker.servers.values().any(|(_, own)| *own == port);
        if !worker.has_closed && !listens && worker.asked.insert(port) {
            self.say(pid, Said::Query(port));
        }
    }

    /// The app closes a server.
    pub(crate) fn close_server(&mut self, pid: Pid, port: Port) {
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        let found = worker.servers.iter().find(|(_, (_, own))| *own == port).map(|(listening, _)| *listening);
        if let Some(listening) = found {
            worker.servers.remove(&listening);
            self.say(pid, Said::Closed(listening));
        }
    }

    fn say_ready(&mut self, pid: Pid) {
        if let Some(worker) = self.net.workers.get_mut(pid)
            && worker.will_say_ready
            && worker.asked.is_empty()
        {
            worker.will_say_ready = false;
            if let Some(process) = self.machine.processes.get_mut(pid) {
                process.is_ready = true;
                process.has_shown = true;
            }
            self.say(pid, Said::Ready);
        }
    }

    pub(crate) fn say(&mut self, pid: Pid, said: Said) {
        let Some(worker) = self.net.workers.get_mut(pid).filter(|worker| !worker.has_closed) else { return };
        worker.channel.say(said);
        let latency = self.machine.processes.get(pid).map_or(Duration::ZERO, |process| process.plan.latency);
        let after = latency + self.dice.micros(5, 100);
        self.plan_hearing(pid, after);
    }

    /// Schedules reading of a worker's channel by the daemon.
    pub(super) fn plan_hearing(&mut self, pid: Pid, after: Duration) {
        if let Some(worker) = self.net.workers.get_mut(pid)
            && !std::mem::replace(&mut worker.will_be_heard, true)
        {
            self.after(after, Happening::Heard(pid));
        }
    }

    /// A worker closes its servers and its channel.
    pub(crate) fn close_channel(&mut self, pid: Pid) {
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        worker.servers.clear();
        worker.asked.clear();
        worker.has_closed = true;
        if let Some(process) = self.machine.processes.get_mut(pid) {
            process.has_closed_channel = true;
        }
        let after = self.dice.micros(5, 100);
        self.plan_hearing(pid, after);
    }
}

/// The event loop.
impl World {
    /// Schedules a turn of a worker's loop if it has work.
    pub(super) fn wake_loop(&mut self, pid: Pid) {
        let Some(worker) = self.net.workers.get(pid) else { return };
        let channel = &worker.channel;
        if !worker.turns && (channel.is_readable() || channel.has_more_to_say() || self.has_queue(worker)) {
            self.plan_turn(pid);
        }
    }

    /// Schedules turns of the loops that accept from a socket.
    pub(super) fn wake_acceptors(&mut self, app: AppId, listening: ListeningId, member: usize) {
        let Some(primary) = self.net.primaries.get(&app) else { return };
        let accepts = |pid: &&Pid| {
            let server = self.net.workers[pid].servers.get(&listening);
            server.is_some_and(|(own, _)| *own == Some(member))
        };
        for pid in primary.workers.iter().filter(accepts).copied().collect::<Vec<_>>() {
            self.plan_turn(pid);
        }
    }

    fn has_queue(&self, worker: &Worker) -> bool {
        let Some(primary) = self.net.primaries.get(&worker.app) else { return false };
        worker.has_room()
            && worker.servers.iter().any(|(listening, (member, _))| {
                let address = primary.addresses.get(listening);
                let queue = address.zip(*member).and_then(|(address, member)| address.queues.get(member));
                queue.is_some_and(|queue| !queue.is_empty())
            })
    }

    fn plan_turn(&mut self, pid: Pid) {
        let soon = self.dice.micros(10, 70);
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        if !std::mem::replace(&mut worker.turns, true) {
            let at = (self.now + soon).max(worker.busy_until);
            self.at(at, Happening::Turn(pid));
        }
    }

    /// One turn of a worker's event loop. Returns whether it runs at all.
    pub(crate) fn turn_loop(&mut self, pid: Pid) -> bool {
        let is_well = self.machine.processes.get(pid).is_some_and(Process::is_well);
        let Some(worker) = self.net.workers.get_mut(pid) else { return false };
        worker.turns = false;
        if !is_well || worker.has_closed && worker.servers.is_empty() {
            return false;
        }
        if worker.busy_until > self.now {
            self.plan_turn(pid);
            return false;
        }
        if worker.manner_until <= self.now || self.calm {
            worker.manner = Manner::Serves;
        }
        let app = worker.app;
        worker.channel.say_kept();
        if !worker.channel.said.is_empty() {
            self.plan_hearing(pid, Duration::ZERO);
        }
        while let Some(item) = self.next_item(pid) {
            self.read_item(pid, item);
        }
        self.take_from_queues(pid);
        self.net.touched.insert(app);
        self.wake_loop(pid);
        true
    }

    fn next_item(&mut self, pid: Pid) -> Option<Item> {
        let worker = self.net.workers.get_mut(pid)?;
        let reads = !worker.has_closed && worker.busy_until <= self.now;
        if reads { worker.channel.read() } else { None }
    }

    fn read_item(&mut self, pid: Pid, item: Item) {
        match item {
            Item::Handle(line) => self.read_handle(pid, line),
            Item::Pushes(listening, port) => self.listens(pid, listening, None, port),
            Item::Refused(port) => {
                let Some(worker) = self.net.workers.get_mut(pid) else { return };
                worker.asked.remove(&port);
                let dies = self.machine.processes.get(pid).is_some_and(|p| p.plan.dies_when_refused);
                if dies {
                    self.after(Duration::ZERO, Happening::Deed(pid, Deed::Die(Exit::Code(1))));
                } else {
                    self.say_ready(pid);
                }
            }
            Item::Chatter => {}
            Item::Told(message) => self.read_message(pid, message),
        }
    }

    fn read_message(&mut self, pid: Pid, message: Message) {
        let drains = self.machine.processes.get(pid).map(|process| process.plan.drains);
        match message {
            Message::Drain { closes: None } => match drains {
                Some(Drains::Exits(after) | Drains::Reports(after)) => {
                    self.after(after, Happening::Deed(pid, Deed::Drained));
                }
                Some(Drains::Never) | None => {}
            },
            Message::Drain { closes: Some(listening) } => {
                let worker = self.net.workers.get_mut(pid);
                if worker.is_some_and(|worker| worker.servers.remove(&listening).is_some()) {
                    self.say(pid, Said::Closed(listening));
                }
            }
            Message::Disconnect { .. } => {
                self.check_stop_heard(pid);
                self.close_channel(pid);
                let process = self.machine.processes.get(pid);
                let has_closed = process.is_some_and(|p| p.told_to_end && p.plan.closes_when_stopped);
                match drains {
                    Some(Drains::Exits(after)) => {
                        self.after(after, Happening::Deed(pid, Deed::Die(Exit::Code(0))));
                    }
                    Some(_) if has_closed => {
                        self.after(Duration::ZERO, Happening::Deed(pid, Deed::Die(Exit::Code(0))));
                    }
                    Some(Drains::Reports(_) | Drains::Never) | None => {}
                }
            }
            Message::Acknowledge { .. } => self.close_channel(pid),
            Message::Count => {
                let open = self.net.workers.get(pid).map_or(0, |worker| worker.open.len());
                self.say(pid, Said::Counted(open as u32));
            }
            Message::Echo => self.say(pid, Said::Echoed),
            Message::Move(count) => {
                let open = self.net.workers.get(pid).map(|worker| worker.open.iter().copied());
                let moved: Vec<u32> = open.into_iter().flatten().take(count as usize).collect();
                for number in moved {
                    self.finish(number);
                }
            }
        }
    }

    fn read_handle(&mut self, pid: Pid, line: HandleLine) {
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        let loses = worker.manner == Manner::LosesHandles;
        match line {
            HandleLine::Probe => self.say(pid, Said::HandleMissed),
            HandleLine::Reply(_) | HandleLine::Connection(_) if loses => self.say(pid, Said::HandleMissed),
            HandleLine::Reply(reply) => {
                let held = worker.channel.replies.get(&reply).copied();
                self.say(pid, Said::HandleTaken);
                if let Some((listening, member, port)) = held {
                    self.listens(pid, listening, Some(member), port);
                }
            }
            HandleLine::Connection(pushed) => {
                let listens = worker.servers.contains_key(&pushed.listening);
                let accepted = listens && worker.has_room() && worker.manner == Manner::Serves;
                self.say(pid, Said::HandleTaken);
                self.say(pid, Said::Answered { seq: pushed.seq, accepted });
                if accepted {
                    self.serve(pid, pushed.connection.0);
                }
            }
        }
    }

    /// A worker listens on an address, and reports it.
    fn listens(&mut self, pid: Pid, listening: ListeningId, member: Option<usize>, port: Port) {
        let by_listening = self.accepts(pid, &Deed::Ready(ReadySign::Listening));
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        worker.asked.remove(&port);
        worker.servers.insert(listening, (member, port));
        self.say(pid, Said::Listening(port));
        if let Some(process) = self.machine.processes.get_mut(pid) {
            process.is_ready |= by_listening;
            process.has_shown = true;
        }
        self.say_ready(pid);
    }

    /// A worker accepts connections from the queues of its sockets.
    fn take_from_queues(&mut self, pid: Pid) {
        let Some(worker) = self.net.workers.get(pid) else { return };
        let app = worker.app;
        for (listening, (member, _)) in worker.servers.clone() {
            for _ in 0..TAKEN_PER_TURN {
                let Some(worker) = self.net.workers.get(pid) else { return };
                if worker.busy_until > self.now || !worker.has_room() {
                    return;
                }
                let address = self.net.primaries.get_mut(&app).and_then(|p| p.addresses.get_mut(&listening));
                let queue = address.zip(member).and_then(|(address, member)| address.queues.get_mut(member));
                let Some(number) = queue.and_then(std::collections::VecDeque::pop_front) else { break };
                let place = self.net.connections[number as usize].place;
                if !matches!(place, ConnectionState::Queued(..)) {
                    let seen = format!("connection {number} is in a queue, and {place:?}");
                    self.watch.fail(Invariant::GivenOnce, seen);
                }
                self.serve(pid, number);
            }
        }
    }

    /// A worker accepts a connection and reads its request, which may keep its loop busy.
    fn serve(&mut self, pid: Pid, number: u32) {
        self.take(pid, number);
        let busy = match self.dice.below(100) {
            0..=69 => self.dice.micros(20, 300),
            70..=94 => self.dice.micros(300, 4_000),
            _ if self.calm => self.dice.micros(300, 4_000),
            _ => self.dice.millis(5, 400),
        };
        let busy = self.throttled(pid, busy);
        if let Some(worker) = self.net.workers.get_mut(pid) {
            worker.busy_until = self.now + busy;
        }
    }

    /// A process that hung continues.
    pub(crate) fn go_on(&mut self, pid: Pid) {
        if let Some(process) = self.machine.processes.get_mut(pid) {
            process.hangs = false;
        }
        if let Some(worker) = self.net.workers.get_mut(pid) {
            worker.turns = false;
            self.plan_turn(pid);
        }
    }

    /// Whether a live worker with a channel exists.
    pub(super) fn is_alive(&self, pid: Pid) -> bool {
        self.machine.processes.get(pid).is_some_and(|process| process.phase == Phase::Alive)
    }
}
