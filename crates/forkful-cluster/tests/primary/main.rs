//! Tests of the primary through its public interface, with fake workers and real sockets.
//!
//! `worker` implements Node's side of the channel, `client` connects, `world` is the loop and the clock; the
//! other modules are tests by topic.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod client;
mod conversation;
mod counts;
mod direct;
mod even;
mod exact;
mod failures;
mod hostile;
mod leaving;
mod profiles;
mod properties;
mod queries;
mod recall;
mod takeover;
mod upkeep;
mod worker;
mod world;
