//! A driver without descriptors: performs the dispatcher's actions on the simulated kernel, and checks them.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_dispatch::{
    Action, Channel, Chore, ConnectionId, Dispatcher, Event, Evidence, Grant, HandleLine, Kind, ListeningId,
    Message, NewListening, Outbox, ReplyId, Schedule, TakenBack, Unsent, Watch, WorkerId, Write, Wrote,
};

use super::kernel::{Address, Fate, Item, Manner, Process};

/// More turns mean an endless loop.
const TURNS_MAX: usize = 5_000;

/// Failures of the system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Faults {
    /// Too many handles are in flight.
    pub(crate) handles_full: bool,
    /// There are no free descriptors.
    pub(crate) no_descriptors: bool,
    /// The kernel refuses changes of steering and watches.
    pub(crate) kernel_refuses: bool,
    /// Every line is accepted in two parts.
    pub(crate) tears: bool,
    /// Nothing can be taken back.
    pub(crate) keeps_pushes: bool,
}

/// See the module's documentation.
pub(crate) struct World {
    pub(crate) dispatcher: Dispatcher,
    outbox: Outbox,
    pub(crate) now: Time,
    pub(crate) processes: BTreeMap<u32, Process>,
    pub(crate) addresses: BTreeMap<ListeningId, Address>,
    /// The app's address, once a worker has asked for it; the last one of several.
    pub(crate) bound: Option<ListeningId>,
    pub(crate) clients: BTreeMap<u32, Fate>,
    pub(crate) faults: Faults,
    kind: NewListening,
    /// How often queues were sampled.
    pub(crate) looks: usize,
    /// How often a watch was changed.
    pub(crate) watches: usize,
    /// How often a worker has reported its number of kept connections.
    pub(crate) counts: usize,
    /// Apps do something when they are told to stop.
    pub(crate) handle_stops: bool,
    next_worker: u32,
    next_reply: u64,
}

impl World {
    pub(crate) fn new(balance: Balance, unix: bool) -> Self {
        let kind = if unix { Kind::Unix } else { Kind::Tcp };
        Self {
            dispatcher: Dispatcher::new(balance, true),
            outbox: Outbox::default(),
            now: Time::from_start(Duration::from_secs(1000)),
            processes: BTreeMap::new(),
            addresses: BTreeMap::new(),
            bound: None,
            clients: BTreeMap::new(),
            faults: Faults::default(),
            kind: NewListening { kind, group: !unix && balance != Balance::Shared },
            looks: 0,
            watches: 0,
            counts: 0,
            handle_stops: false,
            next_worker: 1,
            next_reply: 0,
        }
    }

    pub(crate) fn step(&mut self, event: Event) {
        self.feed(event);
        while let Some(action) = self.outbox.pop() {
            self.perform(action);
        }
    }

    fn feed(&mut self, event: Event) {
        self.dispatcher.step(event, self.now, &mut self.outbox);
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Flush(worker) => self.flush(worker.0),
            Action::Tell(worker, message) => self.say(worker.0, Item::Told(message)),
            Action::Accept { listening, member, rescued } => self.accept(listening, member, rescued),
            Action::Close(ConnectionId(client)) => {
                assert_ne!(self.clients[&client], Fate::Waits, "connection {client} was dropped");
            }
            Action::TakeBack { worker, pushed } => {
                let process = self.processes.get_mut(&worker.0).filter(|_| !self.faults.keeps_pushes);
                let outcome = match process.map(|process| process.take_back(pushed)) {
                    None => TakenBack::Refused { for_good: false },
                    Some(true) => TakenBack::Unread,
                    Some(false) => TakenBack::Read,
                };
                self.feed(Event::TakenBack { worker, outcome });
            }
            Action::AnswerAgain { .. } => unreachable!("no daemon takes over"),
            Action::DropReply { worker, reply } => {
                if let Some(process) = self.processes.get_mut(&worker.0) {
                    assert!(process.replies.remove(&reply).is_some(), "a reply is dropped once");
                }
            }
            Action::Watch { listening, member, watch } => {
                self.watches += 1;
                let address = self.addresses.get_mut(&listening).expect("is bound");
                if self.faults.kernel_refuses && watch != Watch::Not {
                    let before = address.watched[member];
                    self.feed(Event::WatchFailed { listening, member, before });
                } else {
                    address.watch(member, watch);
                }
            }
            Action::Steer { listening, steer } => {
                if self.faults.kernel_refuses {
                    self.feed(Event::SteerFailed(listening));
                } else {
                    self.addresses.get_mut(&listening).expect("is bound").steer(steer);
                }
            }
            Action::ReadQueues(listening) => {
                self.looks += 1;
                for member in 1..self.addresses[&listening].queues.len() {
                    let length = self.addresses[&listening].queues[member].len() as u32;
                    self.feed(Event::Queue { listening, member, length });
                }
                self.feed(Event::QueuesRead(listening));
            }
            Action::ReadSchedule { worker, suspected } => {
                let idle = Schedule { ran: Duration::ZERO, waited: Duration::ZERO };
                self.feed(Event::Scheduled { worker, suspected, schedule: Some(idle) });
            }
            Action::Unbind { listening, .. } => self.unbind(listening),
            Action::Later(later) => self.feed(Event::Now(later)),
        }
    }

    /// Clients of an address that is given up are refused.
    fn unbind(&mut self, listening: ListeningId) {
        assert!(self.addresses.remove(&listening).is_some(), "an address is given up once");
        let waiting = self.clients.values_mut().filter(|fate| **fate == Fate::Waits);
        waiting.for_each(|fate| *fate = Fate::GivenUp);
        self.bound = self.bound.filter(|bound| *bound != listening);
    }

    pub(crate) fn say(&mut self, worker: u32, item: Item) {
        if let Some(process) = self.processes.get_mut(&worker) {
            process.lines.push_back(item);
            self.flush(worker);
        }
    }

    fn flush(&mut self, worker: u32) {
        let id = WorkerId(worker);
        let Some(process) = self.processes.get_mut(&worker) else { return };
        let Some(state) = self.dispatcher.channel_mut(id) else { return };
        let unsent = |process: &Process| Unsent {
            rest: process.torn || !process.again.is_empty(),
            lines: !process.lines.is_empty(),
        };
        state.begin_write();
        let mut all = true;
        while let Some(write) = state.next_write(unsent(process), self.now) {
            let is_handle = matches!(write, Write::Handle(HandleLine::Connection(_) | HandleLine::Reply(_)));
            let wrote = if is_handle && self.faults.handles_full {
                Wrote::HandlesFull
            } else if !process.has_room() && !process.torn && process.again.is_empty() {
                Wrote::NoRoom
            } else {
                match write {
                    Write::Rest => {
                        process.torn = false;
                        process.pipe.append(&mut process.again);
                        Wrote::Whole
                    }
                    Write::Handle(line) => {
                        process.write(Item::Handle(line));
                        process.torn = self.faults.tears;
                        if self.faults.tears { Wrote::Part } else { Wrote::Whole }
                    }
                    Write::Line => {
                        let line = process.lines.pop_front().expect("was said to be there");
                        process.write(line);
                        process.torn = self.faults.tears;
                        if self.faults.tears { Wrote::Part } else { Wrote::Whole }
                    }
                }
            };
            if !state.wrote(write, wrote, self.now) {
                all = false;
                break;
            }
        }
        self.dispatcher.flushed(id, unsent(process), all, self.now, &mut self.outbox);
    }

    fn accept(&mut self, listening: ListeningId, member: usize, rescued: bool) {
        let (mut count, mut failed) = (0, false);
        for _ in 0..self.dispatcher.room_left(listening, self.now) {
            if self.faults.no_descriptors {
                failed = true;
                break;
            }
            let queue = self.addresses.get_mut(&listening).map(|address| &mut address.queues[member]);
            let Some(client) = queue.and_then(std::collections::VecDeque::pop_front) else { break };
            let cookie = (self.kind.kind == Kind::Tcp).then_some(u64::from(client));
            self.feed(Event::Arrived { listening, connection: ConnectionId(client), cookie, rescued });
            count += 1;
        }
        self.feed(Event::AcceptEnded { listening, count, rescued, failed });
    }
}

/// Actions of tests.
impl World {
    pub(crate) fn spawn(&mut self, open: bool, agent: bool) -> u32 {
        let worker = self.next_worker;
        self.next_worker += 1;
        self.processes.insert(worker, Process::new());
        self.dispatcher.attach(WorkerId(worker), true);
        self.dispatcher.identify(WorkerId(worker), worker as u16 % 4);
        if open {
            self.step(Event::Open(WorkerId(worker)));
        }
        if agent {
            self.step(Event::Greeted(WorkerId(worker)));
        }
        self.query(worker);
        worker
    }

    /// The app in a worker listens on the address.
    pub(crate) fn query(&mut self, worker: u32) {
        let id = WorkerId(worker);
        if !self.dispatcher.may_ask(id) {
            return;
        }
        let listening = self.bound.unwrap_or_else(|| {
            let listening = self.dispatcher.add_listening(self.kind, self.now);
            self.addresses.insert(listening, Address::new(self.kind.group));
            self.bound = Some(listening);
            listening
        });
        if self.dispatcher.holds(id, listening) {
            return;
        }
        let member = match self.dispatcher.grant(listening, usize::MAX).expect("there is no bound") {
            Grant::Push => {
                self.say(worker, Item::Pushes(listening));
                self.step(Event::Held { worker: id, ack: 0, listening, member: None, reply: None });
                return;
            }
            Grant::Shared => 0,
            Grant::Own(member) => member,
            Grant::New => {
                self.dispatcher.add_member(listening);
                self.addresses.get_mut(&listening).expect("is bound").add_member()
            }
        };
        let reply = ReplyId(self.next_reply);
        self.next_reply += 1;
        let process = self.processes.get_mut(&worker).expect("is there");
        process.replies.insert(reply, (listening, member));
        let own = self.kind.group.then_some(member);
        self.step(Event::Held { worker: id, ack: 0, listening, member: own, reply: Some(reply) });
    }

    pub(crate) fn connect(&mut self, clients: usize) {
        for _ in 0..clients {
            let Some(address) = self.bound.and_then(|bound| self.addresses.get_mut(&bound)) else { return };
            let client = self.clients.len() as u32;
            address.connect(client);
            self.clients.insert(client, Fate::Waits);
        }
    }

    /// The process is gone, or has closed its channel. If the channel was crowded, it may have served what it
    /// did not acknowledge.
    pub(crate) fn kill(&mut self, worker: u32) {
        let id = WorkerId(worker);
        self.dispatcher.exited(id);
        let lost = match self.dispatcher.evidence(id, true) {
            Evidence::None => None,
            Evidence::Traffic(connection) => Some(connection),
            Evidence::Unread(pushed) => panic!("a closed end cannot be read: {pushed:?}"),
        };
        self.forget(worker, lost);
    }

    /// The worker violates the protocol. It is alive, and may continue reading, unless its unread data is
    /// taken out.
    pub(crate) fn give_up(&mut self, worker: u32) {
        let id = WorkerId(worker);
        self.dispatcher.channel_mut(id).expect("is there").break_off();
        let lost = match self.dispatcher.evidence(id, false) {
            Evidence::None => None,
            Evidence::Unread(pushed) => self.faults.keeps_pushes.then_some(pushed.connection),
            Evidence::Traffic(connection) => panic!("it may still serve connection {connection:?}"),
        };
        self.forget(worker, lost);
    }

    fn forget(&mut self, worker: u32, lost: Option<ConnectionId>) {
        self.processes.remove(&worker);
        if let Some(ConnectionId(client)) = lost {
            self.clients.insert(client, Fate::Lost);
        }
        self.step(Event::Gone { worker: WorkerId(worker), may_have_served: lost.is_some() });
    }

    /// One turn of a worker's event loop: it reads its channel, and accepts from its sockets.
    pub(crate) fn turn(&mut self, worker: u32) {
        while self.read_line(worker) {}
        let Some(process) = self.processes.get(&worker) else { return };
        for (listening, member) in process.servers.clone() {
            let Some(address) = self.addresses.get_mut(&listening) else { continue };
            if let Some(member) = member {
                for client in address.queues[member].drain(..) {
                    assert_eq!(self.clients.insert(client, Fate::ServedBy(worker)), Some(Fate::Waits));
                }
            }
        }
    }

    /// A worker reads one line of its channel, if there is one.
    pub(crate) fn read_line(&mut self, worker: u32) -> bool {
        let item = self.processes.get_mut(&worker).and_then(Process::read);
        if let Some(item) = item {
            self.read(worker, item);
            if item.is_last() {
                self.kill(worker);
            }
        }
        item.is_some()
    }

    fn read(&mut self, worker: u32, item: Item) {
        let id = WorkerId(worker);
        let process = self.processes.get_mut(&worker).expect("is there");
        match item {
            Item::Handle(line) => {
                process.unanswered -= 1;
                self.read_handle(worker, line);
            }
            Item::Pushes(listening) => {
                process.servers.insert(listening, None);
                self.step(Event::Listens { worker: id, listening });
            }
            Item::Chatter(number) => {
                assert_eq!(number, process.chatter.1, "messages come in order");
                process.chatter.1 += 1;
            }
            Item::Told(Message::Drain { .. }) => {
                self.step(Event::Drained { worker: id, stops: self.handle_stops });
            }
            Item::Told(Message::Count) => {
                self.counts += 1;
                let connections = forkful_core::steering::evenness::Connections::default();
                self.step(Event::Counted { worker: id, connections });
            }
            Item::Told(
                Message::Move(_) | Message::Echo | Message::Disconnect { .. } | Message::Acknowledge { .. },
            ) => {}
        }
    }

    fn read_handle(&mut self, worker: u32, line: HandleLine) {
        let id = WorkerId(worker);
        let process = self.processes.get_mut(&worker).expect("is there");
        let is_lost = process.manner == Manner::LosesHandles;
        match line {
            HandleLine::Probe => self.step(Event::HandleMissed(id)),
            HandleLine::Reply(_) | HandleLine::Connection(_) if is_lost => self.step(Event::HandleMissed(id)),
            HandleLine::Reply(reply) => {
                let (listening, member) = process.replies[&reply];
                process.servers.insert(listening, Some(member));
                self.step(Event::HandleTaken(id));
                self.step(Event::Listens { worker: id, listening });
            }
            HandleLine::Connection(pushed) => {
                let is_open = process.servers.contains_key(&pushed.listening);
                let accepted = is_open && process.manner == Manner::Serves;
                if accepted {
                    let before = self.clients.insert(pushed.connection.0, Fate::ServedBy(worker));
                    let is_free = matches!(before, Some(Fate::Waits | Fate::GivenUp));
                    assert!(is_free, "a connection is served once: {before:?}");
                }
                self.step(Event::HandleTaken(id));
                self.step(Event::Answered { worker: id, seq: pushed.seq, accepted });
            }
        }
    }

    /// The app closes its server.
    pub(crate) fn close_server(&mut self, worker: u32) {
        let servers = self.processes.get_mut(&worker).map(|process| std::mem::take(&mut process.servers));
        for (listening, _) in servers.into_iter().flatten() {
            self.step(Event::Closed { worker: WorkerId(worker), listening });
        }
    }

    /// Runs the daemon's loop until nothing is left to do.
    pub(crate) fn settle(&mut self) {
        for _ in 0..TURNS_MAX {
            let ready =
                self.addresses.iter().find_map(|(listening, address)| Some((*listening, address.ready()?)));
            let writable = self.processes.iter().find(|(id, process)| {
                let wants = self.dispatcher.channel(WorkerId(**id)).is_some_and(Channel::wants_write);
                wants && process.has_room()
            });
            if let Some((listening, member)) = ready {
                self.addresses.get_mut(&listening).expect("is bound").disarmed.insert(member);
                if member == 0 && self.dispatcher.asks_for_waiting(listening) {
                    let length = self.addresses[&listening].queues[0].len() as u32;
                    self.step(Event::Queue { listening, member, length });
                }
                self.step(Event::MemberReady { listening, member });
            } else if let Some((worker, _)) = writable {
                let worker = *worker;
                self.flush(worker);
                self.step(Event::Due(Chore::Sample));
            } else if self.dispatcher.next_wake().is_some_and(|at| at <= self.now) {
                Chore::ALL.into_iter().for_each(|chore| self.step(Event::Due(chore)));
                let next = self.dispatcher.next_wake();
                assert!(next.is_none_or(|at| at > self.now), "wants to be woken in the past, for ever");
            } else {
                return;
            }
        }
        panic!("the loop spins");
    }

    /// Advances the clock, and wakes the dispatcher when due.
    pub(crate) fn advance(&mut self, by: Duration) {
        let until = self.now + by;
        self.settle();
        while let Some(at) = self.dispatcher.next_wake().filter(|at| *at <= until) {
            self.now = self.now.max(at);
            self.settle();
        }
        self.now = until;
        self.settle();
    }
}
