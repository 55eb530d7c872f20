//! Reports of the agent, and connections for exactly one worker.

use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use forkful_cluster::{PrimaryEvent, ReportPace, WorkerId};
use forkful_core::spec::Balance;
use forkful_core::stalls::{STALLS_TOLD_MAX, Stall};

use super::client::{Client, tcp};
use super::worker::Manner;
use super::world::{World, serving};

const HELLO: &str = r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1,"can":["drain","report"]}"#;

/// Both ends of a connection; the second is for a worker.
fn pair() -> (Client, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (server, _) = listener.accept().unwrap();
    (Client::of(client), server.into())
}

fn last_act(world: &World, number: u32) -> (Option<String>, Option<u64>) {
    let last = world.workers[&number].heard.last();
    let act = last.and_then(|line| line["act"].as_str()).map(str::to_owned);
    (act, last.and_then(|line| line["every_ms"].as_u64()))
}

#[test]
fn a_connection_for_one_worker_reaches_that_one() {
    for balance in [Balance::Exact, Balance::Direct, Balance::Auto] {
        let (mut world, workers, _) = serving(balance, 3);
        for number in &workers {
            let (client, server) = pair();
            world.primary.hand_to(WorkerId(*number), server, world.now).expect("its channel is idle");
            assert_eq!(world.answered(&mut [client]), [*number], "{balance:?}");
        }
    }
}

#[test]
fn a_connection_for_one_worker_goes_to_nobody_else() {
    let (mut world, workers, _) = serving(Balance::Exact, 2);
    for manner in [Manner::Refuses, Manner::LosesHandles] {
        world.worker(workers[0]).manner = manner;
        let (mut client, server) = pair();
        world.primary.hand_to(WorkerId(workers[0]), server, world.now).expect("its channel is idle");
        world.advance(Duration::from_secs(1));
        assert!(client.read().is_empty(), "{manner:?}");
    }
    assert_eq!(world.totals(), [0, 0]);
}

#[test]
fn a_stuck_worker_keeps_its_own_connection_and_takes_no_second() {
    let (mut world, workers, _) = serving(Balance::Exact, 2);
    world.block(workers[0]);
    let (client, server) = pair();
    world.primary.hand_to(WorkerId(workers[0]), server, world.now).expect("its channel is idle");
    world.advance(Duration::from_millis(100));
    let since =
        world.primary.ask_whether_it_turns(WorkerId(workers[0]), world.now).expect("an answer is owed");
    assert!(world.now.since(since) >= Duration::from_millis(90));
    let (_, second) = pair();
    assert!(world.primary.hand_to(WorkerId(workers[0]), second, world.now).is_err());
    world.unblock(workers[0]);
    assert_eq!(world.answered(&mut [client]), [workers[0]]);
}

#[test]
fn agents_report_while_somebody_wants_it() {
    let (mut world, workers, _) = serving(Balance::Exact, 2);
    world.worker(workers[0]).say(HELLO);
    world.settle();
    let pace =
        ReportPace { every: Duration::from_secs(1), quiet: Some(Duration::from_secs(10)), at_once: false };
    world.primary.want_reports(Some(pace), world.now);
    world.worker(workers[1]).say(HELLO);
    world.settle();
    for number in &workers {
        assert_eq!(last_act(&world, *number), (Some("report".to_owned()), Some(1000)), "worker {number}");
    }
    let report =
        r#"{"cmd":"NODE_FORKFUL","act":"report","requests":7,"values":{"event_loop_utilization":0.5}}"#;
    world.worker(workers[1]).say(report);
    world.worker(workers[1]).say(&report.replace("0.5", "1.5").replace('7', "8"));
    world.settle();
    let reports: Vec<(u64, Option<f64>)> = world
        .events
        .iter()
        .filter_map(|event| match event {
            PrimaryEvent::Report { worker, report } if *worker == WorkerId(workers[1]) => {
                Some((report.requests, report.readings.get("event_loop_utilization")))
            }
            _ => None,
        })
        .collect();
    assert_eq!(reports, [(7, Some(0.5)), (8, None)], "a share above the whole is not believed");
    let is_urgent = |world: &World| world.workers[&workers[0]].heard.last().map(|line| line["now"] == true);
    assert_eq!(is_urgent(&world), Some(false));
    world.primary.want_reports(Some(ReportPace { at_once: true, ..pace }), world.now);
    world.settle();
    assert_eq!(is_urgent(&world), Some(true));
    world.primary.want_reports(None, world.now);
    world.settle();
    assert_eq!(last_act(&world, workers[0]), (Some("report".to_owned()), Some(0)));
}

#[test]
fn agents_tell_of_stalls_and_what_they_tell_is_bounded() {
    let (mut world, workers, _) = serving(Balance::Exact, 2);
    world.worker(workers[0]).say(HELLO);
    world.settle();
    world.primary.want_stalls(Some(Duration::from_millis(50)), world.now);
    world.worker(workers[1]).say(HELLO);
    world.settle();
    for number in &workers {
        assert_eq!(last_act(&world, *number).0, Some("stalls".to_owned()), "worker {number}");
    }
    let one = r#"{"ago_ms":900,"for_ms":120,"cpu_ms":118,"route":"GET /a","function":"f (a.js:1)","stack":["f (a.js:1)"],"requests":1,"waited_ms":120}"#;
    let none = r#"{"ago_ms":0,"for_ms":0}"#;
    let all = [vec![none; 1], vec![one; 100]].concat().join(",");
    world.worker(workers[1]).say(&format!(r#"{{"cmd":"NODE_FORKFUL","act":"stalls","stalls":[{all}]}}"#));
    for nonsense in [r#"[{"for_ms":-1,"ago_ms":0}]"#, r#""many""#, "[[]]"] {
        world
            .worker(workers[1])
            .say(&format!(r#"{{"cmd":"NODE_FORKFUL","act":"stalls","stalls":{nonsense}}}"#));
    }
    world.settle();
    let told: Vec<&Vec<Stall>> = world
        .events
        .iter()
        .filter_map(|event| match event {
            PrimaryEvent::Stalled { worker, stalls } if *worker == WorkerId(workers[1]) => Some(stalls),
            _ => None,
        })
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].len(), STALLS_TOLD_MAX - 1, "the one of no length is left out");
    assert_eq!(told[0][0].route.as_deref(), Some("GET /a"));
}

/// Fills a worker's channel with messages until it is full.
fn fill_channel(world: &mut World, number: u32) {
    let message = serde_json::to_vec(&"x".repeat(150_000)).unwrap();
    while world.primary.send_message(WorkerId(number), &message, world.now).is_ok() {}
}

#[test]
fn a_worker_that_never_catches_up_gets_its_sockets_among_the_messages() {
    let (mut world, workers, address) = serving(Balance::Direct, 2);
    let number = workers[0];
    world.block(number);
    fill_channel(&mut world, number);
    world.worker(number).query(&tcp(address.ip(), 8081));
    for _ in 0..20 {
        while world.worker(number).read_piece() {}
        world.settle();
        fill_channel(&mut world, number);
    }
    assert!(world.workers[&number].received_handle.is_some());
}

#[test]
fn a_worker_that_reads_but_never_catches_up_is_silent_only_when_it_stops() {
    let (mut world, workers, _) = serving(Balance::Exact, 2);
    world.block(workers[0]);
    fill_channel(&mut world, workers[0]);
    let silent_for =
        |world: &World| world.primary.owes_since(WorkerId(workers[0])).map(|since| world.now.since(since));
    for _ in 0..20 {
        world.advance(Duration::from_millis(10));
        while world.worker(workers[0]).read_piece() {}
        world.settle();
        fill_channel(&mut world, workers[0]);
        assert_eq!(silent_for(&world), Some(Duration::ZERO));
    }
    world.advance(Duration::from_secs(3));
    assert_eq!(silent_for(&world), Some(Duration::from_secs(3)));
}
