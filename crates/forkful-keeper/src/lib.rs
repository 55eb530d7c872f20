//! The keeper: parent of the daemon and of all workers. It holds every descriptor that must outlive a daemon, and the file
//! in memory in which the daemon writes down its state; a daemon that dies is started again and gets everything back.
//!
//! The keeper knows no rule about workers: which descriptors there are, when a child is reaped, what is started, all of it
//! the daemon says. After its start it allocates nothing, so that it can start a daemon when memory has run out.
//!
//! - [`areas`]: the two areas of the written-down state
//! - [`table`]: the descriptors that are held
//! - [`keeper`]: what follows from a frame and from the end of a daemon, without system calls
//! - [`mod@run`]: the process
//! - [`passage`]: what it leaves to the program of another version that it becomes
// A write to stderr that fails or waits would end or stop the keeper.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod areas;
#[cfg(target_os = "linux")]
mod connection;
pub mod keeper;
#[cfg(target_os = "linux")]
mod manager;
pub mod passage;
mod plan;
#[cfg(target_os = "linux")]
mod run;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod run;
pub mod table;

pub use plan::KeeperPlan;
pub use run::run;
