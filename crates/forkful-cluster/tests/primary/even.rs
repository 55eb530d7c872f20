//! Kept connections move to workers that have fewer of them.

use std::time::Duration;

use forkful_core::spec::Balance;
use forkful_core::steering::evenness::{LOOK_EVERY, LOOKS_FOR, MOVED_MAX};
use serde_json::json;

use super::world::{World, serving};

const HELLO: &str = r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1,"can":["drain","count","move"]}"#;

/// Workers with agents that have just started to serve.
fn with_agents(balance: Balance, count: usize) -> (World, Vec<u32>) {
    let (mut world, workers, _) = serving(balance, count);
    for number in &workers {
        world.worker(*number).say(HELLO);
    }
    world.settle();
    (world, workers)
}

/// How often a worker was asked to count its connections.
fn asked(world: &World, number: u32) -> usize {
    world.workers[&number].heard.iter().filter(|line| line["act"] == "count").count()
}

/// What a worker was told to move, in order.
fn moves(world: &World, number: u32) -> Vec<u64> {
    let heard = world.workers[&number].heard.iter().filter(|line| line["act"] == "move");
    heard.filter_map(|line| line["connections"].as_u64()).collect()
}

/// The next check, in which each worker reports the number of connections that stay.
fn look(world: &mut World, workers: &[u32], staying: &[u32]) {
    let before: Vec<usize> = workers.iter().map(|number| asked(world, *number)).collect();
    world.advance_until("the workers are asked", |world| {
        workers.iter().zip(&before).all(|(number, before)| asked(world, *number) > *before)
    });
    for (number, staying) in workers.iter().zip(staying) {
        tell(world, *number, *staying);
    }
    world.settle();
}

fn tell(world: &mut World, number: u32, staying: u32) {
    let line = json!({ "cmd": "NODE_FORKFUL", "act": "count", "staying": staying, "movable": staying });
    world.worker(number).say(&line.to_string());
}

#[test]
fn a_worker_that_keeps_too_many_connections_gives_some_up() {
    for balance in [Balance::Auto, Balance::Exact, Balance::Least, Balance::Direct] {
        let (mut world, workers) = with_agents(balance, 2);
        look(&mut world, &workers, &[12, 0]);
        assert_eq!(moves(&world, workers[0]), [0_u64; 0], "the first look takes stock");
        look(&mut world, &workers, &[12, 0]);
        look(&mut world, &workers, &[7, 0]);
        look(&mut world, &workers, &[8, 4]);
        assert_eq!(moves(&world, workers[0]), [6], "{balance:?}");
        assert_eq!(moves(&world, workers[1]), [0_u64; 0], "{balance:?}");
    }
}

#[test]
fn looks_end_and_one_worker_is_not_asked() {
    let (mut world, workers) = with_agents(Balance::Auto, 2);
    world.advance(LOOKS_FOR * 2);
    let before = asked(&world, workers[0]);
    assert!(before < 30, "{before} looks");
    assert_eq!(world.primary.next_wake(), None);
    world.kill(workers[1]);
    world.advance(LOOK_EVERY * 2);
    assert_eq!(asked(&world, workers[0]), before, "one worker has nobody to share with");
}

#[test]
fn nobody_is_asked_where_a_connection_may_not_move() {
    for (balance, count) in [
        (Balance::Sticky, 2),
        (Balance::Direct, 1),
        (Balance::Shared, 2),
        (Balance::Auto, 1),
        (Balance::Exact, 1),
    ] {
        let (mut world, workers) = with_agents(balance, count);
        world.advance(Duration::from_secs(2));
        assert_eq!(asked(&world, workers[0]), 0, "{balance:?} over {count}");
    }
    // A worker without an agent cannot be compared.
    let (mut world, workers, _) = serving(Balance::Auto, 2);
    world.worker(workers[0]).say(HELLO);
    world.advance(Duration::from_secs(2));
    assert_eq!(asked(&world, workers[0]), 0);
}

#[test]
fn counts_that_nobody_asked_for_or_that_make_no_sense_move_nothing() {
    let (mut world, workers) = with_agents(Balance::Auto, 2);
    for number in &workers {
        tell(&mut world, *number, 50);
    }
    look(&mut world, &workers, &[1000, 0]);
    for _ in 0..5 {
        tell(&mut world, workers[0], u32::MAX);
        world.settle();
    }
    assert_eq!(moves(&world, workers[0]), [0_u64; 0]);
    look(&mut world, &workers, &[u32::MAX, 0]);
    let most: u64 = moves(&world, workers[0]).iter().sum();
    assert_eq!(most, u64::from(MOVED_MAX), "what is moved at a time is bounded");
}

#[test]
fn a_worker_that_does_not_answer_holds_a_decision_back() {
    let (mut world, workers) = with_agents(Balance::Exact, 2);
    look(&mut world, &workers, &[12, 0]);
    world.block(workers[1]);
    world.advance(LOOK_EVERY * 2);
    tell(&mut world, workers[0], 12);
    world.settle();
    assert_eq!(moves(&world, workers[0]), [0_u64; 0]);
}
