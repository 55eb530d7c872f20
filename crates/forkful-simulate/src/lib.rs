//! The daemon's whole logic in a simulated world: a clock that jumps, processes that follow a plan, clients
//! with arbitrary requests, and faults at any moment. Everything is derived from a seed: the same seed gives
//! the same run.
//!
//! ```text
//! seed ─▶ script (requests of clients, faults) ────────┐
//!                                                      ▼
//!          queue (time, random order) ─▶ world ─▶ daemon (supervisors, commands in progress, saved state)
//!                      ▲                   │         │ Spawn, Signal, Drain …
//!                      └── machine ◀───────┴─────────┘   after each event: checks
//! ```
//!
//! This daemon performs the decisions of `forkful_core` like the real daemon's engine, in the same order:
//! commands, then deadlines, then internal events. [`Invariant`] lists what must hold after each event. At
//! the end of a run there are no more faults, and everything must come to rest. A [`Plant`] is a planted
//! mistake of a driver, to show that the invariants detect it.
//!
//! `dev/simulate` runs many seeds; `dev/simulate --seed N` shows one run.

mod autoscaling;
mod by_pid;
mod checks;
mod daemon;
mod definition;
mod dice;
mod disk;
mod lives;
mod machine;
mod net;
mod plan;
mod plant;
mod queue;
mod run;
pub mod scale;
mod script;
mod upkeep;
mod watch;
mod world;

pub use plant::Plant;
pub use run::{Counts, FailedRun, Options, Search, run, search};
pub use watch::{Broken, Invariant};
