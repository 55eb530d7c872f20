//! Finds the highest rate at which a target still meets its expectations: which rate to try next, and when
//! the result is known. Pure: results of tries are arguments; there is no clock.
//!
//! Rates are doubled or halved until one passed and a higher one failed, then the gap is halved until it is
//! small. Single tries are noisy: a failure counts only if a second try fails too, and the result is a rate
//! that passed twice.

mod document;

pub use document::{Document, Made, Step, Verdict, figure};

/// Tries that decide about a rate: two of three.
const AGREEING: usize = 2;

/// The lowest possible rate.
const RATE_MIN: f64 = 0.1;

/// The parameters of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Limits {
    /// The first rate, requests per second.
    pub start: f64,
    /// Lower rates are not tried.
    pub rate_min: f64,
    /// The highest rate to try.
    pub rate_max: f64,
    /// The search ends when the result and the lowest failed rate are this close, as a share.
    pub precision: f64,
    /// Maximum number of tries.
    pub tries_max: usize,
}

/// One run at a rate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Try {
    pub rate: f64,
    /// All expectations were met.
    pub held: bool,
}

/// The next step of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Next {
    /// Run at this rate.
    Try(f64),
    /// The highest rate that passed, and the lowest that failed.
    Found { rate: f64, missed: f64 },
    /// The highest allowed rate passed.
    Unlimited { rate: f64 },
    /// Even the lowest rate failed.
    Nothing { missed: f64 },
    /// The limit of tries was reached without a result; the highest rate that passed at least once, and the
    /// lowest that failed.
    Undecided { held: Option<f64>, missed: Option<f64> },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    /// Passed by one try only.
    HeldOnce,
    Held,
    Missed,
    /// Another try must decide.
    Open,
}

/// The next step after these tries.
pub fn next(limits: &Limits, tries: &[Try]) -> Next {
    let Some(last) = tries.last() else { return Next::Try(round(limits.start.min(limits.rate_max))) };
    let is_missed = |tried: &&Try| status(tries, tried.rate) == Status::Missed;
    let missed = tries.iter().filter(is_missed).map(|tried| tried.rate).reduce(f64::min);
    // A rate above a failed rate proves nothing, even if it passed.
    let is_held = |tried: &&Try| {
        matches!(status(tries, tried.rate), Status::Held | Status::HeldOnce)
            && missed.is_none_or(|missed| tried.rate < missed)
    };
    let held = tries.iter().filter(is_held).map(|tried| tried.rate).reduce(f64::max);
    let wanted = if status(tries, last.rate) == Status::Open {
        Next::Try(last.rate)
    } else {
        wanted(limits, held, missed, |rate| status(tries, rate) == Status::Held)
    };
    match wanted {
        Next::Try(_) if tries.len() >= limits.tries_max => Next::Undecided { held, missed },
        wanted => wanted,
    }
}

fn wanted(limits: &Limits, held: Option<f64>, missed: Option<f64>, is_sure: impl Fn(f64) -> bool) -> Next {
    match (held, missed) {
        (Some(rate), None) if rate >= limits.rate_max => {
            if is_sure(rate) {
                Next::Unlimited { rate }
            } else {
                Next::Try(rate)
            }
        }
        (Some(rate), None) => Next::Try(round(rate * 2.0).min(limits.rate_max)),
        (None, Some(missed)) if missed / 2.0 < limits.rate_min.max(RATE_MIN) => Next::Nothing { missed },
        (None, Some(missed)) => Next::Try(round(missed / 2.0)),
        (Some(rate), Some(missed)) => {
            let between = round((rate * missed).sqrt());
            let is_close = missed <= rate * (1.0 + limits.precision) || between <= rate || between >= missed;
            match is_close {
                true if is_sure(rate) => Next::Found { rate, missed },
                true => Next::Try(rate),
                false => Next::Try(between),
            }
        }
        (None, None) => Next::Try(round(limits.start)),
    }
}

fn status(tries: &[Try], rate: f64) -> Status {
    let same = || tries.iter().filter(|tried| tried.rate.total_cmp(&rate).is_eq());
    let held = same().filter(|tried| tried.held).count();
    let missed = same().count() - held;
    match (held, missed) {
        (AGREEING.., _) => Status::Held,
        (_, AGREEING..) => Status::Missed,
        (1, 0) => Status::HeldOnce,
        _ => Status::Open,
    }
}

/// Three digits are precise enough, and a repeated try uses the same rate.
fn round(rate: f64) -> f64 {
    let rate = rate.max(RATE_MIN);
    let unit = 10_f64.powf(rate.log10().floor() - 2.0);
    let digits = (rate / unit).round();
    if unit < 1.0 { digits / (1.0 / unit).round() } else { digits * unit.round() }
}

#[cfg(test)]
mod tests {
    use forkful_core::random::Random;

    use super::*;

    const LIMITS: Limits =
        Limits { start: 500.0, rate_min: 5.0, rate_max: 100_000.0, precision: 0.03, tries_max: 24 };

    /// Runs a search against a target, given as a function from a rate to whether it passes.
    fn searched(limits: &Limits, mut holds: impl FnMut(f64) -> bool) -> (Next, Vec<Try>) {
        let mut tries = Vec::new();
        loop {
            match next(limits, &tries) {
                Next::Try(rate) => tries.push(Try { rate, held: holds(rate) }),
                end => return (end, tries),
            }
        }
    }

    #[test]
    fn the_edge_of_a_steady_target_is_found_from_everywhere() {
        for edge in [40.0, 97.0, 499.0, 500.0, 1234.0, 60_000.0] {
            let (end, tries) = searched(&LIMITS, |rate| rate <= edge);
            let Next::Found { rate, missed } = end else { panic!("{edge}: {end:?}") };
            assert!(rate <= edge && missed > edge && missed <= rate * 1.04, "{edge}: {rate} {missed}");
            assert_eq!(
                tries.iter().filter(|tried| tried.rate.total_cmp(&rate).is_eq()).count(),
                2,
                "held twice"
            );
            assert!(tries.len() <= 24, "{edge}: {tries:?}");
        }
    }

    #[test]
    fn what_has_no_edge_says_so() {
        let bounded = Limits { rate_max: 3000.0, ..LIMITS };
        let (end, tries) = searched(&bounded, |_| true);
        assert_eq!(end, Next::Unlimited { rate: 3000.0 });
        assert_eq!(
            tries.iter().map(|tried| tried.rate as u32).collect::<Vec<_>>(),
            [500, 1000, 2000, 3000, 3000]
        );
        assert!(
            matches!(searched(&LIMITS, |_| false).0, Next::Nothing { missed } if (5.0..10.0).contains(&missed))
        );
        // Too few tries: returns what is known so far.
        let hasty = Limits { tries_max: 5, ..LIMITS };
        let (end, tries) = searched(&hasty, |rate| rate <= 1234.0);
        assert_eq!((end, tries.len()), (Next::Undecided { held: Some(1000.0), missed: Some(2000.0) }, 5));
    }

    #[test]
    fn one_bad_try_does_not_decide_and_two_do() {
        // The first try at each rate fails.
        let mut seen = Vec::new();
        let (end, _) = searched(&LIMITS, |rate| {
            let is_first = !seen.contains(&rate.to_bits());
            seen.push(rate.to_bits());
            rate <= 1000.0 && !is_first
        });
        assert!(
            matches!(end, Next::Found { rate, .. } if rate > 960.0) || matches!(end, Next::Undecided { .. }),
            "{end:?}"
        );
        // A rate that was held once and is then missed twice is not the answer.
        let tries: Vec<Try> = [(500.0, true), (1000.0, false), (1000.0, false), (707.0, true)]
            .map(|(rate, held)| Try { rate, held })
            .into();
        let then = |more: &[(f64, bool)]| {
            let more = more.iter().map(|(rate, held)| Try { rate: *rate, held: *held });
            next(&LIMITS, &tries.iter().copied().chain(more).collect::<Vec<_>>())
        };
        assert_eq!(then(&[]), Next::Try(841.0));
        let close =
            [(841.0, false), (841.0, false), (771.0, false), (771.0, false), (738.0, false), (738.0, false)];
        let confirm = [&close[..], &[(722.0, false), (722.0, false)]].concat();
        assert_eq!(then(&confirm), Next::Try(707.0), "it was held once only");
        let lost = [&confirm[..], &[(707.0, false), (707.0, false)]].concat();
        assert_eq!(then(&lost), Next::Try(595.0), "the search goes on below it");
    }

    #[test]
    fn on_a_simulated_server_the_answer_is_close_to_the_true_edge() {
        let mut random = Random::new(11);
        let (mut close, mut tries_all) = (0, 0);
        for _ in 0..300 {
            // One server with at most 2,000 answers per second: the 99th percentile grows without bound
            // towards that rate.
            let capacity = 2000.0;
            let p99_ms = |rate: f64| 4.6 * 1e3 / (capacity - rate).max(1e-3);
            let bound_ms = 20.0;
            let edge = capacity - 4.6 * 1e3 / bound_ms;
            let (end, tries) = searched(&LIMITS, |rate| {
                // Percentiles over five seconds vary by 10 %, and one try in twenty is disturbed.
                let hit = if random.unit() < 0.05 { 3.0 } else { 1.0 };
                rate < capacity && p99_ms(rate) * hit * (0.1 * random.normal()).exp() < bound_ms
            });
            tries_all += tries.len();
            if let Next::Found { rate, .. } = end {
                close += u32::from((rate / edge - 1.0).abs() < 0.05);
            }
        }
        assert!(close >= 285, "{close} of 300");
        assert!(tries_all / 300 <= 14, "{} tries each", tries_all / 300);
    }

    #[test]
    fn rates_have_three_digits() {
        let rounded = [1234.5, 99_960.0, 0.12345, 7.0, 0.01].map(|rate| round(rate).to_string());
        assert_eq!(rounded, ["1230", "100000", "0.123", "7", "0.1"]);
    }
}
