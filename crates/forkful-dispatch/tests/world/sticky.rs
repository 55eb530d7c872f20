//! `sticky`: a client's address stays with its slot.

use forkful_core::spec::Balance;
use forkful_dispatch::Event;

use super::driver::World;
use super::kernel::Fate;
use super::scenes::turn_all;

const SLOTS: u16 = 4;
/// A multiple of each length of the kernel's list here.
const CLIENTS: usize = 48;

/// A worker in each slot; by slot.
fn with_all_slots() -> (World, Vec<u32>) {
    let mut world = World::new(Balance::Sticky, false);
    world.step(Event::Slots(SLOTS));
    let mut workers: Vec<u32> = (0..SLOTS).map(|_| world.spawn(true, false)).collect();
    turn_all(&mut world, &workers);
    workers.sort_by_key(|worker| worker % u32::from(SLOTS));
    (world, workers)
}

/// The worker that serves each of the client addresses, each of which connects once.
fn served_by(world: &mut World, workers: &[u32]) -> Vec<u32> {
    // The simulated kernel has a new address for each connection; its choice depends on the remainder only.
    let first = world.clients.len() as u32;
    assert_eq!(first as usize % CLIENTS, 0);
    world.connect(CLIENTS);
    (0..3).for_each(|_| turn_all(world, workers));
    let fate = |client: &u32| match world.clients[client] {
        Fate::ServedBy(worker) => worker,
        other => panic!("client {client}: {other:?}"),
    };
    (first..first + CLIENTS as u32).map(|client| fate(&client)).collect()
}

#[test]
fn clients_stay_with_their_workers_while_the_worker_of_any_other_slot_is_gone() {
    for gone in 0..usize::from(SLOTS) {
        let (mut world, mut workers) = with_all_slots();
        let before = served_by(&mut world, &workers);
        let ended = workers.remove(gone);
        world.kill(ended);
        world.settle();
        let after = served_by(&mut world, &workers);
        for (client, (before, after)) in before.iter().zip(&after).enumerate() {
            assert!(before == after || *before == ended, "client {client} after the end of slot {gone}");
        }
        // A new worker in the slot has the clients of the slot again.
        let new = (0..SLOTS).map(|_| world.spawn(false, false)).find(|new| new % 4 == ended % 4);
        let new = new.expect("each slot has a turn");
        world.step(Event::Open(forkful_dispatch::WorkerId(new)));
        workers.push(new);
        turn_all(&mut world, &workers);
        let back = served_by(&mut world, &workers);
        let expected = before.iter().map(|worker| if *worker == ended { new } else { *worker });
        assert!(expected.eq(back), "slot {gone} has a worker again");
    }
}

#[test]
fn where_slots_times_workers_are_very_many_a_slot_without_a_worker_has_one_stand_in() {
    let mut world = World::new(Balance::Sticky, false);
    world.step(Event::Slots(600));
    let workers: Vec<u32> = (0..2).map(|_| world.spawn(true, false)).collect();
    turn_all(&mut world, &workers);
    world.connect(1200);
    (0..3).for_each(|_| turn_all(&mut world, &workers));
    let client = |client: u32| world.clients[&client];
    assert!((0..600).all(|first| client(first) == client(first + 600)));
}

#[test]
fn where_slots_times_workers_are_many_a_slot_without_a_worker_has_as_many_stand_ins_as_the_list_has_room_for()
{
    let mut world = World::new(Balance::Sticky, false);
    world.step(Event::Slots(200));
    let workers: Vec<u32> = (0..4).map(|_| world.spawn(true, false)).collect();
    turn_all(&mut world, &workers);
    world.connect(400);
    (0..3).for_each(|_| turn_all(&mut world, &workers));
    let client = |client: u32| world.clients[&client];
    let without = (0..200).filter(|slot| client(*slot) != client(slot + 200)).count();
    assert_eq!(without, 196);
}

#[test]
fn with_a_slot_less_the_clients_are_spread_over_the_others() {
    let (mut world, mut workers) = with_all_slots();
    let last = workers.pop().expect("the worker of the last slot");
    world.kill(last);
    let most = |served: &[u32]| {
        let count = |worker: &u32| served.iter().filter(|by| *by == worker).count();
        workers.iter().map(count).max()
    };
    for slots in [SLOTS, SLOTS - 1] {
        world.step(Event::Slots(slots));
        assert_eq!(most(&served_by(&mut world, &workers)), Some(CLIENTS / workers.len()), "{slots} slots");
    }
}
