//! The primary of a simulated daemon: performs the actions of `forkful_dispatch`, like `forkful_cluster`.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forkful_core::Time;
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::AppId;
use forkful_dispatch::{
    Action, ConnectionId, Dispatcher, Event, Evidence, HandleLine, ListeningId, Outbox, Schedule, Steer,
    TakenBack, Watch, Write, Wrote,
};

use super::address::Address;
use super::channel::Item;
use super::client::{ConnectionState, End};
use super::{Port, pid_of, worker_of};
use crate::machine::{Phase, Pid};
use crate::plant::Plant;
use crate::watch::Invariant;
use crate::world::World;

/// More steps of a primary at one time than anything needs.
const STEPS_MAX: usize = 10_000;

/// An event of a primary for its supervisor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Greeted(Pid),
    Listening(Pid),
    Ready(Pid),
    Served(Pid, u64),
    ListenFailed(Pid, Port),
    Disconnected(Pid),
    /// It has answered its last request, and its app handles the stop signal.
    Drained(Pid),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Primary {
    pub(super) dispatcher: Dispatcher,
    pub(super) outbox: Outbox,
    pub(super) addresses: BTreeMap<ListeningId, Address>,
    pub(super) by_port: BTreeMap<Port, ListeningId>,
    /// Processes whose channel it has.
    pub(super) workers: BTreeSet<Pid>,
    pub(super) told: VecDeque<Told>,
    pub(super) next_reply: u64,
    /// When the dispatcher needs to be woken.
    pub(super) wake: Option<Time>,
    /// The reactor is about to report something.
    pub(super) rings: bool,
}

impl Primary {
    /// The app has a new definition.
    pub(crate) fn follow(&mut self, spec: &AppSpec) {
        self.dispatcher.set_slow_start(spec.slow_start);
    }

    /// `kept`: with a keeper, a connection waits in the kernel's queue until it can be sent to a worker.
    pub(crate) fn new(spec: &AppSpec, kept: bool) -> Self {
        let mut dispatcher = Dispatcher::new(spec.balance, true);
        if kept {
            dispatcher.accept_one_by_one();
        }
        dispatcher.set_slow_start(spec.slow_start);
        Self {
            dispatcher,
            outbox: Outbox::default(),
            addresses: BTreeMap::new(),
            by_port: BTreeMap::new(),
            workers: BTreeSet::new(),
            told: VecDeque::new(),
            next_reply: 0,
            wake: None,
            rings: false,
        }
    }

    /// Whether the reactor would report one of its sockets now.
    pub(super) fn is_ready(&self) -> bool {
        self.addresses.values().any(|address| address.ready().next().is_some())
    }

    pub(super) fn listening_of(&self, port: Port) -> Option<ListeningId> {
        self.by_port.get(&port).copied()
    }
}

impl World {
    /// Feeds an event to an app's dispatcher and performs the actions.
    pub(crate) fn dispatch(&mut self, app: AppId, event: Event) {
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        if let Some(trace) = &mut self.trace
            && !matches!(event, Event::Due(_))
        {
            trace.push(format!("    primary {}: {event:?}", app.0));
        }
        primary.dispatcher.step(event, self.now, &mut primary.outbox);
        self.perform_dispatch(app);
    }

    /// The same for a worker, if it exists.
    pub(crate) fn dispatch_for(&mut self, pid: Pid, event: impl FnOnce(forkful_dispatch::WorkerId) -> Event) {
        if let Some(worker) = self.net.workers.get(pid) {
            self.dispatch(worker.app, event(worker_of(pid)));
        }
    }

    /// Performs the actions in the outbox and everything that follows from them.
    pub(super) fn perform_dispatch(&mut self, app: AppId) {
        self.net.touched.insert(app);
        for _ in 0..STEPS_MAX {
            let Some(action) = self.net.primaries.get_mut(&app).and_then(|primary| primary.outbox.pop())
            else {
                return;
            };
            self.perform_action(app, action);
        }
        self.watch.fail(Invariant::NeverSpins, format!("the primary of app {} has ever more to do", app.0));
    }

    fn feed_dispatcher(&mut self, app: AppId, event: Event) {
        if let Some(primary) = self.net.primaries.get_mut(&app) {
            primary.dispatcher.step(event, self.now, &mut primary.outbox);
        }
    }

    fn perform_action(&mut self, app: AppId, action: Action) {
        if let Some(trace) = &mut self.trace
            && !matches!(action, Action::Flush(_) | Action::Later(_) | Action::ReadQueues(_))
        {
            trace.push(format!("      → {action:?}"));
        }
        match action {
            Action::Flush(worker) => self.flush(app, pid_of(worker)),
            Action::Tell(worker, message) => self.send(app, pid_of(worker), Item::Told(message)),
            Action::Accept { listening, member, rescued } => self.accept(app, listening, member, rescued),
            Action::Close(ConnectionId(number)) => self.close_copy(number),
            Action::TakeBack { worker, pushed } => {
                let is_forgotten = self.plant == Some(Plant::GivenTwice);
                let state = self.net.workers.get_mut(pid_of(worker)).filter(|state| state.recalls);
                let outcome = state.map_or(TakenBack::Refused { for_good: true }, |state| {
                    let found = state.channel.take_back(pushed, is_forgotten);
                    if found { TakenBack::Unread } else { TakenBack::Read }
                });
                self.feed_dispatcher(app, Event::TakenBack { worker, outcome });
            }
            Action::AnswerAgain { .. } => {
                self.watch.fail(Invariant::ChannelKept, "an answer again, without a takeover".to_owned());
            }
            Action::DropReply { worker, reply } => {
                if let Some(worker) = self.net.workers.get_mut(pid_of(worker))
                    && worker.channel.replies.remove(&reply).is_none()
                {
                    self.watch.fail(Invariant::ChannelKept, format!("{reply:?} is dropped twice"));
                }
            }
            Action::Watch { listening, member, watch } => self.watch_socket(app, listening, member, watch),
            Action::Steer { listening, steer } => self.steer(app, listening, steer),
            Action::ReadQueues(listening) => self.read_queues(app, listening),
            Action::ReadSchedule { worker, suspected } => {
                let idle = Schedule { ran: Duration::ZERO, waited: Duration::ZERO };
                self.feed_dispatcher(app, Event::Scheduled { worker, suspected, schedule: Some(idle) });
            }
            Action::Unbind { listening, .. } => self.unbind(app, listening),
            Action::Later(later) => self.feed_dispatcher(app, Event::Now(later)),
        }
    }

    /// Sends a line to a worker.
    pub(super) fn send(&mut self, app: AppId, pid: Pid, item: Item) {
        if let Some(worker) = self.net.workers.get_mut(pid) {
            worker.channel.lines.push_back(item);
            self.flush(app, pid);
        }
    }

    /// Writes as much as possible to a worker.
    pub(super) fn flush(&mut self, app: AppId, pid: Pid) {
        let handles_full = self.goes_wrong(self.net.faults.handles_full);
        let tears = self.goes_wrong(self.net.faults.tears);
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        let Some(worker) = self.net.workers.get_mut(pid) else { return };
        let channel = &mut worker.channel;
        let Some(state) = primary.dispatcher.channel_mut(worker_of(pid)) else { return };
        state.begin_write();
        let mut all = true;
        let mut given = None;
        while let Some(write) = state.next_write(channel.unsent(), self.now) {
            let carries = matches!(write, Write::Handle(HandleLine::Connection(_) | HandleLine::Reply(_)));
            let wrote = if worker.has_closed {
                Wrote::Failed
            } else if carries && handles_full {
                Wrote::HandlesFull
            } else if write == Write::Rest {
                channel.write_rest();
                Wrote::Whole
            } else if channel.has_room() {
                let item = match write {
                    Write::Handle(line) => Some(Item::Handle(line)),
                    Write::Line | Write::Rest => channel.lines.pop_front(),
                };
                if let Some(Item::Handle(HandleLine::Connection(pushed))) = item {
                    given = Some(pushed);
                }
                let written = item.map_or(Ok(()), |item| channel.write(item, tears));
                if let Err(seen) = written {
                    self.watch.fail(Invariant::ChannelKept, seen);
                }
                if tears { Wrote::Part } else { Wrote::Whole }
            } else {
                Wrote::NoRoom
            };
            if !state.wrote(write, wrote, self.now) {
                all = false;
                break;
            }
        }
        let unsent = channel.unsent();
        primary.dispatcher.flushed(worker_of(pid), unsent, all, self.now, &mut primary.outbox);
        self.wake_loop(pid);
        if let Some(pushed) = given.filter(|pushed| !pushed.pinned) {
            self.check_given(app, pid, pushed);
        }
    }

    /// Accepts connections from a socket's queue.
    fn accept(&mut self, app: AppId, listening: ListeningId, member: usize, rescued: bool) {
        let has_none = self.goes_wrong(self.net.faults.no_descriptors);
        let (mut count, mut failed) = (0, false);
        loop {
            let Some(primary) = self.net.primaries.get_mut(&app) else { return };
            if primary.dispatcher.room_left(listening, self.now) == 0 {
                break;
            }
            if has_none {
                failed = true;
                break;
            }
            let queue = primary.addresses.get_mut(&listening).map(|address| &mut address.queues[member]);
            let Some(number) = queue.and_then(VecDeque::pop_front) else { break };
            let is_unix = primary.addresses[&listening].port.is_unix();
            count += 1;
            let connection = &mut self.net.connections[number as usize];
            connection.place = ConnectionState::Daemon(app, listening);
            connection.is_held = true;
            connection.came_by = Some((app, listening));
            if rescued && self.plant == Some(Plant::RescueDropped) {
                self.close_copy(number);
                continue;
            }
            let cookie = (!is_unix).then_some(u64::from(number));
            let connection = ConnectionId(number);
            self.feed_dispatcher(app, Event::Arrived { listening, connection, cookie, rescued });
        }
        self.feed_dispatcher(app, Event::AcceptEnded { listening, count, rescued, failed });
    }

    /// The daemon closes its descriptor of a connection.
    fn close_copy(&mut self, number: u32) {
        let connection = &mut self.net.connections[number as usize];
        if !std::mem::take(&mut connection.is_held) {
            let seen = format!("connection {number} is closed by the daemon, which has no descriptor of it");
            return self.watch.fail(Invariant::NoneDropped, seen);
        }
        let is_lost = connection.is_lost;
        let is_taken = connection.is_touched;
        let seen = connection.came_by.and_then(|(app, listening)| {
            self.net.primaries.get_mut(&app).and_then(|primary| primary.addresses.get_mut(&listening))
        });
        let is_bound = seen.is_some();
        if let Some(address) = seen {
            address.lost += u64::from(is_lost);
            address.handed_over += u64::from(is_taken && !is_lost);
        }
        match connection.place {
            ConnectionState::Taken(pid) => {
                let process = self.machine.processes.get(pid);
                if process.is_none_or(|process| process.phase == Phase::Dead) {
                    let end = if is_lost { End::Lost } else { End::WithWorker };
                    connection.place = ConnectionState::Ended(end);
                }
            }
            ConnectionState::Daemon(..) => {
                if is_bound && !is_lost {
                    let seen = format!("connection {number} is closed by the daemon, and nobody has it");
                    self.watch.fail(Invariant::NoneDropped, seen);
                }
                connection.place = ConnectionState::Ended(if is_lost { End::Lost } else { End::GivenUp });
            }
            ConnectionState::Ended(_) => {}
            ConnectionState::Knocks | ConnectionState::Queued(..) => {
                let seen = format!("connection {number} is closed by the daemon, which has not accepted it");
                self.watch.fail(Invariant::NoneDropped, seen);
            }
        }
    }

    fn watch_socket(&mut self, app: AppId, listening: ListeningId, member: usize, watch: Watch) {
        let refuses = self.goes_wrong(self.net.faults.kernel_refuses);
        let primary = self.net.primaries.get_mut(&app);
        let Some(address) = primary.and_then(|primary| primary.addresses.get_mut(&listening)) else { return };
        if refuses && watch != Watch::Not {
            let before = address.watched[member];
            self.feed_dispatcher(app, Event::WatchFailed { listening, member, before });
        } else {
            address.watch(member, watch);
        }
    }

    fn steer(&mut self, app: AppId, listening: ListeningId, steer: Steer) {
        let refuses = self.goes_wrong(self.net.faults.kernel_refuses);
        let skips = self.plants(Plant::LeavingGetsMore);
        let primary = self.net.primaries.get_mut(&app);
        let Some(address) = primary.and_then(|primary| primary.addresses.get_mut(&listening)) else { return };
        address.steer_failed = refuses;
        if refuses {
            return self.feed_dispatcher(app, Event::SteerFailed(listening));
        }
        if let Steer::RoundRobin(members) | Steer::BySource(members) = &steer
            && members.is_empty()
        {
            return self.watch.fail(Invariant::GivenToReady, "the kernel is told to give to nobody");
        }
        if let Steer::BySource(members) = &steer {
            let slots = self.daemon.apps.get(&app).map_or(0, crate::daemon::App::slot_count);
            if members.len() < usize::from(slots) {
                let seen = format!("sticky clients of {slots} slots are distributed over {}", members.len());
                return self.watch.fail(Invariant::ClientsStay, seen);
            }
        }
        let is_fewer = |members: &[u16]| members.iter().any(|member| !new_members(&steer).contains(member));
        if !(skips && is_fewer(address.steered())) {
            address.steer = steer;
        }
    }

    fn read_queues(&mut self, app: AppId, listening: ListeningId) {
        let lengths: Vec<u32> = {
            let primary = self.net.primaries.get(&app);
            let Some(address) = primary.and_then(|primary| primary.addresses.get(&listening)) else { return };
            address.queues.iter().map(|queue| queue.len() as u32).collect()
        };
        for (member, length) in lengths.into_iter().enumerate().skip(1) {
            self.feed_dispatcher(app, Event::Queue { listening, member, length });
        }
        self.feed_dispatcher(app, Event::QueuesRead(listening));
    }

    fn unbind(&mut self, app: AppId, listening: ListeningId) {
        let serving = self.serving_workers(app, listening).next();
        if let Some(pid) = serving {
            let seen = format!("an address is given up on which process {} serves", pid.0);
            self.watch.fail(Invariant::NoneDropped, seen);
        }
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        let Some(address) = primary.addresses.remove(&listening) else { return };
        primary.by_port.remove(&address.port);
        self.give_up(address.queues.into_iter().flatten());
    }

    /// The app is removed, and its sockets with it.
    pub(crate) fn drop_primary(&mut self, app: AppId) {
        let Some(primary) = self.net.primaries.remove(&app) else { return };
        self.give_up(primary.addresses.into_values().flat_map(|address| address.queues).flatten());
        for connection in &mut self.net.connections {
            if matches!(connection.place, ConnectionState::Daemon(of, _) if of == app) {
                connection.place = ConnectionState::Ended(End::GivenUp);
                connection.is_held = false;
            }
        }
    }

    /// A worker's process has ended, or its channel can no longer be used: its unacknowledged connections go
    /// to other workers.
    pub(super) fn cut_off(&mut self, app: AppId, pid: Pid, is_closed: bool) {
        let skips = self.plants(Plant::GivenTwice);
        let worker = worker_of(pid);
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        if !primary.workers.remove(&pid) {
            return;
        }
        if let Some(process) = self.machine.processes.get_mut(pid) {
            process.has_closed_channel = true;
        }
        let may_have_served = match primary.dispatcher.evidence(worker, is_closed) {
            Evidence::None => None,
            Evidence::Traffic(ConnectionId(number)) => {
                Some(number).filter(|number| self.net.connections[*number as usize].is_touched)
            }
            Evidence::Unread(pushed) => {
                let state = self.net.workers.get_mut(pid).filter(|worker| worker.recalls);
                let is_out = state.is_some_and(|worker| worker.channel.take_out(pushed));
                (!is_out).then_some(pushed.connection.0)
            }
        };
        let may_have_served = may_have_served.filter(|_| !skips);
        if let Some(number) = may_have_served {
            self.net.connections[number as usize].is_lost = true;
        }
        self.dispatch(app, Event::Gone { worker, may_have_served: may_have_served.is_some() });
    }

    /// Workers that violate the protocol are treated as if they had hung up.
    pub(super) fn drop_broken(&mut self, app: AppId) {
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        if !primary.dispatcher.take_some_broken() {
            return;
        }
        for worker in primary.dispatcher.broken().collect::<Vec<_>>() {
            let pid = pid_of(worker);
            self.hear_all(app, pid);
            if let Some(primary) = self.net.primaries.get_mut(&app)
                && primary.workers.contains(&pid)
            {
                primary.told.push_back(Told::Disconnected(pid));
                self.cut_off(app, pid, false);
            }
        }
    }
}

fn new_members(steer: &Steer) -> &[u16] {
    match steer {
        Steer::Daemon => &[],
        Steer::RoundRobin(members) | Steer::BySource(members) => members,
    }
}
