//! The decisions of a cluster primary without its descriptors: which worker gets a connection, which sockets the kernel
//! gives connections to, who holds which address, and what may be written to a worker's channel now.
//!
//! [`Dispatcher::step`] takes an [`Event`] and the time, changes the state, and puts [`Action`]s into an [`Outbox`]. The
//! driver (`forkful-cluster`) takes the actions out in order, performs them, and feeds their results back as events,
//! until the outbox is empty. Nothing here calls back into the driver, so that handover and steering do not call each
//! other through a system call either.
//!
//! Reading order: [`action`] (what goes in and out), [`channel`] (one worker's channel), `worker` and `listening` (the
//! state), `dispatcher` (the step), `lifecycle` (workers come, answer and go), `handover` (exact mode and rescue), `steer` (the kernel's choice and the
//! queues), `even` (connections that stay), `addresses` (held and given up), `readiness` (what a successor lacks),
//! `written` (what is written down for another daemon, and taken up again).
//!
//! **Invariant:** nothing in this crate has a descriptor, reads a clock or calls the system. Connections, addresses and
//! workers are numbers, time is an argument.
// A write to stderr that fails or waits would end or stop the supervisor.
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
