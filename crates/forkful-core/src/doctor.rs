//! Why an app is slow. [`examine`] takes what was measured of its workers, second by second, and gives a [`Diagnosis`]: a verdict, how
//! sure it is, the numbers behind it, what to do, and what gain to expect.
//!
//! - `signs`: what is known of one second of one worker · `split`: where that second went
//! - `rules`: the first rule that holds gives the verdict · `worker`: the rules over a window, and how sure they are
//! - `app`: the verdict of all workers together · `remedy`: what could be changed, and what that should bring
//! - `trial`: whether a change has helped
//! - `words`: everything that people read
//!
//! The rules are those of `docs/DOCTOR.md`. A verdict never comes from one second: it needs [`SECONDS_MIN`].

mod app;
mod evidence;
mod remedy;
mod rules;
mod signs;
mod split;
mod trial;
mod verdict;
pub mod words;
mod worker;

pub use app::{App, Diagnosis, WorkerDiagnosis, WorkerSeconds, examine};
pub use evidence::{Evidence, Quantity};
pub use remedy::{Gain, Remedy};
pub use signs::Signs;
pub use split::Split;
pub use trial::{Outcome, compare};
pub use verdict::{Certainty, Unclear, Verdict};

/// A verdict needs so many seconds: below, one collection of garbage or one slow request could decide it.
pub const SECONDS_MIN: usize = 10;
