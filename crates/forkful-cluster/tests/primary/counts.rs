//! The counts of connections per worker, when the kernel reports only closes for the ports that are in exact
//! mode at the time.

use std::net::SocketAddr;
use std::time::Duration;

use forkful_core::spec::Balance;

use super::client::{Client, tcp};
use super::direct::{RESCUED_WITHIN, fill_queue};
use super::world::{World, serving};

/// Opens connections one after the other; returns how many each worker got.
fn open(world: &mut World, address: SocketAddr, count: usize) -> (Vec<Client>, Vec<usize>) {
    let before = world.totals();
    let clients = (0..count).map(|_| world.request(address).0).collect();
    let gained = world.totals().iter().zip(&before).map(|(now, then)| now - then).collect();
    (clients, gained)
}

/// Has the connections of a stuck worker's queue served by the other worker, then closes everything.
fn rescue_some(world: &mut World, stuck: u32, address: SocketAddr) {
    let rescued = |world: &World| world.primary.addresses().map(|(_, _, c)| c.rescued).sum::<u64>();
    let mut clients = fill_queue(world, stuck, address, 6);
    world.run_until("the daemon has noticed", |world| world.primary.next_wake().is_some());
    world.advance(RESCUED_WITHIN);
    world.answered(&mut clients);
    assert!(rescued(world) >= 6, "{} are rescued", rescued(world));
    world.unblock(stuck);
    world.settle();
    for worker in world.workers.values_mut() {
        worker.close_connections();
    }
    world.settle();
}

/// Changes the balance, and waits until no worker is suspected because of earlier events.
fn set_balance(world: &mut World, balance: Balance) {
    world.primary.set_balance(balance, world.now);
    world.advance(Duration::from_secs(2));
}

#[test]
fn rescued_connections_are_not_counted_where_their_ends_are_not_told() {
    let (mut world, _, address) = serving(Balance::Direct, 2);
    let (_first, stuck) = world.request(address);
    rescue_some(&mut world, stuck, address);
    set_balance(&mut world, Balance::Exact);
    assert_eq!(open(&mut world, address, 10).1, [5, 5]);
}

#[test]
fn after_a_rush_nobody_is_charged_with_what_was_rescued_in_it() {
    let (mut world, workers, address) = serving(Balance::Auto, 2);
    let dispatch = |world: &World| world.primary.addresses().next().map(|(_, dispatch, _)| dispatch);
    while dispatch(&world) == Some(Balance::Exact) {
        let (_client, worker) = world.request(address);
        world.worker(worker).close_connections();
    }
    rescue_some(&mut world, workers[0], address);
    world.advance(Duration::from_secs(3));
    assert_eq!(dispatch(&world), Some(Balance::Exact));
    assert_eq!(open(&mut world, address, 10).1, [5, 5]);
}

#[test]
fn a_rush_at_one_address_leaves_the_counts_of_another() {
    let (mut world, workers, address) = serving(Balance::Auto, 2);
    let other = SocketAddr::new(address.ip(), 8081);
    for worker in &workers {
        world.listen(*worker, &tcp(other.ip(), other.port()));
    }
    let (_clients, gained) = open(&mut world, address, 12);
    assert_eq!(gained, [6, 6]);
    world.worker(workers[1]).close_connections();
    world.settle();
    let is_direct =
        |world: &World| world.primary.addresses().any(|(_, dispatch, _)| dispatch == Balance::Direct);
    while !is_direct(&world) {
        let (_client, worker) = world.request(other);
        world.worker(worker).close_connections_of(other.port());
    }
    assert_eq!(open(&mut world, address, 6).1, [0, 6], "the first still has six");
}

#[test]
fn a_change_to_direct_and_back_forgets_what_was_open_before() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let (_clients, _) = open(&mut world, address, 12);
    world.worker(workers[1]).close_connections();
    world.settle();
    set_balance(&mut world, Balance::Direct);
    world.worker(workers[0]).close_connections();
    world.settle();
    set_balance(&mut world, Balance::Exact);
    assert_eq!(open(&mut world, address, 6).1, [3, 3]);
}

#[test]
fn an_address_that_is_given_up_leaves_no_counts() {
    let (mut world, workers, address) = serving(Balance::Exact, 2);
    let other = SocketAddr::new(address.ip(), 8081);
    let mut keys = Vec::new();
    for worker in &workers {
        let seq = world.listen(*worker, &tcp(other.ip(), other.port()));
        keys.push((*worker, world.reply(*worker, seq).key()));
    }
    let (_clients, _) = open(&mut world, other, 12);
    world.worker(workers[1]).close_connections();
    for (worker, key) in keys {
        world.worker(worker).close_server(&key);
    }
    world.advance(Duration::from_secs(2));
    assert_eq!(world.primary.addresses().count(), 1);
    world.worker(workers[0]).close_connections();
    world.settle();
    assert_eq!(open(&mut world, address, 6).1, [3, 3]);
}
