//! How many blocks are needed, and which differences a number of blocks can detect.

use super::student;

/// The share of experiments that should detect an existing difference.
pub(crate) const POWER: f64 = 0.8;

/// Maximum number of blocks considered; a question that needs more cannot be answered on this machine.
pub(crate) const BLOCKS_MAX: usize = 1000;

/// The smallest difference, as a logarithm, that this many blocks detect with [`POWER`], if the blocks' log
/// ratios have the standard deviation `spread`. `None` for fewer than two blocks.
pub(crate) fn detectable(spread: f64, blocks: usize, confidence: f64) -> Option<f64> {
    let factor = student::two_sided(confidence, blocks)? + student::quantile(POWER, blocks as f64 - 1.0);
    Some(factor * spread / (blocks as f64).sqrt())
}

/// The smallest difference, as a logarithm, that this many blocks show to be larger than `band` (relative)
/// with [`POWER`]. The whole interval must lie outside the band, which is harder than excluding 1.
pub(crate) fn tellable(spread: f64, blocks: usize, confidence: f64, band: f64) -> Option<f64> {
    Some(band.ln_1p() + detectable(spread, blocks, confidence)?)
}

/// The number of blocks that detect a difference of `effect` (a logarithm) with [`POWER`]; `None` above
/// [`BLOCKS_MAX`].
pub(crate) fn needed_blocks(spread: f64, effect: f64, confidence: f64) -> Option<usize> {
    let is_enough =
        |blocks: usize| detectable(spread, blocks, confidence).is_some_and(|found| found <= effect.abs());
    if !is_enough(BLOCKS_MAX) {
        return None;
    }
    // More blocks never detect less, so bisection finds the smallest number.
    let (mut low, mut high) = (1, BLOCKS_MAX);
    while high - low > 1 {
        let middle = usize::midpoint(low, high);
        if is_enough(middle) { high = middle } else { low = middle }
    }
    Some(high)
}

#[cfg(test)]
mod tests {
    use super::super::paired::half_width;
    use super::*;
    use forkful_core::random::Random;

    #[test]
    fn blocks_follow_the_rule_of_thumb_with_students_surcharge() {
        // n ≈ 15.7 (CV ÷ δ)² pairs for independent arms, whose log ratio has the standard deviation √2 CV.
        for (cv, effect) in [(0.05_f64, 0.05_f64), (0.03, 0.02), (0.05, 0.02)] {
            let thumb = 15.7 * (cv / effect).powi(2);
            let found = needed_blocks(cv * std::f64::consts::SQRT_2, effect, 0.95).unwrap() as f64;
            assert!((thumb..thumb + 4.0).contains(&found), "{cv} {effect}: {found} for {thumb}");
        }
        assert_eq!(needed_blocks(0.0, 0.01, 0.95), Some(2));
        assert_eq!(needed_blocks(1.0, 0.001, 0.95), None);
    }

    #[test]
    fn that_many_blocks_find_the_difference_about_as_often_as_promised() {
        let (spread, effect) = (0.05, 0.05);
        let blocks = needed_blocks(spread, effect, 0.95).unwrap();
        let mut random = Random::new(5);
        let rounds = 3000;
        let found = (0..rounds)
            .filter(|_| {
                let sample: Vec<f64> = (0..blocks).map(|_| effect + spread * random.normal()).collect();
                super::super::paired::mean(&sample) > half_width(&sample, 0.95).unwrap()
            })
            .count() as f64
            / f64::from(rounds);
        assert!((0.76..0.88).contains(&found), "{found} with {blocks}");
    }

    #[test]
    fn what_can_be_told_is_what_the_verdict_tells_in_8_of_10_runs() {
        use super::super::verdict::{Rule, Word, judge};
        let mut random = Random::new(6);
        for (spread, looks, blocks) in [(0.01, 1, 6), (0.02, 3, 18), (0.05, 2, 12)] {
            let rule = Rule::throughput(looks);
            let confidence = rule.deciding_confidence();
            let effect = tellable(spread, blocks, confidence, rule.band).unwrap();
            let mut share = |effect: f64| {
                let found = (0..1000).filter(|_| {
                    let sample: Vec<f64> = (0..blocks).map(|_| effect + spread * random.normal()).collect();
                    judge(&sample, &rule, true).word == Word::Faster
                });
                found.count() as f64 / 1000.0
            };
            let found = share(effect);
            assert!((0.74..0.88).contains(&found), "{spread}: {found} of what can be told");
            let excluded = share(detectable(spread, blocks, confidence).unwrap());
            assert!(excluded < 0.6, "{spread}: to leave out 1 is not enough, and yet {excluded}");
        }
    }
}
