//! The result of an experiment: the data of the text, the JSON and the page.

use forkful_load::report::Check;
use forkful_load::report::spread::thousands;
use serde::Serialize;
use serde_json::{Value, json};

use super::Setting;
use super::catalogue::Description;
use crate::document::Machine;

/// A claim of the report and the result here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Claim {
    /// The subject.
    pub what: String,
    /// The reported value.
    pub reported: String,
    /// The value found here.
    pub found: String,
    /// Why they differ, or what it means.
    pub why: String,
}

impl Claim {
    pub(super) fn new(
        what: impl Into<String>,
        reported: impl Into<String>,
        found: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self { what: what.into(), reported: reported.into(), found: found.into(), why: why.into() }
    }
}

/// The result of an experiment. The page is drawn from its JSON.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Experiment"))]
pub struct Document {
    /// `experiment`.
    pub kind: &'static str,
    /// The name on the command line.
    pub name: &'static str,
    /// 1 to 7.
    pub number: u8,
    pub title: &'static str,
    pub question: &'static str,
    /// How the original measurement was made.
    pub original: &'static str,
    /// The result in one sentence.
    pub headline: String,
    /// Further sentences.
    pub details: Vec<String>,
    /// Whether all checks passed.
    pub trustworthy: bool,
    /// The claims of the original report with this run's results.
    pub claims: Vec<Claim>,
    /// One object of plain values for each arm.
    pub arms: Vec<Value>,
    /// Figures for scripts; the keys depend on the experiment.
    pub found: Value,
    /// Plots, in the format of `page/`.
    pub plots: Vec<Value>,
    /// The trust checks.
    pub trust: Trust,
    pub machine: Value,
    /// The size of the run.
    pub plan: Value,
    /// The command that repeats the run.
    pub command: String,
    /// Milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    /// Version of Forkful.
    pub forkful: &'static str,
}

/// The checks and their summary.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExperimentTrust"))]
pub struct Trust {
    /// Why the result cannot be trusted, if so.
    pub text: String,
    pub checks: Vec<Check>,
}

impl Document {
    pub(super) fn new(description: &'static Description) -> Self {
        Self {
            kind: "experiment",
            name: description.name,
            number: description.number,
            title: description.title,
            question: description.question,
            original: description.original,
            headline: String::new(),
            details: Vec::new(),
            trustworthy: true,
            claims: Vec::new(),
            arms: Vec::new(),
            found: json!({}),
            plots: Vec::new(),
            trust: Trust::default(),
            machine: json!({}),
            plan: json!({}),
            command: String::new(),
            created_at_ms: super::observe::now_ms() as u64,
            forkful: env!("CARGO_PKG_VERSION"),
        }
    }

    /// Adds a check; a failed check makes the result untrustworthy.
    pub(super) fn check(&mut self, check: Check) {
        if check.ok == Some(false) {
            self.trustworthy = false;
            self.trust.text = [self.trust.text.as_str(), &check.meaning].join(" ").trim().to_owned();
        }
        self.trust.checks.push(check);
    }

    /// Adds the machine, the versions and the command.
    pub(super) fn on_this_machine(mut self, setting: &Setting) -> Self {
        if let super::Extent::Part(part) = setting.extent {
            self.check(
                Check::judged("Length", None)
                    .found(format!("{part} of the usual"), "")
                    .means("A shortened run shows that it works; its figures are rough."),
            );
        }
        if setting.is_stand_in {
            self.details.push(
                "Express is not installed, so a small stand-in with the same routes answered; Express itself takes more CPU for each request."
                    .to_owned(),
            );
        }
        self.machine = machine(setting);
        self.command.clone_from(&setting.command);
        self.plan["seed"] = json!(setting.seed);
        self.plan["workers"] = json!(setting.workers);
        self
    }
}

fn machine(setting: &Setting) -> Value {
    let mut machine = json!(Machine::look(&setting.app.launch.program));
    machine["express"] = json!(if setting.is_stand_in { "a stand-in" } else { "installed" });
    machine
}

/// Three significant digits: 0.123, 4.56, 78.9, 12,345.
pub(super) fn number(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let size = value.abs();
    let digits = match size {
        100.0.. => 0,
        10.0.. => 1,
        1.0.. | 0.0 => 2,
        _ => 3,
    };
    let text = format!("{size:.digits$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let sign = if value < 0.0 { "-" } else { "" };
    let whole = thousands(whole.parse().unwrap_or(u64::MAX));
    match fraction.trim_end_matches('0') {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    }
}

/// Milliseconds for people: `0.52 ms`, `94.1 ms`, `2.15 s`.
pub(super) fn time(ms: f64) -> String {
    if ms >= 1000.0 { format!("{} s", number(ms / 1000.0)) } else { format!("{} ms", number(ms)) }
}

/// `1 worker`, `2 workers`.
pub(super) fn counted(count: u64, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{} {noun}s", number(count as f64)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_groups() {
        for (value, text) in [
            (0.0, "0"),
            (0.1234, "0.123"),
            (1.5, "1.5"),
            (2.0, "2"),
            (78.94, "78.9"),
            (100.0, "100"),
            (6676.4, "6,676"),
            (1_234_567.0, "1,234,567"),
            (-1234.0, "-1,234"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!((time(0.52), time(2150.0)), ("0.52 ms".to_owned(), "2.15 s".to_owned()));
        assert_eq!(
            (counted(1, "worker"), counted(2, "worker")),
            ("1 worker".to_owned(), "2 workers".to_owned())
        );
    }

    #[test]
    fn a_failed_look_is_told_first() {
        let mut document = Document::new(&super::super::catalogue::ALL[0]);
        let look =
            |ok, meaning: &str| Check::judged("x", ok).found(String::new(), "").means(meaning.to_owned());
        document.check(look(Some(true), "fine"));
        assert!(document.trustworthy && document.trust.text.is_empty());
        document.check(look(Some(false), "The generator was the limit."));
        assert!(!document.trustworthy);
        assert_eq!(document.trust.text, "The generator was the limit.");
    }
}
