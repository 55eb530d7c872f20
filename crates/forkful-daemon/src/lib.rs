//! The loop: select, step, act. The engine owns all apps; the API server and the log service serve it.
//!
//! - [`command`]: what clients ask of the engine
//! - [`home`]: the daemon's folder
//! - [`run`]: the daemon, and the same in the foreground
//! - `engine`: the loop and the state
//! - [`server`]: the API on the unix socket
//! - `events`: clients that watch · `worker_message`: what apps say to their process manager
//! - `left_behind`: what a daemon that was killed did not take with it · `panic`: a fault of its own ends it
//! - `service_environment`: what a service's apps need and what is not saved
//! - `watch`: the files of apps · `wait`: for a process that is no worker
//! - `inherited`: what the keeper hands to a daemon that follows another one
//! - `home_keeper`: what happens when the daemon's folder is removed under it
//! - `history`: what was measured of workers · `rest`: memory that is not needed while nothing happens
//! - `own_log`: what the supervisor itself has to say
//! - [`logs`]: workers' output, on threads of its own
// See `own_log`: a write to stderr that fails or waits would end or stop the supervisor.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

#[macro_use]
mod own_log;

mod code_cache;
pub mod command;
mod engine;
mod events;
/// Targets of `dev/fuzz`, not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod history;
pub mod home;
mod home_keeper;
mod incidents;
mod inherited;
mod left_behind;
pub mod logs;
mod notify;
mod panic;
mod pid_files;
mod rest;
mod run;
pub mod server;
mod service_environment;
mod starter;
mod store;
#[cfg(test)]
mod testing;
mod wait;
mod watch;
mod webhook;
mod worker_message;

pub use engine::check_state;
pub use guard::guard;
pub use home::Home;
pub use incidents::{kept_incident, kept_incidents};
pub use left_behind::{clear_left_behind, count_left_behind, in_words as left_behind_in_words, is_abandoned};
pub use run::{DaemonOptions, ForegroundOptions, run_daemon, run_foreground};
pub use server::probes::ProbeAddress;
