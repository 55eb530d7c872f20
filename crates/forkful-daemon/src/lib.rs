//! The loop: select, step, act. The engine owns all apps; the API server and the log service serve it.

pub mod command;
pub mod server;
pub mod logs;
