//! Experiments on apps: `compare` (is this arm faster than that one?) and `tune` (how many workers, how large
//! a thread pool?).
//!
//! Decisions are in pure modules ([`statistics`], …) without clocks and processes. The modules that start
//! servers, load them and observe them are thin.

pub mod arms;
pub mod compare;
pub mod document;
mod error;
pub mod experiment;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
pub mod gate;
pub mod machine;
pub mod markdown;
mod measure;
pub mod page;
pub mod patch;
mod plan;
mod program;
pub mod progress;
pub mod reports;
#[cfg(test)]
mod schema_tests;
mod scratch;
mod server;
mod statistics;
pub mod target;
pub mod text;
pub mod tune;
pub mod versions;

pub use error::LabError;
pub use scratch::remove_everything;
