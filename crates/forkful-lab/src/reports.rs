//! Compares two saved reports: `forkful compare a.json b.json`. Everything here is pure: texts in, a document
//! out.
//!
//! Runs that were not interleaved allow weaker conclusions, and the output says how much weaker:
//!
//! - Two reports of `bench` are two single runs. Their seconds give an interval for the difference *between
//!   these two runs*; the variation between starts of the server is not included. A difference is only
//!   reported if it is larger than that variation usually is.
//! - Two reports of `compare` have blocks, each with a fresh server. Their interval includes the variation
//!   between starts, but not changes of the machine between the two runs.
//! - If the load was not the same, there are ratios but no verdict.

mod bench;
mod compared;
mod document;
mod markdown;
mod read;
mod settings;
mod text;

pub use document::{Difference, Figure, ReportsDocument, Source};
pub use markdown::markdown;
pub use read::{ReportError, looks_like_report};
pub use text::text;

use read::{Kind, Saved};

/// Facts about this run of the command.
#[derive(Debug, Clone)]
pub struct Context {
    /// Version of this program.
    pub forkful: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// The command that repeats the comparison.
    pub command: String,
}

/// Compares two files, given as path and contents; the first is the baseline.
pub fn compare(files: [(&str, &str); 2], context: &Context) -> Result<ReportsDocument, ReportError> {
    let [a, b] = files;
    let (a, b) = (Saved::read(a.0, a.1)?, Saved::read(b.0, b.1)?);
    if a.kind != b.kind {
        return Err(ReportError::Kinds {
            first: a.path.clone(),
            first_kind: a.kind.word(),
            second: b.path.clone(),
            second_kind: b.kind.word(),
        });
    }
    match a.kind {
        Kind::Bench => bench::compare(&a, &b, context),
        Kind::Compare => compared::compare(&a, &b, context),
    }
}
