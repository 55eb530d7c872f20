//! The desired state on disk, so that a crash or a reboot loses no app.
//!
//! ```text
//! state.json               what should run, written by itself at every change
//! state.previous.json      the same of the daemon before, while this one has not taken it up
//! state.previous-<ms>.json the same of daemons before that one, if nobody has taken theirs up
//! state.broken-<ms>.json   a file that is no saved state, set aside
//! dump.json                written by `save`
//! ```
//!
//! - `files`: the calls that all of it is made of, so that tests can stop, fail or lose any of them
//! - `shelf`: what is kept where; a state is whole on disk or not there at all
//! - `writer`: the thread that owns the shelf, so that no disk delays a connection
//!
//! What a state is made of is in `engine/persistence.rs` and `forkful_api::saved`.
//!
//! **Invariant:** a file is overwritten or removed only when its content is known to be held by another one, or by
//! this daemon; a file that cannot be read is never overwritten.

mod files;
mod shelf;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use shelf::{Carried, Entry, Loaded, STATE_BYTES_MAX, Source};
pub(crate) use writer::{Saved, Writer, write_note};
