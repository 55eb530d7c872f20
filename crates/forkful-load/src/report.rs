//! The report of a run: its facts, whether they can be trusted, whether they are what was expected, and how they are
//! printed as text, JSON, CSV and HDR percentiles. All but the facts is decided by pure functions of a
//! [`crate::Report`].

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
