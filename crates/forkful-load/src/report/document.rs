//! The JSON of a run. Its keys are stable: new keys may be added, but no key is removed or changes its
//! meaning. The HTML page uses the same document with plots.

use std::collections::BTreeMap;

use forkful_core::date_format::iso_8601;
use serde::Serialize;

use super::check::{Check, Level};
use super::findings::{Findings, Workers};
use super::json;
use super::plot::{Plot, plots, spectrum};
use super::threshold::Judgement;
use crate::{
    Bytes, Connections, Counts, ErrorCause, ErrorCount, ErrorExample, Histogram, Host, HttpVersion, Kernel,
    Load, Messages, Report, RequestFacts, Stop, ThreadFacts, Window,
};

/// The version of the document.
pub const VERSION: u32 = 1;

/// The document of `--json`.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchReport"))]
pub struct Document<'a> {
    kind: &'static str,
    version: u32,
    forkful: &'static str,
    created_at: String,
    created_at_ms: u64,
    command: &'a str,
    headline: String,
    trustworthy: bool,
    target: Target<'a>,
    plan: PlanDocument,
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    duration_s: f64,
    stopped_early: bool,
    requests: Requests,
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    latency_ms: &'a Histogram,
    latency_meaning: &'static str,
    spectrum: Vec<[f64; 2]>,
    phases_ms: Phases<'a>,
    statuses: BTreeMap<String, u64>,
    status_classes: BTreeMap<String, u64>,
    errors: Errors<'a>,
    bytes: Traffic,
    connections: Connections,
    /// For WebSockets and event streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    messages: Option<&'a Messages>,
    workers: Option<&'a Workers>,
    urls: &'a [RequestFacts],
    generator: Generator<'a>,
    environment: Environment,
    trust: TrustDocument<'a>,
    thresholds: &'a [Judgement],
    windows: &'a [Window],
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchTarget"))]
struct Target<'a> {
    name: String,
    server: Option<&'a str>,
    protocol: Option<&'static str>,
    tls: Option<&'a str>,
    unix_socket: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchPlan"))]
struct PlanDocument {
    description: String,
    r#loop: &'static str,
    connections: usize,
    rate: Option<f64>,
    connections_max: Option<usize>,
    requests: Option<u64>,
    duration_s: Option<f64>,
    warmup_s: f64,
    ramp_s: f64,
    timeout_s: f64,
    keep_alive: bool,
    pipelining: usize,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchRequests"))]
struct Requests {
    #[serde(flatten)]
    counts: Counts,
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    per_second: f64,
    warmup: u64,
    offered: u64,
    unsent: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchPhases"))]
struct Phases<'a> {
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    connect: &'a Histogram,
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    first_byte: &'a Histogram,
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    service: &'a Histogram,
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    total: &'a Histogram,
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    slip: &'a Histogram,
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    unfinished: &'a Histogram,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchErrors"))]
struct Errors<'a> {
    total: u64,
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    share: Option<f64>,
    timeouts: u64,
    by_cause: BTreeMap<&'static str, u64>,
    causes: Vec<ErrorsByCause<'a>>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchErrorsByCause"))]
struct ErrorsByCause<'a> {
    cause: &'static str,
    words: &'static str,
    hint: Option<&'static str>,
    /// Where to read more about the hint.
    see: Option<String>,
    count: u64,
    examples: &'a [ErrorExample],
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchTraffic"))]
struct Traffic {
    #[serde(flatten)]
    bytes: Bytes,
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    received_per_second: Option<f64>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchGenerator"))]
struct Generator<'a> {
    engine: &'a str,
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    cpu_seconds: f64,
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    cpu_us_per_request: f64,
    saturated: bool,
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    ceiling_share: f64,
    ceiling_per_second: Option<f64>,
    threads: &'a [ThreadFacts],
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    events_per_wake: f64,
    #[serde(serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    residency_ms: &'a Histogram,
    memory_bytes: u64,
    memory_peak_bytes: u64,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchEnvironment"))]
struct Environment {
    #[serde(flatten)]
    host: Host,
    #[serde(flatten)]
    kernel: Kernel,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchTrust"))]
struct TrustDocument<'a> {
    text: String,
    level: Level,
    checks: &'a [Check],
}

/// The document of the HTML page: the JSON document with a title and plots.
#[derive(Debug, Serialize)]
pub struct Page<'a> {
    #[serde(flatten)]
    document: Document<'a>,
    title: String,
    details: [String; 1],
    plots: Vec<Plot<'a>>,
}

impl<'a> Page<'a> {
    pub fn of(findings: &Findings<'a>) -> Self {
        Self {
            document: Document::of(findings),
            title: findings.target(),
            details: [findings.load()],
            plots: plots(findings),
        }
    }
}

impl<'a> Document<'a> {
    pub fn of(findings: &Findings<'a>) -> Self {
        let (report, trust) = (findings.report, findings.trust);
        let status = |(status, count): &(u16, u64)| (status.to_string(), *count);
        let class = |class: u16| (format!("{class}xx"), report.status_class(class));
        let headline = if trust.trustworthy() { findings.headline() } else { trust.sentence() };
        let seconds = report.elapsed.as_secs_f64();
        Self {
            kind: "bench",
            version: VERSION,
            forkful: env!("CARGO_PKG_VERSION"),
            created_at: iso_8601(findings.ended_at_ms),
            created_at_ms: findings.ended_at_ms,
            command: findings.command,
            headline,
            trustworthy: trust.trustworthy(),
            target: target(findings),
            plan: plan(findings),
            duration_s: seconds,
            stopped_early: report.stopped_early(),
            requests: Requests {
                counts: report.counts,
                per_second: report.per_second(),
                warmup: report.warmup.completed,
                offered: report.offered,
                unsent: report.unsent,
            },
            latency_ms: &report.response,
            latency_meaning: findings.latency_meaning(),
            spectrum: spectrum(&report.response),
            phases_ms: Phases {
                connect: &report.connect,
                first_byte: &report.first_byte,
                service: &report.service,
                total: &report.total,
                slip: &report.slip,
                unfinished: &report.censored,
            },
            statuses: report.statuses.iter().map(status).collect(),
            status_classes: (1..=5).map(class).collect(),
            errors: errors(report),
            bytes: Traffic {
                bytes: report.bytes,
                received_per_second: (seconds > 0.0).then(|| report.bytes.received as f64 / seconds),
            },
            connections: report.connections,
            messages: matches!(findings.plan.http, HttpVersion::WebSocket | HttpVersion::EventStream)
                .then_some(&report.messages),
            workers: findings.workers,
            urls: &report.requests,
            generator: generator(findings),
            environment: Environment { host: report.host, kernel: report.kernel },
            trust: TrustDocument { text: trust.sentence(), level: trust.level(), checks: &trust.checks },
            thresholds: findings.judgements,
            windows: &report.windows,
        }
    }
}

fn target<'a>(findings: &Findings<'a>) -> Target<'a> {
    let first = findings.report.first_response.as_ref();
    Target {
        name: findings.target(),
        server: first.and_then(|first| first.server.as_deref()),
        protocol: first.map(|first| first.version),
        tls: first.and_then(|first| first.tls.as_deref()),
        unix_socket: findings.plan.unix_socket.as_ref().map(|path| path.display().to_string()),
    }
}

fn plan(findings: &Findings) -> PlanDocument {
    let plan = findings.plan;
    let (r#loop, rate, connections_max) = match plan.load {
        Load::Open { rate, connections_max, .. } => ("open", Some(rate), Some(connections_max)),
        Load::Closed { .. } => ("closed", None, None),
    };
    let (requests, duration_s) = match plan.stop {
        Stop::Requests(requests) => (Some(requests), None),
        Stop::Duration(duration) => (None, Some(duration.as_secs_f64())),
    };
    PlanDocument {
        description: findings.load(),
        r#loop,
        connections: plan.connections,
        rate,
        connections_max,
        requests,
        duration_s,
        warmup_s: plan.warmup.as_secs_f64(),
        ramp_s: plan.ramp.as_secs_f64(),
        timeout_s: plan.timeout.as_secs_f64(),
        keep_alive: plan.reuse != crate::Reuse::Never,
        pipelining: plan.pipelining,
    }
}

fn errors(report: &Report) -> Errors<'_> {
    let total = report.errors_total();
    let ended = report.counts.completed + report.counts.failed + report.counts.late;
    Errors {
        total,
        share: (ended > 0).then(|| total as f64 / ended as f64),
        timeouts: report.errors_by(ErrorCause::is_timeout),
        by_cause: report.errors.iter().map(|error| (error.cause.key(), error.count)).collect(),
        causes: report.errors.iter().map(cause).collect(),
    }
}

fn cause(error: &ErrorCount) -> ErrorsByCause<'_> {
    ErrorsByCause {
        cause: error.cause.key(),
        words: error.cause.words(),
        hint: error.cause.hint(),
        see: error.cause.hint().map(|_| forkful_core::pages::Page::FailedRequests.url()),
        count: error.count,
        examples: &error.examples,
    }
}

fn generator<'a>(findings: &Findings<'a>) -> Generator<'a> {
    let report = findings.report;
    let busy = report.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max);
    let answers = report.counts.completed.max(1) as f64;
    Generator {
        engine: &report.engine,
        cpu_seconds: report.cpu_seconds,
        cpu_us_per_request: report.cpu_seconds * 1e6 / answers,
        saturated: findings.trust.saturated(),
        ceiling_share: busy,
        ceiling_per_second: (busy > 0.0).then(|| (report.per_second() / busy).round()),
        threads: &report.threads,
        events_per_wake: report.events_per_wake,
        residency_ms: &report.residency,
        memory_bytes: report.memory_bytes.0,
        memory_peak_bytes: report.memory_bytes.1,
    }
}
