//! The metrics page: families and samples in Prometheus' text format 0.0.4 or `OpenMetrics` 1.0.
//!
//! <https://prometheus.io/docs/instrumenting/exposition_formats/>,
//! <https://github.com/prometheus/OpenMetrics/blob/main/specification/OpenMetrics.md>

use std::fmt::Write as _;

use super::histogram::{GC_BOUNDS_MS, Histogram, LATENCY_BOUNDS_MS};
use super::inventory::is_of_inventory;
use super::report::GC_KINDS;
use super::table::{Exported, Kind, METRICS};
use super::{Counts, Sample};
use crate::named;

named! {
    /// The format of the metrics page.
    #[derive(Default)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "MetricsFormat"))]
    pub enum Format {
        /// Prometheus' text format 0.0.4.
        #[default]
        Prometheus = "prometheus",
        /// OpenMetrics 1.0.
        OpenMetrics = "openmetrics",
    }
}

impl Format {
    /// The format for a client that accepts these types.
    pub fn accepted(accept: &str) -> Self {
        let quality = |wanted: &str| {
            let ranges = accept.split(',').filter_map(|range| {
                let mut parts = range.split(';').map(str::trim);
                let is_wanted = parts.next()?.eq_ignore_ascii_case(wanted);
                let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok());
                is_wanted.then_some(quality.unwrap_or(1.0))
            });
            ranges.fold(0.0, f64::max)
        };
        let open = quality("application/openmetrics-text");
        if open > 0.0 && open >= quality("text/plain") { Self::OpenMetrics } else { Self::Prometheus }
    }

    /// The Content-Type of the response.
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Prometheus => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        }
    }
}

/// The type of a family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FamilyKind {
    Gauge,
    /// Its name ends with `_total`.
    Counter,
    Histogram,
}

/// A family: samples with the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Family {
    pub name: &'static str,
    pub kind: FamilyKind,
    pub help: &'static str,
}

impl Family {
    /// A family of values that rise and fall.
    pub const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: FamilyKind::Gauge, help }
    }

    /// A family of values that only rise.
    pub const fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, kind: FamilyKind::Counter, help }
    }
}

/// HTTP latencies of workers.
const LATENCIES: Family = Family {
    name: "forkful_http_request_duration_seconds",
    kind: FamilyKind::Histogram,
    help: "Time from an HTTP request to the end of its response.",
};

/// Pauses of workers' garbage collectors.
const GC: Family = Family {
    name: "nodejs_gc_duration_seconds",
    kind: FamilyKind::Histogram,
    help: "Garbage collection by kind: minor, major, incremental or weakcb.",
};

/// Whether a name belongs to one of Forkful's own families, which apps' metrics may not use.
pub fn is_own(name: &str) -> bool {
    const OTHERS: [&str; 2] = ["nodejs_version_info", "process_start_time_seconds"];
    let is_in_table =
        || METRICS.iter().flat_map(|metric| metric.exported).any(|exported| exported.name == name);
    let is_of_gc =
        || name.strip_prefix(GC.name).is_some_and(|rest| ["", "_bucket", "_sum", "_count"].contains(&rest));
    name.starts_with("forkful_")
        || OTHERS.contains(&name)
        || is_of_gc()
        || is_of_inventory(name)
        || is_in_table()
}

/// A name and a value.
pub type Label<'a> = (&'a str, &'a str);

/// A page under construction.
#[derive(Debug, Default)]
pub struct Page {
    format: Format,
    families: Vec<(Family, String)>,
}

impl Page {
    pub fn new(format: Format) -> Self {
        Self { format, families: Vec::new() }
    }

    pub fn format(&self) -> Format {
        self.format
    }

    /// Adds a sample. A family's samples are together, in the order they were added.
    pub fn add(&mut self, family: &Family, labels: &[Label<'_>], value: f64) {
        let body = self.body(family);
        line(body, family.name, "", labels, None, value);
    }

    /// Adds a histogram with bounds in milliseconds.
    pub fn add_histogram<const N: usize>(
        &mut self,
        family: &Family,
        labels: &[Label<'_>],
        histogram: &Histogram<N>,
        bounds_ms: &[f64],
    ) {
        let body = self.body(family);
        let mut sum = 0;
        for (at, count) in histogram.counts.iter().enumerate() {
            sum += count;
            let bound = bounds_ms.get(at).map_or(f64::INFINITY, |ms| ms / 1000.0);
            line(body, family.name, "_bucket", labels, Some(bound), sum as f64);
        }
        line(body, family.name, "_sum", labels, None, histogram.sum_ms / 1000.0);
        line(body, family.name, "_count", labels, None, sum as f64);
    }

    /// Adds all table values of a worker.
    pub fn add_worker(&mut self, labels: &[Label<'_>], counts: &Counts, sample: &Sample) {
        for metric in METRICS {
            let value = match metric.kind {
                Kind::Gauge => sample.get(metric.name),
                Kind::Counter => counts.values.get(metric.name),
            };
            let Some(value) = value else { continue };
            for Exported { name, label, factor } in metric.exported {
                let family = Family { name, kind: metric.kind.into(), help: help_of(name, metric.meaning) };
                let labels: Vec<Label<'_>> = labels.iter().copied().chain(*label).collect();
                self.add(&family, &labels, value * factor);
            }
        }
        if counts.latency.count() > 0 {
            self.add_histogram(&LATENCIES, labels, &counts.latency, &LATENCY_BOUNDS_MS);
        }
        for (kind, pauses) in GC_KINDS.iter().zip(&counts.gc).filter(|(_, pauses)| pauses.count() > 0) {
            let labels: Vec<Label<'_>> = labels.iter().copied().chain([("kind", *kind)]).collect();
            self.add_histogram(&GC, &labels, pauses, &GC_BOUNDS_MS);
        }
    }

    /// The complete page, with the families of others appended.
    pub fn finish(self, others: &str) -> String {
        let mut page = String::new();
        for (family, body) in self.families {
            let (name, kind) = match (family.kind, self.format) {
                (FamilyKind::Counter, Format::OpenMetrics) => {
                    (family.name.strip_suffix("_total").unwrap_or(family.name), "counter")
                }
                (FamilyKind::Counter, Format::Prometheus) => (family.name, "counter"),
                (FamilyKind::Gauge, _) => (family.name, "gauge"),
                (FamilyKind::Histogram, _) => (family.name, "histogram"),
            };
            let help = escaped(family.help, self.format == Format::OpenMetrics);
            // Writing to a String cannot fail.
            let _written = write!(page, "# HELP {name} {help}\n# TYPE {name} {kind}\n{body}");
        }
        page.push_str(others);
        if self.format == Format::OpenMetrics {
            page.push_str("# EOF\n");
        }
        page
    }

    fn body(&mut self, family: &Family) -> &mut String {
        let at = self.families.iter().position(|(known, _)| known.name == family.name);
        let at = at.unwrap_or_else(|| {
            self.families.push((*family, String::new()));
            self.families.len() - 1
        });
        &mut self.families[at].1
    }
}

impl From<Kind> for FamilyKind {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Gauge => Self::Gauge,
            Kind::Counter => Self::Counter,
        }
    }
}

/// The help text of a family that several rows share.
fn help_of(name: &str, meaning: &'static str) -> &'static str {
    match name {
        "forkful_http_responses_total" => "HTTP responses by the class of their status.",
        "forkful_eventloop_time_seconds_total" => "Time of the event loop by its state: active or idle.",
        _ => meaning,
    }
}

fn line(body: &mut String, name: &str, suffix: &str, labels: &[Label<'_>], bound: Option<f64>, value: f64) {
    body.push_str(name);
    body.push_str(suffix);
    let bound = bound.map(number);
    let all = labels.iter().copied().chain(bound.as_deref().map(|bound| ("le", bound)));
    for (at, (label, value)) in all.enumerate() {
        body.push(if at == 0 { '{' } else { ',' });
        // Writing to a String cannot fail.
        let _written = write!(body, "{label}=\"{}\"", escaped(value, true));
    }
    if !labels.is_empty() || bound.is_some() {
        body.push('}');
    }
    body.push(' ');
    body.push_str(&number(value));
    body.push('\n');
}

/// `OpenMetrics` requires a decimal point in histogram bounds, and permits it everywhere.
pub(crate) fn number(value: f64) -> String {
    match value {
        f64::INFINITY => "+Inf".to_owned(),
        f64::NEG_INFINITY => "-Inf".to_owned(),
        value => format!("{value:?}"),
    }
}

/// Escapes backslashes and line ends, and in label values quotation marks.
pub(crate) fn escaped(text: &str, quotes: bool) -> String {
    let escaped = text.replace('\\', "\\\\").replace('\n', "\\n");
    if quotes { escaped.replace('"', "\\\"") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Readings;

    const UP: Family = Family { name: "up", kind: FamilyKind::Gauge, help: "It \"is\" up." };

    fn page(format: Format) -> String {
        let mut page = Page::new(format);
        let mut counts =
            Counts { values: Readings::of(&[("http_requests_total", 3.0)]), ..Counts::default() };
        counts.gc[1] = Histogram { counts: [1, 2, 0, 0, 0, 0, 0], sum_ms: 12.5 };
        let sample = Readings::of(&[("event_loop_delay_mean_ms", 2.5)]);
        page.add(&UP, &[], 1.0);
        page.add_worker(&[("app", "web"), ("worker", "0")], &counts, &sample);
        page.add(&UP, &[("app", "x")], 0.0);
        page.finish("")
    }

    #[test]
    fn the_text_format_has_families_with_their_samples() {
        insta::assert_snapshot!(page(Format::Prometheus), @r#"
        # HELP up It "is" up.
        # TYPE up gauge
        up 1.0
        up{app="x"} 0.0
        # HELP nodejs_eventloop_lag_seconds The mean of how late the event loop was in the last second.
        # TYPE nodejs_eventloop_lag_seconds gauge
        nodejs_eventloop_lag_seconds{app="web",worker="0"} 0.0025
        # HELP nodejs_eventloop_lag_mean_seconds The mean of how late the event loop was in the last second.
        # TYPE nodejs_eventloop_lag_mean_seconds gauge
        nodejs_eventloop_lag_mean_seconds{app="web",worker="0"} 0.0025
        # HELP forkful_http_requests_total HTTP requests that came.
        # TYPE forkful_http_requests_total counter
        forkful_http_requests_total{app="web",worker="0"} 3.0
        # HELP nodejs_gc_duration_seconds Garbage collection by kind: minor, major, incremental or weakcb.
        # TYPE nodejs_gc_duration_seconds histogram
        nodejs_gc_duration_seconds_bucket{app="web",worker="0",kind="major",le="0.001"} 1.0
        nodejs_gc_duration_seconds_bucket{app="web",worker="0",kind="major",le="0.01"} 3.0
        nodejs_gc_duration_seconds_bucket{app="web",worker="0",kind="major",le="0.1"} 3.0
        nodejs_gc_duration_seconds_bucket{app="web",worker="0",kind="major",le="1.0"} 3.0
        nodejs_gc_duration_seconds_bucket{app="web",worker="0",kind="major",le="2.0"} 3.0
        nodejs_gc_duration_seconds_bucket{app="web",worker="0",kind="major",le="5.0"} 3.0
        nodejs_gc_duration_seconds_bucket{app="web",worker="0",kind="major",le="+Inf"} 3.0
        nodejs_gc_duration_seconds_sum{app="web",worker="0",kind="major"} 0.0125
        nodejs_gc_duration_seconds_count{app="web",worker="0",kind="major"} 3.0
        "#);
    }

    #[test]
    fn openmetrics_names_counters_without_their_ending_and_says_where_it_ends() {
        let (prometheus, openmetrics) = (page(Format::Prometheus), page(Format::OpenMetrics));
        assert!(openmetrics.contains("# TYPE forkful_http_requests counter\nforkful_http_requests_total{"));
        assert!(openmetrics.contains("# HELP up It \\\"is\\\" up.\n"), "{openmetrics}");
        assert!(openmetrics.ends_with("# EOF\n") && !prometheus.contains("EOF"));
    }

    #[test]
    fn every_name_of_the_page_is_forkfuls_own() {
        let page = page(Format::Prometheus);
        let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        for name in names.filter(|name| *name != UP.name) {
            assert!(is_own(name), "{name}");
        }
        assert!(
            is_own("nodejs_gc_duration_seconds_bucket")
                && !is_own("nodejs_active_handles_of_the_app")
                && !is_own("hits")
        );
    }

    #[test]
    fn labels_hold_any_text() {
        let mut page = Page::new(Format::Prometheus);
        page.add(&UP, &[("app", "a\"\\\n")], 2.5);
        assert!(page.finish("").ends_with("up{app=\"a\\\"\\\\\\n\"} 2.5\n"));
    }

    #[test]
    fn a_client_gets_what_it_accepts() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
        assert_eq!(Format::accepted(prometheus), Format::OpenMetrics);
        for accepted in [
            "application/openmetrics-text",
            "text/plain;q=0.2, Application/OpenMetrics-Text; version=1.0.0; q=0.2",
        ] {
            assert_eq!(Format::accepted(accepted), Format::OpenMetrics, "{accepted}");
        }
        for accepted in [
            "*/*",
            "",
            "text/plain, application/openmetrics-text;q=0",
            "text/plain,application/openmetrics-text;q=0.5",
        ] {
            assert_eq!(Format::accepted(accepted), Format::Prometheus, "{accepted}");
        }
        assert!(Format::OpenMetrics.content_type().starts_with("application/openmetrics-text"));
    }
}
