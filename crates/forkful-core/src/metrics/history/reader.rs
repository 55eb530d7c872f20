//! Converts bytes to series.

use std::ops::Range;

use super::value::decode;
use super::{COLUMNS, Ring, column, is_peak};
use crate::metrics::table::{Metric, Unit};

/// Maximum values of a series.
const POINTS_MAX: u64 = 3600;
/// The default period.
const USUAL_S: u64 = 600;

/// The requested period, in seconds since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Query {
    pub from_s: Option<u64>,
    pub to_s: Option<u64>,
    pub step_s: Option<u64>,
}

/// The returned period: `points` times `step_s` from `from_s` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    pub from_s: u64,
    pub step_s: u64,
    pub points: u64,
    /// The ring of the values that are measured each second.
    pub ring: Ring,
    /// The finest ring that goes back as far: it has values that `ring` does not have.
    pub finest: Ring,
    /// The ring of the slow values. Where it is coarser than the points, a value holds for several of them.
    pub slow: Ring,
}

impl Query {
    /// Chooses the period to return. Steps are whole steps of a ring that still contains the beginning,
    /// within the maximum.
    pub fn span(&self, now_s: u64) -> Span {
        let to_s = self.to_s.unwrap_or(now_s).min(now_s);
        let from_s = self.from_s.unwrap_or_else(|| to_s.saturating_sub(USUAL_S)).min(to_s);
        let from_s = from_s.max(now_s.saturating_sub(Ring::Minutes.reach_s()));
        let length = to_s.saturating_sub(from_s).max(1);
        // A longer step has no more values than the longest ring.
        let asked = self.step_s.unwrap_or(1).clamp(1, Ring::Minutes.reach_s());
        let least = asked.max(length.div_ceil(POINTS_MAX));
        let fits = |ring: &Ring| {
            from_s + ring.reach_s() >= now_s && (ring.step_s() <= least || self.step_s.is_none())
        };
        // The coarsest ring that is fine enough has the fewest bytes; without a requested step, the finest
        // ring that goes back far enough.
        let mut rings = Ring::USUAL.into_iter();
        let ring = match self.step_s {
            Some(_) => rings.rev().find(fits),
            None => rings.find(fits),
        };
        let reaching = || Ring::USUAL.into_iter().find(|ring| from_s + ring.reach_s() >= now_s);
        let ring = ring.or_else(reaching).unwrap_or(Ring::Minutes);
        let step_s = least.div_ceil(ring.step_s()) * ring.step_s();
        let from_s = from_s / step_s * step_s;
        let [fine, coarse] = Ring::SLOW;
        // By rounding, the period may begin one step before the ring.
        let reaches = |ring: &Ring| from_s + ring.reach_s() + step_s >= now_s;
        Span {
            from_s,
            step_s,
            points: to_s.saturating_sub(from_s).div_ceil(step_s).clamp(1, POINTS_MAX + 1),
            ring,
            finest: Ring::USUAL[..ring.index()].iter().copied().find(reaches).unwrap_or(ring),
            // The coarse one, too, if it is fine enough.
            slow: if reaches(&fine) && step_s < coarse.step_s() { fine } else { coarse },
        }
    }
}

impl Span {
    /// The rings with the values of this period, and which of their columns to read: each from the coarsest ring that has it.
    pub fn parts(&self) -> impl Iterator<Item = (Ring, Range<usize>)> {
        let mut read = 0;
        let usual = Ring::USUAL[self.finest.index()..=self.ring.index()].iter().rev();
        usual.chain([&self.slow]).map(move |ring| {
            let columns = ring.columns();
            let begin = columns.start.max(std::mem::replace(&mut read, columns.end));
            (*ring, begin..columns.end)
        })
    }
}

/// The series of a worker in a period, from the bytes of a ring whose last record is `last`: those of these
/// columns that have a value, by name. `wants` selects columns.
pub fn read_series(
    span: &Span,
    (ring, columns): (Ring, Range<usize>),
    bytes: &[u8],
    last: u64,
    wants: impl Fn(&str) -> bool,
) -> Vec<(&'static str, Vec<Option<f64>>)> {
    let wanted = columns.filter(|at| wants(COLUMNS[*at]));
    let series = wanted.map(|at| (COLUMNS[at], read_column(span, ring, bytes, last, at)));
    series.filter(|(_, values)| values.iter().any(Option::is_some)).collect()
}

fn read_column(span: &Span, ring: Ring, bytes: &[u8], last: u64, at: usize) -> Vec<Option<f64>> {
    let metric = column(at);
    let table: [Option<f64>; 256] = std::array::from_fn(|code| decode(metric.unit, code as u8));
    let in_record = at - ring.columns().start;
    let oldest = (last + 1).saturating_sub(ring.records());
    let value = |tick: u64| {
        let place = (tick % ring.records() * ring.record_bytes()) as usize + in_record;
        table[usize::from(*bytes.get(place)?)]
    };
    let point = |point: u64| {
        let begin_s = span.from_s + point * span.step_s;
        let end_s = begin_s + span.step_s - 1;
        // Only what the ring has: a step may be longer.
        let ticks = (begin_s / ring.step_s()).max(oldest)..=(end_s / ring.step_s()).min(last);
        joined(metric, ticks.filter_map(value))
    };
    (0..span.points).map(point).collect()
}

/// Combines several values.
fn joined(metric: &Metric, values: impl Iterator<Item = f64>) -> Option<f64> {
    let (mut sum, mut count, mut most) = (0.0, 0_u32, 0.0_f64);
    for value in values {
        sum += value;
        count += 1;
        most = most.max(value);
    }
    let mean = || (sum / f64::from(count) * 1e4).round() / 1e4;
    match count {
        0 => None,
        1 => Some(sum),
        _ if is_peak(metric) => Some(most),
        _ if metric.unit == Unit::Bytes => Some(mean().round()),
        _ => Some(mean()),
    }
}
