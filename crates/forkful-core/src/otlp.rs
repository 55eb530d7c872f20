//! Metrics for OpenTelemetry: where those of an app go, when, and in which form. The daemon posts them.
//!
//! - `policy`: where they go · `pace`: when · `document`: what is posted, OTLP's JSON · `answer`: what a receiver says to it

mod answer;
mod document;
mod pace;
mod policy;

pub use answer::{Fault, rejected, retry_after};
pub use document::{CONTENT_TYPE, Exported, WORKERS_PER_DOCUMENT, WorkerMetrics, document};
pub use pace::{Note, Pace};
pub use policy::{OtlpPolicy, headers, unread_headers};
