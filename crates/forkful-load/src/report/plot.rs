//! Plots of the HTML page, in the format that `page/` draws.

use std::time::Duration;

use serde::Serialize;

use super::findings::{Findings, WorkerShare};
use super::json::rounded;
use super::spread::{at, ms};
use crate::{Histogram, Report, Window};

/// Points of a series in a plot.
const POINTS_MAX: usize = 600;

#[derive(Debug, Serialize)]
pub(super) struct Plot<'a> {
    r#type: &'static str,
    title: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    note: Option<&'a str>,
    unit: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    from_zero: bool,
    #[serde(flatten)]
    data: Data<'a>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase", untagged)]
enum Data<'a> {
    Lines { series: Vec<Series> },
    Bars { rows: Vec<Bar<'a>> },
    Parts { parts: [&'static str; 2], rows: [Parts; 1] },
}

#[derive(Debug, Serialize)]
struct Series {
    name: &'static str,
    points: Vec<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    samples: Option<u64>,
}

#[derive(Debug, Serialize)]
struct Bar<'a> {
    name: &'a str,
    value: f64,
}

#[derive(Debug, Serialize)]
struct Parts {
    name: &'static str,
    values: [f64; 2],
}

/// All plots of a run.
pub(super) fn plots<'a>(findings: &Findings<'a>) -> Vec<Plot<'a>> {
    let report = findings.report;
    let per_second = |count: fn(&Window) -> u64| {
        timeline(report, |window| Some(count(window) as f64 / window.length.as_secs_f64().max(1e-9)))
    };
    let latency = |of: fn(&Window) -> Option<Duration>| {
        timeline(report, |window| of(window).map(|time| time.as_secs_f64() * 1e3))
    };
    let series = |name, points| Series { name, points, samples: None };
    let plot = |r#type, title, unit, data| Plot { r#type, title, note: None, unit, from_zero: false, data };
    let lines = |title, unit, series| plot("timeline", title, unit, Data::Lines { series });
    let samples = Some(report.response.len());
    let response = Series { samples, ..series("response", spectrum(&report.response)) };
    let mut plots = vec![
        Plot {
            note: Some(findings.latency_meaning()),
            ..plot("percentiles", "Latency by percentile", "ms", Data::Lines { series: vec![response] })
        },
        Plot {
            from_zero: true,
            ..lines(
                "Requests per second",
                "requests/s",
                vec![series("requests per second", per_second(|window| window.completed))],
            )
        },
        lines(
            "Latency over time",
            "ms",
            vec![series("p50", latency(|window| window.p50)), series("p99", latency(|window| window.p99))],
        ),
    ];
    if report.errors_total() > 0 {
        let errors = vec![series("errors per second", per_second(|window| window.errors))];
        plots.push(Plot { from_zero: true, ..lines("Errors per second", "errors/s", errors) });
    }
    let first_byte = report.first_byte.mean();
    let rest = (report.service.mean() - first_byte).max(0.0);
    let parts = ["first byte", "rest of the answer"];
    let rows = [Parts { name: "request", values: [ms(first_byte), ms(rest)] }];
    plots.push(plot("breakdown", "Where the time goes, mean", "ms", Data::Parts { parts, rows }));
    let bars = |title, unit, of: fn(&WorkerShare) -> Option<f64>| {
        let workers = findings.workers?;
        let bar = |worker: &'a WorkerShare| Some(Bar { name: &worker.name, value: of(worker)? });
        let rows: Vec<Bar> = workers.workers.iter().filter_map(bar).collect();
        let note = Some(workers.source.as_str());
        (!rows.is_empty()).then(|| Plot { note, ..plot("bars", title, unit, Data::Bars { rows }) })
    };
    plots.extend(bars("Requests by worker", "requests", |worker| worker.requests.map(|count| count as f64)));
    plots.extend(bars("Connections by worker", "connections", |worker| {
        worker.connections.map(|count| count as f64)
    }));
    plots.extend(bars("CPU by worker", "s", |worker| worker.cpu_seconds));
    plots
}

/// `[quantile, ms]`, denser towards 1, up to the last quantile with ten samples beyond it.
pub(super) fn spectrum(histogram: &Histogram) -> Vec<[f64; 2]> {
    if histogram.is_empty() {
        return Vec::new();
    }
    let mut points = Vec::new();
    let mut quantile = 0.0_f64;
    while quantile == 0.0 || histogram.len() as f64 * (1.0 - quantile) >= 10.0 {
        points.push([quantile, rounded(ms(at(histogram, quantile) as f64))]);
        // Twenty steps for each halving of the distance to 1.
        quantile = 1.0 - (1.0 - quantile) * 0.5_f64.powf(0.05);
        if points.len() >= POINTS_MAX {
            break;
        }
    }
    points
}

fn timeline(report: &Report, value: impl Fn(&Window) -> Option<f64>) -> Vec<[f64; 2]> {
    let step = report.windows.len().div_ceil(POINTS_MAX).max(1);
    let windows = report.windows.iter().filter(|window| window.length.as_secs_f64() > 0.02);
    windows
        .step_by(step)
        .filter_map(|window| {
            let middle = window.start.as_secs_f64() + window.length.as_secs_f64() / 2.0;
            Some([rounded(middle), rounded(value(window)?)])
        })
        .collect()
}
