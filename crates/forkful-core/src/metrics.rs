//! What the agent measures in each worker: the one table. From it the reports of agents are read, and `describe`, `jlist`,
//! `list --json` and docs/METRICS.md have their values and words. `agent/reports.cjs` measures under the same names.

use std::fmt;

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name in the agent's report, in JSON and in the API; the unit comes last.
    pub name: &'static str,
    /// Its name in `describe`.
    pub label: &'static str,
    pub unit: Unit,
    /// The same for scripts that were written for PM2, if PM2 has it.
    pub pm2: Option<Pm2Metric>,
    /// What it is, in a sentence.
    pub meaning: &'static str,
}

/// What the value of a metric counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// From 0 to 1.
    Ratio,
    Milliseconds,
    MillisecondsPerSecond,
    PerSecond,
    Bytes,
}

/// A metric as `@pm2/io` names it in `axm_monitor`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pm2Metric {
    pub name: &'static str,
    /// Its `type`.
    pub kind: &'static str,
    pub unit: &'static str,
    /// What our value is multiplied by.
    pub factor: f64,
}

/// All that is measured, in the order in which it is shown.
pub const METRICS: &[Metric] = &[
    metric(
        "event_loop_utilization",
        "event loop busy",
        Unit::Ratio,
        "The share of time that the event loop was busy since the last report, one second before.",
    ),
    metric(
        "event_loop_delay_p50_ms",
        "event loop late",
        Unit::Milliseconds,
        "The median of how late the event loop was in that second.",
    )
    .in_pm2("Event Loop Latency", "internal/libuv/latency/p50", "ms", 1.0),
    metric(
        "event_loop_delay_p99_ms",
        "late at the p99",
        Unit::Milliseconds,
        "The 99th percentile of how late the event loop was in that second.",
    ),
    metric("heap_used_bytes", "heap used", Unit::Bytes, "The part of JavaScript's heap that is in use.")
        .in_pm2("Used Heap Size", "internal/v8/heap/used", "MiB", 1.0 / (1024.0 * 1024.0)),
    metric(
        "gc_pause_ms_per_s",
        "gc pauses",
        Unit::MillisecondsPerSecond,
        "How long garbage collection kept JavaScript from running in that second.",
    ),
    metric(
        "http_requests_per_s",
        "http requests",
        Unit::PerSecond,
        "HTTP requests that came in that second.",
    )
    .in_pm2("HTTP", "internal/http/builtin/reqs", "req/min", 60.0),
];

const fn metric(name: &'static str, label: &'static str, unit: Unit, meaning: &'static str) -> Metric {
    Metric { name, label, unit, pm2: None, meaning }
}

impl Metric {
    const fn in_pm2(
        mut self,
        name: &'static str,
        kind: &'static str,
        unit: &'static str,
        factor: f64,
    ) -> Self {
        self.pm2 = Some(Pm2Metric { name, kind, unit, factor });
        self
    }

    /// A value, for people.
    pub fn shown(&self, value: f64) -> String {
        match self.unit {
            Unit::Ratio => format!("{:.1}%", value * 100.0),
            Unit::Milliseconds => format!("{value:.1} ms"),
            Unit::MillisecondsPerSecond => format!("{value:.1} ms/s"),
            Unit::PerSecond => format!("{value:.1}/s"),
            Unit::Bytes => format!("{:.1} MiB", value / (1024.0 * 1024.0)),
        }
    }
}

impl Unit {
    /// The most that is believed.
    const fn max(self) -> f64 {
        match self {
            Self::Ratio => 1.0,
            Self::MillisecondsPerSecond => 1000.0,
            Self::Milliseconds | Self::PerSecond | Self::Bytes => 1e15,
        }
    }
}

/// What one report says: a value for each metric that it has.
#[derive(Clone, Copy, PartialEq, Default)]
pub struct Readings([Option<f64>; METRICS.len()]);

// `take` lets no NaN in.
impl Eq for Readings {}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(metric, value)| (metric.name, value))).finish()
    }
}

impl Readings {
    /// Stores the value of the metric with this name. It ignores unknown names, and values outside of the metric's range.
    pub fn take(&mut self, name: &str, value: f64) {
        let row = METRICS.iter().position(|metric| metric.name == name);
        if let Some((row, place)) = row.and_then(|row| Some((METRICS.get(row)?, self.0.get_mut(row)?)))
            && (0.0..=row.unit.max()).contains(&value)
        {
            *place = Some(value);
        }
    }

    /// The values that are known.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Metric, f64)> + '_ {
        METRICS.iter().zip(self.0).filter_map(|(metric, value)| Some((metric, value?)))
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(metric, _)| metric.name == name).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_by_name_and_what_cannot_be_is_left_out() {
        let mut readings = Readings::default();
        for (name, value) in [
            ("heap_used_bytes", 3e6),
            ("event_loop_utilization", 1.5),
            ("event_loop_delay_p50_ms", f64::NAN),
            ("event_loop_delay_p99_ms", -1.0),
            ("http_requests_per_s", f64::INFINITY),
            ("moon_phase", 0.5),
        ] {
            readings.take(name, value);
        }
        let known: Vec<_> = readings.iter().map(|(metric, value)| (metric.name, value)).collect();
        assert_eq!(known, [("heap_used_bytes", 3e6)]);
        assert_eq!((readings.get("heap_used_bytes"), readings.get("moon_phase")), (Some(3e6), None));
    }

    #[test]
    fn names_are_unique_and_values_have_their_units() {
        let distinct =
            |names: Vec<&str>| names.iter().collect::<std::collections::BTreeSet<_>>().len() == names.len();
        assert!(distinct(METRICS.iter().map(|metric| metric.name).collect()));
        assert!(distinct(METRICS.iter().map(|metric| metric.label).collect()));
        assert!(distinct(METRICS.iter().filter_map(|metric| Some(metric.pm2?.name)).collect()));
        let shown = |unit, value| metric("x", "x", unit, "").shown(value);
        assert_eq!(shown(Unit::Ratio, 0.123), "12.3%");
        assert_eq!(shown(Unit::Milliseconds, 1.26), "1.3 ms");
        assert_eq!(shown(Unit::MillisecondsPerSecond, 20.0), "20.0 ms/s");
        assert_eq!(shown(Unit::PerSecond, 3.0), "3.0/s");
        assert_eq!(shown(Unit::Bytes, 5.0 * 1024.0 * 1024.0), "5.0 MiB");
    }
}
