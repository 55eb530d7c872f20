//! The comparison of two reports: the document of `--json` and of its page. Ratios are second ÷ first.

use serde::Serialize;
use serde_json::{Value, json};

use super::Context;
use super::read::{ReportError, Saved, at};
use crate::document::VERSION;
use crate::gate::Gate;
use crate::statistics::paired::Interval;
use crate::statistics::verdict::Word;

#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ReportsDocument {
    /// `reports`.
    pub kind: &'static str,
    /// The version of the keys.
    pub version: u32,
    pub title: String,
    pub headline: String,
    /// Limitations of these figures.
    pub details: Vec<String>,
    /// Version of this program.
    pub forkful: String,
    /// When they were compared, in milliseconds since the Unix epoch.
    pub created_at_ms: u64,
    pub command: String,
    /// A verdict, or `not known`.
    pub verdict: &'static str,
    /// Whether both reports can be trusted.
    pub trustworthy: bool,
    pub trust: TrustText,
    /// Both reports, the baseline first.
    pub reports: [Source; 2],
    pub differences: Vec<Difference>,
    pub figures: Vec<Figure>,
    /// Tables for the page.
    pub tables: Vec<Value>,
    pub plots: Vec<Value>,
    /// The result for a gate.
    #[serde(skip)]
    pub gate: Gate,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrustText {
    pub text: String,
}

/// One of the two files.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ReportSource"))]
pub struct Source {
    /// Its name in the output: the end of its path.
    pub name: String,
    pub file: String,
    /// `bench` or `compare`.
    pub kind: &'static str,
    /// The command that repeats the run.
    pub command: Option<String>,
    pub created_at_ms: Option<u64>,
    pub trustworthy: bool,
    /// Why it cannot be trusted.
    pub doubt: Option<String>,
    /// It was measured while other programs used the CPUs that it needed, so that its figures compare with no other's.
    pub beside_others: bool,
}

/// A setting that differs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ReportDifference"))]
pub struct Difference {
    pub setting: &'static str,
    /// It changes the load, so there is no verdict.
    pub load: bool,
    pub baseline: String,
    pub other: String,
}

/// One figure of both reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ReportFigure"))]
pub struct Figure {
    pub name: String,
    /// `requests/s`, `ms`, `%`; empty for a ratio.
    pub unit: &'static str,
    pub baseline: Option<f64>,
    pub other: Option<f64>,
    /// Second ÷ first.
    pub ratio: Option<f64>,
    /// 95 % interval.
    pub ci95: Option<[f64; 2]>,
    /// What the interval is computed from.
    pub interval_of: Option<&'static str>,
    /// Set if there is an interval and the load was the same.
    pub verdict: Option<Word>,
    /// Why there is no verdict, if that needs an explanation.
    pub note: Option<&'static str>,
}

impl Figure {
    /// Both values and their plain ratio.
    pub(crate) fn new(name: impl Into<String>, unit: &'static str, values: [Option<f64>; 2]) -> Self {
        let [baseline, other] = values;
        let ratio = match values {
            [Some(a), Some(b)] if a > 0.0 && b > 0.0 => Some(b / a),
            _ => None,
        };
        Self {
            name: name.into(),
            unit,
            baseline,
            other,
            ratio,
            ci95: None,
            interval_of: None,
            verdict: None,
            note: None,
        }
    }

    /// Adds an interval computed from `of`.
    #[must_use]
    pub(crate) fn within(self, interval: Option<Interval>, of: &'static str) -> Self {
        match interval {
            Some(interval) => Self {
                ratio: Some(interval.ratio),
                ci95: Some(interval.bounds),
                interval_of: Some(of),
                ..self
            },
            None => self,
        }
    }

    #[must_use]
    pub(crate) fn judged(self, word: Option<Word>) -> Self {
        Self { verdict: word, ..self }
    }

    #[must_use]
    pub(crate) fn noted(self, note: &'static str) -> Self {
        Self { note: Some(note), ..self }
    }
}

impl Source {
    pub(crate) fn of(saved: &Saved, name: String) -> Result<Self, ReportError> {
        let is_trustworthy = saved.truth("trustworthy")?;
        Ok(Self {
            name,
            file: saved.path.clone(),
            kind: saved.kind.word(),
            command: saved.told("command"),
            created_at_ms: saved.get("created_at_ms").and_then(Value::as_u64),
            trustworthy: is_trustworthy,
            doubt: if is_trustworthy { None } else { saved.told("trust.text") },
            beside_others: saved.get("trust.checks").and_then(Value::as_array).is_some_and(|checks| {
                checks.iter().any(|check| {
                    at(check, "key") == Some(&json!("other_programs"))
                        && at(check, "ok") != Some(&Value::Bool(true))
                })
            }),
        })
    }

    /// Both files, named after the shortest ends of their paths that differ.
    pub(crate) fn both(a: &Saved, b: &Saved) -> Result<[Self; 2], ReportError> {
        let end = |saved: &Saved| saved.path.rsplit('/').next().unwrap_or(&saved.path).to_owned();
        let [first, second] =
            if end(a) == end(b) { [a.path.clone(), b.path.clone()] } else { [end(a), end(b)] };
        Ok([Self::of(a, first)?, Self::of(b, second)?])
    }
}

/// The parts that depend on the kind of report.
pub(crate) struct Parts {
    pub(crate) sources: [Source; 2],
    pub(crate) differences: Vec<Difference>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) gate: Gate,
    /// The verdict for the headline's figure.
    pub(crate) word: Option<Word>,
    pub(crate) headline: String,
    pub(crate) details: Vec<String>,
    pub(crate) plots: Vec<Value>,
}

impl ReportsDocument {
    pub(crate) fn of(parts: Parts, context: &Context) -> Self {
        let Parts { sources, differences, figures, gate, word, headline, details, plots } = parts;
        let doubts: Vec<String> = sources
            .iter()
            .filter(|source| !source.trustworthy)
            .map(|source| {
                let why = source.doubt.as_deref().unwrap_or("its report says so");
                format!("{}: {why}", source.name)
            })
            .collect();
        let tables = tables(&sources, &differences, &figures);
        Self {
            kind: "reports",
            version: VERSION,
            title: format!("{} and {}", sources[0].name, sources[1].name),
            headline,
            details,
            forkful: context.forkful.clone(),
            created_at_ms: context.created_at_ms,
            command: context.command.clone(),
            verdict: word.map_or("not known", Word::as_str),
            trustworthy: doubts.is_empty(),
            trust: TrustText { text: doubts.join("; ") },
            reports: sources,
            differences,
            figures,
            tables,
            plots,
            gate,
        }
    }

    /// Whether the load was different.
    pub fn has_other_load(&self) -> bool {
        self.differences.iter().any(|difference| difference.load)
    }
}

fn tables(sources: &[Source; 2], differences: &[Difference], figures: &[Figure]) -> Vec<Value> {
    let [a, b] = [&sources[0].name, &sources[1].name];
    let mut tables = Vec::new();
    if !differences.is_empty() {
        let rows: Vec<Value> = differences
            .iter()
            .map(|one| {
                let what = if one.load { "another load" } else { "" };
                json!([one.setting, one.baseline, one.other, what])
            })
            .collect();
        tables.push(json!({
            "title": "What was not the same", "note": "If the load differs, there is no verdict.",
            "columns": ["", a, b, ""], "rows": rows,
        }));
    }
    let rows: Vec<Value> = figures
        .iter()
        .map(|figure| {
            let [low, high] = figure.ci95.map_or([None, None], |bounds| bounds.map(Some));
            let word = figure.verdict.map_or(figure.note.unwrap_or_default(), Word::as_str);
            let name = named(figure);
            json!([name, figure.baseline, figure.other, figure.ratio, low, high, word])
        })
        .collect();
    tables.push(json!({
        "title": "The figures", "note": "Ratios are second ÷ first, with their 95 % interval where there is one.",
        "columns": ["", a, b, "ratio", "from", "to", ""], "rows": rows,
    }));
    tables
}

/// The figure's name with its unit.
pub(crate) fn named(figure: &Figure) -> String {
    match figure.unit {
        "" | "requests/s" => figure.name.clone(),
        unit => format!("{}, {unit}", figure.name),
    }
}
