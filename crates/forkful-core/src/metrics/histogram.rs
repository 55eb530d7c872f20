//! Histograms with fixed buckets, which can be added and subtracted.

/// The upper bounds of the HTTP latency buckets; one more bucket has longer ones. `agent/requests.cjs` uses
/// the same.
pub const LATENCY_BOUNDS_MS: [f64; 24] = [
    0.5, 1.0, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 50.0, 75.0, 100.0, 150.0, 200.0, 300.0, 500.0,
    750.0, 1000.0, 1500.0, 2000.0, 3000.0, 5000.0, 10_000.0,
];

/// The bounds for garbage collection pauses: the buckets of prom-client's `nodejs_gc_duration_seconds`.
pub const GC_BOUNDS_MS: [f64; 6] = [1.0, 10.0, 100.0, 1000.0, 2000.0, 5000.0];

/// Latencies of HTTP requests.
pub type Latency = Histogram<25>;

/// Garbage collection pauses of one kind.
pub type GcPauses = Histogram<7>;

/// Counts in `N` buckets, the last of which is unbounded, and the sum of the values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Histogram<const N: usize> {
    /// Not cumulative.
    pub counts: [u64; N],
    pub sum_ms: f64,
}

impl<const N: usize> Default for Histogram<N> {
    fn default() -> Self {
        Self { counts: [0; N], sum_ms: 0.0 }
    }
}

// NaN values are never stored.
impl<const N: usize> Eq for Histogram<N> {}

/// The maximum accepted count; sums of it stay exact.
const COUNT_MAX: f64 = 1e15;

impl<const N: usize> Histogram<N> {
    /// From the counts followed by the sum; missing and invalid values are 0.
    pub fn read(numbers: &[f64]) -> Self {
        let known = |at: usize| {
            numbers.get(at).copied().filter(|number| (0.0..=COUNT_MAX).contains(number)).unwrap_or(0.0)
        };
        Self { counts: std::array::from_fn(|at| known(at) as u64), sum_ms: known(N) }
    }

    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    pub fn add(&mut self, more: &Self) {
        for (count, more) in self.counts.iter_mut().zip(more.counts) {
            *count = count.saturating_add(more);
        }
        self.sum_ms += more.sum_ms;
    }

    /// Takes the maximum of each value.
    pub fn raise(&mut self, other: &Self) {
        for (count, other) in self.counts.iter_mut().zip(other.counts) {
            *count = (*count).max(other);
        }
        self.sum_ms = self.sum_ms.max(other.sum_ms);
    }

    /// The difference to `earlier`.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            counts: std::array::from_fn(|at| self.counts[at].saturating_sub(earlier.counts[at])),
            sum_ms: (self.sum_ms - earlier.sum_ms).max(0.0),
        }
    }

    /// The quantile, interpolated within its bucket; `None` if empty. Of values above all bounds, only the mean is known,
    /// from the sum: it stands for each of them.
    pub fn quantile(&self, bounds: &[f64], share: f64) -> Option<f64> {
        let all = self.count();
        if all == 0 {
            return None;
        }
        let rank = share * all as f64;
        let mut below = 0.0;
        for (at, count) in self.counts.iter().enumerate() {
            let here = *count as f64;
            if below + here >= rank && here > 0.0 {
                let Some(high) = bounds.get(at) else { return self.mean_above(bounds) };
                let low = lower_bound(bounds, at);
                return Some(low + (high - low) * ((rank - below) / here).clamp(0.0, 1.0));
            }
            below += here;
        }
        bounds.last().copied()
    }

    /// The mean of the values above all bounds, where those below have the middle of their buckets; at least the last bound.
    fn mean_above(&self, bounds: &[f64]) -> Option<f64> {
        let last = *bounds.last()?;
        let middle = |at: usize| f64::midpoint(lower_bound(bounds, at), bounds[at]);
        let below: f64 = self
            .counts
            .iter()
            .take(bounds.len())
            .enumerate()
            .map(|(at, count)| *count as f64 * middle(at))
            .sum();
        let above = *self.counts.get(bounds.len())? as f64;
        Some(((self.sum_ms - below) / above.max(1.0)).max(last))
    }
}

fn lower_bound(bounds: &[f64], at: usize) -> f64 {
    at.checked_sub(1).and_then(|before| bounds.get(before)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_is_bounded_and_what_is_missing_is_nothing() {
        let read = Histogram::<3>::read(&[1.0, -1.0, f64::NAN, 7.5, 8.0]);
        assert_eq!(read, Histogram { counts: [1, 0, 0], sum_ms: 7.5 });
        assert_eq!(Histogram::<3>::read(&[]), Histogram::default());
        assert_eq!(Histogram::<1>::read(&[f64::INFINITY, 1e300]), Histogram::default());
    }

    #[test]
    fn quantiles_lie_in_the_bucket_of_their_rank() {
        let bounds = [10.0, 20.0];
        let of = |counts| Histogram::<3> { counts, sum_ms: 0.0 };
        assert_eq!(of([0, 0, 0]).quantile(&bounds, 0.5), None);
        assert_eq!(of([10, 0, 0]).quantile(&bounds, 0.5), Some(5.0));
        assert_eq!(of([5, 5, 0]).quantile(&bounds, 0.75), Some(15.0));
        assert_eq!(of([0, 4, 0]).quantile(&bounds, 1.0), Some(20.0));
        assert_eq!(of([0, 0, 9]).quantile(&bounds, 0.99), Some(20.0), "above all bounds");
        let known = Histogram::<3> { counts: [2, 0, 9], sum_ms: 10.0 + 9.0 * 35.0 };
        assert_eq!(known.quantile(&bounds, 0.99), Some(35.0), "above all bounds, by the sum");
        assert_eq!(of([1, 0, 1]).quantile(&bounds, 0.0), Some(0.0));
    }

    #[test]
    fn a_difference_is_what_has_come_and_never_negative() {
        let before = Histogram { counts: [1, 5], sum_ms: 10.0 };
        let after = Histogram { counts: [4, 2], sum_ms: 9.0 };
        assert_eq!(after.since(&before), Histogram { counts: [3, 0], sum_ms: 0.0 });
        let (mut sum, mut top) = (before, before);
        sum.add(&after);
        assert_eq!(sum, Histogram { counts: [5, 7], sum_ms: 19.0 });
        top.raise(&after);
        assert_eq!((top.counts, top.sum_ms), ([4, 5], 10.0));
    }

    #[test]
    fn bounds_rise_and_there_is_one_bucket_more() {
        assert!(LATENCY_BOUNDS_MS.is_sorted() && GC_BOUNDS_MS.is_sorted());
        assert_eq!(Latency::default().counts.len(), LATENCY_BOUNDS_MS.len() + 1);
        assert_eq!(GcPauses::default().counts.len(), GC_BOUNDS_MS.len() + 1);
    }
}
