//! Whether an arm kept up with the offered rate. Pure.
//!
//! A window at a rate is short, and answers after its end are waited for. An arm that handles three fifths of
//! the rate answers everything a moment later, and so does an arm whose answers are slow by nature. Therefore
//! the answers within the window decide first, and then whether the response time grows: if an arm handles a
//! share s of the rate, each second makes later requests wait 1 ÷ s − 1 seconds longer; an arm that keeps up
//! does not, however slow it is.

use forkful_load::Report;

/// If a smaller share of the offered rate is answered, the arm cannot keep up.
const KEPT_UP: f64 = 0.97;

/// How many more requests may be under way at the end of a slice than at its beginning: a queue at 80 to 90 %
/// of its capacity holds 2 to 5, and sometimes twice as many.
const QUEUE_SPARE: f64 = 5.0;

/// Standard errors by which response times must have grown, so that chance is excluded.
const ERRORS_SPARE: f64 = 2.0;

/// The results of the slices at one rate.
#[derive(Debug, Clone, Default)]
pub(super) struct Supply {
    slices: u32,
    offered: u64,
    unsent: u64,
    /// Answers within the slices, including answers to requests that were under way at the beginning of a
    /// slice.
    in_time: u64,
    /// Answers to requests that were due within the slices, including answers after the end.
    at_all: u64,
    /// Total length of the slices, in seconds.
    seconds: f64,
    /// Response times of requests due in the first and in the last third of a slice.
    first: Times,
    last: Times,
}

impl Supply {
    pub(super) fn add(&mut self, report: &Report) {
        self.slices += 1;
        self.offered += report.offered;
        self.unsent += report.unsent;
        self.in_time += report.counts.completed + report.counts.carried_in;
        self.at_all += report.counts.completed + report.counts.late;
        self.seconds += report.elapsed.as_secs_f64();
        let third = report.elapsed / 3;
        for sample in &report.samples {
            if sample.at < third {
                self.first.add(sample.response.as_secs_f64());
            } else if sample.at >= 2 * third {
                self.last.add(sample.response.as_secs_f64());
            }
        }
    }

    /// Whether the arm could not keep up.
    pub(super) fn is_overloaded(&self) -> bool {
        let least = KEPT_UP * self.offered.max(1) as f64;
        let never = (self.at_all as f64) < least;
        let late = (self.in_time as f64) + QUEUE_SPARE * f64::from(self.slices) < least;
        never || self.unsent > 0 || (late && self.is_falling_behind())
    }

    /// Whether response times grew by more than at [`KEPT_UP`] of the rate and by more than chance explains.
    fn is_falling_behind(&self) -> bool {
        let slice = self.seconds / f64::from(self.slices.max(1));
        // The distance between the middle of the first third and the middle of the last.
        let allowed = 2.0 / 3.0 * slice * (1.0 / KEPT_UP - 1.0);
        let error = (self.first.variance_of_mean() + self.last.variance_of_mean()).sqrt();
        self.last.mean() - self.first.mean() > allowed + ERRORS_SPARE * error
    }
}

/// Running mean and variance of times.
#[derive(Debug, Clone, Copy, Default)]
struct Times {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Times {
    fn add(&mut self, seconds: f64) {
        self.count += 1.0;
        self.sum += seconds;
        self.squares += seconds * seconds;
    }

    fn mean(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    /// Infinite for fewer than two values, because nothing is known.
    fn variance_of_mean(&self) -> f64 {
        if self.count < 2.0 {
            return f64::INFINITY;
        }
        let variance = (self.squares - self.sum * self.mean()) / (self.count - 1.0);
        variance.max(0.0) / self.count
    }
}

#[cfg(test)]
mod tests;
