//! Another balance mode while workers serve that opened their address in the mode before.

use std::time::Duration;

use forkful_core::spec::Balance;
use forkful_dispatch::{Event, Grant, WorkerId};

use super::driver::World;
use super::scenes::{served_by, serving, turn_all};

const MODES: [Balance; 3] = [Balance::Direct, Balance::Sticky, Balance::Auto];

/// Workers of `exact` and, after a change to `balance`, a worker with a socket of its own.
fn changed_to(balance: Balance) -> (World, Vec<u32>) {
    let (mut world, mut workers) = serving(Balance::Exact, 3);
    world.step(Event::Balance(balance));
    workers.push(world.spawn(true, false));
    turn_all(&mut world, &workers);
    (world, workers)
}

fn serve(world: &mut World, workers: &[u32], clients: usize) {
    world.connect(clients);
    for _ in 0..clients * 2 {
        turn_all(world, workers);
        world.advance(Duration::from_millis(1));
    }
}

#[test]
fn every_worker_gets_connections_while_some_have_no_socket_of_their_own() {
    for balance in MODES {
        for one_by_one in [false, true] {
            let (mut world, workers) = changed_to(balance);
            if one_by_one {
                world.dispatcher.accept_one_by_one();
            }
            serve(&mut world, &workers, 400);
            let served: Vec<usize> = workers.iter().map(|worker| served_by(&world, *worker)).collect();
            assert_eq!(served, [100; 4], "{balance}");
        }
    }
}

#[test]
fn the_kernel_distributes_once_every_worker_has_a_socket() {
    for balance in MODES {
        let (mut world, mut workers) = changed_to(balance);
        for old in workers.drain(..3) {
            world.kill(old);
        }
        workers.push(world.spawn(true, false));
        turn_all(&mut world, &workers);
        let address = *world.addresses.keys().next().expect("the workers listen");
        serve(&mut world, &workers, 400);
        world.connect(40);
        assert!(world.addresses[&address].queues[0].is_empty(), "{balance}");
        let fourth = world.addresses[&address].queues.iter().map(std::collections::VecDeque::len).max();
        assert!(fourth < Some(40), "{balance}: {fourth:?}");
    }
}

#[test]
fn at_the_limit_of_sockets_a_worker_gets_a_socket_that_is_free() {
    let (mut world, workers) = serving(Balance::Direct, 2);
    let address = *world.addresses.keys().next().expect("the workers listen");
    // The daemon's own, and two of workers.
    assert_eq!(world.dispatcher.grant(address, 3), None);
    world.kill(workers[0]);
    assert_eq!(world.dispatcher.grant(address, 3), Some(Grant::Own(1)));
    assert!(world.dispatcher.has(WorkerId(workers[1])));
}

/// Workers with a unix socket.
fn on_unix(balance: Balance) -> (World, Vec<u32>) {
    let mut world = World::new(balance, true);
    let workers: Vec<u32> = (0..2).map(|_| world.spawn(true, false)).collect();
    turn_all(&mut world, &workers);
    (world, workers)
}

#[test]
fn a_unix_socket_that_no_worker_holds_is_given_to_the_next_one_in_the_mode_of_now() {
    for (before, after, grant) in
        [(Balance::Auto, Balance::Direct, Grant::Shared), (Balance::Direct, Balance::Exact, Grant::Push)]
    {
        for ends_first in [false, true] {
            let (mut world, workers) = on_unix(before);
            let address = *world.addresses.keys().next().expect("the workers listen");
            let kill = |world: &mut World| workers.iter().for_each(|worker| world.kill(*worker));
            if ends_first {
                kill(&mut world);
            }
            world.step(Event::Balance(after));
            if !ends_first {
                serve(&mut world, &workers, 10);
                kill(&mut world);
            }
            assert_eq!(world.dispatcher.grant(address, 9), Some(grant), "{before} to {after}");
            // In the queue since before the next worker.
            world.connect(5);
            world.settle();
            let next = world.spawn(true, false);
            serve(&mut world, &[next], 10);
            assert_eq!(served_by(&world, next), 15, "{before} to {after}");
        }
    }
}

#[test]
fn a_unix_socket_follows_a_change_between_the_modes_in_which_the_daemon_hands_over() {
    let (mut world, _workers) = on_unix(Balance::Exact);
    let address = *world.addresses.keys().next().expect("the workers listen");
    let dispatch = |world: &World| world.dispatcher.counters(address).map(|(dispatch, _)| dispatch);
    for (balance, expected) in [
        (Balance::Least, Balance::Least),
        (Balance::Auto, Balance::Exact),
        (Balance::Least, Balance::Least),
        // Its workers have no socket from which they could accept.
        (Balance::Direct, Balance::Least),
    ] {
        world.step(Event::Balance(balance));
        assert_eq!(dispatch(&world), Some(expected), "{balance}");
    }
}
