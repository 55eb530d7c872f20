//! A keeper and its daemons over real sockets; the test runs each turn of the keeper's loop.

use std::io::{Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::atomic::Ordering;
use std::time::Duration;

use forkful_keeper::areas;
use forkful_keeper::keeper::{After, Keeper};
use forkful_os::keeper::{
    End, Handover, Hold, Kind, Loss, Name, PLACES_MAX, receive_frame, seat, send_frame,
};
use forkful_os::memory_file;

/// The keeper's side, and its end of the socket to the current daemon.
struct World {
    keeper: Keeper<OwnedFd>,
    socket: Option<OwnedFd>,
}

impl World {
    fn new() -> Self {
        let mut keeper = Keeper::new(7);
        keeper.begin_with(0, Kind::State, areas::create().unwrap());
        let words = memory_file::create("words", (PLACES_MAX * 8) as u64).unwrap();
        keeper.begin_with(1, Kind::Words, words);
        Self { keeper, socket: None }
    }

    /// Another daemon begins.
    fn daemon(&mut self) -> Handover {
        let (ours, theirs) = seat().unwrap();
        self.keeper.on_start();
        let socket = self.socket.insert(ours);
        while let Some(outgoing) = self.keeper.outgoing() {
            send_frame(socket.as_fd(), &outgoing.frame, outgoing.descriptor.map(OwnedFd::as_fd)).unwrap();
            self.keeper.sent();
        }
        Handover::receive(theirs).unwrap()
    }

    /// Handles the daemon's frames.
    fn hear(&mut self) {
        let socket = self.socket.as_ref().unwrap();
        while let Ok(Some((frame, descriptor))) = receive_frame(socket.as_fd()) {
            self.keeper.on_frame(frame, descriptor, Duration::ZERO);
        }
    }

    /// The daemon is killed: nothing is dropped in order.
    fn kill(&mut self, daemon: Handover) {
        self.hear();
        std::mem::forget(daemon);
        self.socket = None;
        assert_eq!(self.keeper.on_end(End::Signal(9), Duration::from_secs(1)), After::Start);
    }
}

fn name(of: u32) -> Name {
    Name { kind: Kind::Out, app: 1, of, part: 0 }
}

#[test]
fn the_next_daemon_has_the_very_descriptors_and_their_words() {
    let mut world = World::new();
    let mut first = world.daemon();
    assert_eq!((first.keeper, first.died, first.last), (7, 0, End::Unknown));
    assert!(
        first
            .take(Name::only(Kind::State))
            .is_some_and(|kept| areas::Areas::open(kept.fd).unwrap().1.is_none())
    );
    let (mut reader, mut writer) = std::io::pipe().unwrap();
    let held = first.keeping.keep(name(1), &reader);
    let dropped = first.keeping.keep(name(2), &reader);
    held.word().unwrap().store(41, Ordering::SeqCst);
    drop(dropped);
    first.keeping.let_go();
    // A released place is used again, with its own word.
    let again = first.keeping.keep(name(3), &writer);
    assert_eq!(again.word().unwrap().load(Ordering::SeqCst), 0);
    std::mem::forget((held, again));
    world.kill(first);
    let mut second = world.daemon();
    assert_eq!((second.died, second.last), (1, End::Signal(9)));
    assert!(second.take(name(2)).is_none());
    let kept = second.take(name(1)).unwrap();
    assert_eq!(kept.hold.word().unwrap().load(Ordering::SeqCst), 41);
    writer.write_all(b"through").unwrap();
    drop((writer, second.take(name(3)).unwrap()));
    second.keeping.let_go();
    world.hear();
    let mut text = String::new();
    std::fs::File::from(kept.fd).read_to_string(&mut text).unwrap();
    assert_eq!(text, "through", "nobody else holds the writing end");
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
}

#[test]
fn what_is_dropped_is_kept_until_the_state_says_so_too() {
    let mut world = World::new();
    let first = world.daemon();
    let reader = std::io::pipe().unwrap().0;
    drop(first.keeping.keep(name(1), &reader));
    world.kill(first);
    let mut second = world.daemon();
    drop(second.take(name(1)).unwrap());
    second.keeping.let_go();
    world.kill(second);
    assert!(world.daemon().take(name(1)).is_none());
}

#[test]
fn a_daemon_that_leaves_is_told_that_nothing_is_held_any_more() {
    let mut world = World::new();
    let daemon = world.daemon();
    let (reader, writer) = std::io::pipe().unwrap();
    let hold = daemon.keeping.keep(name(1), &writer);
    std::thread::scope(|scope| {
        let leaving = scope.spawn(|| daemon.keeping.leave());
        while !leaving.is_finished() {
            world.hear();
            let socket = world.socket.as_ref().unwrap();
            while let Some(outgoing) = world.keeper.outgoing() {
                send_frame(socket.as_fd(), &outgoing.frame, None).unwrap();
                world.keeper.sent();
            }
            std::thread::yield_now();
        }
    });
    drop((writer, hold));
    let mut reader = reader;
    assert_eq!(reader.read(&mut [0; 1]).unwrap(), 0);
    assert!(!daemon.keeping.is_on());
    assert_eq!(world.keeper.on_end(End::Code(0), Duration::ZERO), After::End);
}

#[test]
fn a_keeper_that_ends_leaves_a_daemon_that_goes_on_without() {
    let mut world = World::new();
    let daemon = world.daemon();
    assert!(daemon.keeping.is_on());
    assert!(!daemon.keeping.take_news().unwrap());
    world.socket = None;
    assert_eq!(daemon.keeping.take_news(), Err(Loss::Ended));
    assert_eq!(daemon.keeping.take_news(), Ok(false));
    assert!(!daemon.keeping.is_on());
    let hold = daemon.keeping.keep(name(1), std::io::pipe().unwrap().0);
    assert!(hold.word().is_none());
}

#[test]
fn a_keeper_that_reads_nothing_for_a_while_is_not_given_up() {
    let mut world = World::new();
    let daemon = world.daemon();
    let reader = std::io::pipe().unwrap().0;
    // More than fits into the socket.
    let holds: Vec<Hold> = (0..500).map(|of| daemon.keeping.keep(name(of), &reader)).collect();
    daemon.keeping.let_go();
    assert!(daemon.keeping.is_on() && !daemon.keeping.has_news());
    let kept = |world: &World| world.keeper.table.all().filter(|(name, _)| name.kind == Kind::Out).count();
    while kept(&world) < 500 {
        let before = kept(&world);
        world.hear();
        assert!(kept(&world) > before, "{before} of 500 came");
        daemon.keeping.let_go();
    }
    drop(holds);
    daemon.keeping.let_go();
    while kept(&world) > 0 {
        world.hear();
        daemon.keeping.let_go();
    }
}

#[test]
fn a_loss_that_was_noticed_while_something_was_told_is_told_once() {
    let mut world = World::new();
    let daemon = world.daemon();
    let hold = daemon.keeping.keep(name(1), std::io::pipe().unwrap().0);
    world.socket = None;
    drop(hold);
    assert!(!daemon.keeping.has_news());
    daemon.keeping.let_go();
    assert!(!daemon.keeping.is_on() && daemon.keeping.has_news());
    assert_eq!(daemon.keeping.take_news(), Err(Loss::Ended));
    assert!(!daemon.keeping.has_news());
    assert_eq!(daemon.keeping.take_news(), Ok(false));
}
