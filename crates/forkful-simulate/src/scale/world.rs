//! One app on many cores: clients, the kernel's queues, workers, and a daemon that is busy while it works.
//!
//! Unlike in the other worlds of this crate there are no faults here, but every operation takes time
//! ([`costs`]). Each worker has a core, and so has the daemon.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::Balance;
use forkful_dispatch::{Dispatcher, Event, Outbox, Steer, Watch, WorkerId};

use super::costs;
use super::meter::Meter;
use super::reload::Reload;
use super::worker::{Address, Done, Line, Worker, read};
use crate::dice::Dice;

/// What clients do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Load {
    /// One request, which keeps the event loop busy for this time in addition to Node's own work.
    Short { handler: Duration },
    /// One request, and then the connection stays open.
    Kept,
}

/// A scheduled event.
#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// The next client of the load.
    Arrives,
    Connects {
        connection: u32,
        tries: u32,
    },
    /// The daemon's turn begins, or the previous turn has ended.
    Turn {
        woken: bool,
    },
    Alarm,
    Line(u32, Line),
    WorkerTurn(u32),
    Done(u32, Done),
    /// A worker closes its kept connections and leaves.
    Leaves(u32),
    /// A worker closes one kept connection.
    GivesUp(u32),
    Started(u16),
}

/// An input of the daemon.
#[derive(Debug, Clone, Copy)]
pub(super) enum Heard {
    Event(Event),
    Took { worker: u32, seq: u64 },
    Closed(u64),
    Gone(u32),
}

/// The daemon's loop.
#[derive(Debug, Default)]
pub(super) struct Loop {
    inbox: VecDeque<Heard>,
    /// A turn is in progress or about to begin.
    turns: bool,
    alarm: Option<Time>,
    pub(super) busy: Duration,
    pub(super) steers: u64,
}

/// See the module's documentation.
pub(super) struct World {
    pub(super) dispatcher: Dispatcher,
    pub(super) outbox: Outbox,
    pub(super) meter: Meter,
    pub(super) address: Address,
    /// The workers that hold the address's sockets.
    pub(super) owners: Vec<Option<u32>>,
    pub(super) workers: BTreeMap<u32, Worker>,
    pub(super) daemon: Loop,
    pub(super) reload: Option<Reload>,
    pub(super) now: Time,
    /// The daemon's position in its turn.
    pub(super) clock: Time,
    pub(super) next_worker: u32,
    pub(super) load: Load,
    /// When each connection was requested.
    pub(super) asked: Vec<Time>,
    /// From then to its first answer, in µs.
    pub(super) waits: Vec<u32>,
    /// First packets dropped because of a full queue.
    pub(super) dropped: u64,
    arrivals: (f64, u64),
    pub(super) dice: Dice,
    queue: BinaryHeap<Reverse<(Time, u64, Wrapped)>>,
    order: u64,
}

/// Events have no order of their own.
#[derive(Debug)]
struct Wrapped(What);

impl PartialEq for Wrapped {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}
impl Eq for Wrapped {}
impl PartialOrd for Wrapped {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Wrapped {
    fn cmp(&self, _: &Self) -> std::cmp::Ordering {
        std::cmp::Ordering::Equal
    }
}

impl World {
    pub(super) fn new(workers: u16, balance: Balance, load: Load, meter: Meter) -> Self {
        let now = Time::from_start(Duration::from_secs(100));
        let mut dispatcher = Dispatcher::new(balance, true);
        // As below a keeper, which is the default.
        dispatcher.accept_one_by_one();
        let mut world = Self {
            address: Address::bind(&mut dispatcher, now),
            dispatcher,
            outbox: Outbox::default(),
            meter,
            owners: vec![None],
            workers: BTreeMap::new(),
            daemon: Loop::default(),
            reload: None,
            now,
            clock: now,
            next_worker: 1,
            load,
            asked: Vec::new(),
            waits: Vec::new(),
            dropped: 0,
            arrivals: (0.0, 0),
            dice: Dice::of(&[7, u64::from(workers)]),
            queue: BinaryHeap::new(),
            order: 0,
        };
        for slot in 0..workers {
            world.add_worker(slot);
        }
        world.set_alarm();
        world
    }

    pub(super) fn at(&mut self, at: Time, what: What) {
        self.order += 1;
        self.queue.push(Reverse((at, self.order, Wrapped(what))));
    }

    /// From now on this many clients arrive, randomly at this rate.
    pub(super) fn arrive(&mut self, per_second: f64, count: u64) {
        self.arrivals = (per_second, count);
        self.at(self.now, What::Arrives);
    }

    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while let Some(Reverse((at, ..))) = self.queue.peek()
            && *at <= until
        {
            let Some(Reverse((at, _, Wrapped(what)))) = self.queue.pop() else { break };
            self.now = at;
            self.happens(what);
        }
        self.now = until;
    }

    fn happens(&mut self, what: What) {
        match what {
            What::Arrives => self.next_arrival(),
            What::Connects { connection, tries } => self.connects(connection, tries),
            What::Turn { woken } => self.daemon_turn(woken),
            What::Alarm => {
                self.daemon.alarm = None;
                self.rouse_daemon();
            }
            What::Line(worker, line) => {
                if let Some(state) = self.workers.get_mut(&worker) {
                    state.lines.push_back(line);
                    self.rouse(worker);
                }
            }
            What::WorkerTurn(worker) => self.worker_turn(worker),
            What::Done(worker, done) => self.done(worker, done),
            What::Leaves(worker) => self.leaves(worker),
            What::GivesUp(worker) => self.gives_up(worker),
            What::Started(slot) => self.started(slot),
        }
    }

    fn next_arrival(&mut self) {
        let (rate, left) = self.arrivals;
        if left == 0 {
            return;
        }
        self.arrivals.1 = left - 1;
        self.new_connection(self.now);
        let chance = (self.dice.below(1 << 32) + 1) as f64 / (1_u64 << 32) as f64;
        let gap = Duration::from_secs_f64(-chance.ln() / rate);
        self.at(self.now + gap, What::Arrives);
    }

    pub(super) fn new_connection(&mut self, at: Time) {
        let connection = self.asked.len() as u32;
        self.asked.push(at);
        self.at(at, What::Connects { connection, tries: 0 });
    }

    /// The kernel chooses a queue.
    fn connects(&mut self, connection: u32, tries: u32) {
        let member = match &self.address.steer {
            Steer::Daemon => 0,
            Steer::RoundRobin(members) | Steer::BySource(members) => {
                usize::from(members[self.dice.below(members.len() as u64) as usize])
            }
        };
        if self.address.queues[member].len() > costs::BACKLOG {
            self.dropped += 1;
            let again = self.now + costs::SENT_AGAIN * 2_u32.pow(tries.min(5));
            return self.at(again, What::Connects { connection, tries: tries + 1 });
        }
        self.address.queues[member].push_back(connection);
        if let Some(worker) = self.owners[member] {
            self.rouse(worker);
        }
        if self.address.is_ready(member) {
            self.rouse_daemon();
        }
    }

    fn rouse_daemon(&mut self) {
        if !self.daemon.turns {
            self.daemon.turns = true;
            self.at(self.now, What::Turn { woken: true });
        }
    }

    pub(super) fn tell_daemon(&mut self, heard: Heard) {
        self.daemon.inbox.push_back(heard);
        self.rouse_daemon();
    }

    fn is_due(&self) -> bool {
        self.dispatcher.next_wake().is_some_and(|at| at <= self.now)
    }

    fn daemon_turn(&mut self, woken: bool) {
        if !woken && self.daemon.inbox.is_empty() && !self.is_due() && self.address.ready().next().is_none() {
            self.daemon.turns = false;
            return self.set_alarm();
        }
        let began = self.now;
        self.clock = began + if woken { costs::WAKE } else { costs::NEXT_TURN };
        let mut close = costs::READ_CLOSE;
        for _ in 0..self.daemon.inbox.len() {
            if let Some(heard) = self.daemon.inbox.pop_front() {
                if matches!(heard, Heard::Closed(_)) {
                    self.clock = self.clock + std::mem::replace(&mut close, costs::READ_CLOSE_MORE);
                }
                self.hear(heard);
            }
        }
        for member in self.address.ready().collect::<Vec<_>>() {
            self.address.disarmed[member] = true;
            let listening = self.address.id;
            if member == 0 && self.dispatcher.asks_for_waiting(listening) {
                self.clock = self.clock + costs::READ_QUEUE;
                let length = self.address.queues[0].len() as u32;
                self.step(Event::Queue { listening, member, length });
            }
            self.step(Event::MemberReady { listening, member });
        }
        if self.is_due() {
            forkful_dispatch::Chore::ALL.into_iter().for_each(|chore| self.step(Event::Due(chore)));
        }
        self.daemon.busy += self.clock.since(began);
        self.at(self.clock, What::Turn { woken: false });
    }

    pub(super) fn set_alarm(&mut self) {
        if let Some(at) = self.dispatcher.next_wake()
            && self.daemon.alarm.is_none_or(|alarm| at < alarm)
        {
            self.daemon.alarm = Some(at);
            self.at(at.max(self.now), What::Alarm);
        }
    }

    fn hear(&mut self, heard: Heard) {
        match heard {
            Heard::Event(event) => {
                self.clock = self.clock + costs::READ_LINE;
                self.step(event);
            }
            Heard::Took { worker, seq } => {
                self.clock = self.clock + costs::READ_LINE;
                self.step(Event::HandleTaken(WorkerId(worker)));
                self.step(Event::Answered { worker: WorkerId(worker), seq, accepted: true });
            }
            Heard::Closed(cookie) => {
                self.meter.time(|| self.dispatcher.connection_closed(cookie));
            }
            Heard::Gone(worker) => self.gone(worker),
        }
    }

    fn rouse(&mut self, worker: u32) {
        if let Some(state) = self.workers.get_mut(&worker).filter(|state| !state.runs) {
            state.runs = true;
            self.at(self.now, What::WorkerTurn(worker));
        }
    }

    /// A turn of a worker's event loop: its channel, its queue, its requests.
    fn worker_turn(&mut self, id: u32) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let mut clock = self.now;
        let mut done = Vec::new();
        for line in std::mem::take(&mut worker.lines) {
            let (cost, outcome) = read(worker, line);
            clock = clock + cost;
            done.extend(outcome.map(|outcome| (clock, outcome)));
        }
        if let Some(member) = worker.member.filter(|_| !worker.is_closed) {
            for connection in self.address.queues[member].drain(..) {
                clock = clock + costs::TAKE;
                done.push((clock, Done::Accepted(connection)));
            }
        }
        let handler = match self.load {
            Load::Short { handler } => handler,
            Load::Kept => Duration::ZERO,
        };
        for connection in std::mem::take(&mut worker.requests) {
            clock = clock + costs::REQUEST + handler;
            done.push((clock, Done::Answered(connection)));
        }
        worker.busy += clock.since(self.now);
        let some = !done.is_empty();
        done.into_iter().for_each(|(at, done)| self.at(at, What::Done(id, done)));
        if some {
            self.at(clock, What::WorkerTurn(id));
        } else if let Some(worker) = self.workers.get_mut(&id) {
            worker.runs = false;
        }
    }
}

/// Watches, as in the reactor.
impl Address {
    fn is_ready(&self, member: usize) -> bool {
        !self.queues[member].is_empty()
            && match self.watched[member] {
                Watch::Not => false,
                Watch::Once => !self.disarmed[member],
                Watch::Always => true,
            }
    }

    fn ready(&self) -> impl Iterator<Item = usize> {
        (0..self.queues.len()).filter(|member| self.is_ready(*member))
    }
}
