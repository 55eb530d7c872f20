//! Expectations about a run, such as `p99<20ms`, `errors<0.1%` or `rps>1000`: parsing and judging them.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::Serialize;

use super::spread::{Percentile, duration, thousands};
use crate::{ErrorCause, Histogram, Report};

#[derive(Debug, Clone)]
pub struct Threshold {
    text: String,
    metric: Metric,
    /// How the value must compare with the limit.
    wanted: Ordering,
    or_equal: bool,
    /// Nanoseconds, a number, or a share between 0 and 1.
    limit: f64,
}

#[derive(Debug, Clone, Copy)]
enum Metric {
    Latency(fn(&Report) -> &Histogram, Statistic),
    Rate,
    Requests,
    Errors,
    ErrorShare,
    Timeouts,
    Status(u16),
    StatusShare(u16),
}

#[derive(Debug, Clone, Copy)]
enum Statistic {
    Mean,
    Min,
    Max,
    Percentile(Percentile),
}

/// The result of an expectation.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Expectation"))]
pub struct Judgement {
    /// The expectation as typed.
    pub expectation: String,
    /// The measured value, in the unit of the expectation's kind: ms, per second, a count, percent.
    #[serde(serialize_with = "super::json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub value: Option<f64>,
    /// The measured value for people, and what else must be known about it.
    pub found: String,
    /// Whether it was met; `None`: too few samples to tell, or only a part of the run was made.
    pub kept: Option<bool>,
}

/// Why a text is not a valid expectation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a valid expectation: {reason}")]
pub struct BadThreshold {
    text: String,
    reason: String,
}

/// The available metrics, for messages and help.
pub const METRICS: &str = "p50, p75, p90, p95, p97.5, p99, p99.9, p99.99, mean, min, max (also first_byte.p99, \
                           connect.p99, service.p99), rps, requests, errors, timeouts, 2xx to 5xx";

impl FromStr for Threshold {
    type Err = BadThreshold;

    fn from_str(text: &str) -> Result<Self, BadThreshold> {
        let bad = |reason: String| BadThreshold { text: text.to_owned(), reason };
        let at = text
            .find(['<', '>'])
            .ok_or_else(|| bad("write it like p99<20ms, errors<0.1% or rps>1000".to_owned()))?;
        let (name, value) = (text[..at].trim(), &text[at + 1..]);
        let wanted = if text[at..].starts_with('<') { Ordering::Less } else { Ordering::Greater };
        let (or_equal, value) = value.strip_prefix('=').map_or((false, value), |value| (true, value));
        let metric = metric(name).ok_or_else(|| bad(format!("there is no `{name}`; there are {METRICS}")))?;
        let (metric, limit) = limit(metric, value.trim()).map_err(bad)?;
        Ok(Self { text: text.to_owned(), metric, wanted, or_equal, limit })
    }
}

fn metric(name: &str) -> Option<Metric> {
    let name = name.to_ascii_lowercase();
    let (phase, statistic): (fn(&Report) -> &Histogram, _) = match name.split_once('.') {
        Some(("latency" | "response" | "total", statistic)) => (|report| &report.response, statistic),
        Some(("service", statistic)) => (|report| &report.service, statistic),
        Some(("first_byte" | "ttfb", statistic)) => (|report| &report.first_byte, statistic),
        Some(("connect", statistic)) => (|report| &report.connect, statistic),
        _ => (|report| &report.response, name.as_str()),
    };
    let statistic = match statistic {
        "mean" | "avg" | "average" => Some(Statistic::Mean),
        "min" => Some(Statistic::Min),
        "max" => Some(Statistic::Max),
        "median" | "med" => Percentile::named("p50").map(Statistic::Percentile),
        other if other.starts_with('p') => Percentile::named(other).map(Statistic::Percentile),
        _ => None,
    };
    if let Some(statistic) = statistic {
        return Some(Metric::Latency(phase, statistic));
    }
    match name.as_str() {
        "rps" | "rate" | "requests/s" | "requests.per_second" => Some(Metric::Rate),
        "requests" | "requests.completed" | "completed" => Some(Metric::Requests),
        "errors" | "errors.total" => Some(Metric::Errors),
        "timeouts" => Some(Metric::Timeouts),
        class => match class.as_bytes() {
            [digit @ b'1'..=b'5', b'x', b'x'] => Some(Metric::Status(u16::from(digit - b'0'))),
            _ => None,
        },
    }
}

/// Parses the value with its unit; a percent sign turns a count into a share.
fn limit(metric: Metric, text: &str) -> Result<(Metric, f64), String> {
    let split =
        text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',' | '_')).unwrap_or(text.len());
    let (digits, unit) = (text[..split].replace([',', '_'], ""), text[split..].trim());
    let number: f64 = digits.parse().map_err(|_| format!("`{text}` does not begin with a number"))?;
    match metric {
        Metric::Latency(..) => {
            let factor = match unit {
                "ns" => 1.0,
                "us" | "µs" | "μs" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                "" => return Err(format!("a time needs a unit: {number}ms or {number}s?")),
                other => return Err(format!("`{other}` is not a unit of time; use ns, us, ms or s")),
            };
            Ok((metric, number * factor))
        }
        Metric::Errors if unit == "%" => Ok((Metric::ErrorShare, number / 100.0)),
        Metric::Status(class) if unit == "%" => Ok((Metric::StatusShare(class), number / 100.0)),
        _ => {
            let factor = match unit {
                "" | "/s" => 1.0,
                "k" => 1e3,
                "M" => 1e6,
                other => return Err(format!("`{other}` is not a unit here; use none, k or M")),
            };
            Ok((metric, number * factor))
        }
    }
}

impl Threshold {
    /// The expectation as typed.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Samples needed to judge it.
    pub fn samples_min(&self) -> u64 {
        match self.metric {
            Metric::Latency(_, Statistic::Percentile(percentile)) => percentile.samples_min,
            _ => 1,
        }
    }

    /// Whether a run met the expectation, whatever becomes of the requests that had no answer yet when the
    /// waiting for them ended.
    pub fn judge(&self, report: &Report) -> Judgement {
        let range = self.range(report);
        let is_met = range.and_then(|range| self.is_met(range));
        // A part of a run can miss an expectation, but not keep it.
        let kept = is_met.filter(|is_met| !is_met || !report.stopped_early());
        let value = range.map(|range| range.least);
        let is_open = range.is_some_and(|range| range.most > range.least);
        let (found, value) = match (self.metric, value) {
            (Metric::Latency(..), Some(value)) if is_open => {
                (format!("at least {}", duration(value)), Some(value / 1e6))
            }
            (Metric::Latency(..), Some(value)) => (duration(value), Some(value / 1e6)),
            (Metric::ErrorShare, Some(value)) if is_open => (
                format!("{:.3} %, {} without an answer", value * 100.0, thousands(report.counts.unfinished)),
                Some(value * 100.0),
            ),
            (Metric::Errors, Some(value)) if is_open => (
                format!(
                    "{}, {} without an answer",
                    thousands(value as u64),
                    thousands(report.counts.unfinished)
                ),
                Some(value),
            ),
            (Metric::ErrorShare | Metric::StatusShare(_), Some(value)) => {
                (format!("{:.3} %", value * 100.0), Some(value * 100.0))
            }
            (Metric::Rate, Some(value)) => (format!("{value:.1}"), Some(value)),
            (_, Some(value)) => (thousands(value as u64), Some(value)),
            (Metric::Latency(phase, Statistic::Percentile(percentile)), None) => {
                let (have, need) = (phase(report).len(), percentile.samples_min);
                (format!("too few samples: {} of {}", thousands(have), thousands(need)), None)
            }
            (_, None) => ("nothing was measured".to_owned(), None),
        };
        let is_part = if is_met == kept { "" } else { ", in a run that ended early" };
        Judgement { expectation: self.text.clone(), found: found + is_part, value, kept }
    }

    /// Whether all values of a range meet it, or none; `None` where it depends on the value.
    fn is_met(&self, Range { least, most }: Range) -> Option<bool> {
        let is_met = |value: f64| {
            let is = value.total_cmp(&self.limit);
            is == self.wanted || (self.or_equal && is == Ordering::Equal)
        };
        (is_met(least) == is_met(most)).then(|| is_met(least))
    }

    fn range(&self, report: &Report) -> Option<Range> {
        let counts = report.counts;
        let ended = counts.completed + counts.failed + counts.late;
        let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        let errors = report.errors_total();
        match self.metric {
            Metric::Latency(phase, statistic) => {
                // Only the response time of a request without an answer is known, and only its least.
                let is_response = std::ptr::eq(phase(report), &raw const report.response);
                let unanswered = (is_response && !report.censored.is_empty()).then_some(&report.censored);
                Range::of(phase(report), unanswered, statistic)
            }
            Metric::Rate => Range::known(report.per_second()),
            Metric::Requests => Range::known(counts.completed as f64),
            Metric::Errors => Some(Range { least: errors as f64, most: (errors + counts.unfinished) as f64 }),
            Metric::ErrorShare => {
                let all = ended + counts.unfinished;
                let range = |least, most| Range { least, most };
                share(errors, all)
                    .zip(share(errors + counts.unfinished, all))
                    .map(|(least, most)| range(least, most))
            }
            Metric::Timeouts => Range::known(report.errors_by(ErrorCause::is_timeout) as f64),
            Metric::Status(class) => Range::known(report.status_class(class) as f64),
            Metric::StatusShare(class) => share(report.status_class(class), ended).and_then(Range::known),
        }
    }
}

/// What a value is at least and at most.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    /// Of a value that is known.
    #[expect(clippy::unnecessary_wraps, reason = "it stands beside values that may be unknown")]
    fn known(value: f64) -> Option<Self> {
        Some(Self { least: value, most: value })
    }

    /// Of a statistic of times; `unanswered` are the ages of requests that had no answer.
    fn of(times: &Histogram, unanswered: Option<&Histogram>, statistic: Statistic) -> Option<Self> {
        let Some(unanswered) = unanswered else {
            let some = (!times.is_empty()).then_some(times);
            return match statistic {
                Statistic::Mean => some.map(|times| times.mean()),
                Statistic::Min => some.map(|times| times.min() as f64),
                Statistic::Max => some.map(|times| times.max() as f64),
                Statistic::Percentile(percentile) => percentile.of(times).map(|value| value as f64),
            }
            .and_then(Self::known);
        };
        let mut all = times.clone();
        all.merge(unanswered);
        let forever = f64::INFINITY;
        Some(match statistic {
            Statistic::Mean => Self { least: all.mean(), most: forever },
            // The others cannot be faster than the fastest that was answered but for their age.
            Statistic::Min if times.is_empty() => Self { least: all.min() as f64, most: forever },
            Statistic::Min => Self { least: all.min() as f64, most: times.min() as f64 },
            Statistic::Max => Self { least: all.max() as f64, most: forever },
            Statistic::Percentile(percentile) => {
                let least = percentile.of(&all)? as f64;
                // With all unanswered ones beyond every answer.
                let rank = (percentile.quantile * all.len() as f64).ceil();
                let quantile = rank / times.len().max(1) as f64;
                let most = if quantile > 1.0 { forever } else { times.value_at_quantile(quantile) as f64 };
                Self { least: least.min(most), most }
            }
        })
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.kept {
            Some(true) => "kept",
            Some(false) => "missed",
            None => "cannot be judged",
        };
        write!(formatter, "{} {word} ({})", self.expectation, self.found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EarlyEnd;

    fn judged(text: &str, report: &Report) -> Judgement {
        text.parse::<Threshold>().unwrap().judge(report)
    }

    fn report() -> Report {
        let mut report = Report::empty("test");
        report.elapsed = std::time::Duration::from_secs(2);
        report.counts.completed = 2_000;
        report.statuses = vec![(200, 1_990), (500, 10)];
        report.response.record_n(10_000_000, 1_980).unwrap();
        report.response.record_n(30_000_000, 20).unwrap();
        report.errors = vec![crate::ErrorCount {
            cause: crate::ErrorCause::UnexpectedStatus,
            count: 10,
            examples: Vec::new(),
        }];
        report
    }

    #[test]
    fn expectations_are_kept_or_missed() {
        let table = [
            ("p99<20ms", true),
            ("p99 < 9.5ms", false),
            ("p50<=10.1ms", true),
            ("max<20ms", false),
            ("mean>0.01s", true),
            ("errors<0.1%", false),
            ("errors<=0.5%", true),
            ("errors<11", true),
            ("rps>999", true),
            ("rps>1k", false),
            ("rps>=1,000", true),
            ("requests>=2000", true),
            ("timeouts<1", true),
            ("5xx<1%", true),
            ("2xx>99.9%", false),
        ];
        for (text, kept) in table {
            assert_eq!(judged(text, &report()).kept, Some(kept), "{text}: {}", judged(text, &report()));
        }
    }

    #[test]
    fn what_there_are_too_few_samples_for_cannot_be_judged() {
        let judgement = judged("p99.9<1s", &report());
        assert_eq!(judgement.to_string(), "p99.9<1s cannot be judged (too few samples: 2,000 of 10,000)");
        assert_eq!(judged("connect.p50<1s", &report()).kept, None);
        assert_eq!(judged("errors<1%", &Report::empty("test")).kept, None);
    }

    #[test]
    fn requests_without_an_answer_count_as_slow_as_they_are_at_least() {
        let mut report = report();
        // 2,000 answers, of which 20 took 30 ms, and as many requests of which nothing came for 7 s.
        report.counts.unfinished = 20;
        report.censored.record_n(7_000_000_000, 20).unwrap();
        let table = [
            ("p50<20ms", Some(true), "p50<20ms kept (10.0 ms)"),
            // 21 of 2,020 are beyond it: one of those with 30 ms is the first.
            ("p99<20ms", Some(false), "p99<20ms missed (30.0 ms)"),
            ("p99<40ms", Some(true), "p99<40ms kept (30.0 ms)"),
            ("max<8s", None, "max<8s cannot be judged (at least 7.00 s)"),
            ("max<6s", Some(false), "max<6s missed (at least 7.00 s)"),
            ("mean<10ms", Some(false), "mean<10ms missed (at least 79.4 ms)"),
            ("service.max<40ms", None, "service.max<40ms cannot be judged (nothing was measured)"),
            ("errors<0.1%", Some(false), "errors<0.1% missed (0.495 %, 20 without an answer)"),
            ("errors<1%", None, "errors<1% cannot be judged (0.495 %, 20 without an answer)"),
            ("errors<2%", Some(true), "errors<2% kept (0.495 %, 20 without an answer)"),
        ];
        for (text, kept, words) in table {
            let judgement = judged(text, &report);
            assert_eq!((judgement.kept, judgement.to_string().as_str()), (kept, words));
        }
        report.censored.record_n(7_000_000_000, 10).unwrap();
        let judgement = judged("p99<20ms", &report);
        assert_eq!((judgement.kept, judgement.found.as_str()), (Some(false), "at least 7.00 s"));
    }

    #[test]
    fn a_run_that_ended_early_can_miss_an_expectation_and_not_keep_it() {
        for early_end in [EarlyEnd::Stopped, EarlyEnd::Errors, EarlyEnd::TargetGone] {
            let report = Report { early_end: Some(early_end), ..report() };
            let told = |text: &str| judged(text, &report).to_string();
            assert_eq!(told("p50<20ms"), "p50<20ms cannot be judged (10.0 ms, in a run that ended early)");
            assert_eq!(told("p50<5ms"), "p50<5ms missed (10.0 ms)");
        }
    }

    #[test]
    fn a_bad_expectation_says_what_is_wrong() {
        let table = [
            ("p99", "`p99` is not a valid expectation: write it like p99<20ms, errors<0.1% or rps>1000"),
            ("p99<20", "`p99<20` is not a valid expectation: a time needs a unit: 20ms or 20s?"),
            ("p99<x", "`p99<x` is not a valid expectation: `x` does not begin with a number"),
            ("p99<2h", "`p99<2h` is not a valid expectation: `h` is not a unit of time; use ns, us, ms or s"),
            ("rps>1ms", "`rps>1ms` is not a valid expectation: `ms` is not a unit here; use none, k or M"),
        ];
        for (text, message) in table {
            assert_eq!(text.parse::<Threshold>().unwrap_err().to_string(), message);
        }
        let unknown = "p42<1ms".parse::<Threshold>().unwrap_err().to_string();
        assert!(
            unknown.starts_with("`p42<1ms` is not a valid expectation: there is no `p42`; there are p50"),
            "{unknown}"
        );
    }
}
