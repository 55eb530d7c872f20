//! Number formats in JSON: six decimal places, times in the unit of their key, `null` for unknown.

use std::time::Duration;

use serde::ser::{SerializeMap, Serializer};

use super::spread::{PERCENTILES, Spread, ms};
use crate::Histogram;

/// What [`times`] writes, for the schema.
#[cfg(feature = "schema")]
#[derive(schemars::JsonSchema)]
#[schemars(rename = "Times")]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct Times {
    /// How many times were measured.
    samples: u64,
    /// In milliseconds; `null` if there are too few samples.
    mean: Option<f64>,
    stddev: Option<f64>,
    min: Option<f64>,
    max: Option<f64>,
    /// Percentiles as `p50`, `p99`, `p99_9`.
    #[schemars(flatten)]
    percentiles: std::collections::BTreeMap<String, Option<f64>>,
}

/// Rounds to six decimal places.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

pub(crate) fn number<S: Serializer>(
    value: &(impl Copy + Into<Option<f64>>),
    to: S,
) -> Result<S::Ok, S::Error> {
    match (*value).into() {
        Some(value) => to.serialize_f64(rounded(value)),
        None => to.serialize_none(),
    }
}

pub(crate) fn seconds<S: Serializer>(
    time: &(impl Copy + Into<Option<Duration>>),
    to: S,
) -> Result<S::Ok, S::Error> {
    number(&(*time).into().map(|time| time.as_secs_f64()), to)
}

pub(crate) fn millis<S: Serializer>(
    time: &(impl Copy + Into<Option<Duration>>),
    to: S,
) -> Result<S::Ok, S::Error> {
    number(&(*time).into().map(|time| time.as_secs_f64() * 1e3), to)
}

/// Writes a count, or `null` if it is 0, which means unknown.
pub(crate) fn known<S: Serializer>(count: &(impl Copy + Into<u64>), to: S) -> Result<S::Ok, S::Error> {
    match (*count).into() {
        0 => to.serialize_none(),
        count => to.serialize_u64(count),
    }
}

/// Writes the number, or `null`.
#[expect(clippy::ref_option, reason = "serde gives a reference to the field")]
pub(crate) fn times_if_any<S: Serializer>(histogram: &Option<Histogram>, to: S) -> Result<S::Ok, S::Error> {
    match histogram {
        Some(histogram) => times(histogram, to),
        None => to.serialize_none(),
    }
}

/// Mean, extremes and percentiles in ms; `null` if there are too few samples.
pub(crate) fn times<S: Serializer>(histogram: &Histogram, to: S) -> Result<S::Ok, S::Error> {
    let spread = Spread::of(histogram);
    let known = |value: f64| (spread.count > 0).then(|| rounded(ms(value)));
    let mut map = to.serialize_map(None)?;
    map.serialize_entry("samples", &spread.count)?;
    map.serialize_entry("mean", &known(spread.mean))?;
    map.serialize_entry("stddev", &known(spread.deviation))?;
    map.serialize_entry("min", &known(spread.min as f64))?;
    for percentile in PERCENTILES {
        let value = percentile.of(histogram).map(|value| rounded(ms(value as f64)));
        map.serialize_entry(percentile.key, &value)?;
    }
    map.serialize_entry("max", &known(spread.max as f64))?;
    map.end()
}
