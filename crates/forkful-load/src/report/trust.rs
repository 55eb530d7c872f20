//! Whether a measurement can be trusted: one check for each possible problem. Pure functions of the plan and
//! the report; `docs/MEASURING.md` explains the limits.

mod generator;
mod network;
mod overload;
mod steadiness;

use super::check::{Check, Level};
use super::findings::Workers;
use crate::{HttpVersion, Plan, Report};

/// The checks of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Trust {
    /// All checks that could be made, in a fixed order.
    pub checks: Vec<Check>,
}

impl Trust {
    pub fn of(plan: &Plan, report: &Report) -> Self {
        let checks = [
            generator::cpu(report),
            generator::residency(plan, report),
            generator::little(plan, report),
            generator::slip(plan, report),
            generator::stood_still(report),
            overload::overload(plan, report),
            steadiness::length(plan, report),
            steadiness::silence(report),
            steadiness::drift(report),
            steadiness::stolen(report),
            steadiness::others(report),
            network::connections(plan, report),
            network::streams(plan, report),
            network::ports(report),
            network::queues(report),
            network::retransmits(report),
            Some(samples(report)),
            (plan.http != HttpVersion::EventStream).then(|| unfinished(report)),
            errors(plan, report),
            redirects(plan, report),
        ];
        Self { checks: checks.into_iter().flatten().map(Check::without_idle_meaning).collect() }
    }

    /// Adds the checks that need the target's workers, if they are known.
    #[must_use]
    pub fn with_workers(mut self, plan: &Plan, report: &Report, workers: Option<&Workers>) -> Self {
        let bottleneck = workers.and_then(|workers| generator::bottleneck(plan, report, workers));
        self.checks.extend(bottleneck.map(Check::without_idle_meaning));
        self
    }

    /// The worst level of all checks.
    pub fn level(&self) -> Level {
        self.checks.iter().map(Check::level).max().unwrap_or(Level::Fine)
    }

    /// Whether the results can be trusted.
    pub fn trustworthy(&self) -> bool {
        self.level() < Level::Fault
    }

    /// Whether the generator was the bottleneck.
    pub fn saturated(&self) -> bool {
        self.check("generator_cpu").is_some_and(|check| check.level() == Level::Fault)
    }

    /// The check with this key.
    pub fn check(&self, key: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.key == Some(key))
    }

    /// The checks of a level.
    pub fn at(&self, level: Level) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(move |check| check.level() == level)
    }

    pub fn sentence(&self) -> String {
        // Errors may be the cause of all else.
        let meanings = |level| {
            let mut checks: Vec<&Check> = self.at(level).collect();
            checks.sort_by_key(|check| check.key != Some("errors"));
            checks.iter().map(|check| check.meaning.as_str()).collect::<Vec<_>>().join("; ")
        };
        match self.level() {
            Level::Fault => format!("not trustworthy: {}", meanings(Level::Fault)),
            Level::Warning => format!("trustworthy, but {}", meanings(Level::Warning)),
            Level::Fine | Level::Note => "trustworthy".to_owned(),
        }
    }
}

/// Fewer answers are too few for any figure.
const SAMPLES_FEW: u64 = 30;

/// Whether there are enough samples for the usual percentiles.
fn samples(report: &Report) -> Check {
    let count = report.response.len();
    if count == 0 {
        return Check::graded("samples", "samples", Level::Fault)
            .found("0", "at least 1")
            .means("there was no answer to measure");
    }
    let (level, meaning) = match count {
        ..SAMPLES_FEW => (Level::Warning, "so few answers say little: rate and times may be chance"),
        SAMPLES_FEW..1_000 => (Level::Note, "too few for p99 (1,000) and p99.9 (10,000), which are left out"),
        1_000..10_000 => (Level::Note, "too few for p99.9 (10,000), which is left out"),
        _ => (Level::Fine, ""),
    };
    Check::graded("samples", "samples", level)
        .found(super::spread::thousands(count), "1,000 for p99, 10,000 for p99.9")
        .means(meaning.to_owned())
}

/// Requests without an answer at the end of the drain: all of them would be slow.
fn unfinished(report: &Report) -> Check {
    let unfinished = report.counts.unfinished;
    let done = report.response.len().max(1);
    let share = unfinished as f64 / done as f64;
    // 1 % of the samples may be everything above p99.
    let level = if unfinished == 0 { Level::Fine } else { Level::above(share, 0.001, 0.01) };
    // The age is a lower bound of the latency.
    let oldest = if report.censored.is_empty() {
        String::new()
    } else {
        format!(", the oldest at least {}", super::spread::duration(report.censored.max() as f64))
    };
    Check::graded("unfinished", "without an answer at the end", level)
        .found(super::spread::thousands(unfinished), "0.1 % of the samples")
        .means(format!(
            "{unfinished} requests had no answer when the waiting ended{oldest}; the tail is longer \
                 than shown"
        ))
}

/// Shares of errors: from the first on a run is doubtful, from the second on it measures only errors.
const ERRORS_MANY: f64 = 0.1;
const ERRORS_MOST: f64 = 0.5;

/// From this share of redirects on, a run is probably not of the intended route.
const REDIRECTS_MANY: f64 = 0.5;

/// Statuses that are listed if most answers are errors.
const STATUSES_NAMED_MAX: usize = 3;

/// Whether many requests ended in errors, even if another tool counts every status as an answer.
fn errors(plan: &Plan, report: &Report) -> Option<Check> {
    let counts = report.counts;
    let ended = counts.completed + counts.failed + counts.late;
    if ended == 0 {
        return None;
    }
    let mut pages: Vec<(u16, u64)> =
        report.statuses.iter().copied().filter(|(status, _)| plan.expect.is_error_page(*status)).collect();
    pages.sort_by_key(|(status, count)| (std::cmp::Reverse(*count), *status));
    let answered: u64 = pages.iter().map(|(_, count)| count).sum();
    let share = |count: u64| count as f64 / ended as f64;
    let all = share(report.errors_total().max(answered + counts.failed).min(ended));
    let is_most = all >= ERRORS_MOST;
    let meaning = if share(answered) > all / 2.0 {
        let named = pages.iter().take(STATUSES_NAMED_MAX).map(|(status, _)| status.to_string());
        let named: Vec<String> =
            named.chain((pages.len() > STATUSES_NAMED_MAX).then(|| "…".to_owned())).collect();
        let figures = if is_most { "those" } else { "in part those" };
        let text = format!("{} of the answers were errors ({})", percent(share(answered)), named.join(", "));
        format!("{text}: the figures are {figures} of an error page")
    } else {
        let worst = report.errors.iter().max_by_key(|error| error.count);
        let cause = worst.map_or(String::new(), |error| format!(" ({})", error.cause.words()));
        let what =
            if is_most { "the figures are those of failures" } else { "the rest carried the load alone" };
        format!("{} of the requests failed{cause}: {what}", percent(all))
    };
    Some(
        Check::graded(
            "errors",
            "errors",
            if is_most { Level::Fault } else { Level::above(all, ERRORS_MANY, 1.0) },
        )
        .found(percent(all), format!("{:.0} %", ERRORS_MANY * 100.0))
        .means(meaning),
    )
}

/// Whether most answers were redirects, which are not followed: nobody means to measure them by mistake. `304` is none.
fn redirects(plan: &Plan, report: &Report) -> Option<Check> {
    let answers: u64 = report.statuses.iter().map(|(_, count)| count).sum();
    let of_redirects = |(status, _): &&(u16, u64)| matches!(status, 300..=303 | 305..=399);
    let count: u64 = report.statuses.iter().filter(of_redirects).map(|(_, count)| count).sum();
    let is_meant = !plan.expect.statuses.is_empty() && !plan.expect.is_habit;
    if count == 0 || is_meant {
        return None;
    }
    let share = count as f64 / answers.max(1) as f64;
    let status = report.statuses.iter().filter(of_redirects).max_by_key(|(_, count)| *count)?.0;
    Some(
        Check::graded("redirects", "redirects", Level::above(share, REDIRECTS_MANY, 1.0))
            .found(percent(share), percent(REDIRECTS_MANY))
            .means(format!(
                "{} of the answers were redirects ({status}), which are not followed: the figures are theirs; use the URL \
                 that they name, or `--expect-status {status}`",
                percent(share)
            )),
    )
}

/// `12 %`, `0.03 %`.
pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent == 0.0 || percent >= 9.95 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

#[cfg(test)]
mod tests;
