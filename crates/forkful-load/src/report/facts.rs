//! The raw facts of a run. Judging them (trust, thresholds) and printing them is done elsewhere.
//!
//! Times in histograms are nanoseconds. Only the histograms round: to three significant digits.

use std::collections::BTreeMap;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use serde::Serialize;

use super::json;
use crate::cause::{ErrorCause, ErrorCount};

/// The largest time that a histogram records; longer times count as this.
const HISTOGRAM_MAX: Duration = Duration::from_secs(3_600);

/// Times from 1 ns to an hour, three significant digits, in fixed memory of about 270 KB.
#[derive(Debug, Clone)]
pub struct Histogram(hdrhistogram::Histogram<u64>);

impl Histogram {
    /// Two significant digits; memory grows with the largest value, up to about 40 KB.
    pub(crate) fn small() -> Self {
        Self(hdrhistogram::Histogram::new(2).expect("two digits are valid"))
    }

    /// The sum of all parts.
    pub fn of_all<'a>(parts: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut all = Self::default();
        parts.into_iter().for_each(|part| all.merge(part));
        all
    }

    /// Adds the values of another histogram.
    pub fn merge(&mut self, other: &Self) {
        self.add(&other.0).expect("all histograms of times have the same bounds");
    }

    /// Adds a value several times. Also for histograms that grow, which a saturating record does not do.
    pub(crate) fn note_n(&mut self, nanoseconds: u64, count: u64) {
        let value = nanoseconds.clamp(1, HISTOGRAM_MAX.as_nanos() as u64);
        self.record_n(value, count).expect("the value is within the bounds, or the histogram grows");
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

/// The raw facts of a run. Ramp and warm-up are excluded, except in [`Report::warmup`].
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// The engine: `raw epoll, HTTP/1.1` or `h2, HTTP/2`.
    pub engine: String,
    /// Wall-clock time of the measurement: the requested duration to the microsecond, or the time that the
    /// requests took.
    pub elapsed: Duration,
    /// Why the run ended early; `None` if it did not.
    pub early_end: Option<EarlyEnd>,
    /// Requests by result.
    pub counts: Counts,
    /// Requests of ramp and warm-up by result.
    pub warmup: Counts,
    /// Answers by status: `(status, answers)`, ascending. Includes all answers of [`Counts::completed`] and
    /// [`Counts::late`].
    pub statuses: Vec<(u16, u64)>,
    /// Errors by cause, in the order of a request's life, without causes that did not occur.
    pub errors: Vec<ErrorCount>,
    /// The response time as the user sees it: from the intended start of the request to the last byte of the
    /// answer. The intended start is the schedule in an open loop, and the time when the connection became
    /// free in a closed loop. Includes connecting if a connection had to be made. Timeouts count with the
    /// time waited.
    pub response: Histogram,
    /// From the start of the request in the engine (before connecting, if needed) to the last byte. Differs
    /// from `response` only in an open loop, by the slip. Includes timeouts.
    pub total: Histogram,
    /// From the first byte sent to the last byte received: the time that the server is responsible for.
    /// Includes timeouts.
    pub service: Histogram,
    /// From the first byte sent to the first byte received.
    pub first_byte: Histogram,
    /// Connection time including TLS; one value for each connection, also those opened before the clock
    /// started.
    pub connect: Histogram,
    /// Open loop: actual start minus intended start. Empty in a closed loop.
    pub slip: Histogram,
    /// Requests under way when the drain ended: their age, a lower bound of their response time.
    pub censored: Histogram,
    pub bytes: Bytes,
    pub connections: Connections,
    /// Facts that only WebSockets and event streams have.
    pub messages: Messages,
    /// The measurement in at most [`Report::WINDOWS_MAX`] windows of equal length (the last may be shorter).
    pub windows: Vec<Window>,
    pub threads: Vec<ThreadFacts>,
    /// CPU of the whole generator process during the measurement, user and system, in seconds.
    pub cpu_seconds: f64,
    /// How long the generator kept answers waiting. One value for each wake-up of a thread: the time until
    /// its last event was handled, plus the time that the first event may have waited for others to gather.
    /// The latter is part of the latencies; the former is part of the latencies of answers that arrive
    /// meanwhile.
    pub residency: Histogram,
    /// The sum over all answers of the time between the wake-up of the thread and the reading. During it, a
    /// connection neither waits for the server nor sends a request.
    pub unread: Duration,
    /// Mean number of events per wake-up.
    pub events_per_wake: f64,
    /// Open loop: requests that were due within the measurement but never started.
    pub unsent: u64,
    /// Requests that the schedule had for the measurement; 0 in a closed loop.
    pub offered: u64,
    /// The kernel's network counters of this machine during the measurement.
    pub kernel: Kernel,
    /// Other activity of the machine during the measurement.
    pub host: Host,
    /// Answers and connections by the value of [`crate::Plan::worker_header`], by name; empty if no header is
    /// set.
    pub workers: Vec<Worker>,
    /// Answers for each request of the plan, in its order.
    pub requests: Vec<RequestFacts>,
    /// The first complete answer.
    pub first_response: Option<FirstResponse>,
    /// Complete answers whose body length differs from the first (`ab` reports them as length failures).
    pub length_differs: u64,
    /// Single requests, evenly selected over the run, at most [`Report::SAMPLES_MAX`], in order of time.
    pub samples: Vec<Sample>,
    /// Wall-clock time of the drain.
    pub drained: Duration,
    /// Resident memory of the generator process at the end, and its peak, in bytes.
    pub memory_bytes: (u64, u64),
}

impl Report {
    /// Windows of a report: two minutes of 100 ms windows; longer runs have longer windows.
    pub const WINDOWS_MAX: usize = 1_200;
    /// Samples of a report: as many as a scatter plot can show.
    pub const SAMPLES_MAX: usize = 4_000;
    /// Distinct workers; the rest is counted as one worker called `others`.
    pub const WORKERS_MAX: usize = 1_024;

    /// An empty report: the engine's starting point, also used by tests.
    pub fn empty(engine: impl Into<String>) -> Self {
        Self { engine: engine.into(), ..Self::default() }
    }

    /// Whether the run ended before its time or number of requests.
    pub fn stopped_early(&self) -> bool {
        self.early_end.is_some()
    }

    /// Complete answers per second of the measurement.
    pub fn per_second(&self) -> f64 {
        let seconds = self.elapsed.as_secs_f64();
        if seconds > 0.0 { (self.counts.completed + self.counts.carried_in) as f64 / seconds } else { 0.0 }
    }

    /// Errors of all causes: requests without a complete answer, and complete answers that were not expected.
    pub fn errors_total(&self) -> u64 {
        self.errors_by(|_| true)
    }

    /// Errors of one cause.
    pub fn errors_of(&self, cause: ErrorCause) -> u64 {
        self.errors_by(|other| other == cause)
    }

    /// Errors of the selected causes.
    pub fn errors_by(&self, wanted: impl Fn(ErrorCause) -> bool) -> u64 {
        self.errors.iter().filter(|error| wanted(error.cause)).map(|error| error.count).sum()
    }

    /// Answers with the selected statuses.
    pub fn answers_by(&self, wanted: impl Fn(u16) -> bool) -> u64 {
        self.statuses.iter().filter(|(status, _)| wanted(*status)).map(|(_, count)| count).sum()
    }

    /// Answers of a status class: 1 for 1xx to 5 for 5xx. Statuses from 600 on count as class 6 and more.
    pub fn status_class(&self, class: u16) -> u64 {
        self.answers_by(|status| status / 100 == class)
    }
}

/// Why a run ended before its time or number of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyEnd {
    /// The stop handle was used.
    Stopped,
    /// There were [`crate::Plan::errors_max`] errors.
    Errors,
    /// The target could not be reached any more.
    TargetGone,
}

/// Requests by result. `started = completed + failed + late + unfinished` holds exactly, and `started` equals
/// the number that the server received if every request reached it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchCounts"))]
pub struct Counts {
    /// Requests that the engine started: it connected or wrote for them.
    pub started: u64,
    /// Complete answers within the measurement, with any status.
    pub completed: u64,
    /// No complete answer: an error or a timeout, within the measurement or the drain.
    pub failed: u64,
    /// Complete answers after the end of the measurement. Included in the histograms and statuses, not in the
    /// throughput.
    pub late: u64,
    /// Neither an answer nor an error when the drain ended.
    pub unfinished: u64,
    /// Started in the warm-up and answered within the measurement. Included in the throughput only.
    pub carried_in: u64,
    /// Sent again on a new connection because the server had just closed an idle connection. Not errors.
    pub stale_retries: u64,
    /// Interim (1xx) answers that were skipped.
    #[serde(skip)]
    pub interim: u64,
}

/// Bytes of HTTP, without TLS, TCP and IP, within the measurement and the drain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchBytes"))]
pub struct Bytes {
    pub sent: u64,
    #[serde(skip)]
    pub sent_bodies: u64,
    /// Bytes of answers, complete or not.
    pub received: u64,
    /// Bytes of the bodies of complete answers, without the chunked coding.
    pub received_bodies: u64,
}

/// Connections over the whole run, including the warm-up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchConnections"))]
pub struct Connections {
    /// Requested by the plan.
    pub asked: u64,
    /// The largest number of connections open at the same time. With a connection for each request,
    /// connections being established count too, because they are hardly ever all open at once.
    pub reached: u64,
    /// Connections opened in total.
    pub opened: u64,
    pub failed: u64,
    /// Requests sent on a connection that had been used before.
    pub reused: u64,
    /// Connections closed by the server while idle, or by its `Connection: close`.
    pub closed_by_server: u64,
    /// TCP segments retransmitted on open connections within the measurement.
    pub retransmits: u64,
    /// TCP segments retransmitted while connecting, mostly SYNs. Each means a wait of a second or more.
    pub syn_retransmits: u64,
    /// HTTP/2: concurrent requests on one connection: the plan's number, or the server's limit if that is
    /// lower. 0 for HTTP/1.
    #[serde(serialize_with = "json::known")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub streams: u64,
}

/// Facts about long-lived connections (WebSockets, event streams), beside messages and their answers.
#[derive(Debug, Clone, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchMessages"))]
pub struct Messages {
    /// Unsolicited messages: received within the measurement while no request was waiting.
    pub unasked: u64,
    /// Connections that replaced connections that had ended.
    pub reconnects: u64,
    /// WebSockets closed by the server, by close code; 1005 for a close frame without a code, 1006 for no
    /// close frame.
    pub closes: BTreeMap<u16, u64>,
    /// Event streams: time from the request to the first event.
    #[serde(rename = "first_event_ms", serialize_with = "json::times_if_any")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<json::Times>"))]
    pub first_event: Option<Histogram>,
}

impl Messages {
    /// Distinct close codes; the rest counts as 1006.
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

/// A time window of the measurement.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchWindow"))]
pub struct Window {
    /// Its start, since the measurement started.
    #[serde(rename = "at_s", serialize_with = "json::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub start: Duration,
    #[serde(rename = "length_s", serialize_with = "json::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub length: Duration,
    #[serde(skip)]
    pub started: u64,
    pub completed: u64,
    /// CPU of each generator thread in this window.
    #[serde(skip)]
    pub completed_by_thread: Vec<u64>,
    pub errors: u64,
    #[serde(skip)]
    pub received: u64,
    /// Median of the response times, within 2 %; `None` if there are no answers.
    #[serde(rename = "p50_ms", serialize_with = "json::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p50: Option<Duration>,
    /// 99th percentile, within 2 %.
    #[serde(rename = "p99_ms", serialize_with = "json::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub p99: Option<Duration>,
    /// The longest response time, within 2 %.
    #[serde(rename = "max_ms", serialize_with = "json::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub max: Option<Duration>,
    /// Open connections at the end of the window.
    pub open_connections: u64,
    /// Open loop: requests due and not started at the end of the window.
    pub backlog: u64,
    /// CPU of the generator's threads in the window, in seconds.
    #[serde(skip)]
    pub cpu_seconds: f64,
}

/// One thread of the generator, over the measurement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchThreadFacts"))]
pub struct ThreadFacts {
    /// User and system CPU, seconds.
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub cpu_seconds: f64,
    /// `cpu_seconds` divided by the wall-clock time, 0 to 1. From 0.8 on the generator influences the result.
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub busy: f64,
    /// The largest `busy` of any window.
    #[serde(serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub busy_max: f64,
    pub connections: u64,
    pub completed: u64,
    /// Wake-ups with events.
    pub wakes: u64,
    pub events: u64,
    /// Pauses for answers to gather.
    pub pauses: u64,
    /// Involuntary context switches.
    pub involuntary_switches: u64,
    /// The longest time for which the thread did not run although something was due.
    #[serde(rename = "stood_still_max_s", serialize_with = "json::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub stood_still_max: Duration,
}

/// Kernel counters, as the difference over the measurement. They cover the whole network namespace: other
/// traffic is included, a server on another machine is not. `None`: not readable here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchKernel"))]
pub struct Kernel {
    /// Retransmitted segments (`Tcp.RetransSegs`).
    pub retransmits: Option<u64>,
    /// Retransmitted SYNs (`TcpExt.TCPSynRetrans`): the server's queue was full or packets were lost.
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
    /// Sockets in `TIME_WAIT` after the run.
    pub time_wait_after: Option<u64>,
    /// Local ports available for connections.
    pub local_ports: Option<u64>,
}

/// The machine. `None`: not readable here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchHost"))]
pub struct Host {
    /// CPUs available to this process.
    pub cpus: usize,
    /// Share of all CPU time, 0 to 1, that was busy, including this process.
    #[serde(rename = "cpu_busy", serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub busy: Option<f64>,
    /// Share of all CPU time that the hypervisor took.
    #[serde(rename = "cpu_stolen", serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub steal: Option<f64>,
    /// Share of all CPU time that other programs used right after the run, if they had also run right before it and all
    /// CPUs were busy in it; `None` if not, or not asked for. See [`crate::OtherPrograms`].
    #[serde(rename = "cpu_others", serialize_with = "json::number")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub others: Option<f64>,
    /// How often this process's cgroup was throttled.
    pub throttled_times: Option<u64>,
    /// How long it was throttled.
    #[serde(rename = "throttled_s", serialize_with = "json::seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<f64>"))]
    pub throttled: Option<Duration>,
    /// Descriptors that this process may open.
    pub descriptors_max: Option<u64>,
}

/// The answers of one worker of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    pub name: String,
    pub requests: u64,
    /// Connections on which its first answer arrived within the measurement.
    pub connections: u64,
}

/// The results of one request of the plan.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "BenchRequestFacts"))]
pub struct RequestFacts {
    /// `GET /path`.
    pub name: String,
    /// Started within the measurement.
    pub started: u64,
    /// Complete answers, including late ones.
    pub completed: u64,
    /// Errors of all causes.
    pub errors: u64,
    /// Response times within 2 %; for a plan with a single request exactly [`Report::response`]. Only the
    /// first [`RequestFacts::HISTOGRAMS_MAX`] requests have them.
    #[serde(rename = "latency_ms", serialize_with = "json::times")]
    #[cfg_attr(feature = "schema", schemars(with = "json::Times"))]
    pub response: Histogram,
}

impl RequestFacts {
    /// Requests of a plan with a histogram each: 4 KB for each request and thread.
    pub const HISTOGRAMS_MAX: usize = 256;
}

/// The first complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FirstResponse {
    pub status: u16,
    /// Its `Server` header, if any.
    pub server: Option<String>,
    /// Length of its head.
    pub head_bytes: u64,
    /// Length of its body, without the chunked coding.
    pub body_bytes: u64,
    /// `HTTP/1.0`, `HTTP/1.1`, `HTTP/2`.
    pub version: &'static str,
    /// TLS version and cipher suite, over TLS.
    pub tls: Option<String>,
    /// Whether the server kept the connection open afterwards.
    pub kept_alive: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its intended start, since the measurement started.
    pub at: Duration,
    /// Its response time, or the time waited if it failed.
    pub response: Duration,
    /// Its status; 0 for an error.
    pub status: u16,
}
