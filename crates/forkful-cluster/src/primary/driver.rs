//! Performs the dispatcher's actions: every system call between its steps is made here.
//!
//! [`Primary::step`] feeds an event, then performs actions and feeds their results until none is left. No
//! action calls `step`: its result goes to the dispatcher, and what follows from it is appended to the
//! outbox.

use std::io;

use forkful_core::Time;
use forkful_dispatch::{Action, Event, ListeningId, Message, Schedule, Steer, TakenBack, Watch, WorkerId};
use forkful_os::listener;
use forkful_os::procinfo;
use forkful_os::reactor::Interest;

use super::listening::Source;
use super::{IDLE_GRACE_MS, Primary, Token};
use crate::protocol::outgoing;

impl Primary {
    /// Handles one event and everything that follows from it.
    pub(super) fn step(&mut self, event: Event, now: Time) {
        self.has_changed |= changes_what_is_written(&event);
        self.feed(event, now);
        self.perform_all(now);
    }

    /// Performs the actions in the outbox and everything that follows from them.
    pub(super) fn perform_all(&mut self, now: Time) {
        while let Some(action) = self.outbox.pop() {
            self.perform(action, now);
        }
    }

    pub(super) fn feed(&mut self, event: Event, now: Time) {
        self.dispatcher.step(event, now, &mut self.outbox);
    }

    fn perform(&mut self, action: Action, now: Time) {
        match action {
            Action::Flush(worker) => self.flush(worker, now),
            Action::Tell(worker, message) => {
                self.has_changed |= matches!(message, Message::Disconnect { .. });
                if let Some(line) = self.line_of(message) {
                    self.send(worker, line, now);
                }
            }
            Action::Accept { listening, member, rescued } => self.accept(listening, member, rescued, now),
            Action::Close(connection) => self.connections.close(connection),
            Action::TakeBack { worker, pushed } => {
                let channel = self.channels.get_mut(&worker);
                let outcome = channel
                    .map_or(TakenBack::Refused { for_good: true }, |channel| channel.take_back(pushed));
                self.feed(Event::TakenBack { worker, outcome }, now);
            }
            Action::AnswerAgain { worker, ack, listening, member } => {
                self.answer_again(worker, (listening, member), ack, now);
            }
            Action::DropReply { worker, reply } => {
                if let Some(channel) = self.channels.get_mut(&worker) {
                    channel.drop_reply(reply);
                }
            }
            Action::Watch { listening, member, watch } => self.watch(listening, member, watch, now),
            Action::Steer { listening, steer } => {
                if self.steer(listening, steer).is_err() {
                    self.feed(Event::SteerFailed(listening), now);
                }
            }
            Action::ReadQueues(listening) => self.read_queues(listening, now),
            Action::ReadSchedule { worker, suspected } => {
                let pid = self.channels.get(&worker).and_then(|channel| channel.pid);
                let schedule = pid
                    .and_then(|pid| procinfo::scheduled(pid).ok())
                    .map(|scheduled| Schedule { ran: scheduled.ran, waited: scheduled.waited });
                self.feed(Event::Scheduled { worker, suspected, schedule }, now);
            }
            Action::Unbind { listening, told } => {
                self.has_changed = true;
                self.unbind(listening, told);
            }
            Action::Later(later) => self.feed(Event::Now(later), now),
        }
    }

    fn line_of(&self, message: Message) -> Option<Vec<u8>> {
        Some(match message {
            Message::Drain { closes } => {
                let closes = match closes {
                    Some(listening) => self.listenings.get(&listening)?.closed_as(),
                    None => None,
                };
                outgoing::agent_drain(IDLE_GRACE_MS, self.times.leaving.as_ref(), closes.as_slice())
            }
            Message::Disconnect { seq } => outgoing::disconnect(seq),
            Message::Acknowledge { ack, seq } => outgoing::acknowledge(ack, seq),
            Message::Count => outgoing::agent_count().to_vec(),
            Message::Move(connections) => outgoing::agent_move(connections),
            Message::Echo => outgoing::agent_echo().to_vec(),
        })
    }

    /// Queues a line for a worker and writes as much as possible.
    pub(super) fn send(&mut self, worker: WorkerId, line: Vec<u8>, now: Time) {
        let Some(channel) = self.channels.get_mut(&worker).filter(|channel| !channel.is_muted()) else {
            return;
        };
        if !channel.queue(line)
            && let Some(state) = self.dispatcher.channel_mut(worker)
        {
            state.break_off();
        }
        self.flush(worker, now);
    }

    /// Writes as much as possible, unless an answer is not saved.
    pub(super) fn flush(&mut self, worker: WorkerId, now: Time) {
        let Some(channel) = self.channels.get_mut(&worker).filter(|channel| !channel.is_muted()) else {
            return;
        };
        if channel.saves_first() {
            self.has_changed |= channel.note_output();
            return;
        }
        let Some(state) = self.dispatcher.channel_mut(worker) else { return };
        state.begin_write();
        let mut all = true;
        while let Some(write) = state.next_write(channel.unsent(), now) {
            let wrote = channel.write(write, &self.connections);
            if !state.wrote(write, wrote, now) {
                all = false;
                break;
            }
        }
        self.has_changed |= channel.note_output();
        self.dispatcher.flushed(worker, channel.unsent(), all, now, &mut self.outbox);
        self.watch_write(worker);
    }

    /// Updates the reactor's interest in writability.
    pub(super) fn watch_write(&mut self, id: WorkerId) {
        let Some(channel) = self.channels.get_mut(&id).filter(|channel| !channel.is_muted()) else { return };
        let wants = self.dispatcher.channel(id).is_some_and(forkful_dispatch::Channel::wants_write);
        if wants != channel.watches_write {
            let interest = if wants { Interest::READ | Interest::WRITE } else { Interest::READ };
            let token = Token::Channel(id).encode(self.config.token_base);
            if self.reactor.modify(channel.fd(), token, interest).is_ok() {
                channel.watches_write = wants;
            }
        }
    }

    /// Accepts connections from a socket's queue.
    fn accept(&mut self, id: ListeningId, member: usize, rescued: bool, now: Time) {
        let (mut count, mut failed) = (0, false);
        for _ in 0..self.dispatcher.room_left(id, now) {
            let Some(listening) = self.listenings.get(&id) else { break };
            let connection = match listener::accept(listening.socket(member)) {
                Ok(Some(connection)) => connection,
                Ok(None) => break,
                Err(_) => {
                    failed = true;
                    break;
                }
            };
            let cookie = listening.cookie_of(&connection);
            let connection = self.connections.insert(connection);
            self.feed(Event::Arrived { listening: id, connection, cookie, rescued }, now);
            count += 1;
        }
        self.feed(Event::AcceptEnded { listening: id, count, rescued, failed }, now);
    }

    fn watch(&mut self, id: ListeningId, member: usize, watch: Watch, now: Time) {
        let token = Token::Member { listening: id.0, member }.encode(self.config.token_base);
        let Some(listening) = self.listenings.get_mut(&id) else { return };
        let before = listening.watched[member];
        let socket = listening.socket(member);
        let done = match (before, interest(watch)) {
            (Watch::Not, Some(interest)) => self.reactor.add(socket, token, interest),
            (Watch::Once | Watch::Always, Some(interest)) => self.reactor.modify(socket, token, interest),
            (Watch::Once | Watch::Always, None) => self.reactor.remove(socket),
            (Watch::Not, None) => Ok(()),
        };
        if done.is_ok() {
            listening.watched[member] = watch;
        } else {
            self.feed(Event::WatchFailed { listening: id, member, before }, now);
        }
    }

    /// Exact round robin if the kernel permits it (`CAP_BPF`), otherwise random.
    fn steer(&self, id: ListeningId, steer: Steer) -> io::Result<()> {
        let Some(Source::Group(group)) = self.listenings.get(&id).map(|listening| &listening.source) else {
            return Ok(());
        };
        match steer {
            Steer::Daemon => group.steer(&listener::Steer::Only(0)),
            Steer::BySource(members) => group.steer(&listener::Steer::BySource(members)),
            Steer::RoundRobin(members) => {
                let turns = listener::Steer::RoundRobin(members);
                match (group.steer(&turns), turns) {
                    (Err(error), listener::Steer::RoundRobin(members))
                        if error.kind() == io::ErrorKind::Unsupported =>
                    {
                        group.steer(&listener::Steer::Random(members))
                    }
                    (outcome, _) => outcome,
                }
            }
        }
    }

    fn read_queues(&mut self, id: ListeningId, now: Time) {
        let count = self.listenings.get(&id).map_or(0, |listening| listening.watched.len());
        for member in 1..count {
            if self.dispatcher.is_owned(id, member)
                && let Some(listening) = self.listenings.get(&id)
            {
                let length = listener::queue_length(listening.socket(member)).unwrap_or(0);
                self.feed(Event::Queue { listening: id, member, length }, now);
            }
        }
        self.feed(Event::QueuesRead(id), now);
    }

    /// Reads the number of connections in the daemon's own queue, if it matters.
    pub(super) fn read_own_queue(&mut self, id: ListeningId, now: Time) {
        if self.dispatcher.asks_for_waiting(id)
            && let Some(listening) = self.listenings.get(&id)
            && let Ok(length) = listener::queue_length(listening.socket(0))
        {
            self.feed(Event::Queue { listening: id, member: 0, length }, now);
        }
    }

    fn unbind(&mut self, id: ListeningId, told: bool) {
        let Some(listening) = self.listenings.remove(&id) else { return };
        // Another one may have its key, see `Listening::has_lost_its_file`.
        if self.by_key.get(&listening.key) == Some(&id) {
            self.by_key.remove(&listening.key);
        }
        for (member, watch) in listening.watched.iter().enumerate() {
            if *watch != Watch::Not {
                let _gone = self.reactor.remove(listening.socket(member));
            }
        }
        if told {
            self.given_up.push(listening.address);
        }
    }
}

/// Whether an event may change the state for another daemon. Events about connections do not.
fn changes_what_is_written(event: &Event) -> bool {
    match event {
        Event::Open(_)
        | Event::CloseTraffic(_)
        | Event::Drain(_)
        | Event::Stopping(_)
        | Event::Gone { .. }
        | Event::Muted { .. }
        | Event::CloseAll
        | Event::Balance(_)
        | Event::Greeted(_)
        | Event::Held { .. }
        | Event::NotHeld(_)
        | Event::GiveWay(_)
        | Event::Lost(_)
        | Event::Listens { .. }
        | Event::Closed { .. }
        | Event::Leaves { .. }
        | Event::Drained { .. } => true,
        Event::Slots(_)
        | Event::Ask(_)
        | Event::Deliver { .. }
        | Event::Pass { .. }
        | Event::Echoed(_)
        | Event::Answered { .. }
        | Event::HandleTaken(_)
        | Event::HandleMissed(_)
        | Event::Counted { .. }
        | Event::MemberReady { .. }
        | Event::Arrived { .. }
        | Event::AcceptEnded { .. }
        | Event::TakenBack { .. }
        | Event::Queue { .. }
        | Event::QueuesRead(_)
        | Event::Scheduled { .. }
        | Event::SteerFailed(_)
        | Event::WatchFailed { .. }
        | Event::Due(_)
        | Event::Now(_) => false,
    }
}

fn interest(watch: Watch) -> Option<Interest> {
    match watch {
        Watch::Not => None,
        Watch::Once => Some(Interest::READ | Interest::ONESHOT),
        Watch::Always => Some(Interest::READ),
    }
}
