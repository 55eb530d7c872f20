//! Converts samples to writes.

use super::value::encode;
use super::{COLUMNS, EachRing, Ring, column, is_peak};
use crate::metrics::Sample;

/// An idle worker is sampled rarely: records between two samples are filled with the later one, up to this
/// many seconds. Longer periods are gaps.
const FILLED_S: u64 = 12;

/// Bytes to write at an offset in a worker's area.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub offset: u64,
    pub bytes: Vec<u8>,
}

/// Records one worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recorder {
    /// The last written record of each ring, as seconds since the epoch divided by the ring's step.
    ticks: EachRing<u64>,
    /// The current records of all rings but the first, which has a record for each sample.
    pending: EachRing<Pending>,
}

/// A record under construction.
#[derive(Debug, Clone, PartialEq, Default)]
struct Pending {
    tick: u64,
    columns: Vec<Mean>,
    /// As it was last written.
    written: Vec<u8>,
}

/// One column of it.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Mean {
    sum: f64,
    weight: f64,
    most: f64,
}

impl Recorder {
    /// Continues rings with these last records.
    pub fn resume(ticks: EachRing<u64>) -> Self {
        Self { ticks, pending: Default::default() }
    }

    /// The last record of each ring.
    pub fn ticks(&self) -> EachRing<u64> {
        self.ticks
    }

    /// Records a sample at a time in seconds since the epoch. After the clock was set back, nothing is
    /// recorded until it catches up.
    pub fn record(&mut self, at_s: u64, sample: &Sample) -> Vec<Write> {
        let mut writes = Vec::new();
        if at_s <= self.ticks[0] {
            return writes;
        }
        let values = COLUMNS.map(|name| sample.get(name));
        let gap = at_s - self.ticks[0];
        let seconds = if gap <= FILLED_S { gap } else { 1 };
        for ring in Ring::ALL.into_iter().skip(1) {
            let at = ring.index();
            // The filled seconds may belong to the previous record.
            for second in at_s + 1 - seconds..=at_s {
                let tick = second / ring.step_s();
                if self.pending[at].tick != tick {
                    self.put_pending(ring, &mut writes);
                    let columns = vec![Mean::default(); ring.columns().len()];
                    self.pending[at] = Pending { tick, columns, written: Vec::new() };
                }
                let values = &values[ring.columns()];
                for (mean, value) in self.pending[at].columns.iter_mut().zip(values) {
                    mean.add(*value);
                }
            }
            // Also the current record, because another daemon does not know its parts.
            self.put_pending(ring, &mut writes);
        }
        let of_second = Ring::Seconds.columns();
        let record: Vec<u8> = of_second.map(|at| encode(column(at).unit, values[at])).collect();
        self.put(Ring::Seconds, (at_s + 1 - seconds, at_s), &record, &mut writes);
        writes
    }

    /// Writes the current, incomplete record, unless it is written already.
    fn put_pending(&mut self, ring: Ring, writes: &mut Vec<Write>) {
        let at = ring.index();
        let Pending { tick, columns, written } = &self.pending[at];
        let tick = *tick;
        if columns.is_empty() || tick < self.ticks[at] {
            return;
        }
        let code = |(at, mean): (usize, &Mean)| encode(column(at).unit, mean.value(is_peak(column(at))));
        let record: Vec<u8> = ring.columns().zip(columns).map(code).collect();
        if record != *written {
            self.put(ring, (tick, tick), &record, writes);
            self.pending[at].written = record;
        }
    }

    /// Writes a record at each of these ticks, and clears skipped ones.
    fn put(&mut self, ring: Ring, (first, last): (u64, u64), record: &[u8], writes: &mut Vec<Write>) {
        let at = ring.index();
        // In an empty ring there is nothing to clear.
        let before = if self.ticks[at] == 0 { first } else { self.ticks[at] + 1 };
        let ticks = before.max((first + 1).saturating_sub(ring.records())).min(first)..=last;
        let blank = vec![0; record.len()];
        let mut write: Option<Write> = None;
        for tick in ticks {
            let place = tick % ring.records();
            if place == 0 {
                writes.extend(write.take());
            }
            let offset = ring.begin() + place * ring.record_bytes();
            let write = write.get_or_insert_with(|| Write { offset, bytes: Vec::new() });
            write.bytes.extend_from_slice(if tick < first { &blank } else { record });
        }
        writes.extend(write);
        self.ticks[at] = last;
    }
}

impl Mean {
    fn add(&mut self, value: Option<f64>) {
        if let Some(value) = value {
            self.sum += value;
            self.weight += 1.0;
            self.most = self.most.max(value);
        }
    }

    fn value(&self, is_peak: bool) -> Option<f64> {
        (self.weight > 0.0).then(|| if is_peak { self.most } else { self.sum / self.weight })
    }
}
