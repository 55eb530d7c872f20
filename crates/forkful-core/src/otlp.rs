//! Metrics for OpenTelemetry: where those of an app go, when, and in which form. The daemon posts them.
//!
//! - `policy`: where they go · `pace`: when · `document`: what is posted, OTLP's JSON

mod document;
mod pace;
mod policy;

pub use document::{CONTENT_TYPE, Exported, WORKERS_PER_DOCUMENT, WorkerMetrics, document};
pub use pace::{Note, Pace};
pub use policy::{OtlpPolicy, headers};
