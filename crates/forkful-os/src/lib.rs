//! Mechanisms of the system: files on behalf of users, spawning, pidfds, descriptor passing, listeners, BPF, `/proc`,
//! cgroups. They are those of Linux; what other systems have in their place is in `elsewhere/` and in files by the name
//! of the mechanism, such as `by_kqueue`.
//!
//! Mechanisms only: no policy is decided here, and nothing is retried except after interruptions by the
//! kernel. All `unsafe` code of the workspace is in this crate, each use with its `SAFETY:` comment.
#![expect(unsafe_code, reason = "the one crate that talks to the kernel where no safe wrapper exists")]
// A failing or blocking write to stderr would end or block the supervisor.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod behalf;
pub mod beneath;
#[cfg(target_os = "linux")]
mod bpf;
pub mod cgroup;
pub mod channel;
pub mod clock;
#[cfg(target_os = "linux")]
pub mod closed;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/closed.rs"]
pub mod closed;
pub mod closing;
pub mod connection;
pub mod cores;
pub mod dependent;
mod diagnosed;
pub mod edges;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod heap;
pub mod held_folder;
pub mod identity;
pub mod keeper;
pub mod kill_order;
pub mod listener;
#[cfg(target_os = "linux")]
pub mod memory;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/memory.rs"]
pub mod memory;
pub mod memory_file;
pub mod memory_limit;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/netlink.rs"]
mod netlink;
pub mod output;
#[cfg(target_os = "linux")]
pub mod pipe;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/pipe.rs"]
pub mod pipe;
pub mod portable;
pub mod pressure;
#[cfg(target_os = "linux")]
pub mod priority;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/priority.rs"]
pub mod priority;
pub mod process;
pub mod procinfo;
pub mod random;
pub mod reactor;
pub mod removal;
pub mod replace;
#[cfg(target_os = "linux")]
pub mod signals;
mod sys;
#[cfg(test)]
mod testing;
pub mod timer;
pub mod tree;
#[cfg(test)]
#[path = "tests/unprivileged.rs"]
mod unprivileged;
pub mod users;
pub mod wake;
pub mod wall_clock;
