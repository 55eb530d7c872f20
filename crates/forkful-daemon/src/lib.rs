//! The loop: select, step, act. The engine owns all apps; the API server and the log service serve it.
//!
//! - [`command`]: what clients ask of the engine
//! - [`home`]: the daemon's folder
//! - [`run`]: the daemon, and the same in the foreground
//! - `engine`: the loop and the state
//! - [`server`]: the API on the unix socket
//! - [`logs`]: workers' output, on threads of its own

pub mod command;
mod engine;
pub mod home;
pub mod logs;
mod run;
pub mod server;

pub use home::Home;
pub use run::{ForegroundOptions, run_daemon, run_foreground};
