//! The JSON of a run. Its keys are stable: new ones may come, none goes or changes its meaning. Also what the HTML
//! page is made of: the same document with plots.

use forkful_core::date_format::iso_8601;
use serde_json::{Map, Number, Value, json};

use super::findings::{Findings, Workers};
use super::spread::{PERCENTILES, Spread, ms};
use super::trust::{Level, Trust};
use crate::{Histogram, Report, Window};

/// The version of the document.
pub const VERSION: u32 = 1;

/// Points of a series in a plot.
const POINTS_MAX: usize = 600;

/// The document of `--json`.
pub fn document(findings: &Findings) -> Value {
    let report = findings.report;
    json!({
        "kind": "bench",
        "version": VERSION,
        "forkful": env!("CARGO_PKG_VERSION"),
        "created_at": iso_8601(findings.ended_at_ms),
        "created_at_ms": findings.ended_at_ms,
        "command": findings.command,
        "headline": headline(findings),
        "trustworthy": findings.trust.trustworthy(),
        "target": target(findings),
        "plan": plan(findings),
        "duration_s": seconds(report.elapsed.as_secs_f64()),
        "stopped_early": report.stopped_early,
        "requests": requests(report),
        "latency_ms": spread(&report.response),
        "latency_meaning": findings.latency_meaning(),
        "spectrum": spectrum(&report.response),
        "phases_ms": {
            "connect": spread(&report.connect),
            "first_byte": spread(&report.first_byte),
            "service": spread(&report.service),
            "total": spread(&report.total),
            "slip": spread(&report.slip),
            "unfinished": spread(&report.censored),
        },
        "statuses": statuses(report),
        "status_classes": classes(report),
        "errors": errors(report),
        "bytes": {
            "sent": report.bytes.sent,
            "received": report.bytes.received,
            "received_bodies": report.bytes.received_bodies,
            "received_per_second": per_second(report, report.bytes.received),
        },
        "connections": {
            "asked": report.connections.asked,
            "reached": report.connections.reached,
            "opened": report.connections.opened,
            "failed": report.connections.failed,
            "reused": report.connections.reused,
            "closed_by_server": report.connections.closed_by_server,
            "retransmits": report.connections.retransmits,
            "syn_retransmits": report.connections.syn_retransmits,
            "streams": (report.connections.streams > 0).then_some(report.connections.streams),
        },
        "workers": findings.workers.map(workers),
        "urls": urls(report),
        "generator": generator(findings),
        "environment": environment(report),
        "trust": trust(findings.trust),
        "thresholds": findings.judgements.iter().map(|judgement| json!({
            "expectation": judgement.expectation,
            "value": judgement.value.map_or(Value::Null, number),
            "found": judgement.found,
            "kept": judgement.kept,
        })).collect::<Vec<_>>(),
        "windows": report.windows.iter().map(window).collect::<Vec<_>>(),
    })
}

/// The document of the HTML page: the same with a title and plots.
pub fn page(findings: &Findings) -> Value {
    let mut document = document(findings);
    let report = findings.report;
    let mut plots = vec![json!({
        "type": "percentiles",
        "title": "Latency by percentile",
        "note": findings.latency_meaning(),
        "unit": "ms",
        "series": [{"name": "response", "points": spectrum(&report.response), "samples": report.response.len()}],
    })];
    plots.push(json!({
        "type": "timeline", "title": "Requests per second", "unit": "requests/s", "from_zero": true,
        "series": [{"name": "requests per second", "points": timeline(report, |window| {
            Some(window.completed as f64 / window.length.as_secs_f64().max(1e-9))
        })}],
    }));
    let latencies = |of: fn(&Window) -> Option<std::time::Duration>| {
        timeline(report, |window| of(window).map(|time| time.as_secs_f64() * 1e3))
    };
    plots.push(json!({
        "type": "timeline", "title": "Latency over time", "unit": "ms",
        "series": [
            {"name": "p50", "points": latencies(|window| window.p50)},
            {"name": "p99", "points": latencies(|window| window.p99)},
        ],
    }));
    if report.errors_total() > 0 {
        plots.push(json!({
            "type": "timeline", "title": "Errors per second", "unit": "errors/s", "from_zero": true,
            "series": [{"name": "errors per second", "points": timeline(report, |window| {
                Some(window.errors as f64 / window.length.as_secs_f64().max(1e-9))
            })}],
        }));
    }
    let rest = (report.service.mean() - report.first_byte.mean()).max(0.0);
    plots.push(json!({
        "type": "breakdown", "title": "Where the time goes, mean", "unit": "ms",
        "parts": ["first byte", "rest of the answer"],
        "rows": [{"name": "request", "values": [ms(report.first_byte.mean()), ms(rest)]}],
    }));
    if let Some(workers) = findings.workers {
        plots.extend(worker_plots(workers));
    }
    document["title"] = json!(findings.target());
    document["details"] = json!([findings.load()]);
    document["plots"] = json!(plots);
    document
}

fn worker_plots(workers: &Workers) -> Vec<Value> {
    let bars = |title: &str, unit: &str, of: fn(&super::findings::WorkerShare) -> Option<f64>| {
        let rows: Vec<Value> = workers
            .workers
            .iter()
            .filter_map(|worker| Some(json!({"name": worker.name, "value": of(worker)?})))
            .collect();
        (!rows.is_empty()).then(
            || json!({"type": "bars", "title": title, "note": workers.source, "unit": unit, "rows": rows}),
        )
    };
    [
        bars("Requests by worker", "requests", |worker| worker.requests.map(|count| count as f64)),
        bars("Connections by worker", "connections", |worker| worker.connections.map(|count| count as f64)),
        bars("CPU by worker", "s", |worker| worker.cpu_seconds),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn headline(findings: &Findings) -> String {
    if findings.trust.trustworthy() { findings.headline() } else { findings.trust.sentence() }
}

fn target(findings: &Findings) -> Value {
    let first = findings.report.first_response.as_ref();
    json!({
        "name": findings.target(),
        "server": first.and_then(|first| first.server.clone()),
        "protocol": first.map(|first| first.version),
        "tls": first.and_then(|first| first.tls.clone()),
        "unix_socket": findings.plan.unix_socket.as_ref().map(|path| path.display().to_string()),
    })
}

fn plan(findings: &Findings) -> Value {
    use crate::{Load, Stop};
    let plan = findings.plan;
    let (rate, connections_max) = match plan.load {
        Load::Open { rate, connections_max, .. } => (Some(rate), Some(connections_max)),
        Load::Closed { .. } => (None, None),
    };
    let (requests, duration) = match plan.stop {
        Stop::Requests(requests) => (Some(requests), None),
        Stop::Duration(duration) => (None, Some(duration.as_secs_f64())),
    };
    json!({
        "description": findings.load(),
        "loop": if rate.is_some() { "open" } else { "closed" },
        "connections": plan.connections,
        "rate": rate,
        "connections_max": connections_max,
        "requests": requests,
        "duration_s": duration,
        "warmup_s": plan.warmup.as_secs_f64(),
        "ramp_s": plan.ramp.as_secs_f64(),
        "timeout_s": plan.timeout.as_secs_f64(),
        "keep_alive": plan.reuse != crate::Reuse::Never,
        "pipelining": plan.pipelining,
    })
}

fn requests(report: &Report) -> Value {
    let counts = report.counts;
    json!({
        "completed": counts.completed,
        "per_second": number(report.per_second()),
        "started": counts.started,
        "failed": counts.failed,
        "late": counts.late,
        "unfinished": counts.unfinished,
        "carried_in": counts.carried_in,
        "stale_retries": counts.stale_retries,
        "warmup": report.warmup.completed,
        "offered": report.offered,
        "unsent": report.unsent,
    })
}

/// Mean, extremes and percentiles in ms; `null` where there are too few samples to say.
fn spread(histogram: &Histogram) -> Value {
    let spread = Spread::of(histogram);
    let known = |value: f64| if spread.count > 0 { number(ms(value)) } else { Value::Null };
    let mut out = Map::new();
    out.insert("samples".to_owned(), json!(spread.count));
    out.insert("mean".to_owned(), known(spread.mean));
    out.insert("stddev".to_owned(), known(spread.deviation));
    out.insert("min".to_owned(), known(spread.min as f64));
    for percentile in PERCENTILES {
        let value = percentile.of(histogram).map_or(Value::Null, |value| number(ms(value as f64)));
        out.insert(percentile.key.to_owned(), value);
    }
    out.insert("max".to_owned(), known(spread.max as f64));
    Value::Object(out)
}

/// `[quantile, ms]`, denser towards 1, as far as ten samples lie beyond.
fn spectrum(histogram: &Histogram) -> Vec<Value> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let mut points = Vec::new();
    let mut quantile = 0.0_f64;
    while quantile == 0.0 || histogram.len() as f64 * (1.0 - quantile) >= 10.0 {
        points.push(json!([quantile, number(ms(super::spread::at(histogram, quantile) as f64))]));
        // Twenty steps for each halving of what is left.
        quantile = 1.0 - (1.0 - quantile) * 0.5_f64.powf(0.05);
        if points.len() >= POINTS_MAX {
            break;
        }
    }
    points
}

fn timeline(report: &Report, value: impl Fn(&Window) -> Option<f64>) -> Vec<Value> {
    let step = report.windows.len().div_ceil(POINTS_MAX).max(1);
    report
        .windows
        .iter()
        .filter(|window| window.length.as_secs_f64() > 0.02)
        .step_by(step)
        .filter_map(|window| {
            let middle = window.start.as_secs_f64() + window.length.as_secs_f64() / 2.0;
            Some(json!([seconds(middle), number(value(window)?)]))
        })
        .collect()
}

fn statuses(report: &Report) -> Value {
    report
        .statuses
        .iter()
        .map(|(status, count)| (status.to_string(), json!(count)))
        .collect::<Map<_, _>>()
        .into()
}

fn classes(report: &Report) -> Value {
    (1..=5)
        .map(|class| (format!("{class}xx"), json!(report.status_class(class))))
        .collect::<Map<_, _>>()
        .into()
}

fn errors(report: &Report) -> Value {
    let total = report.errors_total();
    let ended = report.counts.completed + report.counts.failed + report.counts.late;
    let by_cause: Map<String, Value> =
        report.errors.iter().map(|error| (error.cause.key().to_owned(), json!(error.count))).collect();
    let causes: Vec<Value> = report
        .errors
        .iter()
        .map(|error| {
            let examples: Vec<Value> = error
                .examples
                .iter()
                .map(|example| json!({"at_s": seconds(example.at.as_secs_f64()), "detail": example.detail}))
                .collect();
            json!({
                "cause": error.cause.key(),
                "words": error.cause.words(),
                "hint": error.cause.hint(),
                "count": error.count,
                "examples": examples,
            })
        })
        .collect();
    let timeouts: u64 =
        report.errors.iter().filter(|error| error.cause.is_timeout()).map(|error| error.count).sum();
    json!({
        "total": total,
        "share": if ended > 0 { number(total as f64 / ended as f64) } else { Value::Null },
        "timeouts": timeouts,
        "by_cause": by_cause,
        "causes": causes,
    })
}

fn workers(workers: &Workers) -> Value {
    let rows: Vec<Value> = workers
        .workers
        .iter()
        .map(|worker| {
            json!({
                "name": worker.name,
                "pid": worker.pid,
                "requests": worker.requests,
                "connections": worker.connections,
                "cpu_seconds": worker.cpu_seconds.map(number),
            })
        })
        .collect();
    json!({"app": workers.app, "source": workers.source, "workers": rows})
}

fn urls(report: &Report) -> Vec<Value> {
    report
        .requests
        .iter()
        .map(|request| {
            json!({
                "name": request.name,
                "started": request.started,
                "completed": request.completed,
                "errors": request.errors,
                "latency_ms": spread(&request.response),
            })
        })
        .collect()
}

fn generator(findings: &Findings) -> Value {
    let report = findings.report;
    let threads: Vec<Value> = report
        .threads
        .iter()
        .map(|thread| {
            json!({
                "cpu_seconds": number(thread.cpu_seconds),
                "busy": number(thread.busy),
                "busy_max": number(thread.busy_max),
                "connections": thread.connections,
                "completed": thread.completed,
                "wakes": thread.wakes,
                "events": thread.events,
                "pauses": thread.pauses,
                "involuntary_switches": thread.involuntary_switches,
            })
        })
        .collect();
    let busy = report.threads.iter().map(|thread| thread.busy).fold(0.0, f64::max);
    let answers = report.counts.completed.max(1) as f64;
    json!({
        "engine": report.engine,
        "cpu_seconds": number(report.cpu_seconds),
        "cpu_us_per_request": number(report.cpu_seconds * 1e6 / answers),
        "saturated": findings.trust.saturated(),
        "ceiling_share": number(busy),
        "ceiling_per_second": if busy > 0.0 { number((report.per_second() / busy).round()) } else { Value::Null },
        "threads": threads,
        "events_per_wake": number(report.events_per_wake),
        "residency_ms": spread(&report.residency),
        "memory_bytes": report.memory_bytes.0,
        "memory_peak_bytes": report.memory_bytes.1,
    })
}

fn environment(report: &Report) -> Value {
    let (host, kernel) = (report.host, report.kernel);
    json!({
        "cpus": host.cpus,
        "cpu_busy": host.busy.map(number),
        "cpu_stolen": host.steal.map(number),
        "throttled_times": host.throttled_times,
        "throttled_s": host.throttled.map(|time| time.as_secs_f64()),
        "descriptors_max": host.descriptors_max,
        "retransmits": kernel.retransmits,
        "syn_retransmits": kernel.syn_retransmits,
        "tcp_timeouts": kernel.timeouts,
        "listen_overflows": kernel.listen_overflows,
        "listen_drops": kernel.listen_drops,
        "time_wait_before": kernel.time_wait_before,
        "time_wait_after": kernel.time_wait_after,
        "local_ports": kernel.local_ports,
    })
}

fn trust(trust: &Trust) -> Value {
    let checks: Vec<Value> = trust
        .checks
        .iter()
        .map(|check| {
            json!({
                "key": check.key,
                "name": check.name,
                "level": check.level.key(),
                "ok": match check.level {
                    Level::Fine | Level::Note => Value::Bool(true),
                    Level::Warning => Value::Null,
                    Level::Fault => Value::Bool(false),
                },
                "value": check.value,
                "limit": check.limit,
                "meaning": check.meaning,
            })
        })
        .collect();
    json!({"text": trust.sentence(), "level": trust.level().key(), "checks": checks})
}

fn window(window: &Window) -> Value {
    let millis = |time: Option<std::time::Duration>| time.map(|time| number(time.as_secs_f64() * 1e3));
    json!({
        "at_s": seconds(window.start.as_secs_f64()),
        "length_s": seconds(window.length.as_secs_f64()),
        "completed": window.completed,
        "errors": window.errors,
        "p50_ms": millis(window.p50),
        "p99_ms": millis(window.p99),
        "max_ms": millis(window.max),
        "open_connections": window.open_connections,
        "backlog": window.backlog,
    })
}

fn per_second(report: &Report, count: u64) -> Value {
    let seconds = report.elapsed.as_secs_f64();
    if seconds > 0.0 { number(count as f64 / seconds) } else { Value::Null }
}

fn seconds(value: f64) -> Value {
    rounded(value, 1e6)
}

fn number(value: f64) -> Value {
    rounded(value, 1e6)
}

/// Six digits behind the point; no number is `null`.
fn rounded(value: f64, factor: f64) -> Value {
    Number::from_f64((value * factor).round() / factor).map_or(Value::Null, Value::Number)
}
