//! The keeper's actions when daemons start, work and end.

use std::time::Duration;

use forkful_keeper::keeper::{Action, After, Keeper, START_PAUSE};
use forkful_os::keeper::{End, Frame, Kind, Name, Update};

use super::{SECOND, handed};

fn name(kind: Kind, of: u32) -> Name {
    Name { kind, app: 1, of, part: 0 }
}

#[test]
fn a_daemon_gets_what_those_before_it_have_had_kept() {
    let mut keeper = Keeper::new(7);
    keeper.begin_with(0, Kind::State, 100);
    let first = handed(&mut keeper);
    let state = Frame::Kept { place: 0, name: Name::only(Kind::State) };
    let hello = |died, last| Frame::Hello { keeper: 7, died, last, update: Update::None };
    assert_eq!(first, [(hello(0, End::Unknown), None), (state, Some(100)), (Frame::Done, None)]);
    for (place, descriptor) in [(1, 11), (2, 12), (5, 15), (2, 22)] {
        keeper.on_frame(Frame::Keep { place, name: name(Kind::Channel, place) }, Some(descriptor), SECOND);
    }
    keeper.on_frame(Frame::Drop { place: 1 }, None, SECOND);
    assert_eq!(keeper.on_end(End::Signal(9), SECOND), After::Start);
    let kept = |place| Frame::Kept { place, name: name(Kind::Channel, place) };
    let second = handed(&mut keeper);
    let expected = [
        (hello(1, End::Signal(9)), None),
        (state, Some(100)),
        (kept(2), Some(22)),
        (kept(5), Some(15)),
        (Frame::Done, None),
    ];
    assert_eq!(second, expected);
}

#[test]
fn what_is_dropped_while_it_is_handed_over_is_not_handed_over() {
    let mut keeper = Keeper::new(7);
    for place in 0..3 {
        keeper.begin_with(place, Kind::Channel, place);
    }
    keeper.on_start();
    keeper.sent();
    keeper.on_frame(Frame::Drop { place: 0 }, None, SECOND);
    keeper.on_frame(Frame::Drop { place: 2 }, None, SECOND);
    assert_eq!(keeper.outgoing().and_then(|outgoing| outgoing.descriptor.copied()), Some(1));
    keeper.sent();
    assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Done));
}

#[test]
fn a_daemon_that_leaves_is_not_started_again_and_the_lock_alone_is_held_until_its_end() {
    let mut keeper = Keeper::new(7);
    for (place, kind) in [(0, Kind::State), (1, Kind::Lock), (2, Kind::Listener)] {
        keeper.begin_with(place, kind, place);
    }
    handed(&mut keeper);
    assert_eq!(keeper.on_frame(Frame::Leave, None, SECOND), Action::Nothing);
    assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Done));
    keeper.sent();
    assert_eq!(keeper.outgoing(), None);
    assert_eq!(keeper.table.all().collect::<Vec<_>>(), [(Name::only(Kind::Lock), &1)]);
    assert_eq!(keeper.on_end(End::Code(3), SECOND), After::End);
}

#[test]
fn five_ends_in_ten_seconds_are_enough_until_a_client_comes() {
    let mut keeper = Keeper::new(7);
    keeper.begin_with(0, Kind::Process, 1);
    for second in [0, 3, 6, 9, 12, 15, 18, 21] {
        assert_eq!(keeper.on_end(End::Signal(11), SECOND * second), After::Start, "{second}");
    }
    // Ten seconds have passed since the fourth death before.
    assert_eq!(keeper.on_end(End::Signal(11), SECOND * 22), After::Start);
    assert_eq!(keeper.on_end(End::Signal(11), SECOND * 23), After::Without);
    assert_eq!(keeper.waits_for_visits(SECOND * 26), Some(Duration::ZERO));
    assert!(keeper.on_visit(SECOND * 26));
    handed(&mut keeper);
    assert_eq!(keeper.retries_in(SECOND * 26), None);
    assert_eq!(keeper.waits_for_visits(SECOND * 26), None);
    assert_eq!(keeper.on_end(End::Code(1), SECOND * 27), After::Without);
    assert_eq!(keeper.retries_in(SECOND * 28), Some(SECOND * 9));
    assert_eq!(keeper.retries_in(SECOND * 40), Some(Duration::ZERO));
    assert!(!keeper.on_visit(SECOND * 27), "not again so soon");
    assert_eq!(keeper.waits_for_visits(SECOND * 27), Some(SECOND));
    assert!(keeper.on_visit(SECOND * 28));
}

#[test]
fn a_signal_reaches_a_daemon_that_serves_and_ends_a_keeper_without_one() {
    let mut keeper: Keeper<u32> = Keeper::new(7);
    keeper.begin_with(0, Kind::Process, 1);
    handed(&mut keeper);
    assert_eq!(keeper.on_signal(15), Action::Nothing);
    assert_eq!(keeper.on_frame(Frame::Serves, None, SECOND), Action::Signal(15));
    assert_eq!(keeper.on_frame(Frame::Serves, None, SECOND), Action::Nothing, "once");
    assert_eq!(keeper.on_signal(2), Action::Signal(2));
    for _ in 0..5 {
        keeper.on_end(End::Signal(9), SECOND);
    }
    assert_eq!(keeper.on_signal(15), Action::End(15));
}

#[test]
fn a_signal_that_asks_for_no_end_waits_for_the_next_daemon() {
    let mut keeper: Keeper<u32> = Keeper::new(7);
    keeper.begin_with(0, Kind::Process, 1);
    for _ in 0..5 {
        keeper.on_end(End::Signal(9), SECOND);
    }
    // Log files are opened again.
    assert_eq!(keeper.on_signal(12), Action::Nothing);
    handed(&mut keeper);
    assert_eq!(keeper.on_frame(Frame::Serves, None, SECOND), Action::Signal(12));
    keeper.on_end(End::Signal(9), SECOND * 100);
    handed(&mut keeper);
    for signal in [15, 12] {
        assert_eq!(keeper.on_signal(signal), Action::Nothing);
    }
    assert_eq!(keeper.on_frame(Frame::Serves, None, SECOND * 100), Action::Signal(15), "it is not forgotten");
}

#[test]
fn with_nothing_to_keep_it_ends_with_its_last_daemon() {
    let mut keeper: Keeper<u32> = Keeper::new(7);
    keeper.begin_with(0, Kind::State, 1);
    let ends: Vec<After> = (0..5).map(|_| keeper.on_end(End::Signal(6), SECOND)).collect();
    assert_eq!(ends[..4], [After::Start; 4]);
    assert_eq!(ends[4], After::End);
}

#[test]
fn a_daemon_that_serves_is_told_of_children_and_those_before_it_are_forgotten() {
    let mut keeper: Keeper<u32> = Keeper::new(7);
    keeper.on_end(End::Signal(9), SECOND);
    keeper.on_child();
    let frames = handed(&mut keeper);
    assert!(frames.iter().all(|(frame, _)| *frame != Frame::Child), "it looks itself");
    keeper.on_frame(Frame::Serves, None, SECOND);
    keeper.on_child();
    keeper.on_child();
    assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Child));
    keeper.sent();
    assert_eq!(keeper.outgoing(), None);
    keeper.on_end(End::Signal(9), SECOND);
    assert_eq!(
        handed(&mut keeper)[0].0,
        Frame::Hello { keeper: 7, died: 1, last: End::Signal(9), update: Update::None }
    );
}

#[test]
fn a_daemon_that_answers_no_look_is_killed_and_one_that_answers_is_not() {
    let mut keeper: Keeper<u32> = Keeper::new(7);
    keeper.watch(SECOND * 10);
    handed(&mut keeper);
    assert_eq!(keeper.looks_in(SECOND), None, "it does not serve yet");
    keeper.on_frame(Frame::Serves, None, SECOND);
    for round in 1..=5 {
        let now = SECOND * 10 * round;
        assert_eq!(keeper.looks_in(now), Some(Duration::ZERO));
        assert_eq!(keeper.on_look(now, Duration::ZERO), Action::Nothing);
        keeper.on_child();
        for frame in [Frame::Child, Frame::Look] {
            assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(frame));
            keeper.sent();
        }
        assert_eq!(keeper.outgoing(), None);
        assert_eq!(keeper.looks_in(now + SECOND), Some(SECOND * 4));
        assert_eq!(keeper.on_look(now + SECOND, Duration::ZERO), Action::Nothing, "it is not time");
        keeper.on_frame(Frame::Turns, None, SECOND);
    }
    assert_eq!(keeper.on_look(SECOND * 100, Duration::ZERO), Action::Nothing);
    assert_eq!(keeper.on_look(SECOND * 900, Duration::ZERO), Action::Nothing, "all was frozen for a while");
    assert_eq!(keeper.on_look(SECOND * 904, Duration::ZERO), Action::Nothing);
    assert_eq!(keeper.on_look(SECOND * 905, Duration::ZERO), Action::Kill);
    assert_eq!(keeper.on_end(End::Signal(9), SECOND * 905), After::Start);
    handed(&mut keeper);
    keeper.on_frame(Frame::Serves, None, SECOND);
    assert_eq!(keeper.on_look(SECOND * 910, Duration::ZERO), Action::Nothing, "the next one begins anew");
}

#[test]
fn time_in_which_a_daemon_waits_for_a_core_does_not_count() {
    let mut keeper: Keeper<u32> = Keeper::new(7);
    keeper.watch(SECOND * 10);
    handed(&mut keeper);
    keeper.on_frame(Frame::Serves, None, SECOND);
    // For nine tenths of the time it gets no core.
    for look in 0..20 {
        let now = SECOND * 5 * (look + 1);
        assert_eq!(keeper.on_look(now, now * 9 / 10), Action::Nothing, "look {look}");
    }
    assert_eq!(keeper.on_look(SECOND * 105, SECOND * 105 * 9 / 10), Action::Kill);
    assert_eq!(keeper.on_end(End::Signal(9), SECOND * 105), After::Start);
    keeper.on_start();
    handed(&mut keeper);
    keeper.on_frame(Frame::Serves, None, SECOND);
    for look in 22..=23 {
        assert_eq!(keeper.on_look(SECOND * 5 * look, Duration::ZERO), Action::Nothing);
    }
    assert_eq!(keeper.on_look(SECOND * 120, Duration::ZERO), Action::Kill);
}

#[test]
fn the_service_manager_keeps_the_socket_of_an_address_until_the_app_closes_it_but_not_those_of_workers() {
    let mut keeper = Keeper::new(7);
    keeper.begin_with_stored(3, [103]);
    let frames = handed(&mut keeper);
    assert!(frames.contains(&(Frame::Kept { place: 3, name: Name::only(Kind::Stored) }, Some(103))));
    let of_part = |part| Name { part, ..name(Kind::Listener, 9) };
    for (place, name, expected) in [
        (4, of_part(0), Action::Store(4)),
        (5, of_part(1), Action::Nothing),
        (6, name(Kind::Channel, 9), Action::Nothing),
    ] {
        assert_eq!(keeper.on_frame(Frame::Keep { place, name }, Some(place), SECOND), expected);
    }
    let forgotten = |keeper: &Keeper<u32>, place| keeper.forgets(&Frame::Drop { place }).copied();
    // A socket from the manager's store is kept as a listener before it is dropped here.
    for (place, expected) in [(3, None), (4, Some(4)), (5, None), (6, None), (7, None)] {
        assert_eq!(forgotten(&keeper, place), expected, "{place}");
    }
    keeper.on_frame(Frame::Serves, None, SECOND);
    assert_eq!(keeper.on_signal(12), Action::Signal(12));
    assert_eq!(forgotten(&keeper, 4), Some(4), "a signal that asks for nothing of the kind");
    // The manager starts the service again, or closes everything itself.
    assert_eq!(keeper.on_signal(15), Action::Signal(15));
    assert_eq!(forgotten(&keeper, 4), None);
}

#[test]
fn a_daemon_that_cannot_be_started_says_nothing_of_what_was_written_down() {
    let mut keeper = Keeper::new(7);
    keeper.begin_with(0, Kind::Process, 1);
    handed(&mut keeper);
    keeper.on_frame(Frame::Serves, None, SECOND);
    assert_eq!(keeper.on_end(End::Signal(9), SECOND), After::Start);
    for refusals in 2..12 {
        let now = SECOND * refusals;
        assert_eq!(keeper.on_refused(now), After::Without);
        assert_eq!(keeper.retries_in(now), Some(START_PAUSE));
        assert_eq!(keeper.retries_in(now + START_PAUSE), Some(Duration::ZERO));
    }
    // A daemon that ends with an exit code of its own is no fault of the written-down state either.
    handed(&mut keeper);
    assert!(!keeper.is_refused());
    assert_eq!(keeper.on_end(End::Code(2), SECOND * 12), After::Start);
    let hello = Frame::Hello { keeper: 7, died: 1, last: End::Code(2), update: Update::None };
    assert_eq!(handed(&mut keeper)[0].0, hello);
}

#[test]
fn a_first_daemon_that_cannot_be_started_is_the_end() {
    assert_eq!(Keeper::<u32>::new(7).on_refused(SECOND), After::End);
}

#[test]
fn a_program_that_cannot_be_started_gives_way_to_the_one_before() {
    let mut keeper = Keeper::new(7);
    keeper.begin_with(0, Kind::Process, 1);
    handed(&mut keeper);
    keeper.on_frame(Frame::Serves, None, SECOND);
    keeper.on_frame(Frame::Update, Some(99), SECOND);
    assert_eq!(keeper.on_end(End::Code(0), SECOND), After::Start);
    assert_eq!((keeper.on_refused(SECOND), keeper.program()), (After::Start, None));
}
