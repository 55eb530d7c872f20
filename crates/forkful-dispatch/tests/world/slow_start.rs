//! `slow_start`: the share of a new worker.

use std::time::Duration;

use forkful_core::spec::Balance;

use super::driver::World;
use super::scenes::{served_by, serving, turn_all};

const OVER: Duration = Duration::from_secs(8);

/// A worker with its full share, and a new worker.
fn with_a_new_one(balance: Balance) -> (World, Vec<u32>) {
    let (mut world, mut workers) = serving(balance, 1);
    world.dispatcher.set_slow_start(OVER);
    workers.push(world.spawn(true, false));
    turn_all(&mut world, &workers);
    (world, workers)
}

/// Opens connections one by one, each of which closes at once. Returns the number for the new worker.
fn share(world: &mut World, workers: &[u32], connections: usize) -> usize {
    let before = served_by(world, workers[1]);
    for _ in 0..connections {
        world.connect(1);
        (0..3).for_each(|_| turn_all(world, workers));
        let client = world.clients.len() as u64 - 1;
        world.dispatcher.connection_closed(client);
    }
    served_by(world, workers[1]) - before
}

#[test]
fn the_share_of_a_new_worker_rises_in_exact_least_and_direct() {
    for balance in [Balance::Exact, Balance::Least, Balance::Direct] {
        let (mut world, workers) = with_a_new_one(balance);
        let few = share(&mut world, &workers, 96);
        // An eighth of the other worker's number.
        assert!((5..=12).contains(&few), "{balance:?}: {few} of 96");
        world.advance(OVER / 2);
        let more = share(&mut world, &workers, 96);
        assert!((20..=36).contains(&more), "{balance:?}: {more} of 96");
        world.advance(OVER);
        assert_eq!(share(&mut world, &workers, 96), 48, "{balance:?}");
    }
}

#[test]
fn connections_that_stay_do_not_all_go_to_a_new_worker() {
    let (mut world, mut workers) = serving(Balance::Exact, 1);
    world.connect(10);
    (0..40).for_each(|_| turn_all(&mut world, &workers));
    world.dispatcher.set_slow_start(OVER);
    workers.push(world.spawn(true, false));
    turn_all(&mut world, &workers);
    for _ in 0..16 {
        world.connect(1);
        (0..3).for_each(|_| turn_all(&mut world, &workers));
    }
    assert_eq!(served_by(&world, workers[1]), 1);
    world.advance(OVER);
    for _ in 0..24 {
        world.connect(1);
        (0..3).for_each(|_| turn_all(&mut world, &workers));
    }
    assert_eq!(workers.iter().map(|worker| served_by(&world, *worker)).collect::<Vec<_>>(), [25, 25]);
}

#[test]
fn a_new_worker_that_is_alone_or_beside_new_ones_gets_what_comes() {
    let (mut world, workers) = with_a_new_one(Balance::Exact);
    world.kill(workers[0]);
    for _ in 0..8 {
        world.connect(1);
        (0..3).for_each(|_| turn_all(&mut world, &workers[1..]));
    }
    assert_eq!(served_by(&world, workers[1]), 8);

    let mut world = World::new(Balance::Exact, false);
    world.dispatcher.set_slow_start(OVER);
    let workers: Vec<u32> = (0..2).map(|_| world.spawn(true, false)).collect();
    turn_all(&mut world, &workers);
    for _ in 0..32 {
        world.connect(1);
        (0..3).for_each(|_| turn_all(&mut world, &workers));
    }
    assert_eq!(workers.iter().map(|worker| served_by(&world, *worker)).collect::<Vec<_>>(), [16, 16]);
}

#[test]
fn nothing_is_waited_for_when_all_have_their_full_share() {
    let (mut world, workers) = with_a_new_one(Balance::Direct);
    let steered = |world: &World| world.dispatcher.next_wake();
    assert!(steered(&world).is_some());
    world.advance(OVER * 2);
    turn_all(&mut world, &workers);
    assert_eq!(steered(&world), None);
}
