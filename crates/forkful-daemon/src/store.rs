//! The desired state on disk, so that a crash or a reboot loses no app.
//!
//! ```text
//! state.json           what should run, written by itself at every change
//! state.previous.json  the same of the daemon before, while this one has not taken it up
//! dump.json            written by `save`
//! ```
//!
//! `file` reads and writes files, `writer` is the thread that does it while the loop goes on. What a
//! state is made of is in `engine/persistence.rs` and `forkful_api::saved`.

pub(crate) mod file;
mod writer;

pub(crate) use writer::{Saved, Writer};
