//! Node's cluster protocol as bytes and values: [`frame`] splits the stream into lines, [`incoming`] parses
//! messages of workers, [`outgoing`] writes messages of the primary, [`profile`] parses what an agent writes of a profile.
//!
//! The wire format is the same from Node 18 to 26: one JSON text per line. Lines whose `cmd` starts with
//! `NODE_` are internal; all others are the app's own messages. A handle is sent as `SCM_RIGHTS` with the
//! first byte of a `NODE_HANDLE` line.
//!
//! **Invariant:** takes bytes and returns values, and depends on neither sockets nor workers.

pub mod frame;
pub mod incoming;
pub mod outgoing;
pub mod profile;
