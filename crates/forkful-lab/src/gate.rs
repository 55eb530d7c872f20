//! The result of a comparison as a gate for a change: pass, slower, or unknown. Pure.

use crate::document::{CompareDocument, LatencyRatios, PercentileRatio};
use crate::statistics::verdict::Word;

/// The gate's result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    /// Nothing is slower, as far as these blocks can tell.
    Pass,
    /// At least one figure is certainly worse; the names of these figures.
    Slower(Vec<&'static str>),
    /// The figures prove nothing, for this reason.
    Unknown(&'static str),
}

/// The verdicts of a comparison that the gate uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Words {
    /// Requests per second.
    pub throughput: Word,
    /// The median at equal load, if it was measured.
    pub median: Option<Word>,
    /// The highest percentile at equal load that has an interval.
    pub tail: Option<Word>,
}

impl Words {
    fn of(throughput: Word, latency: &LatencyRatios) -> Self {
        let word = |found: &Option<PercentileRatio>| {
            found.as_ref().filter(|found| found.ci95.is_some()).map(|found| found.verdict)
        };
        let tail = [&latency.p99, &latency.p95, &latency.p90].into_iter().find_map(word);
        Self { throughput, median: word(&latency.p50), tail }
    }
}

/// Judges the first comparison of a document.
pub fn gate(document: &CompareDocument) -> Gate {
    decide(Words::of(document.verdict, &document.latency), document.trustworthy)
}

/// Any figure that is slower by the rule of the verdict fails the gate. Latency alone may stay inconclusive:
/// it often does, and does not block a change that answers as many requests.
pub(crate) fn decide(words: Words, is_trustworthy: bool) -> Gate {
    if !is_trustworthy {
        return Gate::Unknown("the figures cannot be trusted");
    }
    let figures = [
        (Some(words.throughput), "requests per second"),
        (words.median, "the median latency at equal load"),
        (words.tail, "the slowest requests at equal load"),
    ];
    let slower: Vec<&'static str> =
        figures.into_iter().filter(|(word, _)| *word == Some(Word::Slower)).map(|(_, name)| name).collect();
    if !slower.is_empty() {
        Gate::Slower(slower)
    } else if words.throughput == Word::Inconclusive {
        Gate::Unknown("the comparison is inconclusive")
    } else {
        Gate::Pass
    }
}

#[cfg(test)]
mod tests {
    use forkful_core::random::Random;

    use super::*;
    use crate::statistics::paired::log_ratios;
    use crate::statistics::verdict::{Rule, judge};

    #[test]
    fn one_slower_figure_is_enough_and_what_proves_nothing_passes_nobody() {
        use Word::{Faster, Inconclusive, NoDifference, Slower};
        let told = |throughput, median, tail, is_trustworthy| match decide(
            Words { throughput, median, tail },
            is_trustworthy,
        ) {
            Gate::Pass => "pass".to_owned(),
            Gate::Slower(which) => which.join(", "),
            Gate::Unknown(why) => format!("unknown: {why}"),
        };
        assert_eq!(told(Faster, None, None, true), "pass");
        assert_eq!(told(NoDifference, Some(Inconclusive), Some(Inconclusive), true), "pass");
        assert_eq!(
            told(NoDifference, Some(Faster), Some(Slower), true),
            "the slowest requests at equal load"
        );
        assert_eq!(
            told(Slower, Some(Slower), None, true),
            "requests per second, the median latency at equal load"
        );
        assert_eq!(told(Inconclusive, Some(Slower), None, true), "the median latency at equal load");
        assert_eq!(
            told(Inconclusive, Some(NoDifference), None, true),
            "unknown: the comparison is inconclusive"
        );
        assert_eq!(told(Slower, None, None, false), "unknown: the figures cannot be trusted");
    }

    /// The noise of a machine, as standard deviations of logarithms.
    #[derive(Clone, Copy)]
    struct Noise {
        /// Noise of the throughput of one run.
        throughput: f64,
        /// Noise of the median of one run.
        median: f64,
        /// Noise of the 99th percentile of one run.
        tail: f64,
    }

    /// A whole gate run on simulated timings: looks after 6, 12 and 18 blocks, as in `compare`, on a machine
    /// that drifts by 3 % from block to block; one block in twenty has an undetected disturbance.
    fn simulated(random: &mut Random, slowdown: f64, noise: Noise) -> Gate {
        let (throughput, latency) = (Rule::throughput(3), Rule::latency(3));
        let mut machine = 0.0;
        // Throughput, median and tail; for each block the values of the baseline and the arm.
        let mut blocks: [Vec<(f64, f64)>; 3] = std::array::from_fn(|_| Vec::new());
        for look in 1..=3 {
            while blocks[0].len() < 6 * look {
                machine += 0.03 * random.normal();
                let hit = if random.unit() < 0.05 { 0.97 } else { 1.0 };
                let spreads = [noise.throughput, noise.median, noise.tail];
                for (figure, (found, spread)) in blocks.iter_mut().zip(spreads).enumerate() {
                    // A slowdown reduces the throughput and increases the latencies.
                    let sign = if figure == 0 { 1.0 } else { -1.0 };
                    let mut run =
                        |factor: f64| (sign * (machine + factor.ln()) + spread * random.normal()).exp();
                    found.push((run(1.0), run((1.0 - slowdown) * hit)));
                }
            }
            let word = |figure: usize, rule| {
                judge(&log_ratios(blocks[figure].iter().copied()), rule, look == 3).word
            };
            let words = Words {
                throughput: word(0, &throughput),
                median: Some(word(1, &latency)),
                tail: Some(word(2, &latency)),
            };
            // As in a real run, more blocks are made only to settle the throughput.
            if words.throughput != Word::Inconclusive || look == 3 {
                return decide(words, true);
            }
        }
        unreachable!("the third look is the last")
    }

    const MACHINES: [Noise; 4] = [
        Noise { throughput: 0.005, median: 0.03, tail: 0.10 },
        Noise { throughput: 0.01, median: 0.05, tail: 0.20 },
        Noise { throughput: 0.02, median: 0.10, tail: 0.30 },
        Noise { throughput: 0.03, median: 0.15, tail: 0.50 },
    ];

    fn alarms(seed: u64, runs: u32, slowdown: f64, noise: Noise) -> u32 {
        let mut random = Random::new(seed);
        (0..runs).filter(|_| matches!(simulated(&mut random, slowdown, noise), Gate::Slower(_))).count()
            as u32
    }

    #[test]
    fn a_commit_against_itself_raises_at_most_one_alarm_in_20_and_a_tenth_is_found_in_8_of_10() {
        for (machine, noise) in MACHINES.into_iter().enumerate() {
            for seed in 1..=10 {
                let false_alarms = alarms(seed, 20, 0.0, noise);
                assert!(false_alarms <= 1, "machine {machine}, seed {seed}: {false_alarms} of 20");
                let found = alarms(seed + 100, 10, 0.1, noise);
                assert!(found >= 8, "machine {machine}, seed {seed}: {found} of 10");
            }
        }
    }

    #[test]
    fn over_many_runs_alarms_are_rarer_than_promised_and_small_slowdowns_are_found_too() {
        for (machine, noise) in MACHINES.into_iter().enumerate() {
            let false_alarms = alarms(7, 400, 0.0, noise);
            assert!(false_alarms <= 8, "machine {machine}: {false_alarms} of 400");
            let found = alarms(8, 400, 0.1, noise);
            assert!(found >= 388, "machine {machine}: {found} of 400");
        }
        let found = alarms(9, 400, 0.05, MACHINES[1]);
        assert!(found >= 360, "{found} of 400 slowdowns of 5 %");
        // On a very noisy machine the result is unknown, not a guess.
        let wild = Noise { throughput: 0.15, median: 0.5, tail: 1.0 };
        let false_alarms = alarms(10, 400, 0.0, wild);
        assert!(false_alarms <= 20, "{false_alarms} of 400");
    }
}
