//! When requests of an open loop should start, and how totals are divided among threads. Pure: times are
//! arguments and results.

use crate::clock::{NEVER, Nanos, nanos};
use crate::plan::{Arrivals, Load, Plan, Stop};
use crate::shared::Times;
use forkful_core::random::Random;

const SECOND: f64 = 1e9;

/// The share of a total for thread `index` of `threads`. The shares add up to the total, and differ by at
/// most 1.
pub(crate) fn share(total: u64, index: usize, threads: usize) -> u64 {
    let (index, threads) = (index as u64, threads as u64);
    total / threads + u64::from(index < total % threads)
}

/// When connection `index` of a thread starts in a closed loop: the connections of all threads together start
/// evenly over the ramp.
pub(crate) fn ramp_start(plan: &Plan, times: Times, index: usize, thread: usize, threads: usize) -> Nanos {
    // Place i of thread t has the number i·threads + t among all places.
    let number = (index * threads + thread) as f64 / plan.connections as f64;
    times.start + (nanos(plan.ramp) as f64 * number) as u64
}

/// The parameters of a schedule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScheduleOptions {
    /// Requests per second of all threads together.
    pub(crate) rate: f64,
    pub(crate) arrivals: Arrivals,
    /// This thread, and the number of threads.
    pub(crate) thread: usize,
    pub(crate) threads: usize,
    /// Start of the ramp, end of the ramp, start of the measurement.
    pub(crate) start: Nanos,
    pub(crate) ramp_end: Nanos,
    pub(crate) measure_from: Nanos,
    /// Requests of all threads in the measurement; `u64::MAX`: until the end.
    pub(crate) measured_max: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) at: Nanos,
    /// Its number among the arrivals of its kind in all threads.
    pub(crate) number: u64,
    /// Part of the measurement, not of ramp or warm-up.
    pub(crate) measured: bool,
}

/// The intended starts for one thread: arrival i of the run belongs to thread i mod threads, so that the
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

    /// The next start that was not taken; `None` if the number is limited and all were taken.
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

    /// The number of this thread's measured starts due before `until`.
    pub(crate) fn offered(&self, until: Nanos) -> u64 {
        if until <= self.options.measure_from {
            return 0;
        }
        if matches!(self.options.arrivals, Arrivals::Even) {
            // Arrival i is due at measure_from + i/rate: count the arrivals within the span, then take this
            // thread's share.
            let span = (until - self.options.measure_from) as f64;
            let all = ((span * self.options.rate / SECOND).ceil() as u64).min(self.options.measured_max);
            return share(all, self.options.thread, self.options.threads);
        }
        // Counts a Poisson process by replaying it.
        let start = self.options.measure_from;
        let mut fresh = Self::new(ScheduleOptions { start, ramp_end: start, ..self.options });
        let mut count = 0;
        while fresh.next.is_some_and(|arrival| arrival.at < until) {
            fresh.take_due(NEVER);
            count += 1;
        }
        count
    }

    /// Starts due before `until` and not taken. It is for the display, so a Poisson process counts by its
    /// mean.
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

    /// When arrival `number` before the measurement is due. While the rate grows linearly from 0 to `rate`
    /// over D, the number of arrivals until t is rate·t²/2D; afterwards they are 1/rate apart.
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
