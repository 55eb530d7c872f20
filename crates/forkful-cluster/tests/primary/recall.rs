//! Taking pushes out of a stuck worker's channel, and the lines around them.

use std::time::Duration;

use forkful_cluster::WorkerId;
use forkful_core::spec::Balance;
use serde_json::json;

use super::client::{connect_all, only_answers, own_host, tcp};
use super::failures::{catch_unread, catch_unread_behind};
use super::world::{World, serving};

/// Sends a worker's app a message of this size, with a number to identify it.
fn tell(world: &mut World, number: u32, count: usize, bytes: usize) {
    let line = json!({ "told": count, "text": "x".repeat(bytes) }).to_string();
    assert_eq!(world.primary.send_message(WorkerId(number), line.as_bytes(), world.now), Ok(()));
}

/// The numbers of the messages that a worker's app received, in order.
fn told(world: &World, number: u32) -> Vec<u64> {
    world.workers[&number].heard.iter().filter_map(|line| line["told"].as_u64()).collect()
}

#[test]
fn a_push_that_a_stuck_worker_has_not_read_is_taken_back() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    world.advance(Duration::from_millis(3));
    assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[1]]);
    world.unblock(workers[0]);
    world.settle();
    assert_eq!(world.workers[&workers[0]].pushed, 0, "it never hears of that connection");
    let mut more = connect_all(address, 3);
    world.answered(&mut more);
    assert_eq!(world.shares(), [2, 2], "and it is asked again");
}

#[test]
fn lines_around_a_push_that_is_taken_back_still_arrive() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    let seq = world.worker(workers[0]).query(&tcp(own_host(), 8081));
    world.settle();
    world.advance(Duration::from_millis(3));
    assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[1]]);
    world.primary.drain(WorkerId(workers[0]), world.now);
    world.unblock(workers[0]);
    world.settle();
    assert_eq!(world.workers[&workers[0]].replies[&seq].len(), 1);
    assert_eq!(world.workers[&workers[0]].heard_act("disconnect"), 1);
}

#[test]
fn a_push_that_the_worker_has_read_is_not_taken_back_with_what_is_behind_it() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    // It has read the connection, and is blocked before it can acknowledge it.
    assert!(world.worker(workers[0]).read_piece());
    let seq = world.worker(workers[0]).query(&tcp(own_host(), 8081));
    world.settle();
    world.advance(Duration::from_millis(3));
    assert!(client.read().is_empty());
    world.unblock(workers[0]);
    world.settle();
    assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[0]]);
    assert_eq!(world.workers[&workers[0]].replies[&seq].len(), 1);
    world.advance(Duration::from_secs(1));
    assert_eq!(only_answers(std::slice::from_mut(&mut client)), [workers[0]]);
    assert_eq!(world.workers[&workers[1]].pushed, 0);
}

#[test]
fn messages_before_and_behind_a_push_that_is_taken_back_arrive_whole_and_in_order() {
    // Less than one read of Node (64 KiB), more than one, and more than two.
    for size in [10, 20_000, 80_000, 140_000] {
        for half_read in [false, true] {
            let (mut world, workers, address) = serving(Balance::Exact, 2);
            let mut client = catch_unread_behind(&mut world, workers[0], address, |world| {
                tell(world, workers[0], 0, size);
                tell(world, workers[0], 1, 10);
            });
            if half_read && size > 64 * 1024 {
                assert!(world.worker(workers[0]).read_piece(), "the first part of a line, and stuck again");
            }
            tell(&mut world, workers[0], 2, 30_000);
            tell(&mut world, workers[0], 3, 10);
            world.advance(Duration::from_millis(3));
            assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[1]], "{size} {half_read}");
            tell(&mut world, workers[0], 4, 10);
            world.unblock(workers[0]);
            world.settle();
            assert_eq!(told(&world, workers[0]), [0, 1, 2, 3, 4], "{size} {half_read}");
            assert_eq!(world.workers[&workers[0]].pushed, 0, "it never hears of that connection");
            let mut more = connect_all(address, 3);
            world.answered(&mut more);
            assert_eq!(world.shares(), [2, 2], "and it is asked again");
        }
    }
}

#[test]
fn messages_behind_a_push_that_stays_arrive_behind_it() {
    for recalls in [false, true] {
        let mut world = World::new(Balance::Exact);
        world.recalls = recalls;
        let worker = world.spawn_serving(&tcp(own_host(), 8080));
        let address = world.address(worker, 1);
        let mut client =
            catch_unread_behind(&mut world, worker, address, |world| tell(world, worker, 0, 80_000));
        tell(&mut world, worker, 1, 10);
        // There is no other worker, so its connection stays with it.
        world.advance(Duration::from_secs(1));
        tell(&mut world, worker, 2, 10);
        world.unblock(worker);
        assert_eq!(world.answered(std::slice::from_mut(&mut client)), [worker]);
        assert_eq!(told(&world, worker), [0, 1, 2]);
    }
}

#[test]
fn a_worker_that_must_be_heard_before_it_can_acknowledge_is_heard() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    // Node delays messages, including acknowledgements, until a handle sent by the app is acknowledged.
    let (end, _far) = forkful_os::channel::pair().unwrap();
    let line = r#"{"cmd":"NODE_HANDLE","type":"net.Socket","msg":{},"key":null}"#;
    world.worker(workers[0]).keeps_back = true;
    world.worker(workers[0]).say_with_handle(line, &end);
    world.unblock(workers[0]);
    world.settle();
    assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[0]]);
    let (_second, worker) = world.request(address);
    assert_eq!(worker, workers[1]);
    let (_third, worker) = world.request(address);
    assert_eq!(worker, workers[0], "its acknowledgement was heard");
}
