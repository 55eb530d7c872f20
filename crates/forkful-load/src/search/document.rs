//! The result of a search, as JSON and with plots for the page.

use serde::Serialize;
use serde_json::{Value, json};

use super::Next;
use crate::Plan;
use crate::report::Threshold;
use crate::report::spread::{thousands, three_digits};

/// One run.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SearchStep"))]
pub struct Step {
    /// The offered rate, in requests per second.
    pub rate: f64,
    pub held: bool,
    /// Why it did not pass.
    pub reason: Option<String>,
    /// The generator was at its limit.
    pub generator_limited: bool,
    pub seconds: f64,
    /// Answers per second.
    pub per_second: f64,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub errors: u64,
}

/// The result of the search.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SearchVerdict"))]
pub struct Verdict {
    /// `found`, `unlimited`, `nothing`, `undecided` or `generator`.
    word: &'static str,
    /// The highest rate that passed.
    rate: Option<f64>,
    /// The lowest rate that failed.
    missed: Option<f64>,
    /// The reason for that failure.
    reason: Option<String>,
}

impl Verdict {
    /// The verdict at the end of a search.
    pub fn of(end: Next, steps: &[Step]) -> Self {
        let (mut word, rate, missed) = match end {
            Next::Found { rate, missed } => ("found", Some(rate), Some(missed)),
            Next::Unlimited { rate } => ("unlimited", Some(rate), None),
            Next::Nothing { missed } => ("nothing", None, Some(missed)),
            Next::Undecided { held, missed } => ("undecided", held, missed),
            Next::Try(_) => unreachable!("a search that ended tries nothing more"),
        };
        let at_missed = || {
            let here = |step: &&Step| {
                missed.is_some_and(|missed| step.rate.total_cmp(&missed).is_eq() && !step.held)
            };
            steps.iter().rev().find(here)
        };
        // Requests that the generator could not send say nothing about the target.
        if word == "found" && at_missed().is_some_and(|step| step.generator_limited) {
            word = "generator";
        }
        Self { word, rate, missed, reason: at_missed().and_then(|step| step.reason.clone()) }
    }

    /// Its name in JSON.
    pub fn word(&self) -> &'static str {
        self.word
    }

    fn sentence(&self, expected: &str) -> String {
        let shown = |rate: Option<f64>| rate.map_or("no rate".to_owned(), figure);
        let because = self.reason.as_ref().map_or(String::new(), |reason| format!(" ({reason})"));
        let (rate, missed) = (shown(self.rate), shown(self.missed));
        match self.word {
            "found" => format!(
                "{rate} requests/s is the highest rate with {expected}; {missed} are too many{because}"
            ),
            "unlimited" => format!("{rate} requests/s hold with {expected}, and no higher rate was tried"),
            "nothing" => {
                format!("no rate was found with {expected}: even {missed} requests/s are too many{because}")
            }
            "generator" => format!(
                "{rate} requests/s hold with {expected}; the load generator cannot tell about {missed}, because it was at its \
                 own limit, or got no core in time{because}"
            ),
            _ => {
                let held =
                    self.rate.map_or("no rate held".to_owned(), |_| format!("{rate} requests/s held once"));
                format!(
                    "not decided, because some runs contradict others: {held} with {expected}, and {missed} did \
                     not{because}"
                )
            }
        }
    }
}

/// The document of `bench --search --json` and of the page.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "SearchReport"))]
pub struct Document {
    /// `search`.
    kind: &'static str,
    version: u32,
    forkful: &'static str,
    created_at_ms: u64,
    command: String,
    title: String,
    /// The result in words.
    headline: String,
    verdict: Verdict,
    /// In the form of `--expect`.
    expectations: Vec<String>,
    /// The rate of the closed loop at the start.
    pilot_per_second: f64,
    connections: usize,
    /// In the order of execution.
    steps: Vec<Step>,
    /// For the page.
    tables: Vec<Value>,
    /// For the page.
    plots: Vec<Value>,
}

/// How a search was made.
#[derive(Debug)]
pub struct Made {
    /// The version of Forkful.
    pub forkful: &'static str,
    /// The command line.
    pub command: String,
    /// The time of its end, in milliseconds since 1970.
    pub at_ms: u64,
}

impl Document {
    /// The result in words.
    pub fn headline(&self) -> &str {
        &self.headline
    }

    /// In the order of execution.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    pub fn of(
        plan: &Plan,
        pilot: f64,
        thresholds: &[Threshold],
        steps: Vec<Step>,
        verdict: Verdict,
        made: Made,
    ) -> Self {
        let expectations: Vec<String> =
            thresholds.iter().map(|threshold| threshold.text().to_owned()).collect();
        let target = plan.requests.first().map_or(String::new(), |request| {
            format!("{} {}", request.method, crate::secrets::url(&request.url.to_string()))
        });
        Self {
            kind: "search",
            version: crate::report::VERSION,
            forkful: made.forkful,
            created_at_ms: made.at_ms,
            command: made.command,
            title: format!("Highest rate: {target}"),
            headline: verdict.sentence(&expectations.join(" and ")),
            verdict,
            expectations,
            pilot_per_second: pilot,
            connections: plan.connections,
            tables: vec![table(&steps)],
            plots: plots(&steps),
            steps,
        }
    }
}

fn table(steps: &[Step]) -> Value {
    let row = |(number, step): (usize, &Step)| {
        json!([
            number + 1,
            step.rate,
            step.per_second,
            step.p50_ms,
            step.p99_ms,
            step.errors,
            step.reason.as_deref().unwrap_or("held")
        ])
    };
    json!({
        "title": "The runs", "note": "In the order of the runs.",
        "columns": ["run", "due/s", "answered/s", "p50, ms", "p99, ms", "errors", ""],
        "rows": steps.iter().enumerate().map(row).collect::<Vec<_>>(),
    })
}

/// Plots: latency by rate, and the rates in the order they were tried.
fn plots(steps: &[Step]) -> Vec<Value> {
    let mut by_rate: Vec<&Step> = steps.iter().collect();
    by_rate.sort_by(|a, b| a.rate.total_cmp(&b.rate));
    let line = |name: &str, of: fn(&Step) -> Option<f64>| {
        let points: Vec<[f64; 2]> = by_rate.iter().filter_map(|step| Some([step.rate, of(step)?])).collect();
        json!({ "name": name, "points": points })
    };
    let in_order = |name: &str, held: bool| {
        let points: Vec<[f64; 2]> = (1..)
            .zip(steps)
            .filter(|(_, step)| step.held == held)
            .map(|(number, step)| [f64::from(number), step.rate])
            .collect();
        json!({ "name": name, "points": points })
    };
    let rate = json!({ "label": "rate", "unit": "requests/s", "log": false });
    vec![
        json!({
            "type": "lines", "title": "Latency over the rate", "note": "Times since each request was due.",
            "x": rate, "y": { "label": "latency", "unit": "ms", "log": true },
            "series": [line("p50", |step| step.p50_ms), line("p99", |step| step.p99_ms)],
        }),
        json!({
            "type": "lines", "title": "The search", "note": "The rate of each run, by whether all expectations were met.",
            "x": { "label": "run", "unit": "", "log": false }, "y": rate,
            "series": [in_order("held", true), in_order("missed", false)],
        }),
    ]
}

/// `1,840`, `12.3`.
pub fn figure(value: f64) -> String {
    if value >= 1000.0 { thousands(value.round() as u64) } else { three_digits(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(rate: f64, p99: f64, generator_limited: bool) -> Step {
        let held = p99 < 50.0;
        Step {
            rate,
            held,
            reason: (!held).then(|| format!("p99<50ms: {p99} ms")),
            generator_limited,
            seconds: 5.0,
            per_second: rate,
            p50_ms: Some(2.0),
            p99_ms: Some(p99),
            errors: 0,
        }
    }

    fn told(end: Next, steps: &[Step]) -> (String, &'static str) {
        let verdict = Verdict::of(end, steps);
        (verdict.sentence("p99<50ms"), verdict.word())
    }

    #[test]
    fn the_end_of_a_search_is_told_with_what_was_missed() {
        let steps = [step(1000.0, 10.0, false), step(1030.0, 63.1, false)];
        let found = Next::Found { rate: 1000.0, missed: 1030.0 };
        let expected =
            "1,000 requests/s is the highest rate with p99<50ms; 1,030 are too many (p99<50ms: 63.1 ms)";
        assert_eq!(told(found, &steps), (expected.to_owned(), "found"));
        let limited = [step(1000.0, 10.0, false), step(1030.0, 63.1, true)];
        let (sentence, word) = told(found, &limited);
        assert!(sentence.contains("the load generator cannot tell about 1,030"), "{sentence}");
        assert_eq!(word, "generator");
        assert_eq!(told(Next::Unlimited { rate: 9.5 }, &steps).1, "unlimited");
        let (sentence, word) = told(Next::Nothing { missed: 1030.0 }, &steps);
        assert!(sentence.starts_with("no rate was found with p99<50ms: even 1,030"), "{sentence}");
        assert_eq!(word, "nothing");
        let (sentence, word) = told(Next::Undecided { held: None, missed: Some(1030.0) }, &steps);
        assert!(sentence.contains("no rate held with p99<50ms, and 1,030 did not"), "{sentence}");
        assert_eq!(word, "undecided");
    }

    #[test]
    fn the_page_has_latency_over_the_rate_in_order() {
        let drawn = plots(&[step(1000.0, 10.0, false), step(500.0, 5.0, false), step(2000.0, 90.0, false)]);
        assert_eq!(drawn[0]["series"][1]["points"], json!([[500.0, 5.0], [1000.0, 10.0], [2000.0, 90.0]]));
        assert_eq!(drawn[1]["series"][1]["points"], json!([[3.0, 2000.0]]));
    }
}
