//! Measures the daemon's CPU cost of a connection in the modes in which it hands connections over: accept,
//! probe, push and acknowledgement, with the tests' fake workers and clients in the same process, whose own
//! time is not counted. For comparing modes, or two versions of the code, on one machine.
//!
//! `cargo run --release -p forkful-cluster --example handover`
#![expect(clippy::unwrap_used, clippy::print_stdout, reason = "a measurement")]
#![expect(dead_code, reason = "a part of the helpers is used")]

#[path = "../tests/primary/client.rs"]
mod client;
#[path = "../tests/primary/worker.rs"]
mod worker;
#[path = "../tests/primary/world.rs"]
mod world;

use std::time::Duration;

use forkful_core::spec::Balance;

use client::connect_all;
use world::serving;

const ROUNDS: usize = 30;
const CONNECTIONS: usize = 256;
/// Connections that arrive at once.
const BATCH: usize = 8;

fn main() {
    for (workers, batch) in [(2, 1), (2, BATCH), (16, 1), (16, BATCH), (128, 1), (128, BATCH)] {
        for balance in [Balance::Auto, Balance::Exact, Balance::Least] {
            let mut rounds: Vec<Duration> = (0..ROUNDS).map(|_| round(balance, workers, batch)).collect();
            rounds.sort_unstable();
            let (least, median) = (rounds[0].as_secs_f64() * 1e6, rounds[ROUNDS / 2].as_secs_f64() * 1e6);
            println!(
                "{workers:>3} workers, {batch} at once, {balance}: least {least:.1} µs, median {median:.1} µs per connection"
            );
        }
    }
}

/// The primary's CPU time per connection.
fn round(balance: Balance, workers: usize, batch: usize) -> Duration {
    // Fake workers remember everything they received.
    let (mut world, numbers, address) = serving(balance, workers);
    let before = world.spent;
    for _ in 0..CONNECTIONS / batch {
        let mut clients = connect_all(address, batch);
        world.answered(&mut clients);
        for number in &numbers {
            world.worker(*number).close_connections();
        }
        // Time passes, so that each connection needs its own probe.
        world.advance(Duration::from_millis(2));
    }
    (world.spent - before) / u32::try_from(CONNECTIONS).unwrap()
}
