//! The decisions of a cluster primary, without descriptors: which worker gets a connection, to which sockets
//! the kernel assigns connections, which worker holds which address, and what may be written to a worker's
//! channel.
//!
//! [`Dispatcher::step`] takes an [`Event`] and the time, changes the state, and puts [`Action`]s into an
//! [`Outbox`]. The driver (`forkful-cluster`) performs the actions in order and feeds their results back as
//! events, until the outbox is empty. Nothing here calls back into the driver, so handover and steering do
//! not call each other through a system call either.
//!
//! Reading order: [`action`] (inputs and outputs), [`channel`] (one worker's channel), `worker` and
//! `listening` (the state), `dispatcher` (the step), `lifecycle` (workers start, reply and exit), `handover`
//! (exact mode and rescue), `steer` (the kernel's distribution and the queues), `even` (kept connections),
//! `addresses` (held and given up), `readiness` (addresses that a successor lacks), `written` (the saved
//! state for another daemon).
//!
//! **Invariant:** nothing in this crate has a descriptor, reads a clock or makes a system call. Connections,
//! addresses and workers are numbers, and time is an argument.
// A failing or blocking write to stderr would end or block the supervisor.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod action;
mod addresses;
pub mod channel;
mod dispatcher;
mod even;
mod handover;
mod id;
mod lifecycle;
mod listening;
mod readiness;
mod steer;
mod worker;
mod workers;
mod written;

pub use action::{Action, Chore, Event, Message, Outbox, Steer, TakenBack, Watch};
pub use addresses::Grant;
pub use channel::{Channel, Evidence, HandleLine, Pushed, Unsent, Write, Wrote};
pub use dispatcher::Dispatcher;
pub use id::{ConnectionId, ListeningId, ReplyId, WorkerId};
pub use listening::{Counters, Kind, NewListening};
pub use worker::Schedule;
pub use written::{Written, WrittenListening, WrittenWorker};
