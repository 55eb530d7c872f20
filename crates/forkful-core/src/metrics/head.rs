//! The head of a worker's history: whose it is, how far its rings are, and its counters. It is written with each sample, so that
//! another daemon goes on with all of it.
//!
//! Numbers are little-endian. A counter is known by a hash of its name, for versions differ in their rows.

use super::histogram::Histogram;
use super::history::EachRing;
use super::readings::Readings;
use super::table::{Kind, METRICS};
use super::totals::{Counts, Totals};
use crate::slot::Generation;

/// The layout and its version; another one is not read.
const MAGIC: u64 = 0x464b_4849_5354_0002;
/// Processes of a slot whose counters are written apart: the old and the new one of a reload.
const LIVING_MAX: usize = 2;

/// The most bytes of a head.
pub const HEAD_BYTES: usize = 4096;

/// What is known of a worker.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Head {
    /// Its app and its slot, by the daemon's numbers.
    pub app: u32,
    pub slot: u16,
    /// The last record of each ring.
    pub ticks: EachRing<u64>,
    /// Reloads of the app: those that succeeded, those that did not.
    pub reloads: [u64; 2],
    pub totals: Totals,
}

impl Head {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEAD_BYTES);
        bytes.extend(MAGIC.to_le_bytes());
        bytes.extend(self.app.to_le_bytes());
        bytes.extend(u32::from(self.slot).to_le_bytes());
        for number in self.ticks.iter().chain(&self.reloads) {
            bytes.extend(number.to_le_bytes());
        }
        let (ended, living) = self.totals.parts();
        let mut ended = ended.clone();
        let apart = living.len().saturating_sub(LIVING_MAX);
        living.iter().take(apart).for_each(|(_, counts)| ended.add(counts));
        write_counts(&ended, &mut bytes);
        bytes.extend(((living.len() - apart) as u32).to_le_bytes());
        for (generation, counts) in living.iter().skip(apart) {
            bytes.extend(generation.0.to_le_bytes());
            write_counts(counts, &mut bytes);
        }
        debug_assert!(bytes.len() <= HEAD_BYTES);
        bytes
    }

    /// `None` of what is no head.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let mut bytes = Bytes(bytes);
        if bytes.long()? != MAGIC {
            return None;
        }
        let (app, slot) = (bytes.word()?, u16::try_from(bytes.word()?).ok()?);
        let mut ticks = EachRing::default();
        for tick in &mut ticks {
            *tick = bytes.long()?;
        }
        let reloads = [bytes.long()?, bytes.long()?];
        let ended = bytes.counts()?;
        let count = bytes.word()? as usize;
        let mut living = Vec::new();
        for _ in 0..count.min(LIVING_MAX) {
            living.push((Generation(bytes.word()?), bytes.counts()?));
        }
        Some(Self { app, slot, ticks, reloads, totals: Totals::resume(ended, living, |_| true) })
    }
}

fn write_counts(counts: &Counts, bytes: &mut Vec<u8>) {
    let known: Vec<_> = counts.values.iter().filter(|(metric, _)| metric.kind == Kind::Counter).collect();
    bytes.extend((known.len() as u32).to_le_bytes());
    for (metric, value) in known {
        bytes.extend(hash(metric.name).to_le_bytes());
        bytes.extend(value.to_le_bytes());
    }
    write_histogram(&counts.latency, bytes);
    counts.gc.iter().for_each(|pauses| write_histogram(pauses, bytes));
}

fn write_histogram<const N: usize>(histogram: &Histogram<N>, bytes: &mut Vec<u8>) {
    histogram.counts.iter().for_each(|count| bytes.extend(count.to_le_bytes()));
    bytes.extend(histogram.sum_ms.to_le_bytes());
}

/// FNV-1a.
fn hash(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Bytes that are read from the front.
struct Bytes<'a>(&'a [u8]);

impl Bytes<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*first)
    }

    fn word(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn number(&mut self) -> Option<f64> {
        self.take().map(f64::from_le_bytes).map(|number| if number >= 0.0 { number } else { 0.0 })
    }

    fn counts(&mut self) -> Option<Counts> {
        let mut values = Readings::default();
        for _ in 0..self.word()? {
            let (name, value) = (self.word()?, self.number()?);
            let row = METRICS.iter().find(|metric| metric.kind == Kind::Counter && hash(metric.name) == name);
            if let Some(metric) = row {
                values.take(metric.name, value);
            }
        }
        let latency = self.histogram()?;
        let mut gc = [Histogram::default(); 4];
        for pauses in &mut gc {
            *pauses = self.histogram()?;
        }
        Some(Counts { values, latency, gc })
    }

    fn histogram<const N: usize>(&mut self) -> Option<Histogram<N>> {
        let mut histogram = Histogram::default();
        for count in &mut histogram.counts {
            *count = self.long()?;
        }
        histogram.sum_ms = self.number()?;
        Some(histogram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(value: f64) -> Counts {
        let rows = METRICS.iter().filter(|metric| metric.kind == Kind::Counter);
        let all: Vec<_> = rows.map(|metric| (metric.name, value)).collect();
        let mut counts = Counts { values: Readings::of(&all), ..Counts::default() };
        counts.latency = Histogram { counts: [7; 25], sum_ms: value };
        counts.gc[3].counts[6] = 9;
        counts
    }

    #[test]
    fn a_head_is_read_as_it_was_written() {
        let mut head = Head { app: 7, slot: 3, ticks: [1, 2, 3, 4, 5], reloads: [6, 7], ..Head::default() };
        assert_eq!(Head::decode(&head.encode()), Some(head.clone()));
        for generation in 1..=4 {
            head.totals.note(Generation(generation), &counts(f64::from(generation)));
        }
        head.totals.end(Generation(1));
        let bytes = head.encode();
        assert!(bytes.len() <= HEAD_BYTES, "{}", bytes.len());
        let read = Head::decode(&bytes).unwrap();
        assert_eq!(read.totals.sum(), head.totals.sum());
        assert_eq!(
            read.totals.parts().1.iter().map(|(of, _)| *of).collect::<Vec<_>>(),
            [Generation(3), Generation(4)]
        );
    }

    #[test]
    fn what_is_no_head_is_refused() {
        let bytes = Head::default().encode();
        assert_eq!(Head::decode(&[]), None);
        assert_eq!(Head::decode(&[0; HEAD_BYTES]), None);
        (0..bytes.len()).for_each(|length| assert_eq!(Head::decode(&bytes[..length]), None));
        let mut other = bytes;
        other[0] ^= 1;
        assert_eq!(Head::decode(&other), None);
    }

    #[test]
    fn no_two_counters_have_one_hash() {
        let hashes: std::collections::BTreeSet<_> = METRICS.iter().map(|metric| hash(metric.name)).collect();
        assert_eq!(hashes.len(), METRICS.len());
    }
}
