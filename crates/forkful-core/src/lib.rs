//! Decisions only. What an app is ([`spec`]), what a worker may do next ([`slot`], [`leaving`]),
//! when it is restarted ([`restart`]), in which order a reload goes ([`rollout`]), which workers
//! get new connections ([`steering`]), and what a command's target means ([`targets`]).
//!
//! **Invariant:** nothing in this crate reads a file, a socket, a clock, or a random source.
//! Time comes in as [`Time`], chance as a number. Functions map (state, event) to (state, actions);
//! `forkful-daemon` performs the actions.

pub mod leaving;
pub mod restart;
pub mod rollout;
pub mod slot;
pub mod spec;
pub mod steering;
pub mod targets;
mod time;

pub use time::Time;
