//! Whether the figures of a document can be trusted: the findings, and the checks behind them.

use forkful_load::report::{Check, Level};
use serde::Serialize;

/// Whether the figures can be trusted.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LabTrust"))]
pub struct Trust {
    pub text: String,
    /// Whether the load generator was the bottleneck.
    pub generator_saturated: bool,
    /// Maximum cores that the generator used at saturation.
    pub generator_cores_used: f64,
    /// The smallest difference in throughput that these blocks can detect.
    pub resolution_percent: Option<f64>,
    /// Findings: warnings, each of which makes the figures doubtful, and notes.
    pub notes: Vec<TrustNote>,
    /// The same as a list of checks.
    pub checks: Vec<Check>,
}

/// A generator thread above this share is the bottleneck.
const GENERATOR_BUSY_MAX: f64 = 0.9;

impl Trust {
    /// Starts with the generator's check: the busiest thread's share, the cores used, and what a saturated
    /// generator may hide.
    pub(crate) fn of_generator(busiest: f64, cores_used: f64, hidden: &str) -> Self {
        let is_saturated = busiest >= GENERATOR_BUSY_MAX;
        let mut trust =
            Self { generator_saturated: is_saturated, generator_cores_used: cores_used, ..Self::default() };
        let share = format!("{:.0} %", busiest * 100.0);
        if is_saturated {
            let text = format!("the load generator was busy for {share} of the time, so that {hidden}");
            trust.note(Level::Warning, "generator_saturated", text);
        }
        trust.checks.push(
            Check::judged("generator's busiest thread", Some(!is_saturated))
                .found(share, "90 %")
                .means("a generator that is always busy measures itself"),
        );
        trust
    }

    pub(crate) fn note(&mut self, level: Level, code: &'static str, text: impl Into<String>) {
        self.notes.push(TrustNote { level, code, text: text.into() });
    }

    /// The texts of all findings of this level.
    pub(crate) fn texts(&self, level: Level) -> impl Iterator<Item = &str> {
        self.notes.iter().filter(move |note| note.level == level).map(|note| note.text.as_str())
    }

    /// Whether there is no warning.
    pub(crate) fn is_trustworthy(&self) -> bool {
        self.texts(Level::Warning).next().is_none()
    }

    /// Sets the summary sentence.
    pub(crate) fn concluded(mut self) -> Self {
        let warnings: Vec<&str> = self.texts(Level::Warning).collect();
        self.text = if warnings.is_empty() {
            "nothing was found that would make these figures doubtful".to_owned()
        } else {
            format!("these figures are doubtful: {}", warnings.join("; "))
        };
        self
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct TrustNote {
    /// `warning`: figures are wrong or doubtful; `note`: for information.
    pub level: Level,
    /// A stable identifier.
    pub code: &'static str,
    pub text: String,
}
