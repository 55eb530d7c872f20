//! From blocks to a verdict: faster, slower, no difference, or inconclusive with the number of missing
//! blocks.
//!
//! The rule, fixed before a run begins (docs/COMPARE.md explains it to users):
//!
//! 1. *Faster* or *slower*: the whole interval lies outside the band of differences that do not matter (±2 %
//!    for throughput). An interval that merely excludes 1 is not enough, so that two equal arms are called
//!    different in far fewer than 5 % of runs.
//! 2. *No difference*: the whole interval lies inside that band.
//! 3. At the last look only, also *no difference* if the interval contains 1, lies inside the wider band that
//!    an ordinary machine can resolve (±5 %), and there are at least six blocks. The judgement then includes
//!    the largest difference that may exist undetected.
//! 4. Everything else is *inconclusive*, with the number of further blocks that would probably settle it.
//!
//! A run may judge its blocks several times. The deciding interval is then wider: with L looks its confidence
//! is 1 − 0.05 ÷ L (Bonferroni), so that repeated looks do not raise the rate of false findings.

use serde::Serialize;

use super::paired::{Interval, deviation, t_interval};
use super::power;
use crate::plan::BLOCKS_MIN;

/// Confidence of the printed intervals.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The verdict on an arm compared with its baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "VerdictWord"))]
pub enum Word {
    /// Better by more than the band.
    #[serde(rename = "faster")]
    Faster,
    /// Worse by more than the band.
    #[serde(rename = "slower")]
    Slower,
    /// Equal within what matters.
    #[serde(rename = "no difference")]
    NoDifference,
    /// These blocks do not settle it.
    #[serde(rename = "inconclusive")]
    Inconclusive,
}

impl Word {
    /// The verdict as printed in reports.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::NoDifference => "no difference",
            Self::Inconclusive => "inconclusive",
        }
    }
}

/// Which direction is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Better {
    /// Throughput.
    Higher,
    /// Latency, CPU, memory.
    Lower,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Rule {
    /// Which direction is better.
    pub better: Better,
    /// Relative differences up to this do not matter.
    pub band: f64,
    /// The widest interval around 1 that may still be called no difference at the last look.
    pub resolvable: f64,
    /// How often the run may judge its blocks.
    pub looks: usize,
}

impl Rule {
    /// For requests per second: ±2 %, resolvable ±5 %.
    pub(crate) fn throughput(looks: usize) -> Self {
        Self { better: Better::Higher, band: 0.02, resolvable: 0.05, looks }
    }

    /// For latency percentiles, which vary more and matter in larger steps: ±10 %, resolvable ±25 %.
    pub(crate) fn latency(looks: usize) -> Self {
        Self { better: Better::Lower, band: 0.10, resolvable: 0.25, looks }
    }

    /// Confidence of the deciding interval.
    pub(crate) fn deciding_confidence(&self) -> f64 {
        1.0 - (1.0 - CONFIDENCE) / self.looks.max(1) as f64
    }
}

/// The judgement of the blocks so far.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Judgement {
    pub word: Word,
    /// The deciding interval; `None` for fewer than two blocks.
    pub deciding: Option<Interval>,
    /// If inconclusive: the number of further blocks that would probably settle it; `None` if that would take
    /// too long.
    pub more_blocks: Option<usize>,
    /// If no difference: the largest relative difference that the interval allows.
    pub hidden: Option<f64>,
}

impl Judgement {
    fn of(word: Word, deciding: Option<Interval>) -> Self {
        Self { word, deciding, more_blocks: None, hidden: None }
    }
}

/// Judges the log ratios of the undisturbed blocks.
pub(crate) fn judge(log_ratios: &[f64], rule: &Rule, is_last_look: bool) -> Judgement {
    let confidence = rule.deciding_confidence();
    let Some(interval) = t_interval(log_ratios, confidence) else {
        return Judgement {
            more_blocks: Some(2_usize.saturating_sub(log_ratios.len())),
            ..Judgement::of(Word::Inconclusive, None)
        };
    };
    let may_resolve = is_last_look && log_ratios.len() >= BLOCKS_MIN;
    let word = word_of(&interval, rule, may_resolve);
    let judgement = Judgement::of(word, Some(interval));
    match word {
        Word::Faster | Word::Slower => judgement,
        Word::NoDifference => Judgement { hidden: Some(hidden_by(&interval)), ..judgement },
        Word::Inconclusive => {
            Judgement { more_blocks: missing_blocks(log_ratios, &interval, rule), ..judgement }
        }
    }
}

/// The verdict for an interval. With `may_resolve`, an interval that contains 1 and lies inside the wider
/// band counts as no difference, because no further look will narrow it.
pub(crate) fn word_of(interval: &Interval, rule: &Rule, may_resolve: bool) -> Word {
    let (up, down) = match rule.better {
        Better::Higher => (Word::Faster, Word::Slower),
        Better::Lower => (Word::Slower, Word::Faster),
    };
    let hidden = hidden_by(interval);
    if interval.low() > 1.0 + rule.band {
        up
    } else if interval.high() < 1.0 - rule.band {
        down
    } else if hidden <= rule.band || (may_resolve && hidden <= rule.resolvable && holds_one(interval)) {
        Word::NoDifference
    } else {
        Word::Inconclusive
    }
}

/// The largest relative difference that an interval allows.
fn hidden_by(interval: &Interval) -> f64 {
    (interval.high() - 1.0).max(1.0 - interval.low())
}

fn holds_one(interval: &Interval) -> bool {
    interval.low() <= 1.0 && 1.0 <= interval.high()
}

/// Blocks until the interval around the current estimate would be outside or inside the band. An estimate at
/// the very edge of the band would need endless blocks; the distance is then taken as a quarter of the band.
fn missing_blocks(log_ratios: &[f64], interval: &Interval, rule: &Rule) -> Option<usize> {
    let distance = (interval.ratio.ln().abs() - rule.band.ln_1p()).abs().max(rule.band / 4.0);
    let needed = power::needed_blocks(deviation(log_ratios), distance, rule.deciding_confidence())?;
    Some(needed.saturating_sub(log_ratios.len()).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_core::random::Random;

    fn spread_around(center: f64, spread: f64, blocks: usize) -> Vec<f64> {
        // Alternating, so that mean and deviation are known.
        (0..blocks).map(|n| center + if n % 2 == 0 { spread } else { -spread }).collect()
    }

    fn word(center: f64, spread: f64, is_last: bool) -> Word {
        judge(&spread_around(center, spread, 6), &Rule::throughput(1), is_last).word
    }

    #[test]
    fn words_follow_the_rule() {
        assert_eq!(word(0.7, 0.02, false), Word::Faster);
        assert_eq!(word(-0.1, 0.02, false), Word::Slower);
        assert_eq!(word(0.001, 0.005, false), Word::NoDifference);
        assert_eq!(word(0.0, 0.03, false), Word::Inconclusive, "±3.4 % waits for more looks");
        assert_eq!(word(0.0, 0.03, true), Word::NoDifference, "and is what this machine can resolve");
        assert_eq!(word(0.0, 0.06, true), Word::Inconclusive, "±6.9 % could hide too much");
        assert_eq!(word(0.04, 0.01, true), Word::Faster);
        assert_eq!(word(0.03, 0.02, true), Word::Inconclusive, "more than nothing, but perhaps not 2 %");
        let few = judge(&spread_around(0.0, 0.005, 4), &Rule::throughput(1), true);
        assert_eq!(few.word, Word::NoDifference, "±0.9 % is nothing");
        let five = judge(&[0.02, -0.02, 0.02, -0.02, 0.0], &Rule::throughput(1), true);
        assert_eq!(five.word, Word::Inconclusive, "five blocks resolve nothing: {five:?}");
        let latency = Rule::latency(1);
        assert_eq!(judge(&spread_around(-0.7, 0.1, 6), &latency, true).word, Word::Faster);
        assert_eq!(judge(&spread_around(0.7, 0.1, 6), &latency, true).word, Word::Slower);
    }

    #[test]
    fn judgements_say_what_is_missing_or_could_hide() {
        let nothing = judge(&[], &Rule::throughput(1), true);
        assert_eq!((nothing.word, nothing.more_blocks), (Word::Inconclusive, Some(2)));
        let noisy = judge(&spread_around(0.0, 0.08, 6), &Rule::throughput(1), true);
        let more = noisy.more_blocks.unwrap();
        assert!((100..400).contains(&more), "{more}");
        let hopeless = judge(&spread_around(0.0, 2.0, 6), &Rule::throughput(1), true);
        assert_eq!((hopeless.word, hopeless.more_blocks), (Word::Inconclusive, None));
        let equal = judge(&spread_around(0.0, 0.03, 6), &Rule::throughput(1), true);
        assert!((0.03..0.04).contains(&equal.hidden.unwrap()), "{equal:?}");
        let unclear = spread_around(0.05, 0.04, 6);
        let blocks = 6 + judge(&unclear, &Rule::throughput(1), true).more_blocks.unwrap();
        let told = |blocks| power::tellable(deviation(&unclear), blocks, CONFIDENCE, 0.02).unwrap();
        assert!(told(blocks) <= 0.05 && told(blocks - 1) > 0.05, "{blocks} blocks tell 5 %");
        assert!((Rule::throughput(3).deciding_confidence() - 0.983_33).abs() < 1e-4);
    }

    /// One experiment on simulated timings: looks at 6, 12 and 18 blocks, as in `compare`. The machine drifts
    /// by several percent over minutes, which pairing removes; each run varies by `noise`; one block in
    /// twenty has a disturbance that the rule did not detect.
    fn simulated(random: &mut Random, slowdown: f64, noise: f64) -> Word {
        let rule = Rule::throughput(3);
        let (mut machine, mut blocks) = (0.0, Vec::new());
        for look in 1..=3 {
            while blocks.len() < 6 * look {
                machine += 0.03 * random.normal();
                let mut run = |factor: f64| 5000.0 * factor * (machine + noise * random.normal()).exp();
                let (baseline, arm) = (run(1.0), run(1.0 - slowdown));
                let hit = if random.unit() < 0.05 { 0.97 } else { 1.0 };
                blocks.push((baseline, arm * hit));
            }
            let logs = super::super::paired::log_ratios(blocks.iter().copied());
            let judgement = judge(&logs, &rule, look == 3);
            if judgement.word != Word::Inconclusive {
                return judgement.word;
            }
        }
        Word::Inconclusive
    }

    fn count(seed: u64, runs: u32, slowdown: f64, noise: f64, word: Word) -> u32 {
        let mut random = Random::new(seed);
        (0..runs).filter(|_| simulated(&mut random, slowdown, noise) == word).count() as u32
    }

    #[test]
    fn equal_arms_are_called_equal_in_19_of_20_and_a_tenth_is_found_in_9_of_10() {
        for (seed, noise) in [(1, 0.005), (2, 0.01), (3, 0.02)] {
            let equal = count(seed, 20, 0.0, noise, Word::NoDifference);
            assert!(equal >= 19, "noise {noise}: {equal} of 20");
            let found = count(seed, 10, 0.1, noise, Word::Slower);
            assert!(found >= 9, "noise {noise}: {found} of 10");
        }
    }

    #[test]
    fn over_many_runs_false_alarms_are_rare_and_misses_too() {
        for noise in [0.005, 0.01, 0.02, 0.03] {
            let alarms = count(7, 500, 0.0, noise, Word::Faster) + count(7, 500, 0.0, noise, Word::Slower);
            assert!(alarms <= 5, "noise {noise}: {alarms} of 500 equal pairs called different");
            let equal = count(8, 500, 0.0, noise, Word::NoDifference);
            let bound = if noise < 0.025 { 475 } else { 350 };
            assert!(equal >= bound, "noise {noise}: {equal} of 500 equal pairs called equal");
            let found = count(9, 500, 0.1, noise, Word::Slower);
            assert!(found >= 485, "noise {noise}: {found} of 500 slowdowns found");
        }
    }

    #[test]
    fn on_a_machine_too_noisy_to_tell_the_word_is_inconclusive_and_not_a_guess() {
        let wrong = count(4, 500, 0.0, 0.15, Word::Faster) + count(4, 500, 0.0, 0.15, Word::Slower);
        let equal = count(4, 500, 0.0, 0.15, Word::NoDifference);
        assert!(wrong <= 25, "{wrong}");
        assert!(equal <= 10, "{equal}");
    }
}
