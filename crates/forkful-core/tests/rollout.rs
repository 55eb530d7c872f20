//! The order of a reload, and what ends it.

use forkful_core::rollout::{
    Action, Admission, Event, Failure, LEAVING_MAX, RELOADS_WAITING_MAX, ReloadQueue, Rollout, Summary,
};
use forkful_core::slot::{Exit, Fault, SlotNumber, Verb};

fn slots(numbers: impl IntoIterator<Item = u16>) -> Vec<SlotNumber> {
    numbers.into_iter().map(SlotNumber).collect()
}

/// A rollout with the actions of its last step.
struct Plan(Rollout, Vec<Action>);

impl Plan {
    fn over(count: u16) -> Self {
        let (rollout, actions) = Rollout::new(slots(0..count));
        Self(rollout, actions)
    }

    fn step(self, event: Event) -> Self {
        let (rollout, actions) = self.0.step(event);
        Self(rollout, actions)
    }

    fn replaced(self, slot: u16) -> Self {
        self.step(Event::SlotReplaced { slot: SlotNumber(slot), old_leaving: true })
    }

    fn left(self, slot: u16) -> Self {
        self.step(Event::OldLeft(SlotNumber(slot)))
    }

    fn failed(self, slot: u16, fault: Fault) -> Self {
        self.step(Event::SlotReplaceFailed(SlotNumber(slot), fault))
    }
}

fn replace(slot: u16) -> Vec<Action> {
    vec![Action::Replace(SlotNumber(slot))]
}

fn done(replaced: Vec<SlotNumber>, failure: Option<Failure>, untouched: Vec<SlotNumber>) -> Vec<Action> {
    vec![Action::Done(Summary { replaced, failure, untouched })]
}

#[test]
fn one_slot_at_a_time_while_few_are_leaving() {
    let plan = Plan::over(4);
    assert_eq!(plan.1, replace(0));
    let plan = plan.replaced(0);
    assert_eq!(plan.1, replace(1));
    let plan = plan.replaced(1);
    assert_eq!((plan.1.len(), LEAVING_MAX), (0, 2), "two old ones are leaving");
    let plan = plan.left(1);
    assert_eq!(plan.1, replace(2));
    let plan = plan.left(0).replaced(2);
    assert_eq!(plan.1, replace(3));
    let plan = plan.replaced(3).left(2);
    assert_eq!(plan.1, [], "the last old one still leaves");
    let plan = plan.left(3);
    assert_eq!(plan.1, done(slots(0..4), None, vec![]));
    assert!(plan.0.is_done());
}

#[test]
fn the_first_failure_leaves_the_rest_as_it_was() {
    let fault = Fault::Exited(Exit::Code(1));
    let plan = Plan::over(4).replaced(0).failed(1, fault.clone());
    assert_eq!(plan.1, [], "the first slot's old process still leaves");
    let plan = plan.left(0);
    let failure = Failure { slot: SlotNumber(1), fault };
    assert_eq!(plan.1, done(slots([0]), Some(failure), slots([2, 3])));
}

#[test]
fn slots_that_had_no_process_have_none_to_wait_for() {
    let mut plan = Plan::over(3);
    for slot in 0..3 {
        assert_eq!(plan.1, replace(slot));
        plan = plan.step(Event::SlotReplaced { slot: SlotNumber(slot), old_leaving: false });
    }
    assert_eq!(plan.1, done(slots(0..3), None, vec![]));
}

#[test]
fn slots_that_go_away_are_passed_over() {
    let plan = Plan::over(4).step(Event::SlotGone(SlotNumber(2)));
    assert_eq!(plan.1, []);
    let plan = plan.step(Event::SlotGone(SlotNumber(0)));
    assert_eq!(plan.1, replace(1));
    let plan = plan.replaced(1);
    assert_eq!(plan.1, replace(3));
    let plan = plan.step(Event::SlotGone(SlotNumber(1))).step(Event::SlotGone(SlotNumber(3)));
    assert_eq!(plan.1, done(slots([1]), None, vec![]));
}

#[test]
fn no_slots_no_work() {
    assert_eq!(Plan::over(0).1, done(vec![], None, vec![]));
}

#[test]
fn a_cancelled_reload_begins_no_further_slot() {
    let by = Verb::Stop;
    let cancelled = |slot| Some(Failure { slot: SlotNumber(slot), fault: Fault::Cancelled { by } });
    // Under way in slot 1: its own answer ends the plan.
    let plan = Plan::over(3).replaced(0).left(0).step(Event::Cancelled { by });
    assert_eq!(plan.1, []);
    let plan = plan.failed(1, Fault::Cancelled { by });
    assert_eq!(plan.1, done(slots([0]), cancelled(1), slots([2])));
    // Between two slots, with old processes leaving.
    let plan = Plan::over(3).replaced(0).replaced(1).step(Event::Cancelled { by }).left(0);
    assert_eq!(plan.1, []);
    assert_eq!(plan.left(1).1, done(slots([0, 1]), cancelled(2), slots([2])));
    // With nothing left to begin there is nothing to cancel.
    let plan = Plan::over(1).replaced(0).step(Event::Cancelled { by }).left(0);
    assert_eq!(plan.1, done(slots([0]), None, vec![]));
}

#[test]
fn events_that_were_not_expected_change_nothing() {
    let plan = Plan::over(2);
    let before = plan.0.clone();
    let plan = plan.replaced(1).left(1).failed(1, Fault::Deleting);
    assert_eq!((plan.0, plan.1), (before, vec![]));
    let plan = Plan::over(0).left(3);
    assert_eq!(plan.1, [], "it is over once");
}

#[test]
fn reloads_of_one_app_wait_for_each_other_up_to_a_bound() {
    let mut queue = ReloadQueue::default();
    assert_eq!(queue.ask(0), Admission::Begin(0));
    for number in 1..=RELOADS_WAITING_MAX {
        assert_eq!(queue.ask(number), Admission::Behind(number));
    }
    assert_eq!(queue.ask(99), Admission::Refused(99));
    assert_eq!(queue.finished(), Some(1));
    assert_eq!(queue.ask(100), Admission::Behind(RELOADS_WAITING_MAX));
    assert!(queue.waiting_mut().map(|number| *number).eq([2, 3, 4, 5, 6, 7, 8, 100]));
    assert_eq!(queue.clear(), [2, 3, 4, 5, 6, 7, 8, 100]);
    assert!(queue.is_busy());
    assert_eq!(queue.finished(), None);
    assert_eq!(queue.ask(101), Admission::Begin(101));
}
