//! Linux mechanisms: files on behalf of users, spawning, pidfds, descriptor passing, listeners, BPF, `/proc`,
//! cgroups.
//!
//! Mechanisms only: no policy is decided here, and nothing is retried except after interruptions by the
//! kernel. All `unsafe` code of the workspace is in this crate, each use with its `SAFETY:` comment.
#![expect(unsafe_code, reason = "the one crate that talks to the kernel where no safe wrapper exists")]
// A failing or blocking write to stderr would end or block the supervisor.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod behalf;
mod bpf;
pub mod cgroup;
pub mod channel;
pub mod clock;
pub mod closed;
pub mod connection;
pub mod cores;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod identity;
pub mod keeper;
pub mod listener;
pub mod memory;
pub mod memory_file;
pub mod memory_limit;
mod netlink;
pub mod output;
pub mod pipe;
pub mod priority;
pub mod process;
pub mod procinfo;
pub mod random;
pub mod reactor;
pub mod replace;
pub mod signals;
#[cfg(test)]
mod testing;
pub mod timer;
pub mod tree;
#[cfg(test)]
#[path = "tests/unprivileged.rs"]
mod unprivileged;
pub mod users;
pub mod wall_clock;
