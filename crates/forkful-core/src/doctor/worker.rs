//! The verdict of one worker over a window of seconds.

use super::rules::{Finding, judge};
use super::{Certainty, SECONDS_MIN, Signs, Unclear, Verdict};

/// Seconds that say the same as their mean, at least, for a verdict that is certain, and for one that is likely.
const AGREE_CERTAIN: f64 = 0.7;
const AGREE_LIKELY: f64 = 0.4;

/// What was found of a worker.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Examined {
    pub(super) finding: Finding,
    pub(super) certainty: Certainty,
    pub(super) mean: Signs,
}

/// The rules decide on the mean of the seconds. How many of the seconds say the same by themselves is how sure that is.
pub(super) fn examine_worker(seconds: &[Signs], cores: f64) -> Examined {
    let known: Vec<Signs> = seconds.iter().copied().filter(|second| *second != Signs::default()).collect();
    let mean = Signs::mean(&known);
    let mut finding = judge(&mean, cores);
    if known.len() < SECONDS_MIN {
        finding.verdict = Verdict::Unclear(Unclear::TooShort);
        return Examined { finding, certainty: Certainty::Inconclusive, mean };
    }
    let same = known.iter().filter(|second| judge(second, cores).verdict == finding.verdict).count();
    let agreement = same as f64 / known.len() as f64;
    let certainty = match finding.verdict {
        Verdict::Unclear(_) => Certainty::Inconclusive,
        _ if agreement >= AGREE_CERTAIN && finding.is_clear => Certainty::Certain,
        _ if agreement >= AGREE_LIKELY => Certainty::Likely,
        _ => {
            finding.verdict = Verdict::Unclear(Unclear::Mixed);
            Certainty::Inconclusive
        }
    };
    Examined { finding, certainty, mean }
}
