//! Problems of the windows at fixed rates: requests that were sent late, that had no answer at the end of the
//! drain, or too few requests. The limits are those of `forkful bench` (docs/MEASURING.md).

use std::time::Duration;

use forkful_load::Histogram;
use forkful_load::report::spread::three_digits;
use forkful_load::report::{Check, Level};

use super::{Block, counting};
use crate::compare::trial::{AtRate, unfinished_share};
use crate::document::Trust;
use crate::measure::P99_SAMPLES_MIN;
use crate::plan::{Facts, budget_for_p99};

/// Allowed lateness of requests: this, or a share of the median response time if that is more.
const SLIP_MAX: Duration = Duration::from_millis(1);
const SLIP_SHARE_MAX: f64 = 0.05;

/// If requests are later by this factor, the latency is that of the generator.
const SLIP_SPOILS: f64 = 10.0;

/// Allowed share of requests without an answer at the end. With more than 1 % there is no 99th percentile.
const UNFINISHED_MAX: f64 = 0.001;

/// One arm at one rate, over all counted blocks.
struct Found {
    arm: String,
    load: f64,
    unfinished: f64,
    /// 99th percentile of the lateness of requests, and its limit, in nanoseconds.
    slip: f64,
    slip_max: f64,
}

/// Checks the windows in which arms kept up: the others have no steady state.
pub(super) fn look(trust: &mut Trust, arms: &[&str], blocks: &[Block]) {
    let rates =
        counting(blocks).flat_map(|block| &block.trials).map(|trial| trial.at_rates.len()).min().unwrap_or(0);
    let found: Vec<Found> = arms
        .iter()
        .enumerate()
        .flat_map(|(arm, name)| (0..rates).filter_map(move |rate| found(blocks, arm, name, rate)))
        .collect();
    slip(trust, &found);
    unfinished(trust, &found);
}

fn found(blocks: &[Block], arm: usize, name: &str, rate: usize) -> Option<Found> {
    let windows: Vec<&AtRate> = counting(blocks)
        .filter_map(|block| block.trials.get(arm)?.at_rates.get(rate))
        .filter(|at| !at.overloaded)
        .collect();
    let response = Histogram::of_all(windows.iter().map(|at| &at.sums.response));
    let slip = Histogram::of_all(windows.iter().map(|at| &at.sums.slip));
    let slip_max = SLIP_SHARE_MAX * response.value_at_quantile(0.5) as f64;
    Some(Found {
        arm: name.to_owned(),
        load: windows.first()?.load,
        unfinished: unfinished_share(windows.iter().map(|at| at.sums.unfinished).sum(), &response),
        slip: slip.value_at_quantile(0.99) as f64,
        slip_max: slip_max.max(SLIP_MAX.as_nanos() as f64),
    })
}

fn slip(trust: &mut Trust, found: &[Found]) {
    let late = |found: &Found| found.slip / found.slip_max;
    let Some(worst) = found.iter().max_by(|a, b| late(a).total_cmp(&late(b))) else { return };
    let (value, limit) = (three_digits(worst.slip / 1e6), three_digits(worst.slip_max / 1e6));
    trust.checks.push(
        Check::judged("sent late, 99th percentile", Some(late(worst) <= 1.0))
            .found(format!("{value} ms"), format!("{limit} ms"))
            .means("in windows at a given rate; that time is part of the latency"),
    );
    if late(worst) > 1.0 {
        let level = if late(worst) > SLIP_SPOILS { Level::Warning } else { Level::Note };
        let text = format!(
            "{} at {:.0} %: 1 % of the requests were sent {value} ms late or more, which is part of their latency",
            worst.arm,
            worst.load * 100.0
        );
        trust.note(level, "send_slip", text);
    }
}

fn unfinished(trust: &mut Trust, found: &[Found]) {
    let Some(worst) = found.iter().max_by(|a, b| a.unfinished.total_cmp(&b.unfinished)) else { return };
    let is_fine = worst.unfinished <= UNFINISHED_MAX;
    trust.checks.push(
        Check::judged("without an answer at the end", Some(is_fine))
            .found(format!("{:.2} %", worst.unfinished * 100.0), "0.1 %")
            .means(
                "requests of windows at a given rate that were not waited for any longer: the tail is longer than \
                 shown",
            ),
    );
    if !is_fine {
        let text = format!(
            "{} at {:.0} %: {:.2} % of the requests had no answer when the waiting ended, so that the tail is longer than \
             shown",
            worst.arm,
            worst.load * 100.0,
            worst.unfinished * 100.0
        );
        trust.note(Level::Warning, "unfinished", text);
    }
}

/// Too few requests for an interval of the 99th percentile, with the budget that would be enough.
pub(super) fn samples(trust: &mut Trust, blocks: &[Block], budget: Duration, facts: &Facts) {
    let highest = |block: &Block| -> Vec<u64> {
        block.trials.iter().filter_map(|trial| Some(trial.at_rates.last()?.sums.response.len())).collect()
    };
    let fewest = counting(blocks).flat_map(highest).min();
    let Some(fewest) = fewest.filter(|fewest| *fewest < P99_SAMPLES_MIN) else { return };
    let hint = match budget_for_p99(facts) {
        Some(enough) if enough > budget => {
            format!("; with `--budget {}m` there is time for longer windows", enough.as_secs() / 60)
        }
        Some(_) => String::new(),
        None => ", and would have none within an hour: the route is slow".to_owned(),
    };
    let text = format!(
        "a window has only {fewest} requests, so that the 99th percentile has no interval (it needs {P99_SAMPLES_MIN}){hint}"
    );
    trust.note(Level::Note, "few_samples", text);
}

#[cfg(test)]
mod tests;
