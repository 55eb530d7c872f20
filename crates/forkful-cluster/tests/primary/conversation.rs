//! Messages between apps and their primary.

use std::time::Duration;

use forkful_cluster::primary::MESSAGE_BYTES_MAX;
use forkful_cluster::{MessageRefused, PrimaryEvent, WorkerId};
use forkful_core::spec::Balance;
use serde_json::json;

use super::client::connect_all;
use super::world::{World, serving};

const METRICS: &str = r#"{"type":"axm:monitor","data":{"Hits":{"value":1}}}"#;

/// The messages that the primary has passed on, oldest first.
fn said(world: &World) -> Vec<(u32, String)> {
    let text = |event: &PrimaryEvent| match event {
        PrimaryEvent::Message { worker, line } => Some((worker.0, String::from_utf8(line.clone()).unwrap())),
        _ => None,
    };
    world.events.iter().filter_map(text).collect()
}

#[test]
fn metrics_are_always_heard_and_the_rest_when_somebody_listens() {
    let mut world = World::new(Balance::Exact);
    let number = world.spawn();
    let say_all = |world: &mut World, number: u32| {
        for line in [METRICS, r#"{"mine":1}"#, "\"ready\"", r#"{"cmd":"NODE_FORKFUL","act":"hello"}"#, "17"] {
            world.worker(number).say(line);
        }
        world.settle();
    };
    say_all(&mut world, number);
    assert_eq!(said(&world), [(number, METRICS.to_owned())]);

    world.events.clear();
    world.primary.hear_messages(true);
    let later = world.spawn();
    say_all(&mut world, later);
    let all = [METRICS, r#"{"mine":1}"#, "\"ready\"", "17"].map(|line| (later, line.to_owned()));
    assert_eq!(said(&world), all);
    assert!(world.events.contains(&PrimaryEvent::Ready(WorkerId(later))));

    world.events.clear();
    world.primary.hear_messages(false);
    say_all(&mut world, later);
    assert_eq!(said(&world), [(later, METRICS.to_owned())]);
}

#[test]
fn a_message_reaches_the_app_and_nothing_else_does() {
    let (mut world, workers, _) = serving(Balance::Exact, 2);
    let (first, second) = (WorkerId(workers[0]), WorkerId(workers[1]));
    assert_eq!(world.primary.send_message(first, br#"{"topic":"hello"}"#, world.now), Ok(()));
    world.settle();
    assert_eq!(world.workers[&workers[0]].heard.last(), Some(&json!({"topic": "hello"})));
    assert!(!world.workers[&workers[1]].heard.contains(&json!({"topic": "hello"})));

    let refused = |world: &mut World, line: &[u8]| world.primary.send_message(second, line, world.now);
    assert_eq!(refused(&mut world, b"1\n2"), Err(MessageRefused::TooLong));
    assert_eq!(refused(&mut world, &vec![b'1'; MESSAGE_BYTES_MAX + 1]), Err(MessageRefused::TooLong));
    world.kill(workers[1]);
    assert_eq!(refused(&mut world, b"1"), Err(MessageRefused::NoChannel));
}

#[test]
fn an_app_that_does_not_read_its_messages_keeps_its_channel_and_its_memory_is_bounded() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    world.block(workers[0]);
    let line = serde_json::to_vec(&"x".repeat(100_000)).unwrap();
    let mut sent = 0;
    while world.primary.send_message(WorkerId(workers[0]), &line, world.now) == Ok(()) {
        sent += 1;
        assert!(sent < 100, "nothing holds it back");
    }
    assert_eq!(
        world.primary.send_message(WorkerId(workers[0]), &line, world.now),
        Err(MessageRefused::NotReading)
    );
    world.advance(Duration::from_secs(1));
    assert!(!world.events.contains(&PrimaryEvent::Disconnected(WorkerId(workers[0]))));
    world.unblock(workers[0]);
    world.settle();
    assert!(world.workers[&workers[0]].heard.len() >= sent);
    assert_eq!(world.primary.send_message(WorkerId(workers[0]), b"1", world.now), Ok(()));
    // It serves as before.
    let mut clients = connect_all(address, 4);
    let mut who = world.answered(&mut clients);
    who.sort_unstable();
    who.dedup();
    assert_eq!(who, workers);
}
