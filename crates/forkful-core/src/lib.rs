//! Decisions only. What an app is ([`spec`]), what becomes of it and its workers ([`supervisor`]), what a worker may do next ([`slot`], [`leaving`]), which workers a process has ([`workers`]),
//! when it is restarted ([`restart`]), in which order a reload goes ([`rollout`]), which workers
//! get new connections ([`steering`]), what a command's target means ([`targets`]), what a program needs to run a script ([`interpreter`]), what requests ([`request`]) and starts ([`start`]) mean for the apps that exist, when a command is over ([`jobs`]), where output goes
//! ([`logs`]), how times look in it ([`date_format`]), which of a failed worker's last lines say why it
//! failed ([`stderr_excerpt`]), how a run in the foreground ends ([`foreground`]), what a container's probes are told ([`probes`]), what a profile of a worker says ([`profile`]), where event loops stood still ([`stalls`]), what happens that nobody asked for ([`incidents`]) and who is told of it ([`alerts`]), how memory is divided over workers ([`memory_plan`]), which processes the kernel killed for lack of memory ([`memory_kills`]), how many workers an app has by its load ([`autoscale`]), which connections workers open and what limits them ([`outgoing`]), what apps expect of a primary in JavaScript ([`primary_habits`]), which programs may replace the daemon, and when ([`update`]), and what is different where the system lacks the mechanisms of Linux ([`portable`]).
//!
//! **Invariant:** nothing in this crate reads a file, a socket, a clock, or a random source.
//! Time comes in as [`Time`], chance as a number. Functions map (state, event) to (state, actions);
//! `forkful-daemon` performs the actions.
// A write to stderr that fails or waits would end or stop the supervisor.
#![warn(clippy::print_stderr, clippy::print_stdout, clippy::dbg_macro)]

pub mod alerts;
pub mod ansi;
pub mod app_metrics;
pub mod apply;
pub mod autoscale;
pub mod clearing;
pub mod date_format;
pub mod doctor;
pub mod foreground;
pub mod foreign;
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod incidents;
pub mod interpreter;
pub mod jobs;
pub mod last_words;
pub mod late_start;
pub mod leaving;
pub mod logs;
pub mod memory_kills;
pub mod memory_plan;
pub mod metrics;
mod millis;
pub mod otlp;
pub mod outgoing;
pub mod pages;
pub mod paths;
pub mod portable;
pub mod primary_habits;
pub mod probes;
pub mod profile;
pub mod random;
pub mod request;
pub mod restart;
pub mod rollout;
pub mod saving;
pub mod scale;
pub mod shortage;
pub mod signals;
pub mod slot;
pub mod snapshot;
pub mod spec;
pub mod stalls;
pub mod start;
pub mod stderr_excerpt;
pub mod steering;
pub mod supervisor;
pub mod targets;
mod time;
pub mod update;
pub mod upkeep;
pub mod wakes;
pub mod words;
pub mod workers;

pub use time::Time;
