//! The supervisor of an app, event by event: which effects follow, without a process.

mod autoscaling;
mod costs;
mod cron;
mod driver;
mod needs;
mod overlaps;
mod probes;
mod readiness;
mod reload;
mod shape;
mod snapshot;
mod takeover;
mod upkeep;
mod warming;
