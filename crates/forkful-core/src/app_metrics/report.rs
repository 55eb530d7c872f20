//! What one worker says of its metrics: prom-client's `getMetricsAsJSON`, as the agent writes it (`agent/README.md`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The longest report that is read; about 4,000 series. Reading it takes a few milliseconds.
pub const APP_METRICS_BYTES_MAX: usize = 512 * 1024;
/// Series that are taken of a report, and that an app has after merging.
pub const SERIES_MAX: usize = 10_000;
/// Families that are taken of a report.
const FAMILIES_MAX: usize = 1000;
/// Labels of a series.
const LABELS_MAX: usize = 32;
/// The longest name of a family or a label, in bytes.
const NAME_BYTES_MAX: usize = 200;
/// The longest name of a registry, in bytes: that of a metric, and a number.
const REGISTRY_BYTES_MAX: usize = NAME_BYTES_MAX + 10;
/// The longest value of a label, in bytes.
const VALUE_BYTES_MAX: usize = 1024;
/// The longest help text, in characters.
const HELP_CHARS_MAX: usize = 500;

/// What the samples of a family are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SampleKind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// What becomes of the values of several workers; prom-client's `aggregator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aggregator {
    #[default]
    Sum,
    First,
    Min,
    Max,
    Average,
    /// The family is not shown.
    Omit,
}

/// Which sample of a histogram or a summary it is; other families have plain ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The value, or a quantile of a summary.
    Value,
    Bucket,
    Sum,
    Count,
}

impl Part {
    /// What follows the family's name.
    pub fn suffix(self) -> &'static str {
        match self {
            Self::Value => "",
            Self::Bucket => "_bucket",
            Self::Sum => "_sum",
            Self::Count => "_count",
        }
    }
}

/// A sample of a family.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    pub part: Part,
    /// Names and values, ordered by name, without `le` and `quantile`.
    pub labels: Vec<(String, String)>,
    /// The upper bound of a bucket, or the quantile.
    pub point: Option<String>,
    pub value: f64,
}

/// A metric of an app.
#[derive(Debug, Clone, PartialEq)]
pub struct AppFamily {
    pub name: String,
    /// The registry of the metric; empty for the default registry of prom-client. Other registries are reported only with `metrics: "merge"`.
    pub registry: String,
    pub help: String,
    pub kind: SampleKind,
    pub aggregator: Aggregator,
    pub samples: Vec<Sample>,
}

/// What a worker says, or several of them.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AppReport {
    pub families: Vec<AppFamily>,
    /// Families and samples that make no sense, or are beyond the bounds.
    pub left_out: u32,
}

#[derive(Serialize, Deserialize)]
struct RawFamily {
    name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    registry: String,
    #[serde(default)]
    help: String,
    #[serde(rename = "type")]
    kind: SampleKind,
    #[serde(default)]
    aggregator: Aggregator,
    values: Vec<RawSample>,
}

#[derive(Serialize, Deserialize)]
struct RawSample {
    #[serde(rename = "metricName", default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    value: Number,
}

/// JSON has no word for what is not finite.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Number {
    Finite(f64),
    Word(String),
}

impl AppReport {
    /// What is known of a worker's metrics when they cannot be read.
    pub fn unreadable() -> Self {
        Self { families: Vec::new(), left_out: 1 }
    }

    /// Reads a list of families; `None` for what is no list, or too long. A family that makes no sense is left out.
    pub fn read(text: &str) -> Option<Self> {
        if text.len() > APP_METRICS_BYTES_MAX {
            return None;
        }
        let raw = serde_json::from_str::<Vec<&RawValue>>(text).ok()?;
        let mut report = Self { left_out: raw.len().saturating_sub(FAMILIES_MAX) as u32, ..Self::default() };
        let mut room = SERIES_MAX;
        for family in raw.into_iter().take(FAMILIES_MAX) {
            let family = serde_json::from_str::<RawFamily>(family.get()).ok();
            match family.and_then(|family| AppFamily::read(family, &mut room, &mut report.left_out)) {
                Some(family) => report.families.push(family),
                None => report.left_out += 1,
            }
        }
        Some(report)
    }

    /// What it was read from, in short.
    pub fn write(&self) -> String {
        let families: Vec<RawFamily> = self.families.iter().map(AppFamily::raw).collect();
        serde_json::to_string(&families).unwrap_or_default()
    }

    /// About what it takes.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |family: &AppFamily| {
            family.head_bytes() + family.samples.iter().map(Sample::bytes).sum::<usize>()
        };
        self.families.iter().map(bytes).sum()
    }

    /// What must not fall when a worker ends: counters, and the counts and sums of histograms and summaries, where values of
    /// several workers are added.
    #[must_use]
    pub fn counters(&self) -> Self {
        let lasting = self.families.iter().filter(|family| family.aggregator == Aggregator::Sum);
        let families = lasting.filter_map(|family| {
            let lasts = |sample: &&Sample| match family.kind {
                SampleKind::Gauge => false,
                SampleKind::Summary => sample.part != Part::Value,
                SampleKind::Counter | SampleKind::Histogram => true,
            };
            let samples: Vec<Sample> = family.samples.iter().filter(lasts).cloned().collect();
            (!samples.is_empty()).then(|| family.with(samples))
        });
        Self { families: families.collect(), left_out: 0 }
    }
}

/// What a value, its place in memory and its form in JSON take beside their texts.
const OVERHEAD_BYTES: usize = 64;

impl AppFamily {
    /// About what it takes without its samples.
    pub(super) fn head_bytes(&self) -> usize {
        OVERHEAD_BYTES + self.name.len() + self.help.len()
    }

    fn read(raw: RawFamily, room: &mut usize, left_out: &mut u32) -> Option<Self> {
        if !is_metric_name(&raw.name) || raw.registry.len() > REGISTRY_BYTES_MAX {
            return None;
        }
        let mut samples = Vec::with_capacity(raw.values.len().min(*room));
        for value in raw.values {
            match Sample::read(value, &raw.name, raw.kind).filter(|_| *room > 0) {
                Some(sample) => {
                    *room -= 1;
                    samples.push(sample);
                }
                None => *left_out += 1,
            }
        }
        Some(Self {
            help: raw.help.chars().take(HELP_CHARS_MAX).collect(),
            name: raw.name,
            registry: raw.registry,
            kind: raw.kind,
            aggregator: raw.aggregator,
            samples,
        })
    }

    /// The same family with other samples.
    pub(super) fn with(&self, samples: Vec<Sample>) -> Self {
        let Self { name, registry, help, kind, aggregator, .. } = self;
        let (name, registry, help) = (name.clone(), registry.clone(), help.clone());
        Self { name, registry, help, kind: *kind, aggregator: *aggregator, samples }
    }

    fn raw(&self) -> RawFamily {
        let raw = |sample: &Sample| {
            let mut labels: BTreeMap<String, String> = sample.labels.iter().cloned().collect();
            let point = sample.point.clone().zip(point_label(self.kind, sample.part));
            labels.extend(point.map(|(value, label)| (label.to_owned(), value)));
            let suffix = Some(sample.part.suffix()).filter(|suffix| !suffix.is_empty());
            RawSample {
                name: suffix.map(|suffix| format!("{}{suffix}", self.name)),
                labels,
                value: Number::of(sample.value),
            }
        };
        RawFamily {
            name: self.name.clone(),
            registry: self.registry.clone(),
            help: self.help.clone(),
            kind: self.kind,
            aggregator: self.aggregator,
            values: self.samples.iter().map(raw).collect(),
        }
    }
}

impl Sample {
    /// About what it takes.
    pub(super) fn bytes(&self) -> usize {
        let labels = self.labels.iter().map(|(name, value)| name.len() + value.len());
        OVERHEAD_BYTES + labels.sum::<usize>() + self.point.as_ref().map_or(0, String::len)
    }

    fn read(raw: RawSample, family: &str, kind: SampleKind) -> Option<Self> {
        let suffix = raw.name.as_deref().map_or(Some(""), |name| name.strip_prefix(family))?;
        let part = part_of(kind, suffix)?;
        let mut labels = raw.labels;
        let point = match point_label(kind, part) {
            Some(label) => Some(labels.remove(label).filter(|point| is_point(point))?),
            None => None,
        };
        let are_labels = labels
            .iter()
            .all(|(name, value)| is_label_name(name) && value.len() <= VALUE_BYTES_MAX && name != "le");
        if labels.len() > LABELS_MAX || !are_labels {
            return None;
        }
        let value = raw.value.value()?;
        let is_count = part == Part::Bucket || part == Part::Count || kind == SampleKind::Counter;
        let may_be =
            if is_count { value.is_finite() && value >= 0.0 } else { part != Part::Sum || value.is_finite() };
        may_be.then(|| Self { part, labels: labels.into_iter().collect(), point, value })
    }
}

impl Number {
    fn of(value: f64) -> Self {
        match value {
            value if value.is_finite() => Self::Finite(value),
            value if value.is_nan() => Self::Word("NaN".to_owned()),
            value => Self::Word(if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned()),
        }
    }

    fn value(&self) -> Option<f64> {
        match self {
            Self::Finite(value) => Some(*value),
            Self::Word(word) => match word.as_str() {
                "NaN" => Some(f64::NAN),
                "+Inf" => Some(f64::INFINITY),
                "-Inf" => Some(f64::NEG_INFINITY),
                _ => None,
            },
        }
    }
}

fn part_of(kind: SampleKind, suffix: &str) -> Option<Part> {
    match (kind, suffix) {
        (SampleKind::Counter, "" | "_total") | (SampleKind::Gauge | SampleKind::Summary, "") => {
            Some(Part::Value)
        }
        (SampleKind::Histogram, "_bucket") => Some(Part::Bucket),
        (SampleKind::Histogram | SampleKind::Summary, "_sum") => Some(Part::Sum),
        (SampleKind::Histogram | SampleKind::Summary, "_count") => Some(Part::Count),
        _ => None,
    }
}

/// The label that tells samples of one part apart.
pub(super) fn point_label(kind: SampleKind, part: Part) -> Option<&'static str> {
    match (kind, part) {
        (SampleKind::Histogram, Part::Bucket) => Some("le"),
        (SampleKind::Summary, Part::Value) => Some("quantile"),
        _ => None,
    }
}

/// The number of a bound or a quantile.
pub(super) fn point_value(point: &str) -> f64 {
    if point == "+Inf" { f64::INFINITY } else { point.parse().unwrap_or(f64::NAN) }
}

fn is_point(point: &str) -> bool {
    let has_form =
        point.len() <= 32 && point.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    point == "+Inf" || (has_form && point_value(point).is_finite())
}

fn is_name(name: &str, may_have_colon: bool) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || (may_have_colon && byte == b':');
    name.len() <= NAME_BYTES_MAX
        && name.bytes().all(is_part)
        && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn is_metric_name(name: &str) -> bool {
    !name.is_empty() && is_name(name, true)
}

/// Names that begin with two underscores are Prometheus' own.
fn is_label_name(name: &str) -> bool {
    !name.is_empty() && is_name(name, false) && !name.starts_with("__")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn family(name: &str, kind: &str, values: &str) -> String {
        format!(r#"{{"name":"{name}","help":"h","type":"{kind}","aggregator":"sum","values":[{values}]}}"#)
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let text = format!(
            "[{},{},{},{}]",
            family("hits_total", "counter", r#"{"value":3,"labels":{"path":"/a\"b"}}"#),
            family("depth", "gauge", r#"{"value":"NaN","labels":{}},{"value":"-Inf","labels":{"a":""}}"#),
            family(
                "took",
                "histogram",
                r#"{"labels":{"le":"0.5"},"value":1,"metricName":"took_bucket"},{"labels":{"le":"+Inf"},"value":2,"metricName":"took_bucket"},
                   {"labels":{},"value":-1.5,"metricName":"took_sum"},{"labels":{},"value":2,"metricName":"took_count"}"#
            ),
            family(
                "size",
                "summary",
                r#"{"labels":{"quantile":"0.9"},"value":7},{"metricName":"size_count","value":1}"#
            ),
        );
        let report = AppReport::read(&text).unwrap();
        assert_eq!((report.families.len(), report.left_out), (4, 0));
        let samples = &report.families[2].samples;
        assert_eq!((samples[1].part, samples[1].point.as_deref()), (Part::Bucket, Some("+Inf")));
        let again = AppReport::read(&report.write()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{report:?}"), "NaN is not equal to itself");
    }

    #[test]
    fn what_makes_no_sense_is_left_out_and_counted() {
        let bad_families = [
            "7",
            "null",
            r#"{"name":"a"}"#,
            &family("", "gauge", ""),
            &family("1a", "gauge", ""),
            &family("a b", "gauge", ""),
            &family("a", "info", ""),
            &family("a", "gauge", "3"),
            &family("a", "gauge", r#"{"value":{},"labels":{}}"#),
            &family("a", "gauge", r#"{"value":1,"labels":[]}"#),
            &family(&"a".repeat(NAME_BYTES_MAX + 1), "gauge", ""),
            &family("a", "gauge", "").replace(
                "\"help\"",
                &format!("\"registry\":\"{}\",\"help\"", "a".repeat(REGISTRY_BYTES_MAX + 1)),
            ),
        ];
        for bad in bad_families {
            let report =
                AppReport::read(&format!("[{bad},{}]", family("b", "gauge", r#"{"value":1}"#))).unwrap();
            assert_eq!((report.families.len(), report.left_out), (1, 1), "{bad}");
        }
        let bad_samples = [
            ("counter", r#"{"value":-1}"#),
            ("counter", r#"{"value":"NaN"}"#),
            ("gauge", r#"{"value":"many"}"#),
            ("gauge", r#"{"value":1,"labels":{"__name__":"x"}}"#),
            ("gauge", r#"{"value":1,"labels":{"a\"b":"x"}}"#),
            ("gauge", r#"{"value":1,"metricName":"b"}"#),
            ("histogram", r#"{"value":1,"metricName":"a"}"#),
            ("histogram", r#"{"value":1,"metricName":"a_bucket"}"#),
            ("histogram", r#"{"value":1,"metricName":"a_bucket","labels":{"le":"NaN"}}"#),
            ("summary", r#"{"value":1,"labels":{"quantile":"x\"} 1"}}"#),
        ];
        for (kind, bad) in bad_samples {
            let report = AppReport::read(&format!("[{}]", family("a", kind, bad))).unwrap();
            assert_eq!((report.families[0].samples.len(), report.left_out), (0, 1), "{bad}");
        }
        for nothing in ["", "{}", "7", "[", "[1]x", &"[".repeat(100_000)] {
            assert_eq!(AppReport::read(nothing), None);
        }
    }

    #[test]
    fn a_report_is_bounded() {
        let samples = vec![r#"{"value":1}"#; SERIES_MAX + 5].join(",");
        let report = AppReport::read(&format!("[{}]", family("a", "gauge", &samples))).unwrap();
        assert_eq!((report.families[0].samples.len(), report.left_out), (SERIES_MAX, 5));
        let families = vec![family("a", "gauge", ""); FAMILIES_MAX + 2].join(",");
        let report = AppReport::read(&format!("[{families}]")).unwrap();
        assert_eq!((report.families.len(), report.left_out), (FAMILIES_MAX, 2));
        assert_eq!(AppReport::read(&format!("[{}]", " ".repeat(APP_METRICS_BYTES_MAX))), None);
    }
}
