//! Results as sentences. Pure.

use super::Setup;
use super::judge::ThroughputJudgement;
use super::pilot::Pilot;
use forkful_load::report::Level;
use forkful_load::report::spread::three_digits;

use crate::document::{ArmDocument, BestDocument, Comparison, LatencyRatios, Trust};
use crate::plan::Plan;
use crate::statistics::verdict::{Rule, Word};

/// More blocks would take hours and are never suggested.
const BLOCKS_BEARABLE: usize = 200;

/// Describes the plan before it runs.
pub(super) fn plan(setup: &Setup, plan: &Plan, pilot: &Pilot) -> String {
    let names: Vec<&str> = setup.arms.iter().map(|arm| arm.name.as_str()).collect();
    let blocks = match plan.looks.as_slice() {
        [one] => format!("{one} blocks"),
        [first, .., last] => format!("{first} to {last} blocks"),
        [] => "no blocks".to_owned(),
    };
    let latency = if plan.latency_window.is_zero() {
        String::new()
    } else {
        format!(" and {} at each of two rates", seconds(plan.latency_window))
    };
    let mut text = format!(
        "{}: {blocks} in random order (seed {}), {} connections, {} at saturation{latency}; about {}",
        names.join(", "),
        setup.seed,
        pilot.connections,
        seconds(plan.window),
        seconds(plan.takes),
    );
    if plan.warmth < 1.0 {
        text.push_str(&format!(
            "; the budget leaves time for {:.0} % of the warm-up that is needed",
            plan.warmth * 100.0
        ));
    }
    if plan.exceeds_budget {
        text.push_str("; this is more than the budget, because a shorter run would give no usable result");
    }
    text
}

fn seconds(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

/// `12.3`, `1.94`, `0.053`: at least two significant digits.
pub(super) fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio >= 10.0 => format!("{ratio:.1}"),
        ratio if ratio < 0.1 => format!("{ratio:.3}"),
        ratio => format!("{ratio:.2}"),
    }
}

pub(super) fn interval(bounds: Option<[f64; 2]>) -> String {
    bounds.map_or_else(String::new, |[low, high]| format!(" (95 %: {} to {})", times(low), times(high)))
}

/// A comparison as a sentence.
pub(super) fn sentence(
    setup: &Setup,
    comparison: &Comparison,
    judgement: &ThroughputJudgement,
    rule: &Rule,
    blocks: usize,
) -> String {
    let Some(ratio) = comparison.throughput.ratio else {
        return format!("no block has figures of both {} and {}", comparison.baseline, comparison.arm);
    };
    let figure = format!(
        "{} answers {} ×{} as many requests per second as {}",
        comparison.arm,
        times(ratio),
        interval(comparison.throughput.ci95),
        comparison.baseline
    );
    match judgement.word {
        Word::Faster | Word::Slower => figure,
        Word::NoDifference => {
            let hidden = judgement.hidden.unwrap_or(0.0) * 100.0;
            if hidden <= 2.0 {
                format!("{figure}: equal to within 2 %")
            } else {
                format!(
                    "{figure}: if there is a difference, it is below {hidden:.1} %, which is what this machine can tell"
                )
            }
        }
        Word::Inconclusive => {
            let more = match judgement.more_blocks {
                Some(more) if more <= BLOCKS_BEARABLE => format!(
                    "{more} more block{} would probably settle it: `--blocks {}`{}",
                    if more == 1 { "" } else { "s" },
                    blocks + more,
                    if setup.blocks.is_none() { " with a larger `--budget`" } else { "" }
                ),
                _ => "the machine is too noisy for a result in a reasonable number of blocks".to_owned(),
            };
            format!("{figure}: {}; {more}", unsettled(comparison.throughput.ci95, judgement, rule))
        }
    }
}

/// Why an interval is inconclusive even if it seems not to be: the printed interval is narrower than the one
/// that decides.
fn unsettled(printed: Option<[f64; 2]>, judgement: &ThroughputJudgement, rule: &Rule) -> String {
    let leaves_out_one = |[low, high]: [f64; 2]| low > 1.0 || high < 1.0;
    let is_beyond = |[low, high]: [f64; 2]| low > 1.0 + rule.band || high < 1.0 - rule.band;
    let band = rule.band * 100.0;
    match (printed, judgement.deciding) {
        (Some(printed), Some(deciding)) if leaves_out_one(printed) && rule.looks > 1 => {
            let what = if is_beyond(printed) {
                "this interval would settle it"
            } else {
                "this interval leaves out 1"
            };
            format!(
                "{what}, but the test is sequential: it looks at its blocks up to {} times, so that the {:.1} % interval decides \
                 ({} to {}), which must lie beyond ±{band:.0} %",
                rule.looks,
                rule.deciding_confidence() * 100.0,
                times(deciding.low()),
                times(deciding.high()),
            )
        }
        (Some(printed), _) if leaves_out_one(printed) => {
            format!(
                "the interval leaves out 1, but does not lie beyond ±{band:.0} %, below which differences do not matter"
            )
        }
        _ => "that does not settle it".to_owned(),
    }
}

/// The verdict, at the top of the output.
pub(super) fn headline(setup: &Setup, first: &Comparison, best: Option<&BestDocument>) -> String {
    if let Some(best) = best {
        return best.sentence.clone();
    }
    let word = first.verdict.as_str();
    if setup.self_test {
        let resolution = first.throughput.resolution_percent.map_or_else(String::new, |percent| {
            format!("; differences from {percent:.1} % up are called faster or slower here")
        });
        return match first.verdict {
            Word::NoDifference => {
                format!("{word} between the same app and itself, as it should be{resolution}")
            }
            Word::Inconclusive => {
                format!("{word}: this machine is too noisy to see that an app is equal to itself{resolution}")
            }
            Word::Faster | Word::Slower => {
                format!(
                    "{word} than itself: something on this machine favours one side, so that comparisons here mislead{resolution}"
                )
            }
        };
    }
    format!("{word}: {}{}", first.sentence, tail(&first.latency))
}

/// The effect on the slowest requests at equal load, with its certainty; empty if it was not measured.
fn tail(latency: &LatencyRatios) -> String {
    let below = [("95th percentile", &latency.p95), ("90th percentile", &latency.p90)];
    let with_interval =
        std::iter::once(("99th percentile", &latency.p99)).chain(below).find_map(|(name, found)| {
            let found = found.as_ref()?;
            Some((name, found, found.ratio?, found.ci95?))
        });
    if let Some((name, found, ratio, bounds)) = with_interval {
        let figure = format!("{} ×{}", times(ratio), interval(Some(bounds)));
        let of = match (found.arm_ms, found.baseline_ms) {
            (Some(to), Some(from)) => {
                format!(", {} ms instead of {} ms", three_digits(to), three_digits(from))
            }
            _ => String::new(),
        };
        return match found.verdict {
            Word::Faster | Word::Slower => format!("; its {name} at equal load is {figure} as long{of}"),
            Word::NoDifference => format!("; no difference in the {name} at equal load: {figure}"),
            Word::Inconclusive => format!("; inconclusive for the {name} at equal load: {figure}"),
        };
    }
    match (&latency.p50, &latency.p99_reason) {
        (Some(p50), Some(reason)) => {
            format!("; no interval for the 99th percentile at {:.0} % load: {reason}", p50.load * 100.0)
        }
        _ => String::new(),
    }
}

/// Further sentences: comparisons that are not in the headline, memory, and doubts.
pub(super) fn details(
    setup: &Setup,
    untold: &[Comparison],
    arms: &[ArmDocument],
    first: &Comparison,
    trust: &Trust,
) -> Vec<String> {
    let mut details: Vec<String> = untold
        .iter()
        .map(|other| format!("{}: {}{}", other.verdict.as_str(), other.sentence, tail(&other.latency)))
        .collect();
    if let Some(beside) = &setup.target.beside {
        let (when, of) = if beside.only_for_latency {
            ("while latency was measured, ", "latencies")
        } else {
            ("", "figures")
        };
        let request = beside.request();
        details.push(format!("{when}{request} was requested at the same time: its effect is included in the {of}, its own response times are not"));
    }
    if !setup.self_test
        && let Some(arm) = arms.get(1)
        && let Some(memory) = first.memory.ratio
    {
        details.push(format!(
            "{} uses {:.0} MB of memory in {}, {:.1} × as much as {}",
            arm.name,
            arm.memory_bytes as f64 / 1e6,
            processes(arm.processes),
            memory,
            first.baseline
        ));
    }
    details.extend(trust.texts(Level::Note).map(str::to_owned));
    details
}

fn processes(count: usize) -> String {
    if count == 1 { "one process".to_owned() } else { format!("{count} processes") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::PercentileRatio;

    fn ratio(verdict: Word, ci95: Option<[f64; 2]>) -> PercentileRatio {
        PercentileRatio {
            load: 0.8,
            ratio: Some(0.053),
            ci95,
            baseline_ms: Some(172.0),
            arm_ms: Some(9.13),
            verdict,
        }
    }

    fn ratios(p99: Option<PercentileRatio>, reason: Option<&str>) -> LatencyRatios {
        LatencyRatios {
            p50: Some(ratio(Word::Faster, Some([0.5, 0.6]))),
            p99,
            p99_reason: reason.map(str::to_owned),
            ..LatencyRatios::default()
        }
    }

    #[test]
    fn a_change_of_the_tail_is_told_with_its_interval_or_with_why_there_is_none() {
        let bounds = Some([0.04, 0.07]);
        let few = "too few requests, 327 in a window where 1000 are needed";
        for (latency, expected) in [
            (
                ratios(Some(ratio(Word::Faster, bounds)), None),
                "; its 99th percentile at equal load is 0.053 × (95 %: 0.040 to 0.070) as long, 9.13 ms instead of 172 ms",
            ),
            (
                ratios(Some(ratio(Word::NoDifference, Some([0.92, 1.08]))), None),
                "; no difference in the 99th percentile at equal load: 0.053 × (95 %: 0.92 to 1.08)",
            ),
            (
                ratios(Some(ratio(Word::Inconclusive, Some([0.5, 1.5]))), None),
                "; inconclusive for the 99th percentile at equal load: 0.053 × (95 %: 0.50 to 1.50)",
            ),
            (
                ratios(Some(ratio(Word::Inconclusive, None)), Some(few)),
                "; no interval for the 99th percentile at 80 % load: too few requests, 327 in a window where 1000 are needed",
            ),
            (
                ratios(None, Some(few)),
                "; no interval for the 99th percentile at 80 % load: too few requests, 327 in a window where 1000 are needed",
            ),
            (LatencyRatios::default(), ""),
        ] {
            assert_eq!(tail(&latency), expected);
        }
    }

    #[test]
    fn an_interval_that_seems_to_settle_it_is_explained_in_the_same_sentence() {
        use crate::statistics::paired::t_interval;
        use crate::statistics::verdict::{CONFIDENCE, judge};
        let told = |logs: &[f64], looks: usize| {
            let rule = Rule::throughput(looks);
            let judgement = judge(logs, &rule, true);
            assert_eq!(judgement.word, Word::Inconclusive, "{judgement:?}");
            let printed = t_interval(logs, CONFIDENCE).map(|interval| interval.bounds);
            unsettled(printed, &judgement, &rule)
        };
        let around =
            |center: f64, spread: f64| [-1.0, 1.0, -1.0, 1.0, -1.0, 1.0].map(|sign| center + sign * spread);
        // 1.18 × (1.03 to 1.35) as printed: outside the band.
        assert_eq!(
            told(&around(0.166, 0.12), 3),
            "this interval would settle it, but the test is sequential: it looks at its blocks up to 3 times, so that the 98.3 % \
             interval decides (0.98 to 1.43), which must lie beyond ±2 %"
        );
        assert!(
            told(&around(0.05, 0.035), 3)
                .starts_with("this interval leaves out 1, but the test is sequential")
        );
        assert_eq!(
            told(&around(0.05, 0.035), 1),
            "the interval leaves out 1, but does not lie beyond ±2 %, below which differences do not matter"
        );
        assert_eq!(told(&around(0.0, 0.1), 3), "that does not settle it");
    }

    #[test]
    fn where_the_99th_percentile_has_no_interval_the_highest_that_has_one_is_told_by_its_name() {
        let mut latency = ratios(Some(ratio(Word::Inconclusive, None)), Some("too few requests"));
        latency.p95 = Some(ratio(Word::Slower, Some([1.4, 1.6])));
        assert!(tail(&latency).starts_with("; its 95th percentile at equal load is"), "{}", tail(&latency));
        (latency.p90, latency.p95) = (latency.p95, None);
        assert!(tail(&latency).starts_with("; its 90th percentile at equal load is"), "{}", tail(&latency));
    }
}
