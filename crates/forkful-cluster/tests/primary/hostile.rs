//! A worker that sends arbitrary data: nothing panics, nothing loops endlessly, and other workers are
//! unaffected.

use std::time::Duration;

use forkful_cluster::{PrimaryEvent, WorkerId};
use forkful_core::spec::Balance;
use serde_json::{Value, json};

use super::client::{connect_all, tcp};
use super::world::{World, serving};

/// Worker 1 may do anything while worker 2 serves; the check is that worker 2 keeps serving.
struct Beside {
    world: World,
    hostile: u32,
    healthy: u32,
    address: std::net::SocketAddr,
}

impl Beside {
    fn new(balance: Balance) -> Self {
        let (mut world, workers, address) = serving(balance, 1);
        let hostile = world.spawn();
        Self { world, hostile, healthy: workers[0], address }
    }

    fn say(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(16 * 1024) {
            self.world.worker(self.hostile).say_bytes(piece);
            self.world.settle();
        }
    }

    fn healthy_serves(&mut self) {
        let mut clients = connect_all(self.address, 5);
        assert_eq!(self.world.answered(&mut clients), [self.healthy; 5]);
        self.world.advance(Duration::from_millis(20));
    }

    /// The channel still works.
    fn hostile_is_heard(&mut self) {
        self.say(b"\n\"ready\"\n");
        let ready = PrimaryEvent::Ready(forkful_cluster::WorkerId(self.hostile));
        assert_eq!(self.world.events.pop(), Some(ready));
    }
}

/// Pseudo-random bytes, the same in every run.
fn noise(seed: u64) -> impl Iterator<Item = u8> {
    let mut state = seed | 1;
    std::iter::repeat_with(move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    })
}

#[test]
fn random_bytes_are_passed_over() {
    let mut beside = Beside::new(Balance::Exact);
    for seed in 1..20 {
        let bytes: Vec<u8> = noise(seed * 977).take(40_000).collect();
        beside.say(&bytes);
    }
    beside.healthy_serves();
    beside.hostile_is_heard();
}

#[test]
fn lines_that_are_almost_right_are_passed_over() {
    let mut beside = Beside::new(Balance::Exact);
    let nested = "[".repeat(100_000);
    let deep = format!(r#"{{"cmd":"NODE_CLUSTER","act":"online","data":{nested}"#);
    let closed = format!(
        r#"{{"cmd":"NODE_CLUSTER","act":"close","key":{}{}}}"#,
        r#"{"a":"#.repeat(50_000),
        "}".repeat(50_000)
    );
    let invalid: &[u8] = b"{\"cmd\":\"NODE_CLUSTER\",\"act\":\"\xff\xfe\",\"seq\":1}";
    let lone_surrogate = r#"{"cmd":"NODE_CLUSTER","act":"close","key":"\ud800","seq":1}"#;
    let lines: [&[u8]; 14] = [
        deep.as_bytes(),
        closed.as_bytes(),
        invalid,
        lone_surrogate.as_bytes(),
        b"{\"cmd\":\"NODE_CLUSTER\"",
        b"{\"cmd\":\"NODE_\"}",
        b"{\"cmd\":\"NODE_CLUSTER\",\"cmd\":\"NODE_CLUSTER\",\"act\":\"online\"}",
        b"{\"cmd\":[\"NODE_CLUSTER\"]}",
        b"{\"cmd\":null,\"act\":\"NODE_\"}",
        b"\x02\x02{\"cmd\":\"NODE_CLUSTER\",\"act\":\"online\"}",
        b"\0\0\0\0",
        b"{}",
        b"[[[\"NODE_\"]]]",
        b"{\"cmd\":\"NODE_CLUSTER\",\"ack\":18446744073709551616,\"accepted\":true}",
    ];
    for line in lines {
        beside.say(line);
        beside.say(b"\n");
        beside.healthy_serves();
    }
    beside.hostile_is_heard();
}

#[test]
fn every_member_of_every_message_may_be_of_any_type() {
    let values = [
        json!(null),
        json!(true),
        json!(-1),
        json!(0),
        json!(u64::MAX),
        json!(1e300),
        json!(""),
        json!("x".repeat(5000)),
        json!([1, [2]]),
        json!({ "a": { "b": null } }),
    ];
    let messages = [
        json!({ "cmd": "NODE_CLUSTER", "act": "online", "seq": 0 }),
        json!({ "cmd": "NODE_CLUSTER", "act": "close", "key": "forkful:0", "seq": 1 }),
        json!({ "cmd": "NODE_CLUSTER", "act": "exitedAfterDisconnect", "seq": 1 }),
        json!({ "cmd": "NODE_CLUSTER", "ack": 1, "accepted": false, "seq": 1 }),
        json!({ "cmd": "NODE_HANDLE_ACK" }),
        json!({ "cmd": "NODE_HANDLE_NACK" }),
        json!({ "cmd": "NODE_HANDLE", "type": "net.Socket", "msg": {} }),
        json!({ "cmd": "NODE_FORKFUL", "act": "hello", "version": 1, "can": ["drain"] }),
        json!({ "cmd": "NODE_CLUSTER", "act": "listening", "index": 0, "data": null, "address": null,
                "port": 1, "addressType": 4, "flags": 0, "backlog": 0, "seq": 1 }),
        json!({ "cmd": "NODE_CLUSTER", "act": "queryServer", "index": 0, "data": null,
                "address": "127.0.0.1", "port": 0, "addressType": 4, "fd": -1, "flags": 0, "backlog": 0,
                "readableAll": false, "writableAll": false, "seq": 1 }),
    ];
    let mut beside = Beside::new(Balance::Exact);
    for message in &messages {
        for member in message.as_object().unwrap().keys() {
            for value in &values {
                let mut spoilt = message.clone();
                spoilt[member] = value.clone();
                beside.say(format!("{spoilt}\n").as_bytes());
            }
            let mut without = message.clone();
            without.as_object_mut().unwrap().remove(member);
            beside.say(format!("{without}\n").as_bytes());
        }
        beside.healthy_serves();
    }
    beside.hostile_is_heard();
}

#[test]
fn a_huge_line_is_passed_over_and_the_next_one_is_read() {
    let mut beside = Beside::new(Balance::Exact);
    beside.say(b"{\"cmd\":\"NODE_CLUSTER\",\"act\":\"");
    let piece = vec![b'x'; 1 << 20];
    for _ in 0..64 {
        beside.say(&piece);
    }
    beside.healthy_serves();
    beside.hostile_is_heard();
}

#[test]
fn answers_to_nothing_mean_nothing() {
    for balance in [Balance::Exact, Balance::Auto, Balance::Direct] {
        let (mut world, workers, address) = serving(balance, 2);
        for seq in 0..50 {
            let worker = world.worker(workers[0]);
            worker.say(r#"{"cmd":"NODE_HANDLE_ACK"}"#);
            worker.say(&format!(r#"{{"cmd":"NODE_CLUSTER","ack":{seq},"accepted":true,"seq":1}}"#));
            worker.say(&format!(r#"{{"cmd":"NODE_CLUSTER","ack":{seq},"accepted":false,"seq":1}}"#));
            worker.say(r#"{"cmd":"NODE_HANDLE_NACK"}"#);
        }
        world.settle();
        let mut clients = connect_all(address, 16);
        world.answered(&mut clients);
        if balance == Balance::Exact {
            assert_eq!(world.shares(), [8, 8]);
        }
    }
}

#[test]
fn a_worker_closes_and_reports_only_what_is_its_own() {
    for balance in [Balance::Exact, Balance::Direct] {
        let mut beside = Beside::new(balance);
        let key = beside.world.reply(beside.healthy, 1).key();
        let query = tcp(beside.address.ip(), beside.address.port());
        for _ in 0..3 {
            let hostile = beside.world.worker(beside.hostile);
            hostile.say_cluster("close", &json!({ "key": key }));
            hostile.say_cluster("close", &json!({ "key": "forkful:18446744073709551615" }));
            hostile.say_cluster("listening", &query);
        }
        beside.world.open(beside.hostile);
        beside.healthy_serves();
        assert_eq!(beside.world.workers[&beside.hostile].pushed, 0);
        let is_listening = |event: &&PrimaryEvent| matches!(event, PrimaryEvent::Listening(_));
        assert_eq!(beside.world.events.iter().filter(is_listening).count(), 1);
    }
}

#[test]
fn a_chatty_worker_does_not_starve_the_others() {
    let mut beside = Beside::new(Balance::Exact);
    let line = json!({ "type": "log", "data": "x".repeat(1000) }).to_string();
    let mut clients = connect_all(beside.address, 30);
    beside.world.run_until("all are answered under a flood", |world| {
        for _ in 0..20 {
            world.worker(beside.hostile).say(&line);
        }
        clients.iter_mut().all(|client| !client.read().is_empty())
    });
    beside.hostile_is_heard();
}

#[test]
fn a_worker_that_floods_its_channel_owes_no_answer_until_the_flood_is_read() {
    let (mut world, workers, _) = serving(Balance::Exact, 1);
    let worker = WorkerId(workers[0]);
    let line = format!("{}\n", json!({ "type": "log", "data": "x".repeat(1000) }));
    // Its reply is queued behind its other messages.
    world.block(workers[0]);
    world.primary.ask_whether_it_turns(worker, world.now).expect("an answer is owed");
    for _ in 0..10 {
        world.worker(workers[0]).say_bytes(line.repeat(60).as_bytes());
        world.advance(Duration::from_millis(100));
        let since = world.primary.owes_since(worker).expect("an answer is owed");
        assert!(world.now.since(since) <= Duration::from_millis(100));
    }
    world.advance(Duration::from_secs(3));
    let since = world.primary.owes_since(worker).expect("an answer is owed");
    assert!(world.now.since(since) >= Duration::from_secs(3));
}

#[test]
fn a_turn_takes_few_messages_and_few_bytes_from_a_worker() {
    let online = format!("{}\n", json!({ "cmd": "NODE_CLUSTER", "act": "online" }));
    let padded = format!("{online}{}\n", "x".repeat(4000));
    for (line, at_most) in [(online, 300), (padded, 12)] {
        let mut beside = Beside::new(Balance::Exact);
        let lines = 150_000 / line.len();
        beside.world.worker(beside.hostile).say_bytes(line.repeat(lines).as_bytes());
        beside.world.events.clear();
        let mut seen = 0;
        while seen < lines {
            beside.world.turn(Duration::ZERO);
            let taken = beside.world.events.len() - seen;
            assert!((1..=at_most).contains(&taken), "{taken} messages of {} bytes", line.len());
            seen += taken;
        }
    }
}

#[test]
fn a_worker_that_asks_and_never_reads_delays_nobody() {
    for (balance, questions) in [(Balance::Exact, 600), (Balance::Exact, 10_000), (Balance::Direct, 600)] {
        let (mut world, workers, address) = serving(balance, 2);
        world.block(workers[0]);
        let nonsense = json!({ "cmd": "NODE_CLUSTER", "act": "queryServer", "addressType": 9, "seq": 1 });
        for _ in 0..questions / 50 {
            for _ in 0..50 {
                world.worker(workers[0]).say(&nonsense.to_string());
            }
            world.settle();
        }
        world.settle();
        let mut clients = connect_all(address, 20);
        world.advance_until("all are answered", |_| clients.iter_mut().all(|c| !c.read().is_empty()));
        assert_eq!(world.answered(&mut clients), [workers[1]; 20], "{balance:?} after {questions}");
        let before = world.wakes;
        world.advance(Duration::from_millis(50));
        assert!(world.wakes - before <= 60, "{} wakes", world.wakes - before);
    }
}

#[test]
fn a_message_of_the_app_is_nobodys_business() {
    let mut beside = Beside::new(Balance::Exact);
    let messages: [Value; 6] = [
        json!({ "cmd": "NODE" }),
        json!({ "cmd": "node_cluster", "act": "online" }),
        json!({ "type": "process:msg", "data": { "cmd": "NODE_CLUSTER", "act": "online" } }),
        json!("NODE_HANDLE_ACK"),
        json!(["ready"]),
        json!({ "ready": true, "text": "\"NODE_CLUSTER\"" }),
    ];
    beside.world.events.clear();
    for message in messages {
        beside.say(format!("{message}\n").as_bytes());
    }
    assert_eq!(beside.world.events, []);
    beside.hostile_is_heard();
}
