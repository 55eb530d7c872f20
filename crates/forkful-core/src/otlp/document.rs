//! What is posted: OTLP's JSON, with the names of OpenTelemetry's semantic conventions where they have one.
//!
//! <https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding>, <https://opentelemetry.io/docs/specs/semconv/runtime/>

use serde::{Serialize, Serializer};

use crate::metrics::{
    Counts, GC_BOUNDS_MS, GC_KINDS, Histogram, Instrument, LATENCY_BOUNDS_MS, METRICS, OtelMetric, Sample,
};

pub const CONTENT_TYPE: &str = "application/json";
/// Workers in one document, which is about 15 KB for each of them.
pub const WORKERS_PER_DOCUMENT: usize = 64;
/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: u8 = 2;

/// What an app has.
#[derive(Debug, Clone)]
pub struct Exported {
    pub app: String,
    pub namespace: String,
    pub host: String,
    pub version: &'static str,
    /// When its counters began, and now: since 1970.
    pub began_ms: u64,
    pub now_ms: u64,
    pub workers: Vec<WorkerMetrics>,
}

/// What one of its slots has. Counters go on over its processes, so these are the instances that OpenTelemetry is told of.
#[derive(Debug, Clone)]
pub struct WorkerMetrics {
    pub slot: u16,
    /// Of its process, if it has one.
    pub node_version: Option<String>,
    pub uptime_s: Option<f64>,
    pub counts: Counts,
    pub sample: Sample,
}

/// 64-bit numbers are texts.
#[derive(Debug, Clone, Copy)]
struct Whole(u64);

impl Serialize for Whole {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceMetrics {
    resource: Resource,
    scope_metrics: [ScopeMetrics; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: Text,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Text {
    string_value: String,
}

#[derive(Serialize)]
struct ScopeMetrics {
    scope: Scope,
    metrics: Vec<Metric>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
    version: &'static str,
}

#[derive(Serialize)]
struct Metric {
    name: &'static str,
    description: &'static str,
    unit: &'static str,
    #[serde(flatten)]
    data: Data,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Data {
    Gauge(Series<NumberPoint>),
    Sum(Series<NumberPoint>),
    Histogram(Series<HistogramPoint>),
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Series<T> {
    data_points: Vec<T>,
    #[serde(skip_serializing_if = "Option::is_none")]
    aggregation_temporality: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_monotonic: Option<bool>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NumberPoint {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start_time_unix_nano: Option<Whole>,
    time_unix_nano: Whole,
    as_double: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HistogramPoint {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    attributes: Vec<Attribute>,
    start_time_unix_nano: Whole,
    time_unix_nano: Whole,
    count: Whole,
    sum: f64,
    bucket_counts: Vec<Whole>,
    explicit_bounds: Vec<f64>,
}

/// The metrics of some workers of an app, at most [`WORKERS_PER_DOCUMENT`] of them.
pub fn document(exported: &Exported, workers: &[WorkerMetrics]) -> Vec<u8> {
    let workers = workers.iter().take(WORKERS_PER_DOCUMENT);
    let resource_metrics = workers.map(|worker| exported.of_worker(worker)).collect();
    serde_json::to_vec(&Document { resource_metrics }).unwrap_or_default()
}

impl Exported {
    fn of_worker(&self, worker: &WorkerMetrics) -> ResourceMetrics {
        let mut attributes = vec![
            attribute("service.name", &self.app),
            attribute("service.namespace", &self.namespace),
            attribute("service.instance.id", &format!("{}:{}:{}", self.host, self.app, worker.slot)),
            attribute("host.name", &self.host),
        ];
        if let Some(version) = &worker.node_version {
            attributes.push(attribute("process.runtime.name", "nodejs"));
            attributes.push(attribute("process.runtime.version", version));
        }
        let scope = Scope { name: "forkful", version: self.version };
        ResourceMetrics {
            resource: Resource { attributes },
            scope_metrics: [ScopeMetrics { scope, metrics: self.metrics_of(worker) }],
        }
    }

    fn metrics_of(&self, worker: &WorkerMetrics) -> Vec<Metric> {
        let mut metrics: Vec<Metric> = Vec::new();
        for row in METRICS {
            let value = match row.kind {
                crate::metrics::Kind::Gauge => worker.sample.get(row.name),
                crate::metrics::Kind::Counter => worker.counts.values.get(row.name),
            };
            for (name, value) in row.otel.iter().zip(value.into_iter().cycle()) {
                self.add(&mut metrics, name, row.meaning, value * name.factor);
            }
        }
        let uptime = OtelMetric::plain("process.uptime", "s", Instrument::Gauge);
        if let Some(seconds) = worker.uptime_s {
            self.add(&mut metrics, &uptime, "The time that the process has been running.", seconds);
        }
        self.add_histograms(&mut metrics, &worker.counts);
        metrics
    }

    fn add(&self, metrics: &mut Vec<Metric>, as_: &OtelMetric, meaning: &'static str, value: f64) {
        let is_gauge = as_.instrument == Instrument::Gauge;
        let point = NumberPoint {
            attributes: as_.attribute.map(|(key, value)| attribute(key, value)).into_iter().collect(),
            start_time_unix_nano: (!is_gauge).then(|| self.began()),
            time_unix_nano: self.now(),
            as_double: value,
        };
        if let Some(Data::Gauge(points) | Data::Sum(points)) =
            metrics.iter_mut().find(|known| known.name == as_.name).map(|known| &mut known.data)
        {
            return points.data_points.push(point);
        }
        let points = Series {
            data_points: vec![point],
            aggregation_temporality: (!is_gauge).then_some(CUMULATIVE),
            is_monotonic: (!is_gauge).then_some(as_.instrument == Instrument::Counter),
        };
        let data = if is_gauge { Data::Gauge(points) } else { Data::Sum(points) };
        // A name that several rows share is about all of them.
        let description = if as_.attribute.is_some() { "" } else { meaning };
        metrics.push(Metric { name: as_.name, description, unit: as_.unit, data });
    }

    fn add_histograms(&self, metrics: &mut Vec<Metric>, counts: &Counts) {
        let mut add = |name, description, points: Vec<HistogramPoint>| {
            if !points.is_empty() {
                let points = Series {
                    data_points: points,
                    aggregation_temporality: Some(CUMULATIVE),
                    is_monotonic: None,
                };
                metrics.push(Metric { name, description, unit: "s", data: Data::Histogram(points) });
            }
        };
        let latency = (counts.latency.count() > 0)
            .then(|| self.histogram(&counts.latency, &LATENCY_BOUNDS_MS, Vec::new()));
        add(
            "http.server.request.duration",
            "Duration of HTTP server requests.",
            latency.into_iter().collect(),
        );
        let kinds = GC_KINDS.iter().zip(&counts.gc).filter(|(_, pauses)| pauses.count() > 0);
        let pauses = kinds.map(|(kind, pauses)| {
            self.histogram(pauses, &GC_BOUNDS_MS, vec![attribute("v8js.gc.type", kind)])
        });
        add("v8js.gc.duration", "Garbage collection duration.", pauses.collect());
    }

    fn histogram<const N: usize>(
        &self,
        histogram: &Histogram<N>,
        bounds_ms: &[f64],
        attributes: Vec<Attribute>,
    ) -> HistogramPoint {
        HistogramPoint {
            attributes,
            start_time_unix_nano: self.began(),
            time_unix_nano: self.now(),
            count: Whole(histogram.count()),
            sum: histogram.sum_ms / 1000.0,
            bucket_counts: histogram.counts.iter().copied().map(Whole).collect(),
            explicit_bounds: bounds_ms.iter().map(|ms| ms / 1000.0).collect(),
        }
    }

    fn began(&self) -> Whole {
        Whole(self.began_ms.saturating_mul(1_000_000))
    }

    fn now(&self) -> Whole {
        Whole(self.now_ms.saturating_mul(1_000_000))
    }
}

fn attribute(key: &'static str, value: &str) -> Attribute {
    Attribute { key, value: Text { string_value: value.to_owned() } }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::metrics::Readings;

    fn exported() -> Exported {
        let mut counts = Counts {
            values: Readings::of(&[
                ("event_loop_active_seconds_total", 1.5),
                ("event_loop_idle_seconds_total", 8.5),
                ("restarts_total", 2.0),
                ("crashes_total", 1.0),
            ]),
            ..Counts::default()
        };
        counts.latency.counts[0] = 2;
        counts.latency.counts[24] = 1;
        counts.latency.sum_ms = 20_001.0;
        counts.gc[1] = Histogram { counts: [1, 2, 0, 0, 0, 0, 0], sum_ms: 12.5 };
        let sample = Readings::of(&[("event_loop_delay_p99_ms", 2.5), ("heap_used_bytes", 1024.0)]);
        let worker = WorkerMetrics {
            slot: 3,
            node_version: Some("24.1.0".to_owned()),
            uptime_s: Some(10.0),
            counts,
            sample,
        };
        let (app, namespace, host) = ("web".to_owned(), "default".to_owned(), "box".to_owned());
        Exported { app, namespace, host, version: "1", began_ms: 1000, now_ms: 2000, workers: vec![worker] }
    }

    fn read(exported: &Exported) -> Value {
        serde_json::from_slice(&document(exported, &exported.workers)).unwrap()
    }

    #[test]
    fn a_worker_is_a_resource_by_the_conventions() {
        let document = read(&exported());
        let of_worker = &document["resourceMetrics"][0];
        let attributes = of_worker["resource"]["attributes"].as_array().unwrap().iter();
        let attributes: Vec<_> = attributes
            .map(|pair| (pair["key"].as_str().unwrap(), pair["value"]["stringValue"].as_str().unwrap()))
            .collect();
        assert_eq!(
            attributes,
            [
                ("service.name", "web"),
                ("service.namespace", "default"),
                ("service.instance.id", "box:web:3"),
                ("host.name", "box"),
                ("process.runtime.name", "nodejs"),
                ("process.runtime.version", "24.1.0"),
            ]
        );
        assert_eq!(of_worker["scopeMetrics"][0]["scope"], json!({ "name": "forkful", "version": "1" }));
    }

    #[test]
    fn gauges_sums_and_histograms_have_their_form() {
        let document = read(&exported());
        let metrics = document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let named = |name: &str| metrics.iter().find(|metric| metric["name"] == name).unwrap();
        assert_eq!(
            named("nodejs.eventloop.delay.p99"),
            &json!({
                "name": "nodejs.eventloop.delay.p99",
                "description": "The 99th percentile of how late the event loop was in the last second.",
                "unit": "s",
                "gauge": { "dataPoints": [{ "timeUnixNano": "2000000000", "asDouble": 0.0025 }] },
            })
        );
        let state = |state: &str, value: f64| {
            json!({
                "attributes": [{ "key": "nodejs.eventloop.state", "value": { "stringValue": state } }],
                "startTimeUnixNano": "1000000000",
                "timeUnixNano": "2000000000",
                "asDouble": value,
            })
        };
        assert_eq!(
            named("nodejs.eventloop.time")["sum"],
            json!({ "dataPoints": [state("active", 1.5), state("idle", 8.5)], "aggregationTemporality": 2, "isMonotonic": true })
        );
        assert_eq!(named("v8js.memory.heap.used")["sum"]["isMonotonic"], json!(false));
        assert_eq!(named("forkful.worker.restarts")["sum"]["dataPoints"][0]["asDouble"], json!(2.0));
        let duration = &named("http.server.request.duration")["histogram"]["dataPoints"][0];
        assert_eq!((&duration["count"], &duration["sum"]), (&json!("3"), &json!(20.001)));
        assert_eq!(
            duration["explicitBounds"].as_array().unwrap().len() + 1,
            duration["bucketCounts"].as_array().unwrap().len()
        );
        assert_eq!((&duration["bucketCounts"][0], &duration["bucketCounts"][24]), (&json!("2"), &json!("1")));
        let pauses = &named("v8js.gc.duration")["histogram"]["dataPoints"][0];
        assert_eq!(pauses["attributes"][0]["value"]["stringValue"], json!("major"));
    }

    /// `tests/platforms` has the example read by OpenTelemetry's own definition. `UPDATE_DOCS=1` writes it.
    #[test]
    fn the_example_is_what_is_sent() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/otlp/example.json");
        let sent = serde_json::to_string_pretty(&read(&exported())).unwrap() + "\n";
        if std::env::var_os("UPDATE_DOCS").is_some() {
            std::fs::write(file, &sent).unwrap();
        }
        assert_eq!(std::fs::read_to_string(file).unwrap_or_default(), sent, "UPDATE_DOCS=1 writes {file}");
    }

    #[test]
    fn a_document_is_bounded() {
        let mut exported = exported();
        exported.workers = vec![exported.workers[0].clone(); WORKERS_PER_DOCUMENT + 1];
        let length = document(&exported, &exported.workers).len();
        assert_eq!(read(&exported)["resourceMetrics"].as_array().unwrap().len(), WORKERS_PER_DOCUMENT);
        assert!(length < WORKERS_PER_DOCUMENT * 30_000, "{length}");
    }
}
