//! The log service: workers' stdout and stderr to files, followers and, in the foreground, our own streams.
//!
//! # Theory of operation
//! Two threads, so that no disk can delay dispatch, supervision or an app:
//!
//! ```text
//! pipes ──► reader (forkful-logs) ── whole lines ──► writer (forkful-log-disk) ──► files
//!           frames lines,            bounded queue   the only one that               followers
//!           keeps the stderr tails                   touches files                   echo
//! ```
//!
//! The reader waits in epoll for pipes and for messages. The writer appends in the order in which it was
//! given lines, and answers requests for the end of a file in the same order; so a follower that asks for
//! the last lines and all later ones sees each line once.
//!
//! A writer that falls behind is waited for, as an app that writes to a file itself would be, but at most for
//! [`queue::DISK_WAIT_MAX`]; after that lines are dropped and counted until it has caught up.
//!
//! **Invariants.** Only whole lines leave the reader. No line reaches a follower before the file (when the
//! file can be written at all). Every buffer is bounded: a line by [`LINE_BYTES_MAX`], the queue by
//! [`queue::QUEUE_BYTES_MAX`], a follower by [`follow::FOLLOWER_LINES_MAX`] and
//! [`follow::FOLLOWER_BYTES_MAX`]. Not here: which file a worker writes to, and rotation.

mod echo;
mod file;
mod follow;
mod frame;
mod queue;
mod reader;
mod recent;
mod service;
mod stream;
mod tail;
mod timestamp;
mod writer;

#[cfg(test)]
mod tests;

pub use echo::EchoPrefix;
pub use follow::{FollowFilter, FollowRequest, Followed, TailFile};
pub use frame::LINE_BYTES_MAX;
pub use service::LogService;
pub use stream::StreamSpec;
