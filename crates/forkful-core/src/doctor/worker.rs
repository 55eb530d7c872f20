//! The verdict of one worker over a window of seconds.

use super::rules::{Finding, judge};
use super::{Certainty, SECONDS_MIN, Signs, Unclear, Verdict};

/// Minimum share of seconds that agree with their mean, for a certain and for a likely verdict.
const AGREE_CERTAIN: f64 = 0.7;
const AGREE_LIKELY: f64 = 0.4;

/// The result for a worker.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Examined {
    pub(super) finding: Finding,
    pub(super) certainty: Certainty,
    pub(super) mean: Signs,
}

/// The rules are applied to the mean of the seconds. The confidence is the share of seconds with the same
/// result.
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
