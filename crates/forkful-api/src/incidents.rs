//! The API types of incidents: unexpected events of apps, such as crashes, with what was known at the time.

use std::collections::BTreeMap;

pub use forkful_core::incidents::IncidentKind;
use serde::{Deserialize, Serialize};

/// Query of `GET /v1/incidents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct IncidentsQuery {
    /// Names of apps in the format of [`crate::types::join_targets`], including deleted apps, or other
    /// targets; empty means all.
    #[serde(default)]
    pub targets: String,
    /// Only incidents at this time or later, in milliseconds since the Unix epoch.
    #[serde(default)]
    pub since_ms: u64,
    /// Only incidents with a higher number.
    #[serde(default)]
    pub after: u64,
}

/// Reply of `GET /v1/incidents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IncidentList {
    /// The oldest first; at most 200.
    pub incidents: Vec<IncidentSummary>,
}

/// An unexpected event of an app, in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct IncidentSummary {
    /// Its number; later incidents have higher numbers.
    pub id: u64,
    /// When it happened, in milliseconds since the Unix epoch.
    pub at_ms: u64,
    /// Its kind.
    pub kind: IncidentKind,
    /// The app.
    pub app: String,
    /// The worker, if the incident concerns one.
    pub pm_id: Option<u32>,
    /// The reason, in words.
    pub reason: String,
    /// What Forkful does next, in words.
    pub next: Option<String>,
}

/// Reply of `GET /v1/incidents/{id}`: an incident with all details. It does not contain values of secrets of
/// the app's environment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Incident {
    /// The incident in short.
    #[serde(flatten)]
    pub summary: IncidentSummary,
    /// How the process ended, if one did.
    #[serde(default)]
    pub end: Option<ProcessEnd>,
    /// The last lines that the process wrote to stderr, the error first; at most 20.
    #[serde(default)]
    pub stderr_tail: Vec<String>,
    /// Whether an error that no code caught has ended the process; `stderr_tail` begins with it.
    #[serde(default)]
    pub is_uncaught: bool,
    /// What to do about it, if known.
    #[serde(default)]
    pub hint: Option<String>,
    /// The last measurements of the process, by the names in docs/METRICS.md.
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
}

/// The data for a command or a webhook of `alerts`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Alert {
    /// The incident in one line, for services that show a `text`.
    pub text: String,
    /// The name of the machine.
    pub host: String,
    /// Incidents of the same kind since the last alert that were not sent.
    pub left_out: u64,
    /// The incident.
    #[serde(flatten)]
    pub incident: Incident,
}

impl Alert {
    /// Of an incident on a machine.
    pub fn new(incident: Incident, left_out: u64, host: String) -> Self {
        let IncidentSummary { kind, app, pm_id, reason, next, .. } = &incident.summary;
        let mut text = format!("{app} on {host}: {}: {reason}", kind.words());
        if let Some(pm_id) = pm_id {
            text = format!("{app}, worker {pm_id}, on {host}: {}: {reason}", kind.words());
        }
        if let Some(next) = next {
            text.push_str(&format!("; {next}"));
        }
        if left_out > 0 {
            text.push_str(&format!(" ({left_out} more of this kind since the last alert)"));
        }
        Self { text, host, left_out, incident }
    }
}

/// How a process ended.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProcessEnd {
    /// Its process id; none if it never started.
    #[serde(default)]
    pub pid: Option<u32>,
    /// How long it lived.
    #[serde(default)]
    pub uptime_ms: u64,
    /// Its exit code.
    #[serde(default)]
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    #[serde(default)]
    pub signal: Option<String>,
    /// Restarts in a row, without a stable life in between.
    #[serde(default)]
    pub restarts_in_a_row: u32,
    /// All restarts of the worker.
    #[serde(default)]
    pub restarts: u32,
    /// Its Node.js version, if known.
    #[serde(default)]
    pub node_version: Option<String>,
}
