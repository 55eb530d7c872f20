//! Everything that a run saw, raw. Judging it (trust, thresholds) and printing it is for others.
//!
//! Times in histograms are nanoseconds. Nothing is rounded but by the histograms: three significant digits.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde::Serialize;

use super::json;
use crate::cause::{ErrorCause, ErrorCount};

/// The longest time that a histogram tells apart; longer ones count as this.
const HISTOGRAM_MAX: Duration = Duration::from_secs(3_600);

/// Times from 1 ns to an hour, three significant digits, in fixed memory of about 270 KB.
#[derive(Debug, Clone)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    /// Two digits, which grows with its largest value.
    pub(crate) fn small() -> Self {
        Self(hdrhistogram::Histogram::new(2).expect("two digits are valid"))
    }

    /// All of these together.
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.merge(part));
        all
    }

    /// Adds the values of another one.
    pub fn merge(&mut self, other: &Self) {
        self.add(&other.0).expect("all histograms of times have the same bounds");
    }

    #[inline]
    pub(crate) fn note(&mut self, nanoseconds: u64) {
        self.saturating_record(nanoseconds.clamp(1, HISTOGRAM_MAX.as_nanos() as u64));
    }
}

impl Default for Histogram {
    fn default() -> Self {
        let histogram = hdrhistogram::Histogram::new_with_bounds(1, HISTOGRAM_MAX.as_nanos() as u64, 3);
        Self(histogram.expect("1 ns to 1 h at 3 digits are valid bounds"))
    }
}

impl Deref for Histogram {
    type Target = hdrhistogram::Histogram<u64>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Histogram {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

/// The raw facts of a run. Ramp and warm-up are not in it, but for [`Report::warmup`].
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// `raw epoll, HTTP/1.1` or `h2, HTTP/2`: which engine did it.
    pub engine: &'static str,
    /// Wall-clock time of the measurement: the asked duration to the microsecond, or what the requests took.
    pub elapsed: Duration,
    /// It ended early, by the stop handle or [`crate::Plan::errors_max`].
    pub stopped_early: bool,
    /// Requests, by their end.
    pub counts: Counts,
    /// Requests of ramp and warm-up, by their end.
    pub warmup: Counts,
    /// Answers by status: `(status, answers)`, ascending. All answers of [`Counts::completed`] and [`Counts::late`].
    pub statuses: Vec<(u16, u64)>,
    /// Errors by cause, in the order of a request's life; causes that did not occur are left out.
    pub errors: Vec<ErrorCount>,
    /// What a user sees: from the moment the request was meant to start to the last byte of the answer. In an open
    /// loop that is the schedule, in a closed one the moment its connection was free. Holds connecting where a
    /// connection had to be made. Timeouts are in it with the time waited.
    pub response: Histogram,
    /// From the moment the engine turned to the request (before connecting, where that was needed) to the last
    /// byte. Differs from `response` in an open loop only: by the slip. Timeouts are in it.
    pub total: Histogram,
    /// From the first byte sent to the last byte received: what the server is answerable for. Timeouts are in it.
    pub service: Histogram,
    /// From the first byte sent to the first byte received.
    pub first_byte: Histogram,
    /// Making a connection, with TLS; one value for each connection that was made, those before the clock too.
    pub connect: Histogram,
    /// Open loop: actual start minus intended start. Empty in a closed loop.
    pub slip: Histogram,
    /// Requests that were under way when the drain ended: their age, a lower bound of their response time.
    pub censored: Histogram,
    pub bytes: Bytes,
    pub connections: Connections,
    /// What only sockets and event streams have.
    pub messages: Messages,
    /// The measurement in windows of equal length (the last may be shorter), at most [`Report::WINDOWS_MAX`].
    pub windows: Vec<Window>,
    pub threads: Vec<ThreadFacts>,
    /// CPU of the whole generator process over the measurement, seconds, user and system.
    pub cpu_seconds: f64,
    /// How long the generator held answers; one value for each wake-up of a thread: until its last event was handled,
    /// and what the first may have waited for others to gather. The latter is in the latencies, and the former in those
    /// of answers that come meanwhile.
    pub residency: Histogram,
    /// All answers' time between the wake-up of their thread and their reading, together: their connections were
    /// neither waiting for the server nor asking it again.
    pub unread: Duration,
    /// Events for each wake-up, mean.
    pub events_per_wake: f64,
    /// Open loop: requests that were due within the measurement and never started.
    pub unsent: u64,
    /// Requests of the schedule that the measurement should have started; 0 in a closed loop.
    pub offered: u64,
    /// What the kernel counted for this machine (network) during the measurement.
    pub kernel: Kernel,
    /// What else the machine did during the measurement.
    pub host: Host,
    /// Answers and connections by the value of [`crate::Plan::worker_header`], by name; empty without one.
    pub workers: Vec<Worker>,
    /// Answers by request of the plan, in its order.
    pub requests: Vec<RequestFacts>,
    /// The first complete answer.
    pub first_response: Option<FirstResponse>,
    /// Complete answers whose body had another length than the first (what `ab` calls a length failure).
    pub length_differs: u64,
    /// Single requests, evenly picked over the run, at most [`Report::SAMPLES_MAX`], in order of time.
    pub samples: Vec<Sample>,
    /// Wall-clock time of the drain.
    pub drained: Duration,
    /// Resident memory of the generator process at the end and its peak, bytes.
    pub memory_bytes: (u64, u64),
}

impl Report {
    /// Windows of a report: two minutes of 100 ms; longer runs have longer windows.
    pub const WINDOWS_MAX: usize = 1_200;
    /// Samples of a report: what a scatter plot can show.
    pub const SAMPLES_MAX: usize = 4_000;
    /// Distinct workers that are told apart; the rest is counted as one called `others`.
    pub const WORKERS_MAX: usize = 1_024;

    /// A report in which nothing happened: what an engine fills, and what a test starts from.
    pub fn empty(engine: &'static str) -> Self {
        Self { engine, ..Self::default() }
    }

    /// Complete answers per second of the measurement.
    pub fn per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { (self.counts.completed + self.counts.carried_in) as f64 / seconds } else { 0.0 }
    }

    /// Errors of all causes: requests without a complete answer, and complete answers that were not the wanted ones.
    pub fn errors_total(&self) -> u64 {
        self.errors_by(|_| true)
    }

    /// Errors of one cause.
    pub fn errors_of(&self, cause: ErrorCause) -> u64 {
        self.errors_by(|other| other == cause)
    }

    /// Errors of the causes that are wanted.
    pub fn errors_by(&self, wanted: impl Fn(ErrorCause) -> bool) -> u64 {
        self.errors.iter().filter(|error| wanted(error.cause)).map(|error| error.count).sum()
    }

    /// Answers of the statuses that are wanted.
    pub fn answers_by(&self, wanted: impl Fn(u16) -> bool) -> u64 {
        self.statuses.iter().filter(|(status, _)| wanted(*status)).map(|(_, count)| count).sum()
    }

    /// Answers of a status class: 1 for 1xx to 5 for 5xx. Statuses from 600 count as class 6 and more.
    pub fn status_class(&self, class: u16) -> u64 {
        self.answers_by(|status| status / 100 == class)
    }
}

/// Requests by their end. `started = completed + failed + late + unfinished`, to the request, and equals what the
/// server received where every request reached it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The engine turned to so many: it connected or wrote for them.
    pub started: u64,
    /// A complete answer within the measurement, whatever its status.
    pub completed: u64,
    /// No complete answer: an error or a timeout, within the measurement or the drain.
    pub failed: u64,
    /// A complete answer, but after the measurement's end. In the histograms and statuses, not in the throughput.
    pub late: u64,
    /// Neither answer nor error when the drain ended.
    pub unfinished: u64,
    /// Started in the warm-up and answered within the measurement. In the throughput, nowhere else.
    pub carried_in: u64,
    /// Sent once more on a new connection, because the server had closed an idle one just before. Not errors.
    pub stale_retries: u64,
    /// Interim (1xx) answers that were passed over.
    #[serde(skip)]
    pub interim: u64,
}

/// Bytes of HTTP, without TLS, TCP and IP, within the measurement and its drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    pub sent: u64,
    #[serde(skip)]
    pub sent_bodies: u64,
    /// Answers, complete or not.
    pub received: u64,
    /// Bodies of complete answers, decoded from chunks.
    pub received_bodies: u64,
}

/// Connections over the whole run, warm-up included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Connections {
    /// Asked for by the plan.
    pub asked: u64,
    /// Most that were open at one time. With a connection for each request, those in the making count, too: they
    /// hardly ever are all open at once.
    pub reached: u64,
    /// Made in all.
    pub opened: u64,
    pub failed: u64,
    /// Requests that were sent on a connection that had answered one before.
    pub reused: u64,
    /// Closed by the server while idle, or ended by its `Connection: close`.
    pub closed_by_server: u64,
    /// Segments that our end sent again on open connections, within the measurement.
    pub retransmits: u64,
    /// Segments sent again to connect: SYNs, mostly. Each means a second or more of waiting.
    pub syn_retransmits: u64,
    /// HTTP/2: requests that one connection may have under way: what the plan says, or the server's limit where that
    /// is less. 0 before HTTP/2.
    #[serde(serialize_with = "json::known")]
    pub streams: u64,
}

/// What happens on connections that stay open, beside messages and their answers.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Messages {
    /// Messages that came while none was awaited, within the measurement.
    pub unasked: u64,
    /// Connections that replaced connections that had ended.
    pub reconnects: u64,
    /// WebSockets that the server closed, by the code of its close frame; 1005 for a frame without a code, 1006 for none.
    pub closes: BTreeMap<u16, u64>,
    /// Event streams: from the request to the first event.
    #[serde(rename = "first_event_ms", serialize_with = "json::times_if_any")]
    pub first_event: Option<Histogram>,
}

impl Messages {
    /// Codes that are told apart; the rest counts as 1006.
    const CODES_MAX: usize = 64;

    pub(crate) fn closed_with(&mut self, code: u16) {
        let is_known = self.closes.contains_key(&code) || self.closes.len() < Self::CODES_MAX;
        *self.closes.entry(if is_known { code } else { 1006 }).or_default() += 1;
    }

    pub(crate) fn first_event(&mut self, nanoseconds: u64) {
        self.first_event.get_or_insert_with(Histogram::default).note(nanoseconds);
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.unasked += other.unasked;
        self.reconnects += other.reconnects;
        for (code, count) in &other.closes {
            *self.closes.entry(*code).or_default() += count;
        }
        if let Some(times) = &other.first_event {
            self.first_event.get_or_insert_with(Histogram::default).merge(times);
        }
    }
}

/// A part of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Window {
    /// Its beginning, since the clock started.
    #[serde(rename = "at_s", serialize_with = "json::seconds")]
    pub start: Duration,
    #[serde(rename = "length_s", serialize_with = "json::seconds")]
    pub length: Duration,
    #[serde(skip)]
    pub started: u64,
    pub completed: u64,
    /// The same for each thread of the generator.
    #[serde(skip)]
    pub completed_by_thread: Vec<u64>,
    pub errors: u64,
    #[serde(skip)]
    pub received: u64,
    /// Median of the response times, within 2 %; `None` without an answer.
    #[serde(rename = "p50_ms", serialize_with = "json::millis")]
    pub p50: Option<Duration>,
    /// 99th percentile, within 2 %.
    #[serde(rename = "p99_ms", serialize_with = "json::millis")]
    pub p99: Option<Duration>,
    /// The longest, within 2 %.
    #[serde(rename = "max_ms", serialize_with = "json::millis")]
    pub max: Option<Duration>,
    /// Open connections at its end.
    pub open_connections: u64,
    /// Open loop: requests due and not started at its end.
    pub backlog: u64,
    /// CPU of the generator's threads within it, seconds.
    #[serde(skip)]
    pub cpu_seconds: f64,
}

/// One thread of the generator, over the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct ThreadFacts {
    /// User and system CPU, seconds.
    #[serde(serialize_with = "json::number")]
    pub cpu_seconds: f64,
    /// `cpu_seconds` against the wall clock, 0 to 1. From 0.8 on the generator shapes the result.
    #[serde(serialize_with = "json::number")]
    pub busy: f64,
    /// The largest `busy` of one window.
    #[serde(serialize_with = "json::number")]
    pub busy_max: f64,
    pub connections: u64,
    pub completed: u64,
    /// Wake-ups with events.
    pub wakes: u64,
    pub events: u64,
    /// Pauses to let answers gather.
    pub pauses: u64,
    /// Times that the kernel took the CPU away from it.
    pub involuntary_switches: u64,
}

/// Counters of the kernel, after minus before. They are of the whole network namespace, so other traffic is in them,
/// and a server on another machine is not. `None`: not readable here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Kernel {
    /// Segments sent again (`Tcp.RetransSegs`).
    pub retransmits: Option<u64>,
    /// SYNs among them (`TcpExt.TCPSynRetrans`): the server's queue was full or packets were lost.
    pub syn_retransmits: Option<u64>,
    /// Retransmission timeouts (`TcpExt.TCPTimeouts`).
    #[serde(rename = "tcp_timeouts")]
    pub timeouts: Option<u64>,
    /// Connections that found a listener's queue full (`TcpExt.ListenOverflows`).
    pub listen_overflows: Option<u64>,
    /// SYNs that listeners dropped (`TcpExt.ListenDrops`).
    pub listen_drops: Option<u64>,
    /// Sockets in `TIME_WAIT` before the run.
    pub time_wait_before: Option<u64>,
    /// Sockets in `TIME_WAIT` after it.
    pub time_wait_after: Option<u64>,
    /// Local ports that a connection may use.
    pub local_ports: Option<u64>,
}

/// The machine. `None`: not readable here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Host {
    /// CPUs that this process may use.
    pub cpus: usize,
    /// Part of all CPU time, 0 to 1, that was busy, with this process.
    #[serde(rename = "cpu_busy", serialize_with = "json::number")]
    pub busy: Option<f64>,
    /// Part of all CPU time that the hypervisor took.
    #[serde(rename = "cpu_stolen", serialize_with = "json::number")]
    pub steal: Option<f64>,
    /// Times that this process's cgroup was throttled.
    pub throttled_times: Option<u64>,
    /// How long it was throttled.
    #[serde(rename = "throttled_s", serialize_with = "json::seconds")]
    pub throttled: Option<Duration>,
    /// Descriptors that this process may open.
    pub descriptors_max: Option<u64>,
}

/// What one worker of the server answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub name: String,
    pub requests: u64,
    /// Connections on which its first answer came within the measurement.
    pub connections: u64,
}

/// What one request of the plan brought.
#[derive(Debug, Clone, Serialize)]
pub struct RequestFacts {
    /// `GET /path`.
    pub name: String,
    /// Started within the measurement.
    pub started: u64,
    /// Complete answers, late ones too.
    pub completed: u64,
    /// Errors of all causes.
    pub errors: u64,
    /// Response times within 2 %; of a single request exactly [`Report::response`]. Only the first
    /// [`RequestFacts::HISTOGRAMS_MAX`] requests have them.
    #[serde(rename = "latency_ms", serialize_with = "json::times")]
    pub response: Histogram,
}

impl RequestFacts {
    /// So many requests of a plan have times of their own: 4 KB each for each thread.
    pub const HISTOGRAMS_MAX: usize = 256;
}

/// The first complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstResponse {
    pub status: u16,
    /// Its `Server` header, or nothing.
    pub server: Option<String>,
    /// Length of its head.
    pub head_bytes: u64,
    /// Length of its body, decoded from chunks.
    pub body_bytes: u64,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2`.
    pub version: &'static str,
    /// TLS version and cipher suite, over TLS.
    pub tls: Option<String>,
    /// Whether the server kept the connection open after it.
    pub kept_alive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// When it was meant to start, since the clock started.
    pub at: Duration,
    /// Its response time, or the time waited.
    pub response: Duration,
    /// Its status; 0 for an error.
    pub status: u16,
}
