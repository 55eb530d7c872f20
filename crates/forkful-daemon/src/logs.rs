//! The log service: workers' stdout and stderr to files, followers and, in the foreground, our own streams.
//!
//! # Theory of operation
//! Threads of its own, so that no disk can delay dispatch, supervision or an app:
//!
//! ```text
//! pipes ──► reader (forkful-logs) ── whole lines ──► writer (forkful-log-disk) ──► files, followers, echo
//!           frames lines,            bounded queue     │ the only one that writes and renames log files
//!           keeps the stderr tails                     ├─► archivist (forkful-log-old): removes, compresses
//!                                                      └─► read-back (forkful-log-back): the last lines
//! ```
//!
//! The reader waits in epoll for pipes and for messages. The writer appends in the order in which it was given lines. A
//! follower gets batches as they are, shared, and makes lines of them when its client takes them; what it missed is counted
//! and told. Who asks for the last lines too gets them by way of the read-back thread, from the files as they were at that
//! point of the order, so that each line is seen once; lines of several files come in the order in which they were written,
//! as far back as the writer remembers that ([`order`]).
//!
//! A file that is large or old is set aside by the writer (a rename); the archivist keeps number and bytes of these files
//! in their bounds and compresses them, at a bounded rate.
//!
//! A pipe that is kept for another daemon is read with care ([`careful`]): its bytes leave it when their lines are written.
//!
//! A writer that falls behind is waited for, but for no batch longer than [`queue::DISK_WAIT_MAX`]; after that lines are
//! dropped and counted until it has caught up.
//!
//! **Invariants.** Only whole lines leave the reader. No line reaches a follower before the file (when the
//! file can be written at all). Every buffer is bounded: a line by [`LINE_BYTES_MAX`], the lines that
//! have not ended of all workers by [`frame::PARTIAL_BYTES_MAX`], these and the queue by
//! [`queue::QUEUE_BYTES_MAX`], a follower by [`follow::FOLLOWER_LINES_MAX`] and
//! [`follow::FOLLOWER_BYTES_MAX`], what is read back by [`read_back::TAIL_BYTES_MAX`]. Not here: which file a worker
//! writes to.

mod alerts;
mod archive_name;
mod archivist;
mod careful;
mod echo;
mod file;
mod follow;
mod frame;
mod json;
mod lines;
mod order;
mod queue;
mod read_back;
mod reader;
mod recent;
mod service;
mod space;
mod stream;
mod style;
mod tail;
mod writer;

#[cfg(test)]
mod tests;

pub(crate) use archive_name::archived_log_of;
pub use echo::{EchoPrefix, echoes_to_terminal};
pub use follow::{FollowFilter, FollowRequest, Followed, TailFile};
pub use frame::LINE_BYTES_MAX;
pub(crate) use lines::FollowedLine;
pub use lines::LogLines;
#[cfg(test)]
pub(crate) use lines::{Chunk, channel_for_tests};
pub use recent::StderrTail;
pub use service::LogService;
pub use stream::StreamSpec;
pub use style::{LineStyle, Stamp};
