//! The primary, driven through its public face against fake workers and real sockets.
//!
//! `worker` speaks Node's side of the channel, `world` is the loop and the clock; the other modules
//! are the behaviours, by topic.

mod exact;
mod failures;
mod leaving;
mod queries;
mod worker;
mod world;
