//! Node's cluster primary: [`protocol`] (pure), and [`primary`], which owns the sockets of one app,
//! speaks to its workers, and performs what [`forkful_dispatch`] decides.
//!
//! Synchronous throughout: the daemon's loop calls [`Primary::on_event`] when a descriptor is ready
//! and [`Primary::on_time`] when [`Primary::next_wake`] has come; nothing here blocks or spawns.
// A write to stderr that fails or waits would end or stop the supervisor.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod channel;
/// Targets of `dev/fuzz`, not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod primary;
pub mod protocol;

pub use primary::{
    Counters, KeptSocket, MessageRefused, Port, Primary, PrimaryConfig, PrimaryEvent, ReportPace, WorkerId,
    WrittenPrimary,
};
