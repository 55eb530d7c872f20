//! Decisions only. What an app is ([`spec`]), what a worker may do next ([`slot`], [`leaving`]),
//! when it is restarted ([`restart`]), in which order a reload goes ([`rollout`]), and which workers
//! get new connections ([`steering`]).
//!
//! **Invariant:** nothing in this crate reads a file, a socket, a clock, or a random source.
//! Time comes in as [`Time`], chance as a number. Functions map (state, event) to (state, actions);
//! `forkful-daemon` performs the actions.

pub mod spec;
mod time;

pub use time::Time;
