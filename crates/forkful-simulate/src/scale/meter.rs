//! The state machine's own CPU time: real time between two readings of the clock, minus the cost of reading.

use std::time::{Duration, Instant};

/// Timed steps. Without [`Self::on`] nothing is timed and the real clock is not read.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    on: bool,
    pub(crate) steps: u64,
    spent: Duration,
    reading: Duration,
}

impl Meter {
    pub(crate) fn on() -> Self {
        let began = Instant::now();
        const READINGS: u32 = 10_000;
        for _ in 0..READINGS {
            std::hint::black_box(Instant::now());
        }
        Self { on: true, reading: began.elapsed() / READINGS, ..Self::default() }
    }

    pub(crate) fn time<T>(&mut self, work: impl FnOnce() -> T) -> T {
        self.steps += 1;
        if !self.on {
            return work();
        }
        let began = Instant::now();
        let done = work();
        self.spent += began.elapsed().saturating_sub(self.reading);
        done
    }

    pub(crate) fn restart(&mut self) {
        (self.steps, self.spent) = (0, Duration::ZERO);
    }

    pub(crate) fn spent(&self) -> Duration {
        self.spent
    }
}
