//! Single decisions, on virtual time.

use std::time::Duration;

use forkful_core::spec::Balance;
use forkful_dispatch::{Event, TakenBack, WorkerId};

use super::driver::World;
use super::kernel::{Fate, Item, Manner};

/// Serving workers, each of which has read its reply.
pub(crate) fn serving(balance: Balance, count: usize) -> (World, Vec<u32>) {
    let mut world = World::new(balance, false);
    let workers: Vec<u32> = (0..count).map(|_| world.spawn(true, false)).collect();
    turn_all(&mut world, &workers);
    (world, workers)
}

pub(crate) fn turn_all(world: &mut World, workers: &[u32]) {
    world.settle();
    workers.iter().for_each(|worker| world.turn(*worker));
    world.settle();
}

pub(crate) fn served_by(world: &World, worker: u32) -> usize {
    world.clients.values().filter(|fate| **fate == Fate::ServedBy(worker)).count()
}

#[test]
fn connections_of_a_worker_that_is_silent_go_to_the_others() {
    let (mut world, workers) = serving(Balance::Exact, 3);
    world.connect(6);
    for _ in 0..20 {
        turn_all(&mut world, &workers[1..]);
        world.advance(Duration::from_millis(1));
    }
    assert_eq!([served_by(&world, workers[1]), served_by(&world, workers[2])], [3, 3]);
}

#[test]
fn a_worker_whose_app_handles_its_stop_is_disconnected_some_time_after_it() {
    for handles in [false, true] {
        let (mut world, workers) = serving(Balance::Exact, 2);
        world.handle_stops = handles;
        let id = WorkerId(workers[0]);
        world.step(Event::Greeted(id));
        // A worker ends when it is disconnected.
        let lives = |world: &mut World, ms| {
            world.advance(Duration::from_millis(ms));
            turn_all(world, &workers[..1]);
            world.processes.contains_key(&workers[0])
        };
        world.step(Event::Drain(id));
        turn_all(&mut world, &workers[..1]);
        assert_eq!(lives(&mut world, 5_000), handles, "it waits for its stop");
        if handles {
            world.step(Event::Stopping(id));
            world.dispatcher.spoke(id, world.now);
            assert!(lives(&mut world, 1_900), "its handler may take a while");
            assert!(!lives(&mut world, 300));
        }
    }
}

#[test]
fn an_address_that_no_client_reaches_any_more_is_given_up_when_no_worker_holds_it() {
    for is_held in [false, true] {
        let (mut world, workers) = serving(Balance::Exact, 1);
        let address = *world.addresses.keys().next().expect("the worker listens");
        if !is_held {
            world.kill(workers[0]);
        }
        world.connect(1);
        world.step(Event::Lost(address));
        let is_given_up = world.clients.values().all(|fate| *fate == Fate::GivenUp);
        assert_eq!((is_given_up, world.addresses.contains_key(&address)), (!is_held, is_held));
    }
}

#[test]
fn connections_are_spread_evenly_and_each_is_counted() {
    let (mut world, workers) = serving(Balance::Exact, 4);
    world.connect(64);
    for _ in 0..64 {
        turn_all(&mut world, &workers);
    }
    assert!(workers.iter().all(|worker| served_by(&world, *worker) == 16), "{:?}", world.clients);
}

#[test]
fn a_connection_concerns_few_workers_however_many_there_are() {
    let (mut world, workers) = serving(Balance::Exact, 150);
    for _ in 0..workers.len() {
        world.connect(1);
        turn_all(&mut world, &workers);
        turn_all(&mut world, &workers);
        assert!(world.dispatcher.active_workers() <= 2, "{}", world.dispatcher.active_workers());
        world.advance(Duration::from_millis(1));
    }
    assert!(workers.iter().all(|worker| served_by(&world, *worker) == 1), "{:?}", world.clients);
}

#[test]
fn a_push_that_is_not_read_is_taken_back_and_lines_behind_it_keep_their_order() {
    let (mut world, workers) = serving(Balance::Exact, 2);
    world.connect(1);
    world.settle();
    // It replies to its probe, and does not read the following push.
    world.read_line(workers[0]);
    world.settle();
    for number in 0..2 {
        world.say(workers[0], Item::Chatter(number));
    }
    assert_eq!(served_by(&world, workers[0]), 0);
    for _ in 0..10 {
        world.advance(Duration::from_millis(1));
        world.turn(workers[1]);
    }
    assert_eq!(served_by(&world, workers[1]), 1);
    world.turn(workers[0]);
    world.settle();
    world.turn(workers[0]);
    assert_eq!(world.processes[&workers[0]].chatter.1, 2, "both were read, in order");
}

#[test]
fn a_push_that_is_not_read_goes_to_a_worker_with_many_connections_when_its_worker_was_waited_for() {
    let mut world = World::new(Balance::Exact, false);
    world.dispatcher.accept_one_by_one();
    let busy = world.spawn(true, false);
    turn_all(&mut world, &[busy]);
    for _ in 0..12 {
        world.connect(1);
        turn_all(&mut world, &[busy]);
        turn_all(&mut world, &[busy]);
    }
    assert_eq!(served_by(&world, busy), 12);
    let new = world.spawn(true, false);
    turn_all(&mut world, &[new]);
    world.connect(1);
    world.settle();
    // It has no connections, replies to its probe, and does not read the following push.
    world.read_line(new);
    world.settle();
    // Nothing else happens.
    world.advance(Duration::from_millis(100));
    for _ in 0..3 {
        turn_all(&mut world, &[busy]);
        world.advance(Duration::from_millis(1));
    }
    assert_eq!((served_by(&world, new), served_by(&world, busy)), (0, 13));
}

#[test]
fn a_queue_of_a_stuck_worker_is_rescued() {
    let (mut world, workers) = serving(Balance::Direct, 2);
    world.connect(8);
    for _ in 0..30 {
        turn_all(&mut world, &workers[1..]);
        world.advance(Duration::from_millis(1));
    }
    assert_eq!(served_by(&world, workers[1]), 8);
}

#[test]
fn queues_are_not_looked_at_while_nobody_could_be_suspected() {
    for count in [1, 3] {
        let (mut world, workers) = serving(Balance::Direct, count);
        world.connect(6);
        // All event loops are blocked.
        world.advance(Duration::from_secs(1));
        let looks = world.looks;
        world.advance(Duration::from_secs(3600));
        assert_eq!(world.looks, looks, "{count} workers");
        // Another one starts, or one of them continues.
        let well = if count == 1 { world.spawn(true, false) } else { workers[0] };
        for _ in 0..60 {
            turn_all(&mut world, &[well]);
            world.advance(Duration::from_millis(1));
        }
        assert_eq!(served_by(&world, well), 6, "{count} workers");
        world.advance(Duration::from_secs(1));
        let looks = world.looks;
        world.advance(Duration::from_secs(3600));
        assert_eq!(world.looks, looks, "the others hang, and there is no traffic");
    }
}

#[test]
fn what_waits_for_its_turn_in_the_channel_of_a_worker_that_leaves_goes_to_others() {
    let (mut world, workers) = serving(Balance::Exact, 2);
    world.connect(2);
    world.settle();
    world.step(Event::Drain(WorkerId(workers[0])));
    for _ in 0..5 {
        turn_all(&mut world, &workers);
        world.advance(Duration::from_millis(1));
    }
    assert_eq!(served_by(&world, workers[1]), 2);
    assert!(!world.processes.contains_key(&workers[0]), "it has read that it is to disconnect");
}

#[test]
fn a_socket_that_a_worker_could_not_take_is_not_offered_again_once_it_leaves() {
    let (mut world, workers) = serving(Balance::Direct, 1);
    let late = world.spawn(true, false);
    world.processes.get_mut(&late).unwrap().manner = Manner::LosesHandles;
    turn_all(&mut world, &[late]);
    assert_eq!(world.processes[&late].replies.len(), 1, "its socket is kept for another try");
    world.step(Event::Leaves { worker: WorkerId(late), ack: 1 });
    // The driver's pipe refuses a handle after the line at which the worker disconnects.
    world.advance(Duration::from_millis(200));
    assert_eq!(world.processes[&late].replies.len(), 0);
    turn_all(&mut world, &workers);
}

#[test]
fn where_handles_do_not_leave_connections_wait_and_nothing_spins() {
    let (mut world, workers) = serving(Balance::Exact, 2);
    world.faults.handles_full = true;
    world.connect(4);
    for _ in 0..50 {
        turn_all(&mut world, &workers);
        world.advance(Duration::from_millis(1));
    }
    assert!(world.clients.values().all(|fate| *fate == Fate::Waits));
    world.faults.handles_full = false;
    for _ in 0..30 {
        turn_all(&mut world, &workers);
        world.advance(Duration::from_millis(1));
    }
    assert_eq!([served_by(&world, workers[0]), served_by(&world, workers[1])], [2, 2]);
}

#[test]
fn a_worker_whose_channel_was_full_gets_what_waits_once_its_lines_have_left() {
    let (mut world, workers) = serving(Balance::Exact, 3);
    for number in 0..8 {
        world.say(workers[0], Item::Chatter(number));
    }
    world.connect(7);
    // The others have their turns first, and then have more connections than this worker.
    turn_all(&mut world, &workers[1..]);
    for _ in 0..20 {
        turn_all(&mut world, &workers);
    }
    assert!(world.clients.values().all(|fate| *fate != Fate::Waits), "{:?}", world.clients);
}

#[test]
fn a_socket_that_could_not_be_watched_is_watched_after_a_pause() {
    let (mut world, workers) = serving(Balance::Exact, 2);
    workers.iter().for_each(|worker| world.step(Event::CloseTraffic(WorkerId(*worker))));
    world.faults.kernel_refuses = true;
    workers.iter().for_each(|worker| world.step(Event::Open(WorkerId(*worker))));
    world.faults.kernel_refuses = false;
    world.connect(1);
    for _ in 0..5 {
        turn_all(&mut world, &workers);
        world.advance(Duration::from_millis(20));
    }
    assert!(world.clients.values().all(|fate| *fate != Fate::Waits), "{:?}", world.clients);
}

#[test]
fn a_connection_that_could_not_leave_goes_to_others_once_its_worker_gets_none() {
    let (mut world, workers) = serving(Balance::Exact, 2);
    world.faults.handles_full = true;
    world.connect(1);
    world.settle();
    // The first worker replies to its probe and is handed the connection, which cannot be sent.
    world.read_line(workers[0]);
    world.settle();
    world.step(Event::CloseTraffic(WorkerId(workers[0])));
    world.faults.handles_full = false;
    for _ in 0..5 {
        world.advance(Duration::from_millis(5));
        turn_all(&mut world, &workers);
    }
    assert_eq!([served_by(&world, workers[0]), served_by(&world, workers[1])], [0, 1]);
}

#[test]
fn no_accepted_connection_waits_in_a_daemon_that_may_die() {
    for balance in [Balance::Exact, Balance::Least] {
        let (mut world, workers) = serving(balance, 3);
        world.dispatcher.accept_one_by_one();
        for round in 0..60 {
            world.connect(3);
            // One of them reads nothing for a while, not even what was already sent.
            let stuck = workers[round / 10 % 3];
            for worker in workers.iter().filter(|worker| **worker != stuck) {
                for _ in 0..2 {
                    world.settle();
                    assert_eq!(world.dispatcher.pending(), 0, "{balance}, round {round}");
                    world.turn(*worker);
                }
                world.settle();
                world.advance(Duration::from_millis(1));
                assert_eq!(world.dispatcher.pending(), 0, "{balance}, round {round}");
            }
        }
        for _ in 0..200 {
            turn_all(&mut world, &workers);
            assert_eq!(world.dispatcher.pending(), 0, "{balance}");
        }
        assert!(world.clients.values().all(|fate| matches!(fate, Fate::ServedBy(_))), "{:?}", world.clients);
    }
}

#[test]
fn workers_are_asked_for_their_connections_now_and_then_while_connections_come() {
    for balance in [Balance::Auto, Balance::Exact, Balance::Least, Balance::Direct, Balance::Sticky] {
        let mut world = World::new(balance, false);
        let workers: Vec<u32> = (0..2).map(|_| world.spawn(true, true)).collect();
        let pass = |world: &mut World, seconds: u64| {
            for _ in 0..seconds * 4 {
                world.advance(Duration::from_millis(250));
                turn_all(world, &workers);
            }
        };
        // What follows a change.
        pass(&mut world, 60);
        let after_change = world.counts;
        pass(&mut world, 600);
        assert_eq!(world.counts, after_change, "{balance:?}: nobody connects");
        assert_eq!(world.dispatcher.next_wake(), None, "{balance:?}: no timer without connections");
        for _ in 0..600 {
            world.connect(2);
            pass(&mut world, 1);
        }
        let asked = (world.counts - after_change) / workers.len();
        // Where the daemon hands over connections, its own counts may cause more questions.
        let expected = match balance {
            Balance::Sticky => 0..1,
            Balance::Direct => 20..40,
            _ => 20..400,
        };
        assert!(expected.contains(&asked), "{balance:?}: {asked} questions in ten minutes");
    }
}

#[test]
fn an_address_with_many_connections_does_not_keep_workers_from_another_address() {
    for balance in [Balance::Exact, Balance::Least] {
        let (mut world, workers) = serving(balance, 2);
        world.dispatcher.accept_one_by_one();
        let first = world.bound.take();
        workers.iter().for_each(|worker| world.query(*worker));
        turn_all(&mut world, &workers);
        let second = std::mem::replace(&mut world.bound, first);
        world.connect(200);
        world.bound = second;
        world.connect(20);
        for _ in 0..100 {
            for worker in &workers {
                world.settle();
                world.read_line(*worker);
            }
        }
        let served = |clients: std::ops::Range<u32>| {
            clients.filter(|client| matches!(world.clients[client], Fate::ServedBy(_))).count()
        };
        assert_eq!(served(200..220), 20, "{balance}");
        assert!(served(0..200) > 20, "{balance}");
    }
}

#[test]
fn as_many_workers_are_probed_at_once_as_connections_wait() {
    for (waiting, expected) in [(1, 1), (3, 3), (9, 4)] {
        for one_by_one in [false, true] {
            let (mut world, _workers) = serving(Balance::Exact, 4);
            if one_by_one {
                world.dispatcher.accept_one_by_one();
            }
            world.connect(waiting);
            world.settle();
            let probes = world.processes.values().map(|process| process.probes).sum::<usize>();
            assert_eq!(probes, expected, "{waiting} connections");
        }
    }
}

#[test]
fn in_a_rush_every_turn_of_a_worker_serves_a_connection() {
    let (mut world, workers) = serving(Balance::Exact, 4);
    world.dispatcher.accept_one_by_one();
    world.connect(200);
    for _ in 0..52 {
        for worker in &workers {
            world.settle();
            assert_eq!(world.dispatcher.pending(), 0, "it can be sent at once");
            world.read_line(*worker);
        }
        world.settle();
    }
    assert!(workers.iter().all(|worker| served_by(&world, *worker) == 50), "{:?}", world.clients);
}

#[test]
fn in_a_rush_a_worker_from_which_nothing_can_be_taken_back_proves_itself_before_each_connection() {
    for one_by_one in [false, true] {
        let (mut world, workers) = serving(Balance::Exact, 2);
        if one_by_one {
            world.dispatcher.accept_one_by_one();
        }
        for worker in &workers {
            let outcome = TakenBack::Refused { for_good: true };
            world.step(Event::TakenBack { worker: WorkerId(*worker), outcome });
        }
        world.connect(100);
        let [blocked, other] = workers[..] else { panic!("two workers") };
        while served_by(&world, blocked) == 0 {
            world.settle();
            world.read_line(blocked);
        }
        for _ in 0..400 {
            world.settle();
            world.read_line(other);
            world.advance(Duration::from_millis(1));
        }
        assert_eq!(served_by(&world, other), 99, "one by one: {one_by_one}");
    }
}

#[test]
fn connections_behind_a_stuck_worker_are_rescued_after_auto_has_become_exact_again() {
    for one_by_one in [false, true] {
        let (mut world, workers) = serving(Balance::Auto, 2);
        if one_by_one {
            world.dispatcher.accept_one_by_one();
        }
        let address = *world.addresses.keys().next().expect("the workers listen");
        let mode = |world: &World| world.dispatcher.counters(address).map(|(mode, _)| mode);
        world.connect(300);
        while world.clients.values().any(|fate| *fate == Fate::Waits) {
            turn_all(&mut world, &workers);
            world.advance(Duration::from_millis(1));
        }
        assert_eq!(mode(&world), Some(Balance::Direct));
        while mode(&world) == Some(Balance::Direct) {
            turn_all(&mut world, &workers);
            // The kernel distributes these over both.
            world.connect(2);
            world.advance(Duration::from_millis(1));
        }
        for _ in 0..30 {
            turn_all(&mut world, &workers[1..]);
            world.advance(Duration::from_millis(1));
        }
        assert!(world.clients.values().all(|fate| *fate != Fate::Waits), "one by one: {one_by_one}");
        world.advance(Duration::from_secs(2));
        assert_eq!(world.dispatcher.next_wake(), None, "no timer without connections");
    }
}

#[test]
fn auto_leaves_connections_to_the_kernel_while_no_worker_takes_any() {
    let (mut world, workers) = serving(Balance::Auto, 3);
    world.dispatcher.accept_one_by_one();
    let address = *world.addresses.keys().next().expect("the workers listen");
    // No worker reads anything.
    for _ in 0..300 {
        world.connect(4);
        world.advance(Duration::from_millis(1));
    }
    let waiting: Vec<usize> =
        world.addresses[&address].queues.iter().map(std::collections::VecDeque::len).collect();
    assert!(waiting.iter().all(|waiting| *waiting < 511), "{waiting:?}");
    assert_eq!(waiting.iter().sum::<usize>(), 1200, "{waiting:?}");
    while world.clients.values().any(|fate| *fate == Fate::Waits) {
        turn_all(&mut world, &workers);
        world.advance(Duration::from_millis(1));
    }
}

#[test]
fn a_connection_that_comes_alone_costs_few_samples_and_one_change_of_a_watch() {
    for (balance, samples_max) in [(Balance::Direct, 5), (Balance::Exact, 0)] {
        let (mut world, workers) = serving(balance, 4);
        world.dispatcher.accept_one_by_one();
        for round in 0..20 {
            (world.looks, world.watches) = (0, 0);
            world.connect(1);
            // Its probe, the connection, and the next probe.
            (0..3).for_each(|_| turn_all(&mut world, &workers));
            world.advance(Duration::from_secs(1));
            assert!(world.looks <= samples_max, "{balance}: {} samples", world.looks);
            // In the first round, the daemon's socket is watched otherwise than before.
            assert!(round == 0 || world.watches == 1, "{balance}: {} changes", world.watches);
        }
        assert_eq!(world.clients.values().filter(|fate| **fate == Fate::Waits).count(), 0);
    }
}
