//! The saved state of the dispatcher, from which another daemon continues.
//!
//! It contains which worker holds which address, and the stage of each worker. It contains nothing about
//! connections: the kernel's distribution continues, and a connection that was on its way to a worker when
//! the daemon died is with that worker or still in its channel. The number of connections of each worker is
//! counted again.
//!
//! **Hazard.** The worker may owe a reply to a line that the previous daemon has sent, and a reply does not
//! identify its line. So no handle line is sent before all replies have certainly arrived: the agent echoes a
//! line, which it reads after them. For a worker without an agent, we wait [`SETTLE_MAX`].
//!
//! A reply to a query may have waited in the previous daemon, behind another line with a handle. So after the
//! replies, a query is answered again if the worker has not reported `listening`. Node.js ignores a second answer
//! to a query.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::last_words::LastWords;
use forkful_core::spec::Balance;
use forkful_core::steering::AutoBalance;
use serde::{Deserialize, Serialize};

use crate::action::{Action, Later, Message, Outbox};
use crate::channel::Channel;
use crate::dispatcher::{Dispatcher, EXITED_GRACE};
use crate::id::{ListeningId, WorkerId};
use crate::listening::{Counters, Kind, Listening, Member, NewListening};
use crate::worker::{Farewell, Hold, Stage, Worker};

/// Without an agent, how long to wait for replies to lines of the previous daemon.
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    pub workers: Vec<WrittenWorker>,
    pub listenings: Vec<WrittenListening>,
    next_listening: usize,
}

/// The saved state of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenWorker {
    pub id: WorkerId,
    stage: Stage,
    slot: u16,
    agent: bool,
    has_listened: bool,
    stopping: bool,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    drained: bool,
    #[serde(default)]
    last_words: Option<LastWords>,
    holds: Vec<(ListeningId, Hold)>,
}

/// The saved state of an address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenListening {
    pub id: ListeningId,
    new: NewListening,
    /// The number of its sockets.
    pub sockets: usize,
    /// The mode that its sockets follow, which may differ from the app's. Absent where an earlier version has written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mode: Option<Balance>,
    shared_once: bool,
    unheld: bool,
    #[serde(default)]
    counters: Counters,
}

impl Dispatcher {
    /// Returns the state for another daemon.
    pub fn write_down(&self) -> Written {
        let workers = self.workers.iter().map(|(id, worker)| WrittenWorker {
            id: *id,
            stage: worker.stage,
            slot: worker.slot,
            agent: worker.agent,
            has_listened: worker.has_listened,
            stopping: worker.farewell.stopping,
            drained: worker.farewell.drained,
            last_words: worker.farewell.last_words,
            holds: worker.holds.iter().map(|(listening, hold)| (*listening, *hold)).collect(),
        });
        let listenings = self.listenings.iter().map(|(id, listening)| WrittenListening {
            id: *id,
            new: NewListening { kind: listening.kind, group: listening.group },
            sockets: listening.members.len(),
            mode: Some(listening.mode),
            shared_once: listening.holders.shared_once,
            unheld: listening.holders.unheld_until.is_some(),
            counters: listening.counters,
        });
        Written {
            workers: workers.collect(),
            listenings: listenings.collect(),
            next_listening: self.next_listening,
        }
    }

    /// Restores the saved state. The driver has the sockets of these addresses; workers follow by
    /// [`Self::attach_again`].
    pub fn take_up(&mut self, written: &Written, now: Time) {
        self.next_listening = written.next_listening;
        for of in &written.listenings {
            let is_held =
                written.workers.iter().any(|worker| worker.holds.iter().any(|(held, _)| *held == of.id));
            let mode = of.mode.unwrap_or_else(|| likely_mode(of.new, is_held, self.balance));
            let mut listening = Listening::new(of.new, mode, now);
            // The previous daemon may have died before it followed the app's mode.
            listening.set_balance(self.balance, is_held, now);
            listening.members = (0..of.sockets.max(1)).map(|_| Member::default()).collect();
            listening.holders.shared_once = of.shared_once;
            listening.counters = of.counters;
            listening.holders.unheld_until = of.unheld.then(|| now + EXITED_GRACE);
            self.listenings.insert(of.id, listening);
        }
    }

    /// A worker whose channel the driver has taken over. `recalls`: what it has not read from its channel can
    /// be taken back.
    pub fn attach_again(&mut self, written: &WrittenWorker, recalls: bool, now: Time, out: &mut Outbox) {
        let mut worker = Worker::new(Channel::new(recalls));
        worker.stage = written.stage;
        worker.slot = written.slot;
        worker.agent = written.agent;
        worker.has_listened = written.has_listened;
        let WrittenWorker { stopping, drained, last_words, .. } = *written;
        worker.farewell = Farewell { stopping, drained, last_words };
        // Higher than any used number: nobody sends a message every microsecond.
        worker.seq = u64::try_from(now.since_start().as_micros()).unwrap_or(u64::MAX) + 1;
        worker.holds = written.holds.iter().copied().collect::<BTreeMap<_, _>>();
        worker.holds.values_mut().for_each(|hold| hold.is_doubtful = hold.asked.is_some());
        for (listening, hold) in &written.holds {
            let members = self.listenings.get_mut(listening).map(|listening| &mut listening.members);
            if let Some(member) = members.and_then(|members| members.get_mut(hold.member?)) {
                member.owner = Some(written.id);
            }
        }
        // A worker that has asked for nothing was sent no handle line.
        let owes = worker.agent || !worker.holds.is_empty();
        if owes && worker.stage != Stage::Disconnecting {
            worker.channel.settle_first(now);
        }
        if worker.stage == Stage::Disconnecting {
            // No handle line follows the line at which it closes its channel.
            let _none = worker.channel.end();
        }
        let echoes = owes && worker.agent;
        self.workers.insert(written.id, worker);
        if echoes {
            out.push(Action::Tell(written.id, Message::Echo));
        }
    }

    /// All existing workers are attached again.
    pub fn taken_up(&mut self, now: Time, out: &mut Outbox) {
        let ids: Vec<ListeningId> = self.listenings.keys().copied().collect();
        for id in ids {
            let is_held = self.workers.values().any(|worker| worker.holds.contains_key(&id));
            let Some(listening) = self.listenings.get_mut(&id) else { continue };
            if !is_held {
                listening.holders.unheld_until.get_or_insert(now + EXITED_GRACE);
            } else if let Some(auto) = &mut listening.auto {
                // The daemon can hand over nothing before workers have replied, and it may have been direct.
                *auto = AutoBalance::resumed(now);
            }
        }
        self.after_change(now, out);
    }

    /// Whether replies to lines of the previous daemon may still arrive from a worker.
    pub fn is_settling(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(|worker| worker.channel.settling_since().is_some())
    }

    /// All replies to lines of the previous daemon have arrived.
    pub(crate) fn on_settled(&mut self, id: WorkerId, out: &mut Outbox) {
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.channel.settled()
        {
            for (listening, hold) in &mut worker.holds {
                if let Some(ack) = hold.asked.filter(|_| std::mem::take(&mut hold.is_doubtful)) {
                    let shared = || self.listenings.get(listening).is_some_and(Listening::gives_its_socket);
                    let member = hold.member.or_else(|| shared().then_some(0));
                    out.push(Action::AnswerAgain { worker: id, ack, listening: *listening, member });
                }
            }
            out.push(Action::Flush(id));
            out.push(Action::Later(Later::Dispatch));
        }
    }

    /// The wait for workers without an agent is over.
    pub(crate) fn settle_silent(&mut self, now: Time, out: &mut Outbox) {
        let is_due = |worker: &Worker| settles_at(worker).is_some_and(|at| at <= now);
        let due: Vec<WorkerId> =
            self.workers.active().filter(|(_, worker)| is_due(worker)).map(|(id, _)| *id).collect();
        due.into_iter().for_each(|id| self.on_settled(id, out));
    }
}

/// When a worker without an agent that has not answered counts as having got its handle.
pub(crate) fn settles_at(worker: &Worker) -> Option<Time> {
    worker.channel.settling_since().filter(|_| !worker.agent).map(|since| since + SETTLE_MAX)
}

/// The mode of an address of which an earlier version has not written it, in an app whose mode may have changed since its workers
/// asked for the address.
fn likely_mode(of: NewListening, is_held: bool, balance: Balance) -> Balance {
    match (of.kind, balance) {
        (Kind::Tcp, _) if !of.group => Balance::Shared,
        (Kind::Tcp, Balance::Shared) => Balance::Auto,
        // Its workers may have no socket. One that has takes connections that are handed over, too.
        (Kind::Unix, Balance::Direct | Balance::Shared) if is_held => Balance::Exact,
        (Kind::Tcp | Kind::Unix | Kind::Other, _) => balance,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Event;
    use crate::channel::{Unsent, Write};
    use crate::id::ConnectionId;

    const WORKER: WorkerId = WorkerId(3);

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    fn take(out: &mut Outbox) -> Vec<Action> {
        std::iter::from_fn(|| out.pop()).collect()
    }

    /// A daemon with a listening worker, and its saved state.
    fn written(has_agent: bool) -> Written {
        let (mut before, mut out) = (Dispatcher::new(Balance::Exact, false), Outbox::default());
        before.attach(WORKER, true);
        before.identify(WORKER, 1);
        let listening = before.add_listening(NewListening { kind: Kind::Tcp, group: true }, at(1));
        let held = Event::Held { worker: WORKER, ack: 7, listening, member: None, reply: None };
        let greeted = has_agent.then_some(Event::Greeted(WORKER));
        let listens = Event::Listens { worker: WORKER, listening };
        for event in greeted.into_iter().chain([held, listens, Event::Open(WORKER)]) {
            before.step(event, at(1), &mut out);
        }
        before.write_down()
    }

    /// Another daemon that replaces it and gets a connection at once.
    fn taken_up(written: &Written) -> (Dispatcher, Vec<Action>) {
        let (mut after, mut out) = (Dispatcher::new(Balance::Exact, false), Outbox::default());
        after.take_up(written, at(100));
        after.attach_again(&written.workers[0], true, at(100), &mut out);
        after.taken_up(at(100), &mut out);
        let listening = written.listenings[0].id;
        let connection = ConnectionId(0);
        after.step(Event::Arrived { listening, connection, cookie: None, rescued: false }, at(100), &mut out);
        let ended = Event::AcceptEnded { listening, count: 1, rescued: false, failed: false };
        after.step(ended, at(100), &mut out);
        after.step(Event::Now(Later::Dispatch), at(100), &mut out);
        (after, take(&mut out))
    }

    fn next_line(dispatcher: &mut Dispatcher, now: Time) -> Option<Write> {
        dispatcher.channel_mut(WORKER).and_then(|channel| channel.next_write(Unsent::default(), now))
    }

    #[test]
    fn what_was_written_down_is_what_is_written_down_again() {
        let first = written(true);
        assert_eq!(taken_up(&first).0.write_down(), first);
    }

    /// A daemon that has answered a query, in a mode in which the worker gets its own socket, and dies.
    fn answered_and_died() -> Written {
        let (mut before, mut out) = (Dispatcher::new(Balance::Direct, false), Outbox::default());
        before.attach(WORKER, true);
        before.identify(WORKER, 1);
        before.step(Event::Greeted(WORKER), at(1), &mut out);
        let listening = before.add_listening(NewListening { kind: Kind::Tcp, group: true }, at(1));
        before.add_member(listening);
        let reply = Some(crate::ReplyId(0));
        let held = Event::Held { worker: WORKER, ack: 7, listening, member: Some(1), reply };
        before.step(held, at(1), &mut out);
        before.write_down()
    }

    fn answers(out: &mut Outbox) -> Vec<Action> {
        take(out).into_iter().filter(|action| matches!(action, Action::AnswerAgain { .. })).collect()
    }

    #[test]
    fn a_query_is_answered_again_unless_the_worker_listens_when_all_replies_have_arrived() {
        let written = answered_and_died();
        let listening = written.listenings[0].id;
        for listens in [false, true] {
            let (mut after, mut out) = (Dispatcher::new(Balance::Direct, false), Outbox::default());
            after.take_up(&written, at(100));
            after.attach_again(&written.workers[0], true, at(100), &mut out);
            after.taken_up(at(100), &mut out);
            // Its bytes may still be in the channel.
            assert!(after.was_asked(WORKER, 7) && !after.was_asked(WORKER, 8));
            assert_eq!(answers(&mut out), []);
            if listens {
                after.step(Event::Listens { worker: WORKER, listening }, at(101), &mut out);
            }
            after.step(Event::Echoed(WORKER), at(102), &mut out);
            let again = Action::AnswerAgain { worker: WORKER, ack: 7, listening, member: Some(1) };
            assert_eq!(answers(&mut out), if listens { vec![] } else { vec![again] });
            after.step(Event::Echoed(WORKER), at(103), &mut out);
            assert_eq!(answers(&mut out), [], "once");
        }
    }

    #[test]
    fn a_query_that_this_daemon_has_answered_is_not_answered_again() {
        let mut written = answered_and_died();
        written.workers[0].holds.clear();
        let (mut after, mut out) = (Dispatcher::new(Balance::Direct, false), Outbox::default());
        after.take_up(&written, at(100));
        after.attach_again(&written.workers[0], true, at(100), &mut out);
        let listening = written.listenings[0].id;
        let held = Event::Held { worker: WORKER, ack: 9, listening, member: None, reply: None };
        after.step(held, at(101), &mut out);
        after.step(Event::Echoed(WORKER), at(102), &mut out);
        assert_eq!(answers(&mut out), []);
    }

    #[test]
    fn no_handle_line_goes_out_before_the_agent_has_echoed() {
        let (mut after, actions) = taken_up(&written(true));
        assert!(actions.contains(&Action::Tell(WORKER, Message::Echo)), "{actions:?}");
        let mut out = Outbox::default();
        // Replies to lines of the previous daemon.
        for event in [Event::HandleTaken(WORKER), Event::HandleMissed(WORKER)] {
            after.step(event, at(101), &mut out);
            assert_eq!(next_line(&mut after, at(101)), None);
        }
        after.step(Event::Due(crate::Chore::Resume), at(60_000), &mut out);
        assert_eq!(next_line(&mut after, at(60_000)), None, "however long it takes");
        take(&mut out);
        after.step(Event::Echoed(WORKER), at(60_001), &mut out);
        after.step(Event::Now(Later::Dispatch), at(60_001), &mut out);
        assert!(matches!(next_line(&mut after, at(60_001)), Some(Write::Handle(_))), "{:?}", take(&mut out));
    }

    #[test]
    fn a_daemon_that_makes_way_hands_over_what_it_has_and_accepts_no_more() {
        let written = written(true);
        let (mut daemon, mut out) = (taken_up(&written).0, Outbox::default());
        let listening = written.listenings[0].id;
        daemon.step(Event::Echoed(WORKER), at(101), &mut out);
        take(&mut out);
        assert!(daemon.room_left(listening, at(101)) > 0);
        daemon.accept_no_more(at(101), &mut out);
        let watch = Action::Watch { listening, member: 0, watch: crate::Watch::Not };
        assert!(take(&mut out).contains(&watch));
        assert_eq!(daemon.room_left(listening, at(101)), 0);
        daemon.step(Event::Now(Later::Dispatch), at(101), &mut out);
        assert!(matches!(next_line(&mut daemon, at(101)), Some(Write::Handle(_))));
        daemon.step(Event::Due(crate::Chore::Resume), at(60_000), &mut out);
        assert_eq!(daemon.room_left(listening, at(60_000)), 0, "however late");
    }

    /// The modes of one address: of the app when a worker asked for it, of the app now, after a takeover, and after the takeover of
    /// a state without a mode.
    type Modes = (Kind, bool, Balance, Balance, Balance, Balance);

    #[test]
    fn a_takeover_does_not_change_what_workers_were_given() {
        let table: [Modes; 7] = [
            (Kind::Unix, false, Balance::Auto, Balance::Direct, Balance::Exact, Balance::Exact),
            (Kind::Unix, false, Balance::Exact, Balance::Shared, Balance::Exact, Balance::Exact),
            (Kind::Unix, false, Balance::Direct, Balance::Auto, Balance::Shared, Balance::Exact),
            (Kind::Unix, false, Balance::Direct, Balance::Direct, Balance::Shared, Balance::Exact),
            (Kind::Tcp, false, Balance::Shared, Balance::Auto, Balance::Shared, Balance::Shared),
            (Kind::Tcp, true, Balance::Least, Balance::Shared, Balance::Least, Balance::Exact),
            (Kind::Tcp, true, Balance::Least, Balance::Direct, Balance::Exact, Balance::Exact),
        ];
        for (kind, group, asked, now, after, after_earlier) in table {
            let (mut before, mut out) = (Dispatcher::new(asked, false), Outbox::default());
            before.attach(WORKER, true);
            let listening = before.add_listening(NewListening { kind, group }, at(1));
            let held = Event::Held { worker: WORKER, ack: 7, listening, member: None, reply: None };
            let listens = Event::Listens { worker: WORKER, listening };
            for event in [held, listens, Event::Open(WORKER), Event::Balance(now)] {
                before.step(event, at(1), &mut out);
            }
            let mut written = before.write_down();
            let dispatch = |dispatcher: &Dispatcher| dispatcher.counters(listening).map(|(mode, _)| mode);
            let taken_up = |written: &Written| {
                let (mut next, mut out) = (Dispatcher::new(now, false), Outbox::default());
                next.take_up(written, at(100));
                next.attach_again(&written.workers[0], true, at(100), &mut out);
                next.taken_up(at(100), &mut out);
                dispatch(&next)
            };
            assert_eq!(dispatch(&before), Some(after), "{kind:?} from {asked} to {now}");
            assert_eq!(taken_up(&written), Some(after), "{kind:?} from {asked} to {now}");
            written.listenings[0].mode = None;
            assert_eq!(taken_up(&written), Some(after_earlier), "{kind:?} from {asked} to {now}");
        }
    }

    #[test]
    fn auto_begins_direct_after_a_takeover_if_the_kernel_reaches_all_workers() {
        for (member, expected) in [(Some(1), Balance::Direct), (None, Balance::Exact)] {
            let (mut before, mut out) = (Dispatcher::new(Balance::Auto, false), Outbox::default());
            before.attach(WORKER, true);
            let listening = before.add_listening(NewListening { kind: Kind::Tcp, group: true }, at(1));
            before.add_member(listening);
            let held = Event::Held { worker: WORKER, ack: 7, listening, member, reply: None };
            let listens = Event::Listens { worker: WORKER, listening };
            for event in [held, listens, Event::Open(WORKER)] {
                before.step(event, at(1), &mut out);
            }
            let written = before.write_down();
            let mut next = Dispatcher::new(Balance::Auto, false);
            take(&mut out);
            next.take_up(&written, at(100));
            next.attach_again(&written.workers[0], true, at(100), &mut out);
            next.taken_up(at(100), &mut out);
            let steer = crate::Steer::RoundRobin(vec![1]);
            let is_direct = take(&mut out).contains(&Action::Steer { listening, steer });
            assert_eq!(is_direct, expected == Balance::Direct);
            assert_eq!(next.counters(listening).map(|(mode, _)| mode), Some(expected));
            next.step(Event::Due(crate::Chore::Rebalance), at(1100), &mut out);
            assert_eq!(next.counters(listening).map(|(mode, _)| mode), Some(Balance::Exact));
        }
    }

    #[test]
    fn a_worker_without_an_agent_gets_handle_lines_after_a_while() {
        let (mut after, actions) = taken_up(&written(false));
        assert!(!actions.contains(&Action::Tell(WORKER, Message::Echo)));
        let mut out = Outbox::default();
        assert_eq!(after.workers.values().find_map(settles_at), Some(at(100) + SETTLE_MAX));
        after.step(Event::Due(crate::Chore::Resume), at(1099), &mut out);
        assert_eq!(next_line(&mut after, at(1099)), None);
        after.step(Event::Due(crate::Chore::Resume), at(1100), &mut out);
        after.step(Event::Now(Later::Dispatch), at(1100), &mut out);
        assert!(next_line(&mut after, at(1100)).is_some());
    }
}
