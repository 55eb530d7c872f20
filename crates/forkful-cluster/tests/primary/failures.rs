//! Connections that a worker refuses, never receives, or loses when it dies.

use std::net::SocketAddr;
use std::time::Duration;

use forkful_cluster::{PrimaryEvent, WorkerId};
use forkful_core::spec::Balance;
use forkful_os::channel;

use super::client::{Client, connect, connect_all, only_answers, own_host, queued, tcp};
use super::worker::Manner;
use super::world::{World, serving};

/// Connects, and blocks the worker between its reply to the probe and the following push: then its channel
/// contains an unread connection.
pub(super) fn catch_unread(world: &mut World, number: u32, address: SocketAddr) -> Client {
    catch_unread_behind(world, number, address, |_| {})
}

/// The same, after other data that the daemon sends before the push.
pub(super) fn catch_unread_behind(
    world: &mut World,
    number: u32,
    address: SocketAddr,
    send: impl FnOnce(&mut World),
) -> Client {
    let client = connect(address);
    let probed = world.workers[&number].probed;
    for _ in 0..10_000 {
        world.turn(Duration::from_millis(1));
        if world.workers[&number].probed > probed {
            world.block(number);
            send(world);
            world.settle();
            return client;
        }
    }
    panic!("the worker was never asked");
}

#[test]
fn a_refused_connection_reaches_another_worker() {
    for manner in [Manner::Refuses, Manner::LosesHandles] {
        let (mut world, workers, address) = serving(Balance::Exact, 2);
        world.worker(workers[0]).manner = manner;
        let mut clients = connect_all(address, 8);
        assert_eq!(world.answered(&mut clients), [workers[1]; 8], "{manner:?}");
        assert_eq!(world.workers[&workers[0]].pushed, 1, "it has a pause: {manner:?}");
    }
}

#[test]
fn a_worker_that_refused_gets_connections_again_after_a_pause() {
    for manner in [Manner::Refuses, Manner::LosesHandles] {
        let (mut world, workers, address) = serving(Balance::Exact, 2);
        world.worker(workers[0]).manner = manner;
        let mut clients = connect_all(address, 4);
        world.answered(&mut clients);
        world.worker(workers[0]).manner = Manner::Serves;
        world.advance(Duration::from_secs(1));
        clients.append(&mut connect_all(address, 4));
        world.answered(&mut clients);
        assert_eq!(world.shares(), [4, 4], "{manner:?}");
    }
}

#[test]
fn when_all_refuse_the_pauses_grow_and_nothing_is_lost() {
    for manner in [Manner::Refuses, Manner::LosesHandles] {
        let (mut world, workers, address) = serving(Balance::Exact, 2);
        for worker in &workers {
            world.worker(*worker).manner = manner;
        }
        let mut clients = connect_all(address, 10);
        world.run_until("they are seen", |_| queued(address) < 10);
        let before = world.wakes;
        world.advance(Duration::from_secs(10));
        let pushed: usize = workers.iter().map(|worker| world.workers[worker].pushed).sum();
        // 5, 10, 20 … 320 ms, and 320 ms from then on: 37 pushes in ten seconds, per worker.
        assert!((20..=80).contains(&pushed), "{pushed} pushes in ten seconds");
        assert!(world.wakes - before < 400, "{} wakes", world.wakes - before);
        for worker in &workers {
            world.worker(*worker).manner = Manner::Serves;
        }
        world.advance(Duration::from_secs(1));
        world.answered(&mut clients);
        assert_eq!(world.shares(), [5, 5]);
    }
}

#[test]
fn a_connection_that_a_dead_worker_has_not_read_is_answered_once_by_another() {
    for recalls in [false, true] {
        let mut world = World::new(Balance::Exact);
        world.recalls = recalls;
        let query = tcp(own_host(), 8080);
        let workers = [world.spawn_serving(&query), world.spawn_serving(&query)];
        let address = world.address(workers[0], 1);
        let mut client = catch_unread(&mut world, workers[0], address);
        assert!(client.read().is_empty());
        world.kill(workers[0]);
        assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[1]]);
        world.advance(Duration::from_secs(1));
        assert_eq!(only_answers(std::slice::from_mut(&mut client)), [workers[1]]);
    }
}

/// More than is read from a worker in one turn, less than its channel can hold.
fn chatter() -> Vec<u8> {
    format!("{}\n", serde_json::json!({ "data": "x".repeat(1000) })).repeat(150).into_bytes()
}

#[test]
fn what_a_worker_said_before_it_died_counts_however_much_it_was() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    let worker = world.worker(workers[0]);
    worker.say_bytes(&chatter());
    worker.blocked = false;
    worker.turn();
    assert_eq!(worker.served_total, 1, "it has served, and said so behind its chatter");
    world.kill(workers[0]);
    world.advance(Duration::from_secs(1));
    assert_eq!(only_answers(std::slice::from_mut(&mut client)), [workers[0]], "served once");
    assert_eq!(world.workers[&workers[1]].served_total, 0);
}

#[test]
fn a_worker_whose_answer_was_stuck_in_its_channel_may_have_served() {
    for serves in [true, false] {
        let (mut world, workers, address) = serving(Balance::Exact, 2);
        let mut client = catch_unread(&mut world, workers[0], address);
        let worker = world.worker(workers[0]);
        worker.say_bytes(&chatter().repeat(10));
        if serves {
            worker.blocked = false;
            worker.turn();
            assert_eq!(worker.served_total, 1, "it has served, and could not say so");
        }
        world.kill(workers[0]);
        world.advance(Duration::from_secs(1));
        let by = if serves { workers[0] } else { workers[1] };
        world.run_until("it is answered", |_| !client.read().is_empty());
        assert_eq!(only_answers(std::slice::from_mut(&mut client)), [by], "served once");
        let lost: u64 = world.primary.addresses().map(|(_, _, counters)| counters.lost).sum();
        assert_eq!(lost, u64::from(serves));
    }
}

#[test]
fn a_connection_that_a_given_up_worker_may_still_read_goes_to_no_other() {
    for recalls in [true, false] {
        let mut world = World::new(Balance::Exact);
        world.recalls = recalls;
        let query = tcp(own_host(), 8080);
        let workers = [world.spawn_serving(&query), world.spawn_serving(&query)];
        let address = world.address(workers[0], 1);
        // The other worker is silent, so an overdue push stays where it is.
        world.block(workers[1]);
        let mut client = catch_unread(&mut world, workers[0], address);
        let nonsense =
            serde_json::json!({ "cmd": "NODE_CLUSTER", "act": "queryServer", "addressType": 9, "seq": 1 });
        let given_up = PrimaryEvent::Disconnected(WorkerId(workers[0]));
        world.run_until("it is given up", |world| {
            for _ in 0..500 {
                world.worker(workers[0]).say(&nonsense.to_string());
            }
            world.events.contains(&given_up)
        });
        world.unblock_all(&workers);
        world.advance(Duration::from_secs(1));
        let by = if recalls { workers[1] } else { workers[0] };
        world.run_until("it is answered", |_| !client.read().is_empty());
        assert_eq!(only_answers(std::slice::from_mut(&mut client)), [by], "served once");
        assert_eq!(world.workers.values().map(|worker| worker.served_total).sum::<usize>(), 1);
    }
}

#[test]
fn an_answer_to_another_push_does_not_count() {
    for accepted in [true, false] {
        let (mut world, workers, address) = serving(Balance::Exact, 2);
        world.block(workers[1]);
        let mut client = catch_unread(&mut world, workers[0], address);
        let line = format!(r#"{{"cmd":"NODE_CLUSTER","ack":9999,"accepted":{accepted},"seq":1}}"#);
        world.worker(workers[0]).say(&line);
        world.settle();
        world.unblock(workers[1]);
        world.settle();
        assert!(client.read().is_empty(), "it still belongs to the first");
        world.kill(workers[0]);
        assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[1]]);
    }
}

#[test]
fn a_connection_that_a_dead_worker_has_acknowledged_is_lost_alone() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let (mut lost, by) = world.request(address);
    let other = if by == workers[0] { workers[1] } else { workers[0] };
    let mut others = connect_all(address, 1);
    assert_eq!(world.answered(&mut others), [other]);
    world.kill(by);
    world.run_until("its client sees the end", |_| {
        lost.read();
        lost.ended
    });
    assert_eq!(lost.answers, [by], "no other worker answers it");
    others.append(&mut connect_all(address, 10));
    assert_eq!(world.answered(&mut others), [other; 11]);
    assert!(others.iter().all(|client| !client.ended));
}

#[test]
fn a_connection_acknowledged_with_the_last_breath_is_not_given_to_another() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    // It reads, acknowledges, serves and dies before the daemon runs again.
    world.unblock(workers[0]);
    assert!(world.worker(workers[0]).turn());
    world.kill(workers[0]);
    world.run_until("the client sees the end", |_| {
        client.read();
        client.ended
    });
    assert_eq!(client.answers, [workers[0]]);
    assert_eq!(world.workers[&workers[1]].pushed, 0);
}

#[test]
fn a_dead_workers_last_words_are_heard_to_the_end() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    world.unblock(workers[0]);
    // A handle of the app ends a read early; the acknowledgement comes after it.
    let (end, _far) = channel::pair().unwrap();
    let line = r#"{"cmd":"NODE_HANDLE","type":"net.Socket","msg":{},"key":null}"#;
    world.worker(workers[0]).say_with_handle(line, &end);
    assert!(world.worker(workers[0]).turn());
    world.kill(workers[0]);
    world.run_until("the client sees the end", |_| {
        client.read();
        client.ended
    });
    assert_eq!(client.answers, [workers[0]]);
    assert_eq!(world.workers[&workers[1]].pushed, 0);
}

#[test]
fn a_stuck_worker_alone_keeps_its_connection_and_answers_it_later() {
    for recalls in [false, true] {
        let mut world = World::new(Balance::Exact);
        world.recalls = recalls;
        let worker = world.spawn_serving(&tcp(own_host(), 8080));
        let address = world.address(worker, 1);
        let mut client = catch_unread(&mut world, worker, address);
        let before = world.wakes;
        world.advance(Duration::from_secs(10));
        assert!(world.wakes - before < 10, "{} wakes", world.wakes - before);
        world.unblock(worker);
        assert_eq!(world.answered(std::slice::from_mut(&mut client)), [worker]);
    }
}

#[test]
fn a_channel_that_closes_is_told_once_and_its_connection_goes_on() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut client = catch_unread(&mut world, workers[0], address);
    world.vanish(workers[0]);
    assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[1]]);
    world.primary.detach(WorkerId(workers[0]), world.now);
    world.settle();
    let gone = PrimaryEvent::Disconnected(WorkerId(workers[0]));
    assert_eq!(world.events.iter().filter(|event| **event == gone).count(), 1);
}

#[test]
fn the_port_and_its_queue_outlive_the_last_worker() {
    for balance in [Balance::Exact, Balance::Auto, Balance::Direct, Balance::Sticky] {
        let (mut world, workers, address) = serving(balance, 1);
        world.kill(workers[0]);
        let mut clients = connect_all(address, 20);
        let before = world.wakes;
        world.advance(Duration::from_secs(120));
        assert!(world.wakes - before < 20, "{} wakes", world.wakes - before);
        let next = world.spawn_serving(&tcp(address.ip(), address.port()));
        world.advance_until("all are answered", |_| clients.iter_mut().all(|c| !c.read().is_empty()));
        assert_eq!(only_answers(&mut clients), [next; 20], "{balance:?}");
    }
}

#[test]
fn a_connection_pushed_to_the_last_worker_waits_for_the_next() {
    let mut world = World::new(Balance::Exact);
    let query = tcp(own_host(), 8080);
    let worker = world.spawn_serving(&query);
    let address = world.address(worker, 1);
    let mut client = catch_unread(&mut world, worker, address);
    world.kill(worker);
    world.advance(Duration::from_secs(1));
    let next = world.spawn_serving(&query);
    assert_eq!(world.answered(std::slice::from_mut(&mut client)), [next]);
}

#[test]
fn a_listening_socket_that_did_not_arrive_is_sent_again() {
    for balance in [Balance::Direct, Balance::Auto] {
        let mut world = World::new(balance);
        let worker = world.spawn();
        world.open(worker);
        world.worker(worker).manner = Manner::LosesHandles;
        let query = tcp(own_host(), 8080);
        let seq = world.worker(worker).query(&query);
        world.settle();
        let before = world.workers[&worker].heard.len();
        world.advance(Duration::from_secs(2));
        let tries = world.workers[&worker].heard.len() - before;
        assert!((5..=40).contains(&tries), "{tries} tries in two seconds");
        assert!(!world.workers[&worker].replies.contains_key(&seq));
        world.worker(worker).manner = Manner::Serves;
        world.advance(Duration::from_secs(1));
        assert_eq!(world.workers[&worker].replies[&seq].len(), 1);
        let address = world.address(worker, seq);
        let mut clients = connect_all(address, 4);
        assert_eq!(world.answered(&mut clients), [worker; 4]);
    }
}
