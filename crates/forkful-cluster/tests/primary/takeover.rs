//! A daemon that takes over completes what the previous one has left half done.

use std::os::unix::net::UnixListener;

use forkful_cluster::WorkerId;
use forkful_cluster::primary::MESSAGE_BYTES_MAX;
use forkful_core::spec::Balance;
use serde_json::json;

use super::client::unix;
use super::world::World;

const HELLO: &str = r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1,"can":["drain","echo"]}"#;
const ECHO: &str = r#"{"cmd":"NODE_FORKFUL","act":"echo"}"#;

#[test]
fn a_worker_reads_on_in_the_middle_of_a_line() {
    let mut world = World::new(Balance::Exact);
    let number = world.spawn();
    world.worker(number).blocked = true;
    let text = "\u{f6}".repeat((MESSAGE_BYTES_MAX - 100) / 2);
    let messages = [json!({ "text": text }), json!({ "text": "short" })];
    for message in &messages {
        let line = message.to_string().into_bytes();
        assert_eq!(world.primary.send_message(WorkerId(number), &line, world.now), Ok(()));
    }
    world.settle();
    for _ in 0..2 {
        world.take_over(Balance::Exact);
    }
    world.worker(number).blocked = false;
    world.run_until("both messages", |world| world.workers[&number].heard.contains(&messages[1]));
    let heard: Vec<_> =
        world.workers[&number].heard.iter().filter(|line| line.get("text").is_some()).collect();
    assert_eq!(heard, messages.iter().collect::<Vec<_>>());
}

#[test]
fn a_path_that_the_previous_daemon_has_bound_in_its_last_moment_is_bound_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(Balance::Exact);
    let number = world.spawn();
    world.worker(number).say(HELLO);
    world.settle();
    world.take_over(Balance::Exact);
    // The worker has asked for it, and its query is read again.
    let bound = folder.path().join("bound.sock");
    drop(UnixListener::bind(&bound).unwrap());
    let seq = world.ask(number, &unix(&bound));
    assert_eq!(world.reply(number, seq).errno().unwrap_or(0), 0);
    // From now on such a file is another program's.
    world.worker(number).say(ECHO);
    world.settle();
    let left = folder.path().join("left.sock");
    drop(UnixListener::bind(&left).unwrap());
    let seq = world.ask(number, &unix(&left));
    assert_eq!(world.reply(number, seq).errno(), Some(-98));
}
