//! The kernel distributes connections and workers accept by themselves: direct, sticky, shared, auto.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::time::Duration;

use forkful_cluster::{Counters, PrimaryEvent, WorkerId};
use forkful_core::spec::Balance;
use forkful_core::steering::BURST;
use rustix::net::{AddressFamily, SocketType, bind, connect as connect_socket, socket};

use super::client::{Client, connect_all, only_answers, own_host, queued, queues, tcp};
use super::world::{World, serving};

/// How long a stuck worker may delay the connections in its queue, on the primary's clock.
pub(super) const RESCUED_WITHIN: Duration = Duration::from_millis(20);

fn counters(world: &World) -> Counters {
    let (_, _, counters) = world.primary.addresses().next().expect("one address");
    counters
}

/// Blocks a worker and connects until its queue holds at least `count`.
pub(super) fn fill_queue(world: &mut World, number: u32, address: SocketAddr, count: usize) -> Vec<Client> {
    world.block(number);
    let mut clients = Vec::new();
    while queued(address) < count {
        assert!(clients.len() < 1000, "the kernel gives it nothing");
        clients.append(&mut connect_all(address, count));
        world.settle();
    }
    clients
}

#[test]
fn only_open_workers_that_listen_are_in_the_kernels_choice() {
    for balance in [Balance::Direct, Balance::Sticky] {
        let (mut world, workers, address) = serving(balance, 2);
        let query = tcp(address.ip(), address.port());
        let closed = world.spawn();
        world.listen(closed, &query);
        let quiet = world.spawn();
        world.open(quiet);
        world.worker(quiet).reports = false;
        world.ask(quiet, &query);
        let mut clients = connect_all(address, 60);
        let by = world.answered(&mut clients);
        assert!(by.iter().all(|worker| workers.contains(worker)), "{by:?}");
        assert!(world.workers.values().all(|worker| worker.pushed == 0), "the daemon had no part in it");
        assert_eq!(counters(&world).handed_over, 0);
    }
}

#[test]
fn each_worker_gets_its_part() {
    let (mut world, _, address) = serving(Balance::Direct, 4);
    let mut clients = connect_all(address, 400);
    world.answered(&mut clients);
    // Exact round robin with the privilege, otherwise random: 100 each, standard deviation 8.7.
    assert!(world.shares().iter().all(|share| (45..=155).contains(share)), "{:?}", world.shares());
}

#[test]
fn a_stuck_workers_queue_is_rescued_and_it_gets_nothing_more() {
    let (mut world, workers, address) = serving(Balance::Direct, 4);
    // By address, all of these connections go to one worker: block this one.
    let (_first, stuck) = world.request(address);
    let mut clients = fill_queue(&mut world, stuck, address, 5);
    world.run_until("the daemon has noticed that there is traffic", |world| {
        world.primary.next_wake().is_some()
    });
    world.advance(RESCUED_WITHIN);
    let by = world.answered(&mut clients);
    assert!(!by.contains(&stuck));
    assert!(counters(&world).rescued >= 5, "{:?}", counters(&world));
    assert_eq!(counters(&world).suspected, 1);
    let served = world.workers[&stuck].served_total;
    let mut more = connect_all(address, 40);
    let by = world.answered(&mut more);
    assert!(!by.contains(&stuck), "it is out of the choice");
    world.unblock(stuck);
    world.settle();
    world.advance(Duration::from_millis(10));
    let mut again = connect_all(address, 80);
    world.answered(&mut again);
    assert!(world.workers[&stuck].served_total > served, "it is back");
    assert_eq!(only_answers(&mut clients).len(), clients.len());
    assert_eq!(workers.len(), 4);
}

#[test]
fn a_suspect_that_could_not_be_asked_is_asked_when_it_reads_again() {
    let (mut world, _, address) = serving(Balance::Direct, 2);
    let (_first, stuck) = world.request(address);
    world.block(stuck);
    // Its channel is full of unread data: there is no room for a probe.
    let message = serde_json::to_vec(&"x".repeat(400_000)).unwrap();
    assert_eq!(world.primary.send_message(WorkerId(stuck), &message, world.now), Ok(()));
    let mut clients = fill_queue(&mut world, stuck, address, 5);
    world.run_until("the daemon has noticed", |world| world.primary.next_wake().is_some());
    world.advance(RESCUED_WITHIN);
    world.answered(&mut clients);
    assert_eq!(counters(&world).suspected, 1);
    let served = world.workers[&stuck].served_total;
    world.unblock(stuck);
    world.settle();
    world.advance(Duration::from_millis(10));
    let mut more = connect_all(address, 80);
    world.answered(&mut more);
    assert!(world.workers[&stuck].served_total > served, "it is back");
    world.advance(Duration::from_secs(1));
    assert_eq!(world.primary.next_wake(), None);
}

#[test]
fn in_sticky_mode_a_stuck_workers_queue_waits_for_it_and_clients_stay() {
    let (mut world, workers, address) = serving(Balance::Sticky, 4);
    // By address, all of these connections go to one worker: block this one.
    let (_first, stuck) = world.request(address);
    let mut clients = fill_queue(&mut world, stuck, address, 5);
    world.advance(RESCUED_WITHIN * 100);
    clients.append(&mut connect_all(address, 45));
    world.advance(RESCUED_WITHIN * 100);
    assert_eq!((counters(&world).rescued, counters(&world).suspected), (0, 0));
    assert_eq!(queued(address), clients.len());
    world.unblock(stuck);
    assert_eq!(world.answered(&mut clients), vec![stuck; clients.len()]);
    assert_eq!(world.primary.next_wake(), None, "there is nothing to look at");
    assert_eq!(workers.len(), 4);
}

#[test]
fn a_balance_that_becomes_sticky_leaves_a_rescued_workers_queue_alone() {
    let (mut world, _, address) = serving(Balance::Direct, 2);
    let (_first, stuck) = world.request(address);
    let mut clients = fill_queue(&mut world, stuck, address, 5);
    world.run_until("the daemon has noticed", |world| world.primary.next_wake().is_some());
    world.advance(RESCUED_WITHIN);
    world.answered(&mut clients);
    assert_eq!(counters(&world).suspected, 1);
    world.primary.set_balance(Balance::Sticky, world.now);
    let rescued = counters(&world).rescued;
    let mut more = connect_all(address, 20);
    world.advance(RESCUED_WITHIN * 100);
    assert_eq!(counters(&world).rescued, rescued);
    assert_eq!(world.primary.next_wake(), None, "queues are looked at no more");
    world.unblock(stuck);
    let by = world.answered(&mut more);
    assert!(by.iter().all(|worker| *worker == by[0]), "one address, one worker: {by:?}");
}

#[test]
fn the_last_worker_that_turns_serves_what_three_stuck_ones_cannot() {
    let (mut world, workers, address) = serving(Balance::Direct, 4);
    world.block_all(&workers[1..]);
    let mut clients = connect_all(address, 80);
    world.settle();
    world.run_until("the daemon has noticed", |world| world.primary.next_wake().is_some());
    world.advance(RESCUED_WITHIN);
    assert_eq!(world.answered(&mut clients), [workers[0]; 80]);
    world.unblock_all(&workers);
    world.advance(Duration::from_millis(10));
    let mut more = connect_all(address, 80);
    world.answered(&mut more);
    assert!(world.shares()[1..].iter().all(|share| *share > 0), "all are back: {:?}", world.shares());
}

#[test]
fn when_nobody_turns_the_queues_are_left_alone_and_nothing_spins() {
    let (mut world, workers, address) = serving(Balance::Direct, 3);
    world.block_all(&workers);
    let mut clients = connect_all(address, 30);
    world.run_until("the daemon has noticed", |world| world.primary.next_wake().is_some());
    let before = world.wakes;
    world.advance(Duration::from_secs(2));
    // One sample every 2 ms, and no more.
    assert!(world.wakes - before <= 1100, "{} wakes in two seconds", world.wakes - before);
    assert_eq!(counters(&world).suspected, 0);
    assert_eq!(queued(address), 30);
    world.unblock_all(&workers);
    world.answered(&mut clients);
    world.advance(Duration::from_millis(50));
    let mut more = connect_all(address, 30);
    world.answered(&mut more);
    only_answers(&mut clients);
}

#[test]
fn a_longer_queue_gets_fewer_connections() {
    let (mut world, workers, address) = serving(Balance::Direct, 2);
    let mut clients = fill_queue(&mut world, workers[0], address, 20);
    world.block_all(&workers);
    world.run_until("the daemon has noticed that there is traffic", |world| {
        world.primary.next_wake().is_some()
    });
    world.advance(Duration::from_millis(4));
    let before = queues(address);
    clients.append(&mut connect_all(address, 45));
    let gained: Vec<usize> = queues(address).iter().zip(&before).map(|(now, then)| now - then).collect();
    // A ninth each, with a standard deviation of 2.1 if turns are random; even would be 22.
    let long = before.iter().position(|queue| *queue >= 20).expect("the long queue");
    assert_eq!(gained.iter().sum::<usize>(), 45);
    assert!(gained[long] <= 15, "{before:?} gained {gained:?}");
    world.unblock_all(&workers);
    world.answered(&mut clients);
    only_answers(&mut clients);
    world.advance(Duration::from_millis(200));
    let served = world.totals();
    let mut more = connect_all(address, 100);
    world.answered(&mut more);
    let gained: Vec<usize> = world.totals().iter().zip(&served).map(|(now, then)| now - then).collect();
    assert!(gained.iter().all(|gain| *gain >= 20), "level again, the same for both: {gained:?}");
}

#[test]
fn a_dead_workers_queue_is_served_by_the_others() {
    for balance in [Balance::Direct, Balance::Sticky] {
        let (mut world, _, address) = serving(balance, 2);
        let (_first, dying) = world.request(address);
        let mut clients = fill_queue(&mut world, dying, address, 5);
        world.kill(dying);
        let by = world.answered(&mut clients);
        assert!(!by.contains(&dying), "{balance:?}");
    }
}

/// A process that is no worker of Node's cluster: its sockets are lent.
#[test]
fn a_process_that_closes_its_channel_goes_on_serving_what_it_was_lent() {
    let mut world = World::new(Balance::Direct);
    world.primary.set_owner(None, 0, true);
    let query = tcp(own_host(), 8080);
    let muted = world.spawn_serving(&query);
    let address = world.address(muted, 1);
    let (_first, _) = world.request(address);
    world.worker(muted).disconnect();
    world.settle();
    assert!(world.events.contains(&PrimaryEvent::Disconnected(WorkerId(muted))));
    let mut clients = connect_all(address, 20);
    assert!(world.answered(&mut clients).iter().all(|by| *by == muted));
    // What waits when it dies goes to the next one.
    let mut waiting = fill_queue(&mut world, muted, address, 3);
    world.kill(muted);
    let next = world.spawn_serving(&tcp(address.ip(), address.port()));
    assert!(world.answered(&mut waiting).iter().all(|by| *by == next));
}

#[test]
fn a_connection_that_nobody_can_be_given_is_turned_away() {
    let mut world = World::new(Balance::Direct);
    world.primary.set_owner(None, 0, true);
    let query = tcp(own_host(), 8080);
    let first = world.spawn_serving(&query);
    let address = world.address(first, 1);
    world.kill(first);
    let _waiting = connect_all(address, 3);
    // The next one listens, but gets no traffic before it has closed its channel.
    let next = world.spawn();
    world.listen(next, &tcp(address.ip(), address.port()));
    world.worker(next).disconnect();
    world.settle();
    world.open(next);
    world.run_until("those that wait are gone", |_| queued(address) == 0);
    assert_eq!(counters(&world).lost, 3);
    let mut clients = connect_all(address, 5);
    assert!(world.answered(&mut clients).iter().all(|by| *by == next));
}

#[test]
fn a_dead_workers_place_in_the_group_is_taken_by_the_next() {
    let (mut world, workers, address) = serving(Balance::Direct, 2);
    for _ in 0..20 {
        world.kill(*world.workers.keys().next().unwrap());
        world.spawn_serving(&tcp(address.ip(), address.port()));
        let mut clients = connect_all(address, 10);
        world.answered(&mut clients);
    }
    assert_eq!(workers.len(), world.workers.len());
    assert_eq!(queues(address).len(), 3, "the daemon's own, and one for each worker");
}

#[test]
fn without_traffic_there_is_no_timer() {
    for balance in [Balance::Direct, Balance::Sticky, Balance::Shared, Balance::Exact, Balance::Auto] {
        let (mut world, _, address) = serving(balance, 2);
        assert_eq!(world.primary.next_wake(), None, "{balance:?}");
        let mut clients = connect_all(address, 10);
        world.answered(&mut clients);
        world.advance(Duration::from_secs(1));
        assert_eq!(world.primary.next_wake(), None, "{balance:?}");
        let before = world.wakes;
        world.advance(Duration::from_secs(1000));
        assert_eq!(world.wakes, before);
        // And the next one is noticed again.
        clients.append(&mut connect_all(address, 10));
        world.answered(&mut clients);
    }
}

#[test]
fn a_client_address_stays_with_its_worker() {
    let (mut world, _, address) = serving(Balance::Sticky, 4);
    let mut workers = Vec::new();
    for last in 1..=32 {
        let host = Ipv4Addr::new(127, 9, 9, last);
        let mut clients: Vec<Client> = (0..3).map(|_| connect_from(host, address)).collect();
        let by = world.answered(&mut clients);
        assert!(by.iter().all(|worker| *worker == by[0]), "{host}: {by:?}");
        workers.push(by[0]);
    }
    workers.sort_unstable();
    workers.dedup();
    assert!(workers.len() >= 2, "addresses spread over workers");
}

#[test]
fn a_shared_socket_is_the_workers_business() {
    let (mut world, workers, address) = serving(Balance::Shared, 2);
    world.block(workers[0]);
    let mut clients = connect_all(address, 20);
    assert_eq!(world.answered(&mut clients), [workers[1]; 20]);
    world.kill(workers[1]);
    let mut more = connect_all(address, 20);
    world.unblock(workers[0]);
    assert_eq!(world.answered(&mut more), [workers[0]; 20]);
    assert_eq!(counters(&world), Counters::default());
}

#[test]
fn a_rush_is_left_to_the_kernel_and_a_trickle_comes_back_to_the_daemon() {
    let (mut world, _, address) = serving(Balance::Auto, 2);
    let dispatch = |world: &World| world.primary.addresses().next().map(|(_, dispatch, _)| dispatch);
    let mut before = 0;
    while dispatch(&world) == Some(Balance::Exact) {
        let (_client, worker) = world.request(address);
        world.worker(worker).close_connections();
        before += 1;
        assert!(before <= BURST, "still exact in a rush");
    }
    assert_eq!(before, BURST);
    assert_eq!(dispatch(&world), Some(Balance::Direct));
    let handed = counters(&world).handed_over;
    let mut clients = connect_all(address, 40);
    world.answered(&mut clients);
    assert_eq!(counters(&world).handed_over, handed, "workers accept by themselves");
    world.advance(Duration::from_secs(3));
    assert_eq!(dispatch(&world), Some(Balance::Exact));
    let _more = world.request(address);
    assert_eq!(counters(&world).handed_over, handed + 1);
    assert!(clients.iter_mut().all(|client| client.read().len() == 1 && !client.ended));
}

#[test]
fn connections_that_wait_when_the_kernel_takes_over_are_served() {
    let (mut world, workers, address) = serving(Balance::Auto, 2);
    let mut clients = Vec::new();
    while world.primary.addresses().any(|(_, dispatch, _)| dispatch == Balance::Exact) {
        assert!(clients.len() < 4096, "still exact in a rush");
        world.block_all(&workers);
        let mut more = connect_all(address, 100);
        world.settle();
        // Some wait in the daemon now, the others in its queue.
        world.unblock_all(&workers);
        world.answered(&mut more);
        clients.append(&mut more);
    }
    only_answers(&mut clients);
}

/// Connects from the given loopback address.
fn connect_from(host: Ipv4Addr, address: SocketAddr) -> Client {
    let SocketAddr::V4(to) = address else { panic!("IPv4 only") };
    let stream: OwnedFd = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &SocketAddrV4::new(host, 0)).unwrap();
    connect_socket(&stream, &to).unwrap();
    Client::of(stream.into())
}
