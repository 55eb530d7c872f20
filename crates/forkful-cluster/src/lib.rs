//! Node's cluster primary: [`protocol`] (pure), and [`primary`], which owns an app's sockets, communicates
//! with its workers, and performs the decisions of [`forkful_dispatch`].
//!
//! Synchronous throughout: the daemon's loop calls [`Primary::on_event`] when a descriptor is ready, and
//! [`Primary::on_time`] at [`Primary::next_wake`]; nothing here blocks or spawns.
// A failing or blocking write to stderr would end or block the supervisor.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

mod channel;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod output;
pub mod primary;
pub mod protocol;

pub use primary::{
    Counters, KeptSocket, MessageRefused, Port, Primary, PrimaryConfig, PrimaryEvent, ReportPace, WorkerId,
    WrittenPrimary,
};
pub use protocol::outgoing::Leaving;
