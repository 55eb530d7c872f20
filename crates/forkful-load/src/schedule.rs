//! When requests of an open loop are meant to start, and how totals are split over threads. Pure: time comes in,
//! times go out.

use crate::clock::{NEVER, Nanos, nanos};
use crate::plan::{Arrivals, Load, Plan, Stop};
use crate::shared::Times;
use forkful_core::random::Random;

const SECOND: f64 = 1e9;

/// The part of a total that thread `index` of `threads` gets: the parts add up to the total, and differ by 1 at most.
pub(crate) fn share(total: u64, index: usize, threads: usize) -> u64 {
    let (index, threads) = (index as u64, threads as u64);
    total / threads + u64::from(index < total % threads)
}

/// When connection `index` of a thread begins in a closed loop: over the ramp, all threads together come in evenly.
pub(crate) fn ramp_start(plan: &Plan, times: Times, index: usize, thread: usize, threads: usize) -> Nanos {
    // Place i of thread t is number i·threads + t of all.
    let number = (index * threads + thread) as f64 / plan.connections as f64;
    times.start + (nanos(plan.ramp) as f64 * number) as u64
}

/// What a schedule is made of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScheduleOptions {
    /// Requests per second of all threads together.
    pub(crate) rate: f64,
    pub(crate) arrivals: Arrivals,
    /// This thread, of so many.
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    /// When the ramp begins, when it ends, when the measurement begins.
    pub(crate) start: Nanos,
    pub(crate) ramp_end: Nanos,
    pub(crate) measure_from: Nanos,
    /// Requests of all threads in the measurement; `u64::MAX`: until the end.
    pub(crate) measured_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    /// Its number among all threads' arrivals of its kind.
    pub(crate) number: u64,
    /// In the measurement, not in ramp or warm-up.
    pub(crate) measured: bool,
}

/// The intended starts of one thread: arrival i of the whole run belongs to thread i mod threads, so that the
/// threads together are evenly spaced.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    options: ScheduleOptions,
    measured: bool,
    number: u64,
    random: Random,
    /// Poisson: the last arrival, in nanoseconds after `measure_from`.
    elapsed: f64,
    next: Option<Arrival>,
}

impl Schedule {
    pub(crate) fn new(options: ScheduleOptions) -> Self {
        let seed = match options.arrivals {
            Arrivals::Even => 0,
            Arrivals::Poisson { seed } => seed.wrapping_mul(0x1_0001).wrapping_add(options.thread as u64),
        };
        let mut schedule = Self {
            options,
            measured: false,
            number: options.thread as u64,
            random: Random::new(seed),
            elapsed: 0.0,
            next: None,
        };
        schedule.next = schedule.find();
        schedule
    }

    /// The schedule of one thread of an open loop.
    pub(crate) fn of(plan: &Plan, times: Times, thread: usize, threads: usize) -> Option<Self> {
        let Load::Open { rate, arrivals, .. } = plan.load else { return None };
        let measured_max = match plan.stop {
            Stop::Requests(requests) => requests,
            Stop::Duration(_) => u64::MAX,
        };
        let Times { start, ramp_end, measure_from } = times;
        let options =
            ScheduleOptions { rate, arrivals, thread, threads, start, ramp_end, measure_from, measured_max };
        Some(Self::new(options))
    }

    /// The next start that has not been taken; `None` when all of a limited number are taken.
    pub(crate) fn peek(&self) -> Option<Arrival> {
        self.next
    }

    /// Takes the next start if it is due.
    pub(crate) fn take_due(&mut self, now: Nanos) -> Option<Arrival> {
        let arrival = self.next.filter(|arrival| arrival.at <= now)?;
        self.number += self.options.threads as u64;
        self.next = self.find();
        Some(arrival)
    }

    /// How many measured starts of this thread are due before `until`, from the first one on.
    pub(crate) fn offered(&self, until: Nanos) -> u64 {
        if until <= self.options.measure_from {
            return 0;
        }
        if matches!(self.options.arrivals, Arrivals::Even) {
            // Arrival i is due at measure_from + i/rate: count the i below the span, then this thread's share.
            let span = (until - self.options.measure_from) as f64;
            let all = ((span * self.options.rate / SECOND).ceil() as u64).min(self.options.measured_max);
            return share(all, self.options.thread, self.options.threads);
        }
        // A Poisson process is replayed.
        let start = self.options.measure_from;
        let mut fresh = Self::new(ScheduleOptions { start, ramp_end: start, ..self.options });
        let mut count = 0;
        while fresh.next.is_some_and(|arrival| arrival.at < until) {
            fresh.take_due(NEVER);
            count += 1;
        }
        count
    }

    /// Starts that are due before `until` and not taken; for the display, so a Poisson process counts by its mean.
    pub(crate) fn backlog(&self, until: Nanos) -> u64 {
        let rate = self.options.rate / self.options.threads as f64;
        self.next
            .filter(|arrival| arrival.at < until)
            .map_or(0, |arrival| 1 + ((until - arrival.at) as f64 * rate / SECOND) as u64)
    }

    fn find(&mut self) -> Option<Arrival> {
        if !self.measured {
            let at = self.before_measurement(self.number);
            if at < self.options.measure_from {
                return Some(Arrival { at, number: self.number, measured: false });
            }
            self.measured = true;
            self.number = self.options.thread as u64;
        }
        if self.number >= self.options.measured_max {
            return None;
        }
        let after = match self.options.arrivals {
            Arrivals::Even => self.number as f64 * SECOND / self.options.rate,
            Arrivals::Poisson { .. } => {
                let rate = self.options.rate / self.options.threads as f64;
                self.elapsed += -(1.0 - self.random.unit()).ln() * SECOND / rate;
                self.elapsed
            }
        };
        let at = self.options.measure_from.saturating_add(after.round() as u64);
        Some(Arrival { at, number: self.number, measured: true })
    }

    /// When arrival `number` before the measurement is due. While the rate grows evenly from 0 to `rate` over D, the
    /// arrivals until t are rate·t²/2D; after that they are 1/rate apart.
    fn before_measurement(&self, number: u64) -> Nanos {
        let Self { options, .. } = self;
        let ramp = (options.ramp_end - options.start) as f64;
        let in_ramp = options.rate * ramp / (2.0 * SECOND);
        let number = number as f64;
        let after = if number < in_ramp {
            (2.0 * ramp * number * SECOND / options.rate).sqrt()
        } else {
            ramp + (number - in_ramp) * SECOND / options.rate
        };
        options.start.saturating_add(after.round() as u64)
    }
}

#[cfg(test)]
#[path = "schedule/tests.rs"]
mod tests;
