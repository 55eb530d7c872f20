//! Exact mode: which worker gets a connection.

use std::time::Duration;

use forkful_core::spec::Balance;

use super::client::{Client, connect, connect_all, connect_unix, own_host, queued, tcp, unix};
use super::world::{World, serving};

/// After this time a worker that has not replied is skipped.
const LATE: Duration = Duration::from_millis(1);
/// Connections that may wait in the daemon.
const PENDING_MAX: usize = 64;

#[test]
fn connections_opened_at_once_are_spread_evenly() {
    for balance in [Balance::Exact, Balance::Auto, Balance::Least] {
        let (mut world, _, address) = serving(balance, 4);
        let mut clients = connect_all(address, 64);
        world.answered(&mut clients);
        assert_eq!(world.shares(), [16; 4], "{balance:?}");
    }
}

#[test]
fn connections_opened_one_by_one_are_spread_evenly() {
    for balance in [Balance::Exact, Balance::Auto, Balance::Least] {
        let (mut world, _, address) = serving(balance, 4);
        let clients: Vec<(Client, u32)> = (0..64).map(|_| world.request(address)).collect();
        assert_eq!(world.shares(), [16; 4], "{balance:?}");
        drop(clients);
    }
}

#[test]
fn connections_that_end_at_once_go_round() {
    let (mut world, workers, address) = serving(Balance::Exact, 3);
    let mut turns = Vec::new();
    for _ in 0..9 {
        let (_client, worker) = world.request(address);
        world.worker(worker).close_connections();
        world.settle();
        turns.push(worker);
    }
    assert_eq!(turns, workers.repeat(3));
}

#[test]
fn the_worker_with_the_fewest_open_connections_is_next() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let mut clients = connect_all(address, 6);
    world.answered(&mut clients);
    world.worker(workers[1]).close_connections();
    world.settle();
    let more: Vec<u32> = (0..3)
        .map(|_| world.request(address))
        .map(|(client, worker)| {
            clients.push(client);
            worker
        })
        .collect();
    assert_eq!(more, [workers[1]; 3]);
}

#[test]
fn the_daemon_keeps_no_copy_of_a_connection_that_was_taken() {
    let (mut world, workers, address) = serving(Balance::Exact, 1);
    let (mut client, _) = world.request(address);
    world.worker(workers[0]).close_connections();
    world.run_until("the client sees the end", |_| {
        client.read();
        client.ended
    });
}

#[test]
fn a_worker_that_does_not_answer_gets_no_connection_and_its_turn_passes_after_a_millisecond() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    world.block(workers[0]);
    let mut client = connect(address);
    world.run_until("the daemon has it", |_| queued(address) == 0);
    world.advance(Duration::from_nanos(999_999));
    assert!(client.read().is_empty(), "its turn has not passed yet");
    world.advance(Duration::from_nanos(1));
    assert_eq!(world.answered(std::slice::from_mut(&mut client)), [workers[1]]);
    // The further the other worker gets ahead, the longer the silent one is waited for, up to six times as
    // long.
    let mut more = connect_all(address, 20);
    world.advance(LATE * 6);
    world.advance_until("all are answered", |_| more.iter_mut().all(|c| !c.read().is_empty()));
    assert_eq!(world.answered(&mut more), [workers[1]; 20]);
}

#[test]
fn a_worker_that_answers_late_gets_connections_again() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    world.block(workers[0]);
    let mut clients = connect_all(address, 1);
    world.run_until("the daemon has it", |_| queued(address) == 0);
    world.advance(LATE);
    assert_eq!(world.answered(&mut clients), [workers[1]]);
    world.unblock(workers[0]);
    world.settle();
    let (_client, worker) = world.request(address);
    assert_eq!(worker, workers[0]);
    assert_eq!(world.workers[&workers[0]].pushed, 1, "the one it missed is not sent too");
}

#[test]
fn a_worker_whose_loop_stood_still_comes_after_its_equals_for_a_second() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    world.block(workers[0]);
    let mut clients = connect_all(address, 1);
    world.run_until("the daemon has it", |_| queued(address) == 0);
    world.advance(Duration::from_millis(700));
    assert_eq!(world.answered(&mut clients), [workers[1]]);
    world.unblock(workers[0]);
    world.settle();
    let next = |world: &mut World| world.request(address);
    let (_second, worker) = next(&mut world);
    assert_eq!(worker, workers[1], "it has one connection; the other has none, but stood still");
    let (_third, worker) = next(&mut world);
    assert_eq!(worker, workers[0], "two against one");
    world.advance(Duration::from_secs(1));
    let (_fourth, worker) = next(&mut world);
    assert_eq!(worker, workers[0], "two against one, and nobody comes after the other any more");
}

#[test]
fn an_acknowledged_connection_is_no_proof_that_the_loop_turns() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let (_first, worker) = world.request(address);
    // The request on that connection blocks the event loop right after the acknowledgement.
    world.block(worker);
    world.advance(LATE);
    let other = if worker == workers[0] { workers[1] } else { workers[0] };
    let mut clients = connect_all(address, 30);
    world.advance_until("all are answered", |_| clients.iter_mut().all(|c| !c.read().is_empty()));
    assert_eq!(world.answered(&mut clients), [other; 30]);
    assert_eq!(world.workers[&worker].pushed, 1);
}

#[test]
fn while_all_workers_are_silent_connections_stay_queued_and_nothing_spins() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    world.block_all(&workers);
    let mut clients = connect_all(address, 40);
    world.run_until("one is taken to be handed over", |_| queued(address) < 40);
    let before = world.wakes;
    world.advance(Duration::from_secs(10));
    assert!(world.wakes - before <= 12, "{} wakes in ten silent seconds", world.wakes - before);
    // Connections accepted before the silence was noticed cannot go back.
    let mut late = connect_all(address, 40);
    world.settle();
    world.run_until("they are in the kernel's queue", |_| queued(address) >= 40);
    assert!(clients.iter_mut().chain(&mut late).all(|client| client.read().is_empty()));
    world.unblock_all(&workers);
    clients.append(&mut late);
    world.answered(&mut clients);
    assert_eq!(world.shares(), [40, 40]);
}

#[test]
fn few_connections_wait_in_the_daemon_and_the_rest_in_the_kernel() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    world.block_all(&workers);
    // Time does not pass: the workers are not late, they only have not run yet.
    let mut clients = connect_all(address, 200);
    world.run_until("the daemon has taken its fill", |_| queued(address) <= 200 - PENDING_MAX);
    world.settle();
    assert_eq!(queued(address), 200 - PENDING_MAX);
    world.unblock_all(&workers);
    world.answered(&mut clients);
    assert_eq!(world.shares(), [100, 100]);
}

#[test]
fn a_worker_gets_connections_only_when_it_is_open_and_listens() {
    let (mut world, workers, address) = serving(Balance::Exact, 1);
    let closed = world.spawn();
    world.listen(closed, &tcp(address.ip(), address.port()));
    let quiet = world.spawn();
    world.open(quiet);
    world.worker(quiet).reports = false;
    let seq = world.ask(quiet, &tcp(address.ip(), address.port()));
    let mut clients = connect_all(address, 10);
    assert_eq!(world.answered(&mut clients), [workers[0]; 10]);
    world.open(closed);
    world.worker(quiet).report(seq);
    world.settle();
    let mut clients = connect_all(address, 20);
    world.answered(&mut clients);
    assert_eq!(world.totals(), [10, 10, 10]);
}

#[test]
fn a_new_worker_takes_its_turn_when_closes_are_not_told() {
    let mut world = World::with_closes(Balance::Exact, false);
    let query = tcp(own_host(), 8080);
    let workers: Vec<u32> = (0..2).map(|_| world.spawn_serving(&query)).collect();
    let address = world.address(workers[0], 1);
    for _ in 0..40 {
        world.request(address);
    }
    world.kill(workers[1]);
    world.spawn_serving(&query);
    for _ in 0..20 {
        world.request(address);
    }
    let newest = *world.totals().last().unwrap();
    assert!((8..=12).contains(&newest), "{newest} of 20 went to the new worker");
}

#[test]
fn a_new_worker_takes_its_turn_at_a_unix_socket_too() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("app.sock");
    let query = unix(&path);
    let mut world = World::new(Balance::Exact);
    let workers = [world.spawn_serving(&query), world.spawn_serving(&query)];
    // Their closes are never reported: the kernel only reports TCP.
    let mut clients: Vec<Client> = (0..40).map(|_| connect_unix(&path)).collect();
    world.answered(&mut clients);
    world.kill(workers[1]);
    world.spawn_serving(&query);
    let mut more: Vec<Client> = (0..20).map(|_| connect_unix(&path)).collect();
    world.answered(&mut more);
    let newest = *world.totals().last().unwrap();
    assert!((8..=12).contains(&newest), "{newest} of 20 went to the new worker");
}
