//! Experiments on apps: `compare` (is this arm faster than that one?) and `tune` (how many workers, how large a pool?).
//!
//! Decisions are in pure modules ([`statistics`], …) that know no clock and no process; the modules that start servers,
//! put load on them and watch them are thin.

pub mod arms;
pub mod compare;
pub mod document;
mod error;
pub mod experiment;
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
mod server;
mod statistics;
pub mod target;
pub mod text;
pub mod tune;
pub mod versions;

pub use error::LabError;
