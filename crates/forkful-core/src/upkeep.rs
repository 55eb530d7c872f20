//! Keeping what runs in good shape: when a worker is renewed ([`renewal`], and by the clock [`cron`]), whether it still works
//! ([`health`]), whether apps may come to need each other ([`needs`]), and in which order they start and stop ([`order`]).
//!
//! What the user asked for is in [`crate::spec`]; how it is carried out is a reload of one slot, so
//! that a renewal loses no request and a fresh worker that does not start leaves the old one.

pub mod cron;
pub mod health;
pub mod needs;
pub mod order;
pub mod renewal;
