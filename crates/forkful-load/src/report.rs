//! What is told of a run: as text, JSON, CSV and HDR percentiles, whether it can be trusted, and whether it
//! kept what was expected of it. All of it is decided by pure functions of a [`crate::Report`].

mod csv;
mod document;
mod findings;
mod hdr;
pub mod spread;
mod summary;
mod text;
mod threshold;
mod trust;

pub use csv::csv;
pub use document::{VERSION, document, page};
pub use findings::{Findings, WorkerShare, Workers};
pub use hdr::hdr;
pub use summary::summary;
pub use text::{Tone, text};
pub use threshold::{BadThreshold, Judgement, METRICS, Threshold};
pub use trust::{Check, Level, Trust};

#[cfg(test)]
mod tests;
