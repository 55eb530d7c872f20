//! The report of a run: the facts, the trust checks, the expectations, and the output formats text, JSON, CSV
//! and HDR percentiles. Everything except the facts is computed by pure functions of a [`crate::Report`].

mod check;
mod csv;
mod document;
pub(crate) mod facts;
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
