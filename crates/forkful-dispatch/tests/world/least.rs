//! `balance: least`: fewest open connections, without a probe.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::spec::Balance;
use proptest::prelude::*;
use proptest::sample::Index;

use super::driver::World;
use super::kernel::Fate;
use super::scenes::{served_by, serving, turn_all};

fn probes(world: &World) -> usize {
    world.processes.values().map(|process| process.probes).sum()
}

#[test]
fn a_worker_that_holds_long_connections_gets_none_until_the_others_have_as_many() {
    let (mut world, mut workers) = serving(Balance::Least, 1);
    world.connect(6);
    (0..6).for_each(|_| turn_all(&mut world, &workers));
    workers.extend([world.spawn(true, false), world.spawn(true, false)]);
    turn_all(&mut world, &workers);
    for opened in 1..=12 {
        world.connect(1);
        turn_all(&mut world, &workers);
        assert_eq!(served_by(&world, workers[0]), 6, "of {opened}");
    }
    assert_eq!(workers.iter().map(|worker| served_by(&world, *worker)).collect::<Vec<_>>(), [6, 6, 6]);
    assert_eq!(probes(&world), 0);
}

#[test]
fn connections_that_come_at_once_are_spread_evenly() {
    let (mut world, workers) = serving(Balance::Least, 4);
    world.connect(64);
    (0..16).for_each(|_| turn_all(&mut world, &workers));
    assert!(workers.iter().all(|worker| served_by(&world, *worker) == 16), "{:?}", world.clients);
    assert_eq!(probes(&world), 0);
}

#[test]
fn a_connection_that_a_blocked_worker_does_not_read_goes_to_another_and_no_further_one_waits() {
    let (mut world, workers) = serving(Balance::Least, 2);
    let blocked = workers[0];
    for served in 1..=5 {
        world.connect(1);
        turn_all(&mut world, &workers[1..]);
        // From then on the worker owes the reply to one probe. Other workers that are ahead wait for it, up
        // to 6 ms.
        let wait = if served == 1 { 6 } else { 0 };
        world.advance(Duration::from_millis(wait));
        turn_all(&mut world, &workers[1..]);
        assert_eq!(served_by(&world, workers[1]), served);
    }
    assert_eq!(probes(&world), 1);
    // It replies and gets connections again; after being blocked it comes after equal workers for a second.
    turn_all(&mut world, &workers);
    world.advance(Duration::from_secs(2));
    for _ in 0..5 {
        world.connect(1);
        turn_all(&mut world, &workers);
    }
    assert_eq!(served_by(&world, blocked), 5);
}

#[derive(Debug, Clone)]
enum Step {
    Connect,
    /// A client's connection closes.
    Finish(Index),
    /// Time passes between two connections.
    Advance(Duration),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => Just(Step::Connect),
        3 => any::<Index>().prop_map(Step::Finish),
        2 => (10..3000_u64).prop_map(|micros| Step::Advance(Duration::from_micros(micros))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_connection_goes_to_a_worker_with_the_fewest(
        count in 1..6_usize,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let (mut world, workers) = serving(Balance::Least, count);
        let mut open: BTreeMap<u32, u32> = workers.iter().map(|worker| (*worker, 0)).collect();
        let mut ended = Vec::new();
        for step in steps {
            match step {
                Step::Connect => {
                    let client = world.clients.len() as u32;
                    world.connect(1);
                    turn_all(&mut world, &workers);
                    let Fate::ServedBy(worker) = world.clients[&client] else { panic!("served at once") };
                    let fewest = *open.values().min().unwrap();
                    prop_assert_eq!(open[&worker], fewest, "of {:?}", open);
                    *open.get_mut(&worker).unwrap() += 1;
                    if ended.is_empty() {
                        prop_assert!(open.values().all(|own| *own <= fewest + 1), "{:?}", open);
                    }
                }
                Step::Finish(at) => {
                    let living: Vec<u32> =
                        world.clients.keys().copied().filter(|client| !ended.contains(client)).collect();
                    if let Some(client) = (!living.is_empty()).then(|| *at.get(&living)) {
                        let Fate::ServedBy(worker) = world.clients[&client] else { panic!("was served") };
                        world.dispatcher.connection_closed(u64::from(client));
                        *open.get_mut(&worker).unwrap() -= 1;
                        ended.push(client);
                    }
                }
                Step::Advance(by) => world.advance(by),
            }
        }
        prop_assert_eq!(probes(&world), 0);
    }
}
