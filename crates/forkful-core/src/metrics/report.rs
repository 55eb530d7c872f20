//! An agent's report about its worker, and values derived from two reports: rates, and latencies of the time
//! between.

use std::fmt;
use std::time::Duration;

use super::histogram::{GcPauses, LATENCY_BOUNDS_MS, Latency};
use super::readings::{Readings, Sample};
use super::table::{Kind, Source};

/// The kinds of garbage collection in a report's order, with prom-client's names.
pub const GC_KINDS: [&str; 4] = ["minor", "major", "incremental", "weakcb"];

/// The state of a worker as reported by its agent.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct AgentReport {
    /// HTTP requests since the first report was requested.
    pub requests: u64,
    /// The time since the previous report, by the worker's clock; `None` for the first.
    pub period: Option<Duration>,
    /// Nothing happens in the worker: the next report comes when something does, or after [`QUIET_EVERY`].
    pub quiet: bool,
    /// The agent took samples for a CPU profile in the last period, with signals that interrupt the event loop's wait: the loop seems
    /// busier than it was.
    pub sampled: bool,
    /// Values of the last period, and counters since the first report.
    pub readings: Readings,
    /// Since the first report.
    pub latency: Latency,
    /// Since the first report, by the kinds of [`GC_KINDS`].
    pub gc: [GcPauses; 4],
}

impl fmt::Debug for AgentReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { requests, readings, .. } = self;
        f.debug_struct("AgentReport")
            .field("requests", requests)
            .field("readings", readings)
            .finish_non_exhaustive()
    }
}

impl AgentReport {
    /// Values derived from this report and the previous one.
    fn rates(&self, before: &Self, period: Duration) -> Readings {
        let mut rates = Readings::default();
        let seconds = period.as_secs_f64();
        if seconds <= 0.0 {
            return rates;
        }
        let per_second = |now: f64, then: f64| (now - then).max(0.0) / seconds;
        rates.take("http_requests_per_s", per_second(self.requests as f64, before.requests as f64));
        for (rate, counter) in RATES {
            if let Some(now) = self.readings.get(counter) {
                rates.take(rate, per_second(now, before.readings.get(counter).unwrap_or(0.0)));
            }
        }
        let pauses: [f64; 4] =
            std::array::from_fn(|kind| self.gc[kind].since(&before.gc[kind]).sum_ms / seconds);
        // A pause is reported at its end, and may have begun before the last report.
        rates.take("gc_pause_ms_per_s", pauses.iter().sum::<f64>().min(1000.0));
        rates.take("gc_minor_ms_per_s", pauses[0].min(1000.0));
        let latency = self.latency.since(&before.latency);
        for (name, share) in QUANTILES {
            if let Some(value) = latency.quantile(&LATENCY_BOUNDS_MS, share) {
                rates.take(name, value);
            }
        }
        rates
    }
}

/// The report interval.
pub const REPORT_EVERY: Duration = Duration::from_secs(1);
/// The report interval while nothing happens in the worker.
pub const QUIET_EVERY: Duration = Duration::from_secs(10);
/// A report stays valid for this long after the next was due.
const LATE_BY: Duration = Duration::from_secs(3);

/// Rates, and the counters from which they are calculated.
const RATES: [(&str, &str); 4] = [
    ("http_errors_per_s", "http_responses_5xx_total"),
    ("http_client_errors_per_s", "http_responses_4xx_total"),
    ("outgoing_requests_per_s", "outgoing_requests_total"),
    ("event_loop_iterations_per_s", "event_loop_iterations_total"),
];

const QUANTILES: [(&str, f64); 3] =
    [("http_latency_p50_ms", 0.5), ("http_latency_p95_ms", 0.95), ("http_latency_p99_ms", 0.99)];

/// The data of one process: its agent's reports and measurements from outside.
#[derive(Debug, Clone, Default)]
pub struct Follower {
    last: Option<Box<AgentReport>>,
    said: Readings,
    outside: Readings,
}

impl Follower {
    /// A report of its agent.
    pub fn on_report(&mut self, report: Box<AgentReport>) {
        let mut said =
            report.readings.only(|metric| metric.kind == Kind::Gauge && metric.source != Source::Kernel);
        if let Some((before, period)) = self.last.as_deref().zip(report.period) {
            said.update(&report.rates(before, period));
        }
        self.said = said;
        self.last = Some(report);
    }

    /// Measurements from outside.
    pub fn measured(&mut self, outside: &Readings) {
        self.outside.update(outside);
    }

    /// The last report.
    pub fn report(&self) -> Option<&AgentReport> {
        self.last.as_deref()
    }

    /// The last values from its agent that are not counters.
    pub fn said(&self) -> &Readings {
        &self.said
    }

    /// Whether an agent's report of this age is still valid.
    pub fn is_fresh(&self, age: Duration) -> bool {
        let every = |report: &AgentReport| if report.quiet { QUIET_EVERY } else { REPORT_EVERY };
        self.report().is_some_and(|report| age <= every(report) + LATE_BY)
    }

    /// All current values; the agent's count only if `is_fresh`.
    pub fn sample(&self, is_fresh: bool) -> Sample {
        let mut sample = self.outside.only(|metric| metric.kind == Kind::Gauge);
        if is_fresh {
            sample.update(&self.said);
            if self.report().is_some_and(|report| report.sampled) {
                correct_utilization(&mut sample);
            }
        }
        sample
    }

    /// The counts since the process began.
    pub fn counts(&self) -> super::Counts {
        let mut values = self.outside.only(|metric| metric.kind == Kind::Counter);
        let Some(report) = &self.last else { return super::Counts { values, ..Default::default() } };
        values.update(
            &report.readings.only(|metric| metric.kind == Kind::Counter && metric.source == Source::Agent),
        );
        values.take("http_requests_total", report.requests as f64);
        super::Counts { values, latency: report.latency, gc: report.gc }
    }
}

/// The resolution of the agent's monitor of the event-loop delay, which is not part of a delay.
const DELAY_RESOLUTION_MS: f64 = 10.0;

/// While the agent takes samples, libuv loses the idle time before each signal. The event loop was busy at least while its thread ran or
/// waited for a core, and while it was late; a shorter call that waits is not seen.
fn correct_utilization(sample: &mut Sample) {
    let Some(said) = sample.get("event_loop_utilization") else { return };
    let on_core = sample.get("main_thread_cpu").or_else(|| sample.get("cpu_cores")).unwrap_or(0.0);
    let late_ms = sample.get("event_loop_delay_mean_ms").unwrap_or(0.0);
    let late = late_ms / (DELAY_RESOLUTION_MS + late_ms);
    let known = (on_core + sample.get("run_queue_wait").unwrap_or(0.0)).max(late);
    sample.take("event_loop_utilization", said.min(known));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Histogram;

    fn report(requests: u64, values: &[(&str, f64)]) -> AgentReport {
        AgentReport {
            requests,
            period: Some(Duration::from_millis(500)),
            readings: Readings::of(values),
            ..AgentReport::default()
        }
    }

    #[test]
    fn rates_and_latencies_are_of_the_time_between_two_reports() {
        let mut follower = Follower::default();
        let mut first = report(100, &[("http_responses_5xx_total", 4.0), ("heap_used_bytes", 7.0)]);
        first.latency.counts[0] = 50;
        follower.on_report(Box::new(AgentReport { period: None, ..first }));
        assert_eq!(
            follower.sample(true),
            Readings::of(&[("heap_used_bytes", 7.0)]),
            "no time has passed yet"
        );
        let mut second = report(110, &[("http_responses_5xx_total", 5.0), ("heap_used_bytes", 8.0)]);
        second.latency.counts[0] = 50;
        second.latency.counts[1] = 10;
        second.gc[0] = Histogram { counts: [1, 0, 0, 0, 0, 0, 0], sum_ms: 0.25 };
        follower.on_report(Box::new(second));
        let expected = [
            ("heap_used_bytes", 8.0),
            ("http_requests_per_s", 20.0),
            ("http_errors_per_s", 2.0),
            ("gc_pause_ms_per_s", 0.5),
            ("gc_minor_ms_per_s", 0.5),
            ("http_latency_p50_ms", 0.75),
            ("http_latency_p95_ms", 0.975),
            ("http_latency_p99_ms", 0.995),
        ];
        assert_eq!(follower.sample(true), Readings::of(&expected));
        assert_eq!(follower.sample(false), Readings::default(), "what was said is too old");
        follower.measured(&Readings::of(&[("pool_cpu", 2.0), ("cpu_user_seconds_total", 9.0)]));
        assert_eq!(follower.sample(false), Readings::of(&[("pool_cpu", 2.0)]));
        let counts = follower.counts();
        let values = [
            ("http_requests_total", 110.0),
            ("http_responses_5xx_total", 5.0),
            ("cpu_user_seconds_total", 9.0),
        ];
        assert_eq!(counts.values, Readings::of(&values));
        assert_eq!((counts.latency.count(), counts.gc[0].count()), (60, 1));
    }

    #[test]
    fn a_loop_whose_agent_takes_samples_is_as_busy_as_its_thread_or_its_delay() {
        let utilization = |sampled, outside: &[(&str, f64)], late_ms| {
            let mut follower = Follower::default();
            let said = [("event_loop_utilization", 0.6), ("event_loop_delay_mean_ms", late_ms)];
            follower.on_report(Box::new(AgentReport { sampled, ..report(0, &said) }));
            follower.measured(&Readings::of(outside));
            follower.sample(true).get("event_loop_utilization")
        };
        let (idle, computing) =
            ([("main_thread_cpu", 0.01), ("run_queue_wait", 0.01)], [("main_thread_cpu", 0.9)]);
        assert_eq!(utilization(false, &idle, 0.0), Some(0.6));
        assert_eq!(utilization(true, &idle, 0.0), Some(0.02));
        assert_eq!(utilization(true, &computing, 0.0), Some(0.6), "it is never busier than said");
        assert_eq!(utilization(true, &idle, 10.0), Some(0.5), "blocked for half of the time");
    }

    #[test]
    fn what_was_said_holds_until_the_next_report_is_overdue() {
        let (mut follower, seconds) = (Follower::default(), Duration::from_secs);
        assert!(!follower.is_fresh(seconds(0)));
        follower.on_report(Box::new(report(0, &[])));
        assert_eq!([4, 5].map(|age| follower.is_fresh(seconds(age))), [true, false]);
        follower.on_report(Box::new(AgentReport { quiet: true, ..report(0, &[]) }));
        assert_eq!([13, 14].map(|age| follower.is_fresh(seconds(age))), [true, false]);
    }

    #[test]
    fn a_worker_does_not_say_what_the_kernel_says() {
        let mut follower = Follower::default();
        follower.on_report(Box::new(report(0, &[("cpu_user_seconds_total", 1e9), ("memory_bytes", 1e9)])));
        assert_eq!(follower.sample(true).get("memory_bytes"), None);
        assert_eq!(follower.counts().values, Readings::of(&[("http_requests_total", 0.0)]));
    }
}
