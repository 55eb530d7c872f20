//! Diagnoses why an app is slow. [`examine`] takes the measurements of its workers, second by second, and
//! returns a [`Diagnosis`]: a verdict, its confidence, its evidence, what to do, and the expected gain.
//!
//! - `signs`: the measurements of one second of one worker · `split`: how that second was spent
//! - `rules`: the first rule that matches gives the verdict · `worker`: the rules over a window, and the
//!   confidence
//! - `app`: the verdict over all workers · `remedy`: possible changes, and their expected effect · `setting`: their commands
//! - `places`: where in the app the cause is, by the stall ledger
//! - `trial`: whether a change has helped · `open_trial`: changes that nobody has decided about · `unseen`: what is not measured in the portable mode
//! - `words`: all texts for people
//!
//! The rules are those of `docs/DOCTOR.md`. A verdict is never based on a single second: it needs
//! [`SECONDS_MIN`].

mod app;
mod evidence;
mod open_trial;
mod places;
mod remedy;
mod rules;
mod setting;
mod signs;
mod split;
mod trial;
mod unseen;
mod verdict;
pub mod words;
mod worker;

pub use app::{App, Diagnosis, WorkerDiagnosis, WorkerSeconds, examine};
pub use evidence::{Evidence, Quantity};
pub use open_trial::{
    ByHand, Course, End, OpenTrial, Refusal, Role, TrialCommands, TrialState, check as check_step,
};
pub use places::{Place, places};
pub use remedy::{BoundsChange, Gain, Remedy};
pub use setting::Setting;
pub use signs::Signs;
pub use split::Split;
pub use trial::{Outcome, compare};
pub use unseen::unseen;
pub use verdict::{Certainty, Unclear, Verdict};

/// Minimum seconds for a verdict: with fewer, one garbage collection or one slow request could decide it.
pub const SECONDS_MIN: usize = 10;
