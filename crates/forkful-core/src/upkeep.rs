//! Maintenance of running workers: when a worker is renewed ([`renewal`], and by schedule [`cron`]), whether
//! it still works ([`health`], and [`thrashing`] below a memory limit), whether dependencies between apps are valid ([`needs`]), and in which order
//! apps start and stop ([`order`]).
//!
//! The user's settings are in [`crate::spec`]; a renewal is a reload of one slot, so it loses no request, and
//! a new worker that does not start leaves the old one running.

pub mod cron;
pub mod health;
pub mod needs;
pub mod order;
pub mod renewal;
pub mod thrashing;
