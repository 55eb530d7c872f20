//! What `forkful doctor --json` prints.

use std::collections::BTreeMap;

use forkful_core::doctor::{Diagnosis, Evidence, Split, Verdict, WorkerDiagnosis, words};
use serde::{Deserialize, Serialize};

/// The diagnoses of some apps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReply {
    /// One for each app that the targets named.
    pub apps: Vec<DoctorReport>,
    /// What `--fix` did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<FixView>,
}

/// A change that was tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FixView {
    /// The command that makes it; missing where no setting would help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<String>,
    /// Whether it helped; otherwise it was taken back.
    pub kept: bool,
    /// What was measured, as a sentence.
    pub outcome: String,
}

/// What limits an app.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReport {
    /// Its name.
    pub app: String,
    /// The cause, as in docs/DOCTOR.md, such as `cpu-long-callbacks`, or `unclear`.
    pub verdict: String,
    /// `certain`, `likely` or `inconclusive`.
    pub certainty: String,
    /// The verdict in words.
    pub headline: String,
    /// What it means.
    pub meaning: String,
    /// The most seconds that were seen of a worker.
    pub seconds: u32,
    /// The numbers behind it.
    pub evidence: Vec<EvidenceView>,
    /// What to do, the most important first.
    pub advice: Vec<String>,
    /// A command that may help, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What gain to expect, where that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<GainView>,
    /// Its workers by slot.
    pub workers: Vec<WorkerReport>,
}

/// A number, and its unit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct EvidenceView {
    /// What it is.
    pub label: String,
    /// In that unit.
    pub value: f64,
    /// `share` (0 to 1), `ms`, `per second`, `count`, `cores` or `bytes`.
    pub unit: String,
    /// The value and the rule's bound, for people.
    pub text: String,
}

/// How many times as many requests per second.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct GainView {
    /// At least, by estimate.
    pub low: f64,
    /// At most.
    pub high: f64,
    /// The same for people.
    pub text: String,
}

/// What limits one worker.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct WorkerReport {
    /// Its slot.
    pub slot: u16,
    /// As that of an app.
    pub verdict: String,
    /// As that of an app.
    pub certainty: String,
    /// Where its time went, as shares: `idle`, `javascript`, `gc`, `waiting_for_cpu`, `blocked`; empty without the agent.
    pub split: BTreeMap<String, f64>,
    /// The numbers behind it.
    pub evidence: Vec<EvidenceView>,
}

impl DoctorReport {
    /// Of the app with this name.
    pub fn new(app: &str, diagnosis: &Diagnosis) -> Self {
        Self {
            app: app.to_owned(),
            verdict: diagnosis.verdict.name().to_owned(),
            certainty: diagnosis.certainty.name().to_owned(),
            headline: words::headline(diagnosis, app),
            meaning: words::meaning(diagnosis.verdict).to_owned(),
            seconds: diagnosis.seconds as u32,
            evidence: views(&diagnosis.evidence),
            advice: words::advice(diagnosis, app),
            command: diagnosis.remedy.and_then(|remedy| words::command(remedy, app)),
            gain: diagnosis.gain.map(|gain| GainView {
                low: gain.low,
                high: gain.high,
                text: words::gain(gain),
            }),
            workers: diagnosis.workers.iter().map(WorkerReport::new).collect(),
        }
    }
}

impl WorkerReport {
    fn new(worker: &WorkerDiagnosis) -> Self {
        let parts = worker.split.iter().flat_map(Split::parts);
        Self {
            slot: worker.slot,
            verdict: Verdict::name(worker.verdict).to_owned(),
            certainty: worker.certainty.name().to_owned(),
            split: parts.map(|(name, share)| (name.to_owned(), share)).collect(),
            evidence: views(&worker.evidence),
        }
    }
}

fn views(evidence: &[Evidence]) -> Vec<EvidenceView> {
    let view = |row: &Evidence| EvidenceView {
        label: row.label.to_owned(),
        value: row.value,
        unit: row.quantity.unit().to_owned(),
        text: row.shown(),
    };
    evidence.iter().map(view).collect()
}
