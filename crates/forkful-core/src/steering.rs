//! Which workers get new connections: the decisions of the balance modes, without any socket.
//!
//! - [`AutoBalance`]: whether the daemon hands connections out (exact) or the kernel does (direct).
//! - [`Suspicion`]: which workers' loops do not turn, so that they leave the kernel's choice and
//!   their queues are rescued.
//! - [`address`]: what becomes of an address that only a leaving worker listens on.
//! - [`blocked`]: when a worker whose event loop does not turn is called blocked.
//! - [`queue`]: when the connections in a worker's queue go to another worker.
//! - [`evenness`]: when connections that clients keep move to another worker.
//! - [`level`]: how many turns each worker gets in the kernel's choice.
//! - [`own_sockets`]: sockets that workers have opened by themselves.
//! - [`slow_start`]: how the share of a new worker rises.

pub mod address;
mod auto;
pub mod blocked;
pub mod evenness;
pub mod level;
pub mod own_sockets;
pub mod queue;
pub mod slow_start;
mod suspicion;

pub use auto::{AutoBalance, BURST, DIRECT_SPELL, Dispatch, RATE, TASTE};
pub use suspicion::{
    Action, PROBE_PATIENCE, PROBE_PATIENCE_FACTOR, PROBE_TIME_MAX, STUCK_SAMPLES, Suspicion,
};
