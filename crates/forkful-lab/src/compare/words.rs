//! Results in sentences. Pure.

use super::Setup;
use super::judge::ThroughputJudgement;
use super::pilot::Pilot;
use crate::document::{ArmDocument, Comparison, Level, Trust};
use crate::plan::Plan;
use crate::statistics::verdict::Word;

/// More blocks than this are hours: nobody is advised to wait for them.
const BLOCKS_BEARABLE: usize = 200;

/// What is going to be done, before it is done.
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
    if plan.exceeds_budget {
        text.push_str(", which is more than the budget but the least that means something");
    }
    text
}

fn seconds(duration: std::time::Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds < 10.0 { format!("{seconds:.1} s") } else { format!("{seconds:.0} s") }
}

/// `1.94 ×`, `0.998 ×`: enough digits to tell it from 1.
fn times(ratio: f64) -> String {
    if ratio >= 10.0 { format!("{ratio:.1}") } else { format!("{ratio:.2}") }
}

fn interval(bounds: Option<[f64; 2]>) -> String {
    bounds.map_or_else(String::new, |[low, high]| format!(" (95 %: {} to {})", times(low), times(high)))
}

/// A comparison in a sentence.
pub(super) fn sentence(
    setup: &Setup,
    comparison: &Comparison,
    judgement: &ThroughputJudgement,
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
                    "about {more} more blocks would probably tell: `--blocks {}`{}",
                    blocks + more,
                    if setup.blocks.is_none() { " with a larger `--budget`" } else { "" }
                ),
                _ => "the machine is too noisy to tell with any bearable number of blocks".to_owned(),
            };
            format!("{figure}: that does not settle it; {more}")
        }
    }
}

/// The verdict, first of all that a reader sees.
pub(super) fn headline(setup: &Setup, first: &Comparison) -> String {
    let word = first.verdict.as_str();
    if setup.self_test {
        let resolution = first.throughput.resolution_percent.map_or_else(String::new, |percent| {
            format!("; differences from {percent:.1} % up can be told apart here")
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
    let p99 = match &first.latency.p99 {
        Some(p99) => match (p99.baseline_ms, p99.arm_ms) {
            (Some(from), Some(to)) => {
                format!(
                    "; the 99th percentile at equal load goes from {} to {} ms",
                    milliseconds(from),
                    milliseconds(to)
                )
            }
            _ => String::new(),
        },
        None => String::new(),
    };
    format!("{word}: {}{p99}", first.sentence)
}

/// Three significant digits.
pub(crate) fn milliseconds(value: f64) -> String {
    if value >= 100.0 {
        format!("{value:.0}")
    } else if value >= 10.0 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// Further sentences: the other arms, what memory costs, what is doubtful.
pub(super) fn details(
    setup: &Setup,
    comparisons: &[Comparison],
    arms: &[ArmDocument],
    trust: &Trust,
) -> Vec<String> {
    let mut details: Vec<String> = comparisons
        .iter()
        .skip(1)
        .map(|other| format!("{}: {}", other.verdict.as_str(), other.sentence))
        .collect();
    if !setup.self_test
        && let (Some(first), Some(arm)) = (comparisons.first(), arms.get(1))
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
    details.extend(trust.notes.iter().filter(|note| note.level == Level::Note).map(|note| note.text.clone()));
    details
}

fn processes(count: usize) -> String {
    if count == 1 { "one process".to_owned() } else { format!("{count} processes") }
}
