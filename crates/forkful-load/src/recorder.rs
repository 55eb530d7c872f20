//! What one thread counts. Pure: times are arguments, so that a test can run a whole load on a fake clock.
//!
//! Memory is fixed: histograms, counters, one open window, and a bounded number of samples and examples.

mod merge;

use std::time::Duration;

use crate::cause::{ErrorCause, ErrorExample};
use crate::clock::{NEVER, Nanos};
use crate::coarse::{Coarse, Sparse};
use crate::report::facts::{FirstResponse, Histogram, Report, RequestFacts, Sample};
use crate::workers::NO_WORKER;

pub(crate) use merge::{Facts, merged};

/// Statuses are below this; the readers guarantee it.
const STATUSES: usize = 1_000;

/// The times of one request, in the run's time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timing {
    /// The intended start.
    pub(crate) intended: Nanos,
    /// When the engine started the request.
    pub(crate) begun: Nanos,
    /// When the first byte was sent.
    pub(crate) sent: Nanos,
    /// When the first byte of the answer arrived; 0: not yet.
    pub(crate) first_byte: Nanos,
    pub(crate) measured: bool,
    /// Index of the request in the plan.
    pub(crate) request: u16,
}

/// What the recorder needs to know about a complete answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ending {
    pub(crate) status: u16,
    pub(crate) body_bytes: u64,
    pub(crate) interim: u32,
    pub(crate) worker: u16,
    /// The first answer of this worker on this connection.
    pub(crate) worker_is_new: bool,
    /// Why the answer is not the expected one.
    pub(crate) wrong: Option<ErrorCause>,
}

/// A time window of the measurement in one thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct ThreadWindow {
    pub(crate) index: u64,
    pub(crate) started: u64,
    pub(crate) completed: u64,
    pub(crate) errors: u64,
    pub(crate) received: u64,
    pub(crate) times: Sparse,
    /// The sum of all response times.
    pub(crate) response_sum: Nanos,
    pub(crate) open_connections: u64,
    pub(crate) backlog: u64,
    pub(crate) cpu_seconds: f64,
}

/// The parameters of a recorder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecorderOptions {
    /// The start of the first window. Windows before the measurement have negative indices in
    /// [`Recorder::take_window`] and are for the display only.
    pub(crate) measure_from: Nanos,
    /// Requests in the plan.
    pub(crate) requests: usize,
    /// Threads that share [`Report::SAMPLES_MAX`].
    pub(crate) threads: usize,
}

#[derive(Debug)]
pub(crate) struct Recorder {
    options: RecorderOptions,
    /// Answers after this time are late.
    pub(crate) end: Nanos,
    /// Requests whose response, total, service and first-byte times are equal: almost all of a closed loop.
    simple: Histogram,
    /// This thread's part of the report: counts, the times of all other requests, bytes, connections,
    /// samples.
    pub(crate) report: Report,
    unread: Nanos,
    statuses: Box<[u64; STATUSES]>,
    errors: [u64; ErrorCause::ALL.len()],
    examples: Vec<(ErrorCause, ErrorExample)>,
    workers: Vec<(u64, u64)>,
    requests: Vec<RequestCounts>,
    pub(crate) first_response: Option<(Nanos, FirstResponse)>,
    first_body: Option<u64>,
    /// Answers by body length, for lengths other than that of this thread's first answer; bounded.
    lengths: Vec<(u64, u64)>,
    other_lengths: u64,
    sample_every: u64,
    sample_in: u64,
    window: ThreadWindow,
    window_times: Coarse,
    /// The time of the last measured answer or failure.
    pub(crate) last_end: Nanos,
}

#[derive(Debug, Clone, Default)]
struct RequestCounts {
    started: u64,
    completed: u64,
    errors: u64,
    times: Option<Coarse>,
}

/// Distinct body lengths beside the first; all others are counted together.
const LENGTHS_MAX: usize = 64;

impl Recorder {
    pub(crate) fn new(options: RecorderOptions) -> Self {
        let kept = options.requests.min(RequestFacts::HISTOGRAMS_MAX);
        let with_times = |index: usize| (options.requests > 1 && index < kept).then(Coarse::new);
        Self {
            options,
            end: NEVER,
            simple: Histogram::default(),
            report: Report::default(),
            unread: 0,
            statuses: Box::new([0; STATUSES]),
            errors: [0; ErrorCause::ALL.len()],
            examples: Vec::new(),
            workers: Vec::new(),
            requests: (0..options.requests)
                .map(|index| RequestCounts { times: with_times(index), ..RequestCounts::default() })
                .collect(),
            first_response: None,
            first_body: None,
            lengths: Vec::new(),
            other_lengths: 0,
            sample_every: 1,
            sample_in: 1,
            window: ThreadWindow::default(),
            window_times: Coarse::new(),
            last_end: 0,
        }
    }

    /// Sets the start of the measurement, which is known once all threads are ready.
    pub(crate) fn begin_at(&mut self, measure_from: Nanos) {
        self.options.measure_from = measure_from;
    }

    /// The engine started a request.
    #[inline]
    pub(crate) fn started(&mut self, measured: bool, request: u16) {
        self.window.started += 1;
        if measured {
            self.report.counts.started += 1;
            self.requests[usize::from(request)].started += 1;
        } else {
            self.report.warmup.started += 1;
        }
    }

    /// Bytes of a request were sent, including its body.
    #[inline]
    pub(crate) fn sent(&mut self, measured: bool, bytes: usize, body_bytes: usize) {
        if measured {
            self.report.bytes.sent += bytes as u64;
            self.report.bytes.sent_bodies += body_bytes as u64;
        }
    }

    /// Bytes of an answer were received.
    #[inline]
    pub(crate) fn received(&mut self, measured: bool, bytes: usize) {
        self.window.received += bytes as u64;
        if measured {
            self.report.bytes.received += bytes as u64;
        }
    }

    #[inline]
    pub(crate) fn completed(&mut self, timing: &Timing, ending: &Ending, now: Nanos) {
        let response = now.saturating_sub(timing.intended);
        if now < self.end {
            self.window.completed += 1;
            self.window.response_sum += response;
            self.window_times.record(response);
        }
        if !timing.measured {
            self.completed_warmup(ending, now);
            return;
        }
        if now < self.end {
            self.report.counts.completed += 1;
            self.last_end = self.last_end.max(now);
        } else {
            self.report.counts.late += 1;
        }
        if timing.intended == timing.sent && timing.first_byte == now {
            self.simple.note(response);
        } else {
            self.report.response.note(response);
            self.report.total.note(now - timing.begun);
            self.report.service.note(now - timing.sent);
            self.report.first_byte.note(timing.first_byte.saturating_sub(timing.sent));
        }
        self.statuses[usize::from(ending.status)] += 1;
        self.report.bytes.received_bodies += ending.body_bytes;
        if self.first_body != Some(ending.body_bytes) {
            self.other_length(ending.body_bytes);
        }
        if ending.worker != NO_WORKER {
            self.answered_by(ending);
        }
        let request = &mut self.requests[usize::from(timing.request)];
        request.completed += 1;
        if let Some(times) = &mut request.times {
            times.record(response);
        }
        self.report.counts.interim += u64::from(ending.interim);
        if let Some(cause) = ending.wrong {
            request.errors += 1;
            self.count_error(cause, now, || match cause {
                ErrorCause::UnexpectedStatus => format!("status {}", ending.status),
                _ => format!("a body of {} bytes", ending.body_bytes),
            });
        }
        self.sample(timing.intended, response, ending.status);
    }

    /// How long a complete answer had waited before it was read.
    #[inline]
    pub(crate) fn lay(&mut self, measured: bool, unread: Nanos) {
        if measured {
            self.unread += unread;
        }
    }

    /// A request ended without a complete answer.
    pub(crate) fn failed(&mut self, timing: &Timing, cause: ErrorCause, detail: &str, now: Nanos) {
        if !timing.measured {
            self.report.warmup.failed += 1;
            return;
        }
        self.report.counts.failed += 1;
        self.last_end = now.min(self.end);
        self.requests[usize::from(timing.request)].errors += 1;
        let response = now.saturating_sub(timing.intended);
        if cause.is_timeout() {
            self.report.response.note(response);
            self.report.total.note(now.saturating_sub(timing.begun));
            if timing.sent > 0 {
                self.report.service.note(now.saturating_sub(timing.sent));
            }
        }
        self.count_error(cause, now, || detail.to_owned());
        self.sample(timing.intended, response, 0);
    }

    /// Records an error that belongs to no request, such as unsolicited bytes.
    pub(crate) fn stray(&mut self, cause: ErrorCause, detail: &str, now: Nanos) {
        if now >= self.options.measure_from {
            self.count_error(cause, now, || detail.to_owned());
        }
    }

    /// An open loop sent a request; `slip` is the delay after its intended start.
    pub(crate) fn slipped(&mut self, timing: &Timing, slip: Nanos) {
        if timing.measured {
            self.report.slip.note(slip);
        }
    }

    /// A request was still under way when the drain ended.
    pub(crate) fn unfinished(&mut self, timing: &Timing, now: Nanos) {
        if timing.measured {
            self.report.counts.unfinished += 1;
            self.report.censored.note(now.saturating_sub(timing.intended));
        } else {
            self.report.warmup.unfinished += 1;
        }
    }

    /// Errors counted so far.
    pub(crate) fn errors_total(&self) -> u64 {
        self.errors.iter().sum()
    }

    /// Ends the current window.
    pub(crate) fn take_window(&mut self, index: u64) -> ThreadWindow {
        let times = self.window_times.take();
        ThreadWindow { index, times, ..std::mem::take(&mut self.window) }
    }

    #[cold]
    fn completed_warmup(&mut self, _ending: &Ending, now: Nanos) {
        if now < self.options.measure_from {
            self.report.warmup.completed += 1;
        } else {
            self.report.warmup.late += 1;
            self.report.counts.carried_in += u64::from(now < self.end);
        }
    }

    #[cold]
    fn other_length(&mut self, body_bytes: u64) {
        if self.first_body.is_none() {
            self.first_body = Some(body_bytes);
            return;
        }
        if let Some((_, count)) = self.lengths.iter_mut().find(|(length, _)| *length == body_bytes) {
            *count += 1;
        } else if self.lengths.len() < LENGTHS_MAX {
            self.lengths.push((body_bytes, 1));
        } else {
            self.other_lengths += 1;
        }
    }

    fn answered_by(&mut self, ending: &Ending) {
        let worker = usize::from(ending.worker);
        if self.workers.len() <= worker {
            self.workers.resize(worker + 1, (0, 0));
        }
        self.workers[worker].0 += 1;
        self.workers[worker].1 += u64::from(ending.worker_is_new);
    }

    #[cold]
    fn count_error(&mut self, cause: ErrorCause, now: Nanos, detail: impl FnOnce() -> String) {
        self.errors[cause as usize] += 1;
        self.window.errors += 1;
        if self.examples.iter().filter(|(known, _)| *known == cause).count() < ErrorExample::PER_CAUSE_MAX {
            let at = Duration::from_nanos(now.saturating_sub(self.options.measure_from));
            self.examples.push((cause, ErrorExample { at, detail: detail() }));
        }
    }

    /// Keeps every nth request; n doubles whenever the buffer is full.
    #[inline]
    fn sample(&mut self, intended: Nanos, response: Nanos, status: u16) {
        self.sample_in -= 1;
        if self.sample_in > 0 {
            return;
        }
        if self.report.samples.len() >= Report::SAMPLES_MAX / self.options.threads.max(1) {
            let mut index = 0;
            self.report.samples.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            self.sample_every *= 2;
        }
        self.sample_in = self.sample_every;
        let at = Duration::from_nanos(intended.saturating_sub(self.options.measure_from));
        self.report.samples.push(Sample { at, response: Duration::from_nanos(response), status });
    }
}

#[cfg(test)]
#[path = "recorder/tests.rs"]
mod tests;
