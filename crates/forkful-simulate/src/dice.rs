//! The source of all randomness: a seed.

use std::time::Duration;

use forkful_core::random::{Random, mixed};

/// A generator; each seed gives a different sequence of numbers.
#[derive(Debug, Clone)]
pub(crate) struct Dice(Random);

impl Dice {
    /// The generator for one purpose of a run, identified by `words`.
    pub(crate) fn of(words: &[u64]) -> Self {
        Self(Random::new(words.iter().fold(0, |all, word| mixed(mixed(all) ^ word.wrapping_add(1)))))
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `end`, which must not be 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.below(end as usize) as u64
    }

    /// True in this percentage of cases.
    pub(crate) fn percent(&mut self, of_100: u64) -> bool {
        self.below(100) < of_100
    }

    /// From `from` to `to` milliseconds.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    /// From `from` to `to` microseconds.
    pub(crate) fn micros(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_micros(from + self.below(to - from + 1))
    }

    /// A random element of a non-empty list.
    pub(crate) fn choose<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}
