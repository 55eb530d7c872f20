//! A histogram of 4 KB for one time window or one request of many. Each power of two has 32 buckets, so
//! values are exact to 1.6 %.

use crate::clock::Nanos;

/// Smaller values count as this one: 1 µs.
const SMALLEST_BITS: u32 = 10;
/// Larger values count as this one: more than an hour.
const LARGEST_BITS: u32 = 42;
const PARTS_BITS: u32 = 5;
const PARTS: usize = 1 << PARTS_BITS;
const BUCKETS: usize = (LARGEST_BITS - SMALLEST_BITS) as usize * PARTS;

/// Counts by duration.
#[derive(Debug, Clone)]
pub(crate) struct Coarse {
    counts: Box<[u32; BUCKETS]>,
}

impl Coarse {
    pub(crate) fn new() -> Self {
        Self { counts: Box::new([0; BUCKETS]) }
    }

    #[inline]
    pub(crate) fn record(&mut self, value: Nanos) {
        self.counts[bucket(value)] += 1;
    }

    /// Returns the contents and clears the histogram.
    pub(crate) fn take(&mut self) -> Sparse {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        let sparse = Sparse { counts: counts.map(|(bucket, count)| (bucket as u16, *count)).collect() };
        self.counts.fill(0);
        sparse
    }
}

/// The non-empty buckets of a [`Coarse`], in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Sparse {
    counts: Vec<(u16, u32)>,
}

impl Sparse {
    pub(crate) fn merge(&mut self, other: &Self) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
            return;
        }
        for (bucket, count) in &other.counts {
            match self.counts.binary_search_by_key(bucket, |(bucket, _)| *bucket) {
                Ok(at) => self.counts[at].1 = self.counts[at].1.saturating_add(*count),
                Err(at) => self.counts.insert(at, (*bucket, *count)),
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.counts.iter().map(|(_, count)| u64::from(*count)).sum()
    }

    /// The value at `quantile`: this share of all values is not larger. `None` if there are no values.
    pub(crate) fn quantile(&self, quantile: f64) -> Option<Nanos> {
        let total = self.total();
        let wanted = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        self.counts.iter().find_map(|(bucket, count)| {
            seen += u64::from(*count);
            (seen >= wanted).then(|| middle(usize::from(*bucket)))
        })
    }

    /// Value and count of each bucket.
    pub(crate) fn values(&self) -> impl Iterator<Item = (Nanos, u64)> + '_ {
        self.counts.iter().map(|(bucket, count)| (middle(usize::from(*bucket)), u64::from(*count)))
    }
}

#[inline]
fn bucket(value: Nanos) -> usize {
    let value = value.clamp(1 << SMALLEST_BITS, (1 << LARGEST_BITS) - 1);
    let power = value.ilog2();
    let part = (value >> (power - PARTS_BITS)) as usize & (PARTS - 1);
    (power - SMALLEST_BITS) as usize * PARTS + part
}

fn middle(bucket: usize) -> Nanos {
    let power = (bucket / PARTS) as u32 + SMALLEST_BITS;
    let width = 1u64 << (power - PARTS_BITS);
    (1u64 << power) + (bucket % PARTS) as u64 * width + width / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_value_is_known_within_two_percent(value in 1_024u64..3_600_000_000_000) {
            let error = (middle(bucket(value)) as f64 / value as f64 - 1.0).abs();
            prop_assert!(error < 0.016, "{}", error);
        }
    }

    #[test]
    fn quantiles_and_merging() {
        let mut coarse = Coarse::new();
        for value in 1..=100 {
            coarse.record(value * 1_000_000);
        }
        coarse.record(0);
        coarse.record(u64::MAX);
        let mut sparse = coarse.take();
        assert_eq!((sparse.total(), coarse.take().total()), (102, 0));
        let median = sparse.quantile(0.5).unwrap() as f64 / 50e6;
        assert!((median - 1.0).abs() < 0.02);
        sparse.merge(&sparse.clone());
        assert_eq!(sparse.total(), 204);
        assert_eq!(Sparse::default().quantile(0.5), None);
    }
}
