//! What becomes of the keeper's socket when the keeper is lost.

use std::os::fd::AsFd as _;

use forkful_os::keeper::{End, Frame, Handover, Kind, Name, Update, seat, send_frame};

use super::*;

#[test]
fn the_socket_of_a_keeper_that_a_hold_has_found_lost_wakes_the_loop_no_more() {
    let (keeper, ours) = seat().unwrap();
    let hello = Frame::Hello { keeper: 7, died: 0, last: End::Unknown, update: Update::None };
    for frame in [hello, Frame::Done] {
        send_frame(keeper.as_fd(), &frame, None).unwrap();
    }
    let keeping = Handover::receive(ours).unwrap().keeping;
    let reactor = Rc::new(reactor::Reactor::new().unwrap());
    let processes = Processes::new(Rc::clone(&reactor), &keeping).unwrap();
    let ready = || {
        let mut events = Vec::new();
        reactor.wait(&mut events, Some(Duration::ZERO)).unwrap();
        events.iter().map(|event| event.token).collect::<Vec<_>>()
    };
    assert_eq!(ready(), [0_u64; 0]);
    let hold = keeping.keep(Name::only(Kind::Lock), std::io::pipe().unwrap().0);
    drop(keeper);
    // A process that another test starts has a copy of the socket until it executes its program.
    forkful_testkit::wait_until("the end of the keeper", || ready() == [KEEPER_TOKEN]);
    drop(hold);
    keeping.let_go();
    assert_eq!(ready(), [KEEPER_TOKEN]);
    assert!(processes.has_news());
    processes.hear_keeper(|_| false);
    assert_eq!(ready(), [0_u64; 0]);
    assert!(!processes.has_news());
}
