//! Whether an arm kept up with the rate that it was offered. Pure.
//!
//! A window at a rate is short, and what is left at its end is waited for: an arm that does three fifths of the rate
//! answers everything a moment later, as one does whose answers take long by nature. So that what was answered within
//! the window decides, and then whether answers came later and later: an arm that does a share s of the rate lets a request
//! wait for 1 ÷ s − 1 longer than one that was due a second before, and one that keeps up does not, however slow it is.

use forkful_load::Report;

/// Less than this share of an offered rate answered: the arm cannot keep up.
const KEPT_UP: f64 = 0.97;

/// Requests that one end of a slice may have more under way than its beginning: a queue at 80 to 90 % of its capacity
/// holds 2 to 5, and as many more at times.
const QUEUE_SPARE: f64 = 5.0;

/// Standard errors by which answers must have come later and later, so that chance is not taken for it.
const ERRORS_SPARE: f64 = 2.0;

/// What the slices at one rate say about it.
#[derive(Debug, Clone, Default)]
pub(super) struct Supply {
    slices: u32,
    offered: u64,
    unsent: u64,
    /// Within the slices; those that were under way at a beginning belong to it as those under way at the end do not.
    in_time: u64,
    /// Of those that were due within the slices, also after the end.
    at_all: u64,
    /// Sum of the slices' lengths, seconds.
    seconds: f64,
    /// Response times of requests that were due in the first and in the last third of a slice.
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

    /// Whether answers came later and later, by more than where [`KEPT_UP`] of the rate is done, and than chance makes.
    fn is_falling_behind(&self) -> bool {
        let slice = self.seconds / f64::from(self.slices.max(1));
        // Between the middles of the first and the last third.
        let allowed = 2.0 / 3.0 * slice * (1.0 / KEPT_UP - 1.0);
        let error = (self.first.variance_of_mean() + self.last.variance_of_mean()).sqrt();
        self.last.mean() - self.first.mean() > allowed + ERRORS_SPARE * error
    }
}

/// Mean and variance of times, as they come.
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

    /// Infinite below two: nothing is known then.
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
