//! The daemon's side: performs the dispatcher's actions, each with its cost.

use forkful_core::spec::Balance;
use forkful_dispatch::{
    Action, ConnectionId, Dispatcher, Event, HandleLine, Kind, ListeningId, NewListening, Schedule, Steer,
    TakenBack, Unsent, Watch, WorkerId, Write, Wrote,
};

use forkful_core::Time;

use super::costs;
use super::worker::{Address, Line};
use super::world::{What, World};

impl Address {
    pub(super) fn bind(dispatcher: &mut Dispatcher, now: Time) -> Self {
        let id = dispatcher.add_listening(NewListening { kind: Kind::Tcp, group: true }, now);
        let mut address =
            Self { id, queues: Vec::new(), watched: Vec::new(), disarmed: Vec::new(), steer: Steer::Daemon };
        address.add_member();
        address
    }

    pub(super) fn add_member(&mut self) -> usize {
        self.queues.push(std::collections::VecDeque::new());
        self.watched.push(Watch::Not);
        self.disarmed.push(false);
        self.queues.len() - 1
    }
}

impl World {
    /// Whether the daemon hands connections over now.
    pub(super) fn is_handed_over(&self) -> bool {
        let balance = self.dispatcher.counters(self.address.id).map(|(balance, _)| balance);
        matches!(balance, Some(Balance::Exact | Balance::Least))
    }

    pub(super) fn step(&mut self, event: Event) {
        self.feed(event);
        while let Some(action) = self.outbox.pop() {
            self.perform(action);
        }
    }

    fn feed(&mut self, event: Event) {
        self.clock = self.clock + costs::STEP;
        let Self { dispatcher, outbox, clock, meter, .. } = self;
        meter.time(|| dispatcher.step(event, *clock, outbox));
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Flush(worker) => self.flush(worker.0),
            Action::Tell(worker, message) => {
                if let Some(state) = self.workers.get_mut(&worker.0) {
                    state.unsent.push_back(message);
                    self.flush(worker.0);
                }
            }
            Action::Accept { listening, member, rescued } => self.accept(listening, member, rescued),
            Action::TakeBack { worker, pushed } => {
                let lines = self.workers.get_mut(&worker.0).map(|state| &mut state.lines);
                let is_it = |line: &Line| matches!(line, Line::Handle(HandleLine::Connection(found)) if *found == pushed);
                let found = lines.and_then(|lines| {
                    let at = lines.iter().position(is_it)?;
                    lines.remove(at)
                });
                let outcome = if found.is_some() { TakenBack::Unread } else { TakenBack::Read };
                self.feed(Event::TakenBack { worker, outcome });
            }
            Action::Watch { member, watch, .. } => {
                self.address.watched[member] = watch;
                self.address.disarmed[member] = false;
            }
            Action::Steer { steer, .. } => {
                self.clock = self.clock + costs::STEER;
                self.daemon.steers += 1;
                self.address.steer = steer;
            }
            Action::ReadQueues(listening) => {
                for member in 1..self.address.queues.len() {
                    self.clock = self.clock + costs::READ_QUEUE;
                    let length = self.address.queues[member].len() as u32;
                    // Recording a length does not cost a step.
                    let Self { dispatcher, outbox, clock, meter, .. } = self;
                    meter
                        .time(|| dispatcher.step(Event::Queue { listening, member, length }, *clock, outbox));
                }
                self.feed(Event::QueuesRead(listening));
            }
            Action::ReadSchedule { worker, suspected } => {
                let ran = self.workers.get(&worker.0).map(|state| state.busy);
                let schedule = ran.map(|ran| Schedule { ran, waited: std::time::Duration::ZERO });
                self.feed(Event::Scheduled { worker, suspected, schedule });
            }
            Action::Later(later) => self.feed(Event::Now(later)),
            Action::AnswerAgain { .. }
            | Action::Close(_)
            | Action::DropReply { .. }
            | Action::Unbind { .. } => {}
        }
    }

    fn flush(&mut self, worker: u32) {
        let Some(state) = self.workers.get_mut(&worker) else { return };
        let mut sent = Vec::new();
        let Self { dispatcher, outbox, clock, meter, .. } = self;
        let unsent = |lines: bool| Unsent { rest: false, lines };
        meter.time(|| {
            let Some(channel) = dispatcher.channel_mut(WorkerId(worker)) else { return };
            channel.begin_write();
            while let Some(write) = channel.next_write(unsent(!state.unsent.is_empty()), *clock) {
                let line = match write {
                    Write::Handle(line) => Some(Line::Handle(line)),
                    Write::Line | Write::Rest => state.unsent.pop_front().map(Line::Told),
                };
                let is_connection = matches!(line, Some(Line::Handle(HandleLine::Connection(_))));
                *clock = *clock + if is_connection { costs::SEND_CONNECTION } else { costs::SEND_LINE };
                sent.extend(line.map(|line| (*clock, line)));
                if !channel.wrote(write, Wrote::Whole, *clock) {
                    break;
                }
            }
            let left = unsent(!state.unsent.is_empty());
            dispatcher.flushed(WorkerId(worker), left, true, *clock, outbox);
        });
        for (at, line) in sent {
            self.at(at, What::Line(worker, line));
        }
    }

    fn accept(&mut self, listening: ListeningId, member: usize, rescued: bool) {
        let mut count = 0;
        for _ in 0..self.dispatcher.room_left(listening, self.clock) {
            let Some(connection) = self.address.queues[member].pop_front() else { break };
            self.clock = self.clock + costs::ACCEPT;
            let cookie = Some(u64::from(connection));
            let connection = ConnectionId(connection);
            self.feed(Event::Arrived { listening, connection, cookie, rescued });
            count += 1;
        }
        self.feed(Event::AcceptEnded { listening, count, rescued, failed: false });
    }
}
