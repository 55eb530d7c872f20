//! The input of the printers: the plan, the report, the judgements, and what only the caller knows.

use forkful_core::words::count;
use serde::Serialize;

use super::threshold::Judgement;
use super::trust::Trust;
use crate::{EarlyEnd, HttpVersion, Load, Plan, Report, Reuse, Stop, Think};

/// A measurement with its judgements.
#[derive(Debug, Clone)]
pub struct Findings<'a> {
    /// What was requested.
    pub plan: &'a Plan,
    pub report: &'a Report,
    /// The trust checks.
    pub trust: &'a Trust,
    /// The results of the expectations.
    pub judgements: &'a [Judgement],
    /// The command that repeats the measurement.
    pub command: &'a str,
    /// When the measurement ended, in milliseconds since the Unix epoch.
    pub ended_at_ms: u64,
    /// The target's workers, if known.
    pub workers: Option<&'a Workers>,
}

/// The workers of the target.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchWorkers"))]
pub struct Workers {
    /// The app's name, if the target is an app of Forkful.
    pub app: Option<String>,
    /// How these numbers were measured, in words.
    pub source: String,
    /// In order of slots.
    pub workers: Vec<WorkerShare>,
}

/// One worker's share. `None`: unknown.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchWorker"))]
pub struct WorkerShare {
    /// Slot, pid, or the value of its header.
    pub name: String,
    pub pid: Option<u32>,
    /// Requests that it answered.
    pub requests: Option<u64>,
    /// Connections that the worker held at the time when all workers together held the most.
    pub connections: Option<u64>,
    /// CPU that the worker used during the measurement, in seconds.
    #[serde(serialize_with = "super::json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub cpu_seconds: Option<f64>,
}

impl Findings<'_> {
    /// The URL, or the number of URLs and the server.
    pub fn target(&self) -> String {
        match self.plan.requests.as_slice() {
            [] => "nothing".to_owned(),
            [one] if one.url.socket => format!("WebSocket {}", one.url),
            [one] => format!("{} {}", one.method, one.url),
            [first, ..] => format!("{} requests at {}", self.plan.requests.len(), first.url.origin()),
        }
    }

    /// That the run ended early and why, to follow its length; empty if it did not.
    pub(super) fn early(&self) -> String {
        let errors = self.report.errors_total();
        match self.report.early_end {
            None => String::new(),
            Some(EarlyEnd::Errors) => {
                let most = self.plan.errors_max.unwrap_or_default();
                format!(", ended early by {} (--max-errors {most})", count(errors as usize, "error"))
            }
            Some(EarlyEnd::TargetGone) => ", ended early because the target went away".to_owned(),
            Some(EarlyEnd::Stopped) => ", ended early".to_owned(),
        }
    }

    /// The load, described in one line.
    pub fn load(&self) -> String {
        let plan = self.plan;
        let mut parts =
            vec![count(plan.connections.max(self.report.connections.asked as usize), "connection")];
        let threads = self.report.threads.len();
        if threads > 0 {
            parts.push(count(threads, "thread"));
        }
        parts.push(match plan.load {
            Load::Closed { think: Think::None } => "closed loop".to_owned(),
            Load::Closed { think: Think::Fixed(pause) } => format!("closed loop with {pause:?} of thought"),
            Load::Closed { think: Think::UpTo(pause) } => {
                format!("closed loop with up to {pause:?} of thought")
            }
            Load::Open { rate, .. } => format!("open loop at {rate} {}s/s", plan.http.unit()),
        });
        parts.push(match plan.reuse {
            Reuse::Always => "keep-alive".to_owned(),
            Reuse::Never => format!("a connection per {}", plan.http.unit()),
            Reuse::Requests(requests) => format!("{requests} {}s per connection", plan.http.unit()),
        });
        if plan.pipelining > 1 {
            parts.push(match plan.http {
                HttpVersion::Http10 | HttpVersion::Http11 => format!("{} pipelined", plan.pipelining),
                HttpVersion::Http2 => format!("{} streams each", plan.pipelining),
                HttpVersion::WebSocket => format!("up to {} messages under way on each", plan.pipelining),
                HttpVersion::EventStream => "1 event awaited on each".to_owned(),
            });
        }
        if !plan.warmup.is_zero() {
            parts.push(format!("{:?} of warm-up", plan.warmup));
        }
        parts.push(match plan.stop {
            Stop::Requests(requests) => count(requests as usize, plan.http.unit()),
            Stop::Duration(time) => format!("{time:?}"),
        });
        parts.join(", ")
    }

    /// What the latencies mean, in words.
    pub fn latency_meaning(&self) -> &'static str {
        if self.plan.http == HttpVersion::EventStream {
            return "time between one event and the next of its connection";
        }
        match self.plan.load {
            Load::Closed { .. } => "closed loop: service time under this load",
            Load::Open { .. } => "open loop: from the moment each request was due",
        }
    }

    /// The verdict in one line: the result, or why it is not meaningful.
    pub fn headline(&self) -> String {
        use super::spread::{Percentile, duration, thousands};
        let rate = thousands(self.report.per_second().round() as u64);
        let mut parts = vec![format!("{rate} {}s/s", self.plan.http.unit())];
        for name in ["p50", "p99"] {
            if let Some(value) =
                Percentile::named(name).and_then(|percentile| percentile.of(&self.report.response))
            {
                parts.push(format!("{name} {}", duration(value as f64)));
            }
        }
        parts.push(match self.report.errors_total() {
            0 => "no errors".to_owned(),
            1 => "1 error".to_owned(),
            errors => format!("{} errors", thousands(errors)),
        });
        parts.join(", ")
    }
}
