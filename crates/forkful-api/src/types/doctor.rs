//! What `forkful doctor --json` prints.

use std::collections::BTreeMap;
use std::path::PathBuf;

use forkful_core::doctor::{
    App, Diagnosis, Evidence, OpenTrial, Place, Signs, Split, Verdict, WorkerDiagnosis, WorkerSeconds,
    places, words,
};
use forkful_core::outgoing::HostLoad;
use forkful_core::profile::{CpuProfile, FunctionTime, Functions};
use forkful_core::stalls::{StallCost, place_in_words};
use serde::{Deserialize, Serialize};

use super::{AppView, HistoryReply, ModeKind, WorkerHistory};
use crate::stalls::AppStalls;

/// The diagnoses of some apps.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DoctorReply {
    /// One for each app that the targets named.
    pub apps: Vec<DoctorReport>,
    /// What `--profile` found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<ProfileView>,
    /// What `--fix` did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fix: Option<FixView>,
    /// What was not measured, if the daemon is in the portable mode.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unseen: Vec<String>,
}

/// Where the time of a worker went, by a CPU profile. Shares are of the time in which it did something.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileView {
    /// The worker's id.
    pub worker: u32,
    /// How long it was profiled.
    pub seconds: f64,
    /// How many samples were taken.
    pub samples: usize,
    /// The share of all time in which it had nothing to do.
    pub idle: f64,
    /// The share of garbage collection.
    pub gc: f64,
    /// The share of time without JavaScript on the stack: system calls, Node.js itself.
    pub program: f64,
    /// The hottest functions, at most 20, the hottest first.
    pub functions: Vec<FunctionView>,
    /// What was written.
    pub files: ProfileFiles,
}

/// The files of a CPU profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ProfileFiles {
    /// For the developer tools of Chrome, and for VS Code.
    pub profile: PathBuf,
    /// A flame graph for the browser.
    pub page: PathBuf,
}

/// The time of a function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct FunctionView {
    /// Its name, file and line: `render (views/page.js:12)`.
    pub function: String,
    /// Whose it is: `app`, `library`, `forkful` (the agent), `node` or `native`.
    pub origin: String,
    /// Its share, with what it called of others: functions of libraries and of Node.js count for the app's function that called them.
    pub share: f64,
    /// Its share without what it called.
    pub own: f64,
}

/// The functions that are told.
const FUNCTIONS_MAX: usize = 20;

impl ProfileView {
    /// Of a worker of an app in the folder `root`.
    pub fn new(
        worker: u32,
        profile: &CpuProfile,
        functions: &Functions,
        root: &str,
        files: ProfileFiles,
    ) -> Self {
        let all_us = profile.total_us();
        let of = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        let busy_us = all_us.saturating_sub(functions.idle_us);
        let view = |time: &FunctionTime| {
            let frame = &profile.frames[time.frame];
            FunctionView {
                function: frame.text(root),
                origin: frame.origin().name().to_owned(),
                share: of(time.charged_us, busy_us),
                own: of(time.own_us, busy_us),
            }
        };
        Self {
            worker,
            seconds: all_us as f64 / 1e6,
            samples: profile.samples,
            idle: of(functions.idle_us, all_us),
            gc: of(functions.garbage_collection_us, busy_us),
            program: of(functions.program_us, busy_us),
            functions: functions.hottest.iter().take(FUNCTIONS_MAX).map(view).collect(),
            files,
        }
    }
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
    /// Whether a signal ended the measurement; the change was taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub interrupted: bool,
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
    /// What else to know: a change of `--fix` that nobody has decided about, and how to undo it; when the numbers were measured if
    /// a profile was taken.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// The most seconds that were seen of a worker.
    pub seconds: u32,
    /// The numbers behind it.
    pub evidence: Vec<EvidenceView>,
    /// Where the event loop stood still meanwhile, by the stall ledger: at most 3 places, the most expensive first. With the verdicts
    /// `cpu-long-callbacks` and `synchronous-call` they are the cause; with `idle`, `cpu-contention` and `inconclusive` they are single slow calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<PlaceView>,
    /// What to do, the most important first.
    pub advice: Vec<String>,
    /// A command that may help, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// What gain to expect, where that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gain: Option<GainView>,
    /// The host that refuses connections, with the verdict `connection-limit`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<HostLoad>,
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

/// A route and function in which event loops stood still.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlaceView {
    /// Both, as far as they are known: `render (page.js:3), for GET /report/:id`.
    pub text: String,
    /// The request that was being handled: its method, and its path without the parts that differ from
    /// request to request.
    pub route: Option<String>,
    /// The function with most of the time, with file and line.
    pub function: Option<String>,
    /// The cost since the app was added.
    #[serde(flatten)]
    pub cost: StallCost,
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

impl HistoryReply {
    /// The measured seconds of each worker, by slot, for a diagnosis.
    pub fn seconds(&self) -> BTreeMap<u16, Vec<Signs>> {
        let of_worker = |worker: &WorkerHistory| {
            let value = |name: &str, point: usize| worker.series.get(name)?.get(point).copied().flatten();
            (worker.slot, Signs::from_series(self.points as usize, value))
        };
        self.workers.iter().map(of_worker).collect()
    }
}

impl AppView {
    /// What a diagnosis needs: the cores that the app may use, the seconds of its workers by slot, and the host
    /// that refused most of its connections.
    pub fn watched(&self, cores: f64, seconds: BTreeMap<u16, Vec<Signs>>, refusing: Option<HostLoad>) -> App {
        let workers = seconds.into_iter().map(|(slot, seconds)| WorkerSeconds { slot, seconds });
        App {
            name: self.definition.name.clone(),
            cores,
            is_scalable: self.definition.mode == ModeKind::Cluster,
            bounds: self.definition.autoscale,
            workers: workers.collect(),
            node_args: self.definition.program_args.clone(),
            refusing,
        }
    }
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
            notes: Vec::new(),
            seconds: diagnosis.seconds as u32,
            evidence: views(&diagnosis.evidence),
            places: Vec::new(),
            advice: words::advice(diagnosis, app),
            command: words::command(diagnosis, app),
            gain: diagnosis.gain.map(|gain| GainView {
                low: gain.low,
                high: gain.high,
                text: words::gain(gain),
            }),
            host: diagnosis.host.clone(),
            workers: diagnosis.workers.iter().map(WorkerReport::new).collect(),
        }
    }
}

impl DoctorReport {
    /// With a note that a profile was taken after the measurements.
    #[must_use]
    pub fn before_profile(mut self) -> Self {
        self.notes.push(words::measured_before_profile(self.seconds));
        self
    }

    /// With a note on the trial of the app, if it is open.
    #[must_use]
    pub fn with_trial(mut self, trial: Option<&OpenTrial>) -> Self {
        self.notes.extend(trial.map(words::undecided));
        self
    }

    /// With the places of the app's stall ledger that explain its verdict and had a stall since this time.
    #[must_use]
    pub fn with_places(self, verdict: Verdict, stalls: &AppStalls, since_ms: u64) -> Self {
        let ledger = stalls.groups.iter().map(|group| Place {
            route: group.route.as_deref(),
            function: group.function.as_deref(),
            cost: &group.cost,
            last_at_ms: group.last_at_ms,
        });
        let view = |Place { route, function, cost, .. }: Place<'_>| {
            Some(PlaceView {
                text: place_in_words(route, function)?,
                route: route.map(str::to_owned),
                function: function.map(str::to_owned),
                cost: *cost,
            })
        };
        let places: Vec<PlaceView> = places(verdict, ledger, since_ms).into_iter().filter_map(view).collect();
        if places.is_empty() || verdict.is_of_stalls() {
            return Self { places, ..self };
        }
        let advice = std::iter::once(words::shorter(&self.app));
        // The rest of what to do about an idle app is to look elsewhere.
        let rest = self.advice.into_iter().filter(|_| verdict != Verdict::Idle);
        Self {
            places,
            meaning: words::meaning_with_stalls(verdict).to_owned(),
            advice: advice.chain(rest).collect(),
            ..self
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_of_which_nothing_is_known_are_left_out() {
        let series = [("event_loop_utilization".to_owned(), vec![Some(0.9), None, Some(0.5)])];
        let history = HistoryReply {
            app: "web".to_owned(),
            from_ms: 0,
            step_ms: 1000,
            points: 3,
            workers: vec![WorkerHistory { slot: 2, pm_id: 7, series: series.into_iter().collect() }],
        };
        let busy: Vec<Option<f64>> = history.seconds()[&2].iter().map(|signs| signs.loop_busy).collect();
        assert_eq!(busy, [Some(0.9), Some(0.5)]);
    }
}
