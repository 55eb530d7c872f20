//! Two saved reports: `forkful compare a.json b.json`. Everything here is pure: texts go in, a document comes out.
//!
//! What can be said without blocks that were made in turns is less, and it is said how much less:
//!
//! - Two reports of `bench` are two single runs. Their seconds give an interval for the difference *between these two
//!   runs*; what a fresh start of the server makes is not in it. A difference is only called one when it is larger than
//!   that usually is.
//! - Two reports of `compare` have blocks, each with a fresh server. Their interval holds that luck, but not what changed
//!   on the machine between the two.
//! - Where the load was not the same, there are ratios and no verdict.

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

/// What is known of this run of the command.
#[derive(Debug, Clone)]
pub struct Context {
    /// Version of this program.
    pub forkful: String,
    /// Milliseconds since 1970.
    pub created_at_ms: u64,
    /// Repeats it.
    pub command: String,
}

/// Compares two files, each with its path and what it holds; the first is the baseline.
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
