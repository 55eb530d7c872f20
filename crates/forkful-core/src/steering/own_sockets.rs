//! Sockets of one port that workers opened themselves (`SO_REUSEPORT`), without the primary: decides which of
//! them get new connections, and when the queue of one is moved to the others.
//!
//! Such a worker answers no probe. Only the length of its queue is visible, so a worker counts as stuck if
//! its queue does not get shorter while another worker's is empty. It gets connections again after
//! [`TRY_AGAIN`]; such a try costs few clients [`LOOK_EVERY`] times [`STUCK_LOOKS`] plus [`FLUSH_AFTER`].
//!
//! **Hazard.** While a queue is moved, its owner's `accept` fails with `EINVAL`, which ends many programs. So only the queue of a
//! worker that has been silent for much longer than a busy one is moved, and seldom.
//!
//! The socket of the last worker is held when the worker ends: its waiting connections go to the next worker
//! that listens.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::Time;

/// The interval between two looks at the queues while connections arrive.
pub const LOOK_EVERY: Duration = Duration::from_millis(5);
/// Looks in a row at a queue that is not empty and not shorter than before.
pub const STUCK_LOOKS: u8 = 3;
/// Looks end this long after the last waiting connection was seen.
pub const LOOK_FOR: Duration = Duration::from_millis(100);
/// The queue of a stuck worker is moved if it does not get shorter for this time.
pub const FLUSH_AFTER: Duration = Duration::from_millis(25);
/// It is not moved again before this time has passed.
pub const FLUSH_EVERY: Duration = Duration::from_millis(50);
/// A stuck worker gets connections again after this time.
pub const TRY_AGAIN: Duration = Duration::from_millis(250);

/// What has happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<Id> {
    /// The socket of a worker was added at this place.
    Joined {
        place: u16,
        worker: Id,
    },
    /// The worker gets no more connections: it is leaving.
    Leaves(Id),
    /// The worker's process has ended.
    Ended(Id),
    /// The first connection after a pause is waiting.
    Woken,
    /// The length of a queue, for each place in turn; [`Self::Looked`] follows.
    Queue {
        place: u16,
        length: u32,
    },
    Looked,
}

/// Actions, in this order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Distribute new connections over these places, in turn.
    Steer(Vec<u16>),
    /// Move the connections waiting at this place to the others.
    Flush(u16),
    /// Close the duplicate of this place's socket: only its owner, if any, keeps it.
    Release(u16),
    /// Wake when a connection waits at one of the places.
    Watch,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Serving {
        stuck_looks: u8,
    },
    Stuck {
        until: Time,
        /// Its queue is not moved before.
        flush_at: Time,
    },
    /// The last worker is leaving or has ended: the queue is kept for the next worker.
    Held,
}

#[derive(Debug, Clone, Copy)]
struct Member<Id> {
    worker: Id,
    state: State,
    queue: u32,
    before: u32,
}

/// The sockets of a port. `Id` names a worker.
#[derive(Debug, Clone)]
pub struct OwnSockets<Id> {
    members: BTreeMap<u16, Member<Id>>,
    steered: Vec<u16>,
    /// The next look, and when looks end; `None` while no connections arrive.
    looks: Option<(Time, Time)>,
}

impl<Id> Default for OwnSockets<Id> {
    fn default() -> Self {
        Self { members: BTreeMap::new(), steered: Vec::new(), looks: None }
    }
}

impl<Id: Copy + PartialEq> OwnSockets<Id> {
    /// Handles one event.
    pub fn step(&mut self, event: Event<Id>, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Joined { place, worker } => {
                let state = State::Serving { stuck_looks: 0 };
                self.members.insert(place, Member { worker, state, queue: 0, before: 0 });
                self.steer(&mut actions);
                self.release(|member| member.state == State::Held, &mut actions);
                actions.push(Action::Watch);
            }
            Event::Leaves(worker) | Event::Ended(worker) => self.leave(worker, &mut actions),
            Event::Woken => {
                if self.looks.is_none() && self.has_others() {
                    self.looks = Some((now + LOOK_EVERY, now + LOOK_FOR));
                }
            }
            Event::Queue { place, length } => {
                if let Some(member) = self.members.get_mut(&place) {
                    member.before = std::mem::replace(&mut member.queue, length);
                }
            }
            Event::Looked => self.judge(now, &mut actions),
        }
        actions
    }

    /// When to look at the queues.
    pub fn next_look(&self) -> Option<Time> {
        self.looks.map(|(next, _)| next)
    }

    /// The watched places.
    pub fn places(&self) -> impl Iterator<Item = u16> {
        self.members.keys().copied()
    }

    /// Whether there is no socket.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    fn has_others(&self) -> bool {
        self.members.values().filter(|member| member.state != State::Held).count() > 1
    }

    fn leave(&mut self, worker: Id, actions: &mut Vec<Action>) {
        let stays = |member: &Member<Id>| member.worker != worker && member.state != State::Held;
        if !self.members.values().any(stays) {
            let its = self.members.values_mut().filter(|member| member.worker == worker);
            its.for_each(|member| member.state = State::Held);
            self.looks = None;
            return;
        }
        // Its queue moves to the listed places when its owner closes it, or has closed it.
        let goes = self.places_of(|member| member.worker == worker);
        self.members.retain(|_, member| member.worker != worker);
        self.steer(actions);
        actions.extend(goes.into_iter().map(Action::Release));
        if !self.has_others() {
            self.looks = None;
        }
    }

    /// One look at all queues.
    fn judge(&mut self, now: Time, actions: &mut Vec<Action>) {
        let Some((_, until)) = self.looks else { return };
        let is_free =
            |member: &Member<Id>| member.queue == 0 && matches!(member.state, State::Serving { .. });
        let some_free = self.members.values().any(is_free);
        let mut flushed = Vec::new();
        for (place, member) in &mut self.members {
            let waits = member.queue > 0 && member.queue >= member.before;
            match &mut member.state {
                State::Serving { stuck_looks } if waits => {
                    *stuck_looks = stuck_looks.saturating_add(1);
                    if *stuck_looks >= STUCK_LOOKS && some_free {
                        member.state = State::Stuck { until: now + TRY_AGAIN, flush_at: now + FLUSH_AFTER };
                    }
                }
                State::Serving { stuck_looks } => *stuck_looks = 0,
                State::Stuck { until, .. } if *until <= now => {
                    member.state = State::Serving { stuck_looks: 0 };
                }
                State::Stuck { flush_at, .. } if !waits => *flush_at = (*flush_at).max(now + FLUSH_AFTER),
                State::Stuck { flush_at, .. } if *flush_at <= now && some_free => {
                    *flush_at = now + FLUSH_EVERY;
                    flushed.push(*place);
                }
                State::Stuck { .. } | State::Held => {}
            }
        }
        self.steer(actions);
        for place in flushed {
            if let Some(member) = self.members.get_mut(&place) {
                (member.queue, member.before) = (0, 0);
            }
            actions.push(Action::Flush(place));
        }
        let is_busy = |member: &Member<Id>| member.queue > 0 || matches!(member.state, State::Stuck { .. });
        let until = if self.members.values().any(is_busy) { now + LOOK_FOR } else { until };
        self.looks = (now < until).then_some((now + LOOK_EVERY, until));
        if self.looks.is_none() {
            actions.push(Action::Watch);
        }
    }

    /// New connections go to the serving workers; to all if all are stuck.
    fn steer(&mut self, actions: &mut Vec<Action>) {
        let mut serving = self.places_of(|member| matches!(member.state, State::Serving { .. }));
        if serving.is_empty() {
            serving = self.places_of(|member| member.state != State::Held);
        }
        if !serving.is_empty() && serving != self.steered {
            self.steered.clone_from(&serving);
            actions.push(Action::Steer(serving));
        }
    }

    fn release(&mut self, which: impl Fn(&Member<Id>) -> bool, actions: &mut Vec<Action>) {
        let places = self.places_of(&which);
        self.members.retain(|_, member| !which(member));
        actions.extend(places.into_iter().map(Action::Release));
    }

    fn places_of(&self, which: impl Fn(&Member<Id>) -> bool) -> Vec<u16> {
        self.members.iter().filter(|(_, member)| which(member)).map(|(place, _)| *place).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sockets with one worker each, whose number equals its place.
    fn with(count: u16) -> OwnSockets<u16> {
        let mut sockets = OwnSockets::default();
        for place in 0..count {
            sockets.step(Event::Joined { place, worker: place }, at(0));
        }
        sockets
    }

    fn at(ms: u64) -> Time {
        Time::from_start(Duration::from_millis(ms))
    }

    /// One look with these lengths.
    fn look(sockets: &mut OwnSockets<u16>, lengths: &[u32], ms: u64) -> Vec<Action> {
        for (place, length) in (0..).zip(lengths) {
            assert_eq!(sockets.step(Event::Queue { place, length: *length }, at(ms)), []);
        }
        sockets.step(Event::Looked, at(ms))
    }

    #[test]
    fn each_socket_that_joins_gets_connections() {
        let mut sockets = OwnSockets::default();
        let joined = |place| Event::Joined { place, worker: place };
        assert_eq!(sockets.step(joined(0), at(0)), [Action::Steer(vec![0]), Action::Watch]);
        assert_eq!(sockets.step(joined(1), at(0)), [Action::Steer(vec![0, 1]), Action::Watch]);
    }

    #[test]
    fn one_that_leaves_or_ends_is_let_go_while_others_serve() {
        for event in [Event::Leaves(0), Event::Ended(0)] {
            let mut sockets = with(2);
            assert_eq!(sockets.step(event, at(1)), [Action::Steer(vec![1]), Action::Release(0)]);
            assert_eq!(sockets.step(Event::Ended(0), at(2)), []);
        }
    }

    #[test]
    fn the_last_one_is_held_for_the_next_worker() {
        let mut sockets = with(1);
        assert_eq!(sockets.step(Event::Leaves(0), at(1)), []);
        assert_eq!(sockets.step(Event::Ended(0), at(2)), []);
        let next = sockets.step(Event::Joined { place: 1, worker: 7 }, at(3));
        assert_eq!(next, [Action::Steer(vec![1]), Action::Release(0), Action::Watch]);
        assert!(sockets.places().eq([1]));
    }

    #[test]
    fn a_queue_that_does_not_get_shorter_goes_to_one_that_is_free() {
        let mut sockets = with(2);
        sockets.step(Event::Woken, at(0));
        assert_eq!(sockets.next_look(), Some(at(5)));
        assert_eq!(look(&mut sockets, &[3, 0], 5), []);
        assert_eq!(look(&mut sockets, &[3, 0], 10), []);
        assert_eq!(look(&mut sockets, &[4, 0], 15), [Action::Steer(vec![1])]);
        for ms in [20, 25, 30, 35] {
            assert_eq!(look(&mut sockets, &[4, 0], ms), []);
        }
        assert_eq!(look(&mut sockets, &[4, 0], 40), [Action::Flush(0)]);
        // Connections that were on their way follow.
        for n in 9..18 {
            assert_eq!(look(&mut sockets, &[1, 0], 5 * n), []);
        }
        assert_eq!(look(&mut sockets, &[1, 0], 90), [Action::Flush(0)]);
        for n in 19..53 {
            assert_eq!(look(&mut sockets, &[0, 0], 5 * n), []);
        }
        // It is tried again, and again found stuck.
        assert_eq!(look(&mut sockets, &[0, 0], 265), [Action::Steer(vec![0, 1])]);
        for ms in [270, 275] {
            assert_eq!(look(&mut sockets, &[2, 0], ms), []);
        }
        assert_eq!(look(&mut sockets, &[2, 0], 280), [Action::Steer(vec![1])]);
    }

    #[test]
    fn the_queue_of_a_worker_that_was_only_busy_is_not_moved() {
        let mut sockets = with(2);
        sockets.step(Event::Woken, at(0));
        for ms in [5, 10] {
            assert_eq!(look(&mut sockets, &[3, 0], ms), []);
        }
        assert_eq!(look(&mut sockets, &[3, 0], 15), [Action::Steer(vec![1])]);
        for (ms, length) in [(20, 3), (25, 3), (30, 2), (35, 2), (40, 2), (45, 2), (50, 1), (55, 0), (80, 0)]
        {
            assert_eq!(look(&mut sockets, &[length, 0], ms), [], "{ms} ms");
        }
    }

    #[test]
    fn nobody_stands_still_while_all_have_something_to_do_or_the_queue_gets_shorter() {
        let mut sockets = with(2);
        sockets.step(Event::Woken, at(0));
        for n in 1..20 {
            assert_eq!(look(&mut sockets, &[3, 1], 5 * n), [], "nobody is free");
        }
        let mut sockets = with(2);
        sockets.step(Event::Woken, at(0));
        for n in 1..20 {
            let length = if n % 2 == 0 { 4 } else { 2 };
            assert_eq!(look(&mut sockets, &[length, 0], 5 * n), [], "it is accepted from");
        }
    }

    #[test]
    fn looks_end_when_nothing_waits_any_more() {
        let mut sockets = with(2);
        sockets.step(Event::Woken, at(0));
        assert_eq!(look(&mut sockets, &[1, 0], 50), []);
        assert_eq!(look(&mut sockets, &[0, 0], 145), []);
        assert_eq!(look(&mut sockets, &[0, 0], 150), [Action::Watch]);
        assert_eq!(sockets.next_look(), None);
        // A single worker is not watched: no other worker could help.
        sockets.step(Event::Ended(1), at(200));
        sockets.step(Event::Woken, at(210));
        assert_eq!(sockets.next_look(), None);
    }
}
