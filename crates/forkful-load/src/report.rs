//! What is told of a run: as text, JSON, CSV and HDR percentiles, whether it can be trusted, and whether it
//! kept what was expected of it. All of it is decided by pure functions of a [`crate::Report`].

mod check;
mod csv;
mod document;
mod findings;
mod hdr;
pub(crate) mod json;
mod plot;
pub mod spread;
mod summary;
mod text;
mod threshold;
mod trust;

pub use check::{Check, Level};
pub use csv::csv;
pub use document::{Document, Page, VERSION};
pub use findings::{Findings, WorkerShare, Workers};
pub use hdr::hdr;
pub use summary::summary;
pub use text::{Tone, text};
pub use threshold::{BadThreshold, Judgement, METRICS, Threshold};
pub use trust::Trust;

#[cfg(test)]
mod tests;
