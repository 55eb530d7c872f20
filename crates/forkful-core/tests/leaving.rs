//! The whole table of a leaving process.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::leaving::{AFTER_DISCONNECT, Action, Event, State, abandon, dismiss, retire, step};
use forkful_core::spec::StopPolicy;

fn at(secs: u64) -> Time {
    Time::from_start(Duration::from_secs(secs))
}

fn policy() -> StopPolicy {
    StopPolicy {
        kill_timeout: Duration::from_secs(5),
        drain_timeout: Duration::from_secs(30),
        ..StopPolicy::default()
    }
}

const EVENTS: [Event; 5] =
    [Event::Drained, Event::Hurry, Event::Deadline, Event::Exited, Event::Disconnected];

#[test]
fn every_event_in_every_state() {
    let signalled = (Some(State::Signalled { kill_at: at(35) }), Some(Action::Signal));
    let gone = (None, Some(Action::Gone));
    let draining = State::Draining { signal_at: at(30) };
    let expected = [signalled, signalled, signalled, gone, (Some(draining), None)];
    assert_eq!(EVENTS.map(|event| step(draining, event, at(30), &policy())), expected);

    let state = State::Signalled { kill_at: at(30) };
    let same = (Some(state), None);
    let expected = [same, same, (Some(State::Killed), Some(Action::Kill)), gone, same];
    assert_eq!(EVENTS.map(|event| step(state, event, at(30), &policy())), expected);

    let same = (Some(State::Killed), None);
    let expected = [same, same, same, gone, same];
    assert_eq!(EVENTS.map(|event| step(State::Killed, event, at(30), &policy())), expected);
}

#[test]
fn one_that_has_closed_its_channel_is_signalled_soon() {
    let (state, action) = step(abandon(at(0), &policy()), Event::Disconnected, at(1), &policy());
    assert_eq!((state, action), (Some(State::Draining { signal_at: at(1) + AFTER_DISCONNECT }), None));
}

#[test]
fn an_early_deadline_changes_nothing() {
    for state in [State::Draining { signal_at: at(30) }, State::Signalled { kill_at: at(30) }] {
        assert_eq!(step(state, Event::Deadline, at(29), &policy()), (Some(state), None));
    }
}

#[test]
fn a_stubborn_process_is_drained_signalled_killed_and_waited_for() {
    let (state, action) = retire(at(0), &policy());
    assert_eq!((state.deadline(), action), (Some(at(30)), Action::Drain));
    let (state, action) = step(state, Event::Deadline, at(30), &policy());
    let state = state.expect("it lives");
    assert_eq!((state.deadline(), action), (Some(at(35)), Some(Action::Signal)));
    let (state, action) = step(state, Event::Deadline, at(35), &policy());
    let state = state.expect("it lives");
    assert_eq!((state.deadline(), action), (None, Some(Action::Kill)));
}

#[test]
fn a_process_that_never_served_is_signalled_at_once() {
    assert_eq!(dismiss(at(0), &policy()), (State::Signalled { kill_at: at(5) }, Action::Signal));
}
