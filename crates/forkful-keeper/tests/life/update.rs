//! An update, step by step: whichever daemon dies, hangs, leaves or gets a signal between two steps, another
//! daemon takes over the kept descriptors.

use std::time::Duration;

use forkful_keeper::keeper::{Action, After, Keeper, TRIAL};
use forkful_os::keeper::{End, Frame, Kind, Update};

use super::{SECOND, handed};

/// The progress of an update when something happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
enum Point {
    /// The new program is still reading the stored state.
    Checking,
    /// The daemon has named the new program, and has not ended.
    Ordered,
    /// A daemon of the new program has started, and was told nothing yet.
    Begun,
    /// It was told that it is on trial.
    Greeted,
    /// It has everything, and does not serve yet.
    Handed,
    Serves,
    /// Its time is over, and it is asked whether it still turns.
    Asked,
    /// It does.
    Proved,
}

const OLD: Option<u32> = None;
const NEW: Option<u32> = Some(99);
const POINTS: [Point; 8] = [
    Point::Checking,
    Point::Ordered,
    Point::Begun,
    Point::Greeted,
    Point::Handed,
    Point::Serves,
    Point::Asked,
    Point::Proved,
];

/// A keeper at this step of an update, a second after its beginning.
fn updating(point: Point) -> Keeper<u32> {
    let mut keeper = Keeper::new(7);
    keeper.begin_with(0, Kind::Process, 1);
    handed(&mut keeper);
    keeper.on_frame(Frame::Serves, None, SECOND);
    if point >= Point::Ordered {
        keeper.on_frame(Frame::Update, Some(99), SECOND);
    }
    if point >= Point::Begun {
        assert_eq!(keeper.on_end(End::Code(0), SECOND), After::Start);
        keeper.on_start();
    }
    for reached in [Point::Greeted, Point::Handed, Point::Handed] {
        if point >= reached {
            keeper.sent();
        }
    }
    if point >= Point::Serves {
        keeper.on_frame(Frame::Serves, None, SECOND);
    }
    if point >= Point::Asked {
        assert_eq!(keeper.on_update_due(SECOND + TRIAL), Action::Nothing);
        assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Look));
        keeper.sent();
    }
    if point == Point::Proved {
        assert_eq!(keeper.on_frame(Frame::Turns, None, SECOND + TRIAL), Action::Become);
    }
    keeper
}

#[test]
fn a_daemon_that_dies_at_any_step_of_an_update_is_followed_by_one_that_goes_on() {
    let now = SECOND * 2;
    for point in POINTS {
        let mut keeper = updating(point);
        assert_eq!(keeper.on_end(End::Signal(9), now), After::Start, "{point:?}");
        let (program, died, update) = match point {
            Point::Checking => (OLD, 1, Update::None),
            // It was about to end.
            Point::Ordered => (NEW, 0, Update::Trial),
            Point::Begun | Point::Greeted | Point::Handed | Point::Serves | Point::Asked => {
                (OLD, 1, Update::Undone)
            }
            Point::Proved => (NEW, 1, Update::None),
        };
        assert_eq!(keeper.program().copied(), program, "{point:?}");
        let frames = handed(&mut keeper);
        assert_eq!(frames[0].0, Frame::Hello { keeper: 7, died, last: End::Signal(9), update }, "{point:?}");
        assert_eq!(frames[1].1, Some(1), "what was kept is there, {point:?}");
    }
}

#[test]
fn a_daemon_that_hangs_at_any_step_of_an_update_is_killed_in_time() {
    for point in POINTS {
        let mut keeper = updating(point);
        let due = match point {
            Point::Checking | Point::Proved => {
                assert_eq!(keeper.update_due_in(SECOND * 2), None, "{point:?}");
                continue;
            }
            Point::Asked => SECOND + TRIAL * 3,
            Point::Ordered | Point::Begun | Point::Greeted | Point::Handed | Point::Serves => SECOND + TRIAL,
        };
        assert_eq!(keeper.on_update_due(due - Duration::from_millis(1)), Action::Nothing);
        assert_eq!(keeper.update_due_in(SECOND * 2), Some(due - SECOND * 2), "{point:?}");
        // One that serves is asked first.
        let expected = if point == Point::Serves { Action::Nothing } else { Action::Signal(9) };
        assert_eq!(keeper.on_update_due(due), expected, "{point:?}");
        assert_eq!(keeper.on_update_due(due), Action::Nothing, "once, {point:?}");
        if point == Point::Serves {
            assert_eq!(keeper.on_update_due(due + TRIAL * 2), Action::Signal(9));
        }
    }
}

#[test]
fn a_daemon_that_leaves_at_any_step_of_an_update_leaves_only_when_it_serves() {
    for point in POINTS {
        let mut keeper = updating(point);
        let action = keeper.on_frame(Frame::Leave, None, SECOND * 2);
        let gives_up = matches!(point, Point::Begun | Point::Greeted | Point::Handed);
        assert_eq!(action, if gives_up { Action::Signal(9) } else { Action::Nothing }, "{point:?}");
        let expected = if gives_up { After::Start } else { After::End };
        assert_eq!(keeper.on_end(End::Code(1), SECOND * 2), expected, "{point:?}");
    }
}

#[test]
fn a_signal_at_any_step_of_an_update_reaches_the_daemon_that_serves_next() {
    for point in POINTS {
        let mut keeper = updating(point);
        let at_once = matches!(point, Point::Checking | Point::Serves | Point::Asked | Point::Proved);
        let expected = if at_once { Action::Signal(15) } else { Action::Nothing };
        assert_eq!(keeper.on_signal(15), expected, "{point:?}");
        // The daemon that got the signal may have hung, and was killed.
        keeper.on_end(End::Signal(9), SECOND * 2);
        handed(&mut keeper);
        assert_eq!(keeper.on_frame(Frame::Serves, None, SECOND * 2), Action::Signal(15), "{point:?}");
    }
}

#[test]
fn an_update_may_follow_one_that_is_on_trial_or_was_undone() {
    for point in POINTS {
        let mut keeper = updating(point);
        keeper.on_frame(Frame::Update, Some(100), SECOND * 2);
        keeper.on_end(End::Code(0), SECOND * 2);
        assert_eq!(keeper.program(), Some(&100), "{point:?}");
        keeper.on_end(End::Code(1), SECOND * 2);
        assert_eq!(keeper.program(), None, "back to that of the keeper, {point:?}");
        // A failure of the previous daemon is no longer part of the update.
        handed(&mut keeper);
        keeper.on_end(End::Signal(11), SECOND * 2);
        let hello = Frame::Hello { keeper: 7, died: 2, last: End::Signal(11), update: Update::None };
        assert_eq!(handed(&mut keeper)[0].0, hello);
    }
}

#[test]
fn a_keeper_that_has_become_another_program_goes_on_where_it_was() {
    let mut before = Keeper::new(7);
    before.begin_with(4, Kind::Process, 1);
    let mut keeper = Keeper::resume(7, before.table);
    assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Child), "who ended meanwhile");
    keeper.sent();
    assert_eq!((keeper.outgoing(), keeper.program()), (None, None));
    assert_eq!(keeper.on_signal(15), Action::Signal(15));
    assert_eq!(keeper.on_end(End::Signal(9), SECOND), After::Start);
    assert_eq!(handed(&mut keeper)[1].1, Some(1));
}
