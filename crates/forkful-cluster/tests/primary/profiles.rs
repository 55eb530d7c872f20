//! Streams for agents: a profile is written into one.

use std::os::fd::{AsFd as _, OwnedFd};
use std::time::Duration;

use forkful_cluster::WorkerId;
use forkful_core::profile::ProfileOrder;
use forkful_core::spec::Balance;
use forkful_os::channel;

use super::client::connect_all;
use super::worker::Manner;
use super::world::{World, serving};

const ORDER: ProfileOrder =
    ProfileOrder::Cpu { length: Duration::from_secs(2), interval: Duration::from_micros(500) };

/// Orders a profile; our end of its stream.
fn order(world: &mut World, number: u32) -> OwnedFd {
    let (ours, theirs) = channel::pair_to_read(Duration::from_secs(1)).unwrap();
    world.primary.order_profile(WorkerId(number), &ORDER, theirs, world.now);
    world.settle();
    ours
}

/// What can be read of an end now; `None` when the other end is closed.
fn read(end: &OwnedFd) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 64];
    match channel::receive(end.as_fd(), &mut bytes, &mut Vec::new()) {
        Ok(0) => None,
        Ok(read) => Some(bytes[..read].to_vec()),
        Err(_) => Some(Vec::new()),
    }
}

#[test]
fn a_stream_reaches_the_agent_of_one_worker_and_connections_go_on() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let ours = order(&mut world, workers[1]);
    let told = world.workers[&workers[1]].heard.iter().find(|line| line["msg"]["act"] == "profile").unwrap();
    assert_eq!(told["msg"]["kind"], "cpu");
    assert_eq!((&told["msg"]["for_ms"], &told["msg"]["interval_us"]), (&2000.into(), &500.into()));
    assert_eq!((&told["type"], &told["nativeKind"]), (&"net.Native".into(), &"pipe".into()));
    assert!(world.workers[&workers[0]].streams.is_empty());
    let stream = world.worker(workers[1]).streams.pop().unwrap();
    channel::send(stream.as_fd(), b"profile", None).unwrap();
    assert_eq!(read(&ours).as_deref(), Some(&b"profile"[..]));
    // The primary has kept no copy.
    drop(stream);
    assert_eq!(read(&ours), None);
    let mut clients = connect_all(address, 4);
    assert_eq!(world.answered(&mut clients).len(), 4);
}

#[test]
fn a_stream_that_a_worker_has_no_room_for_comes_again() {
    let (mut world, workers, _) = serving(Balance::Exact, 1);
    world.worker(workers[0]).manner = Manner::LosesHandles;
    let ours = order(&mut world, workers[0]);
    assert!(world.workers[&workers[0]].streams.is_empty());
    world.worker(workers[0]).manner = Manner::Serves;
    world.advance(Duration::from_secs(2));
    assert_eq!(world.workers[&workers[0]].streams.len(), 1);
    assert_eq!(read(&ours), Some(Vec::new()), "it is open");
}

#[test]
fn the_stream_of_a_worker_that_leaves_or_has_gone_is_closed() {
    let (mut world, workers, _) = serving(Balance::Exact, 2);
    // It waits for its turn behind a probe that is not answered, and the line at which the worker leaves comes first.
    world.block(workers[0]);
    let _since = world.primary.ask_whether_it_turns(WorkerId(workers[0]), world.now);
    let ours = order(&mut world, workers[0]);
    world.primary.drain(WorkerId(workers[0]), world.now);
    world.unblock(workers[0]);
    world.settle();
    assert_eq!(read(&ours), None);
    // Nobody is there.
    world.primary.detach(WorkerId(workers[1]), world.now);
    let ours = order(&mut world, workers[1]);
    assert_eq!(read(&ours), None);
}
