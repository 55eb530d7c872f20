//! Counters of a slot over all its processes: what ended ones have counted stays, so that no counter falls when a worker ends.

use super::histogram::{GcPauses, Latency};
use super::readings::Readings;
use crate::slot::Generation;

/// What was counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Counts {
    /// Rows of the table that are counters.
    pub values: Readings,
    pub latency: Latency,
    /// By the kinds of [`GC_KINDS`](super::GC_KINDS).
    pub gc: [GcPauses; 4],
}

impl Counts {
    pub fn add(&mut self, more: &Self) {
        self.values.add(&more.values);
        self.latency.add(&more.latency);
        self.gc.iter_mut().zip(&more.gc).for_each(|(sum, more)| sum.add(more));
    }

    /// Takes the larger value of each: a counter does not fall.
    fn raise(&mut self, newer: &Self) {
        self.values.raise(&newer.values);
        self.latency.raise(&newer.latency);
        self.gc.iter_mut().zip(&newer.gc).for_each(|(most, newer)| most.raise(newer));
    }
}

/// The counters of a slot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Totals {
    ended: Counts,
    /// In order. There is one process, or the two of a reload: a map would have room for eleven.
    living: Vec<(Generation, Counts)>,
}

impl Totals {
    /// What one of its processes has counted since it began.
    pub fn note(&mut self, generation: Generation, counts: &Counts) {
        let at = match self.find(generation) {
            Ok(at) => at,
            Err(at) => {
                self.living.reserve_exact(1);
                self.living.insert(at, (generation, Counts::default()));
                at
            }
        };
        self.living[at].1.raise(counts);
    }

    /// More was counted of the slot, and of none of its processes.
    pub fn add(&mut self, more: &Readings) {
        self.ended.values.add(more);
    }

    /// A process has ended.
    pub fn end(&mut self, generation: Generation) {
        if let Ok(at) = self.find(generation) {
            self.ended.add(&self.living.remove(at).1);
            self.living.shrink_to_fit();
        }
    }

    fn find(&self, generation: Generation) -> Result<usize, usize> {
        self.living.binary_search_by_key(&generation, |(of, _)| *of)
    }

    /// Those of all its processes.
    pub fn sum(&self) -> Counts {
        let mut sum = self.ended.clone();
        self.living.iter().for_each(|(_, counts)| sum.add(counts));
        sum
    }

    /// What ended processes have counted, and what the living ones have, in order.
    pub fn parts(&self) -> (&Counts, &[(Generation, Counts)]) {
        (&self.ended, &self.living)
    }

    /// Goes on from what [`Self::parts`] gave; processes that are not among `alive` have ended.
    pub fn resume(
        ended: Counts,
        living: impl IntoIterator<Item = (Generation, Counts)>,
        alive: impl Fn(Generation) -> bool,
    ) -> Self {
        let mut totals = Self { ended, living: Vec::new() };
        for (generation, counts) in living {
            totals.note(generation, &counts);
            if !alive(generation) {
                totals.end(generation);
            }
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(requests: f64) -> Counts {
        let mut counts =
            Counts { values: Readings::of(&[("http_requests_total", requests)]), ..Counts::default() };
        counts.latency.counts[0] = requests as u64;
        counts
    }

    fn requests(totals: &Totals) -> (Option<f64>, u64) {
        let sum = totals.sum();
        (sum.values.get("http_requests_total"), sum.latency.count())
    }

    #[test]
    fn counters_go_on_over_the_processes_of_a_slot() {
        let [one, two] = [1, 2].map(Generation);
        let mut totals = Totals::default();
        assert_eq!(requests(&totals), (None, 0));
        totals.note(one, &counted(10.0));
        totals.note(two, &counted(1.0));
        assert_eq!(requests(&totals), (Some(11.0), 11), "both processes of a reload count");
        totals.end(one);
        totals.end(one);
        assert_eq!(requests(&totals), (Some(11.0), 11));
        totals.note(two, &counted(0.0));
        assert_eq!(requests(&totals), (Some(11.0), 11), "no worker can take anything back");
        totals.note(two, &counted(5.0));
        assert_eq!(requests(&totals), (Some(15.0), 15));
        totals.add(&Readings::of(&[("http_requests_total", 2.0)]));
        assert_eq!(requests(&totals).0, Some(17.0));
        let (ended, living) = totals.parts();
        let resumed = Totals::resume(ended.clone(), living.to_vec(), |_| false);
        assert_eq!(requests(&resumed), (Some(17.0), 15), "nobody lives any more");
        assert!(resumed.parts().1.is_empty());
    }
}
