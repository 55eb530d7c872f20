//! The whole logic of the daemon in a simulated world: a clock that jumps, processes that follow a plan, clients that
//! ask whatever they like, and faults at any moment. Everything follows from a seed: the same seed gives the same run.
//!
//! ```text
//! seed ─▶ script (what clients ask, what goes wrong) ─┐
//!                                                      ▼
//!          queue (time, random order) ─▶ world ─▶ daemon (supervisors, commands under way, saved state)
//!                      ▲                   │         │ Spawn, Signal, Drain …
//!                      └── machine ◀───────┴─────────┘   after each event: checks
//! ```
//!
//! The daemon here performs what `forkful_core` decides, as the engine of the real one does, and with the same order of
//! things: commands, then what is due, then what came from within. [`Invariant`] lists what must hold after each event;
//! at the end of a run nothing goes wrong any more, and everything has to come to rest. A [`Plant`] is a mistake of a
//! driver, to see that the invariants find it.
//!
//! `dev/simulate` runs many seeds; `dev/simulate --seed N` shows one run.

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
pub use run::{Counts, Failure, Options, Search, run, search};
pub use watch::{Broken, Invariant};
