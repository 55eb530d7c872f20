//! The values of known rows of the table.

use std::fmt;

use super::table::{METRICS, Metric};

/// The values at a time, or of a second: one for each known metric.
#[derive(Clone, Copy)]
pub struct Readings([f64; METRICS.len()]);

/// The values of a worker for one second.
pub type Sample = Readings;

impl Default for Readings {
    fn default() -> Self {
        // Not a number means unknown.
        Self([f64::NAN; METRICS.len()])
    }
}

impl PartialEq for Readings {
    fn eq(&self, other: &Self) -> bool {
        self.0.iter().zip(other.0).all(|(one, other)| *one == other || one.is_nan() && other.is_nan())
    }
}

// Unknown values are equal.
impl Eq for Readings {}

impl fmt::Debug for Readings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter().map(|(metric, value)| (metric.name, value))).finish()
    }
}

impl Readings {
    /// From values by name.
    pub fn of(values: &[(&str, f64)]) -> Self {
        let mut readings = Self::default();
        values.iter().for_each(|(name, value)| readings.take(name, *value));
        readings
    }

    /// Stores the value of the metric with this name. It ignores unknown names, and values outside of the metric's range.
    pub fn take(&mut self, name: &str, value: f64) {
        let row = METRICS.iter().position(|metric| metric.name == name);
        if let Some((row, place)) = row.and_then(|row| Some((METRICS.get(row)?, self.0.get_mut(row)?)))
            && (0.0..=row.unit.max()).contains(&value)
        {
            *place = value;
        }
    }

    /// The known values.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Metric, f64)> + '_ {
        METRICS.iter().zip(self.0).filter(|(_, value)| !value.is_nan())
    }

    pub fn get(&self, name: &str) -> Option<f64> {
        self.iter().find(|(metric, _)| metric.name == name).map(|(_, value)| value)
    }

    /// Takes the known values of `newer`.
    pub fn update(&mut self, newer: &Self) {
        for (place, value) in self.0.iter_mut().zip(newer.0) {
            if !value.is_nan() {
                *place = value;
            }
        }
    }

    /// The rows for which `keeps` is true.
    #[must_use]
    pub fn only(mut self, keeps: impl Fn(&Metric) -> bool) -> Self {
        for (metric, place) in METRICS.iter().zip(&mut self.0) {
            if !keeps(metric) {
                *place = f64::NAN;
            }
        }
        self
    }

    /// Adds the values of `more`; unknown counts as 0.
    pub fn add(&mut self, more: &Self) {
        for (place, value) in self.0.iter_mut().zip(more.0) {
            if !value.is_nan() {
                *place = if place.is_nan() { value } else { *place + value };
            }
        }
    }

    /// Takes the maximum of each value.
    pub fn raise(&mut self, other: &Self) {
        for (place, value) in self.0.iter_mut().zip(other.0) {
            *place = place.max(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_taken_by_name_and_what_cannot_be_is_left_out() {
        let readings = Readings::of(&[
            ("heap_used_bytes", 3e6),
            ("event_loop_utilization", 1.5),
            ("event_loop_delay_p50_ms", f64::NAN),
            ("event_loop_delay_p99_ms", -1.0),
            ("http_requests_per_s", f64::INFINITY),
            ("moon_phase", 0.5),
        ]);
        let known: Vec<_> = readings.iter().map(|(metric, value)| (metric.name, value)).collect();
        assert_eq!(known, [("heap_used_bytes", 3e6)]);
        assert_eq!((readings.get("heap_used_bytes"), readings.get("moon_phase")), (Some(3e6), None));
    }

    #[test]
    fn what_is_not_known_changes_nothing() {
        let one = Readings::of(&[("heap_used_bytes", 1.0), ("pool_cpu", 2.0)]);
        let other = Readings::of(&[("pool_cpu", 1.0), ("cpu_cores", 3.0)]);
        let (mut newer, mut sum, mut top) = (one, one, one);
        newer.update(&other);
        assert_eq!(newer, Readings::of(&[("heap_used_bytes", 1.0), ("pool_cpu", 1.0), ("cpu_cores", 3.0)]));
        sum.add(&other);
        assert_eq!(sum, Readings::of(&[("heap_used_bytes", 1.0), ("pool_cpu", 3.0), ("cpu_cores", 3.0)]));
        top.raise(&other);
        assert_eq!(top, Readings::of(&[("heap_used_bytes", 1.0), ("pool_cpu", 2.0), ("cpu_cores", 3.0)]));
        assert_eq!(one.only(|metric| metric.name == "pool_cpu"), Readings::of(&[("pool_cpu", 2.0)]));
    }
}
