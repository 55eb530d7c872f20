//! Node's cluster protocol, as bytes and values: [`frame`] cuts the stream into lines, [`incoming`]
//! understands what a worker says, [`outgoing`] writes what a primary says.
//!
//! The wire format has not changed from Node 18 to 26: one JSON text per line; lines whose `cmd`
//! starts with `NODE_` are internal, everything else is the app's own message. A handle travels as
//! `SCM_RIGHTS` with the first byte of a `NODE_HANDLE` line.
//!
//! **Invariant:** takes bytes and returns values; knows no socket and no worker.

pub mod frame;
pub mod incoming;
pub mod outgoing;
