//! The table of everything that is measured in each worker.

use Kind::{Counter, Gauge};
use Source::{Agent, Kernel};

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metric {
    /// Its name in the agent's report, in JSON and in the API; ends with the unit.
    pub name: &'static str,
    /// Its name in `describe`, if shown there.
    pub label: Option<&'static str>,
    pub unit: Unit,
    pub kind: Kind,
    pub source: Source,
    /// Its names on the metrics page.
    pub exported: &'static [Exported],
    /// How it is called in OpenTelemetry.
    pub otel: &'static [OtelMetric],
    /// Its name for scripts written for PM2, if PM2 has it.
    pub pm2: Option<Pm2Metric>,
    /// Its description, a sentence.
    pub meaning: &'static str,
}

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// From 0 to 1.
    Ratio,
    Milliseconds,
    MillisecondsPerSecond,
    PerSecond,
    Bytes,
    Count,
    /// 1 is a whole core.
    Cores,
    Seconds,
}

/// How its value changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The current value, or that of the last second.
    Gauge,
    /// Counts since the process began; only increases.
    Counter,
}

/// What measures it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The agent, in the worker.
    Agent,
    /// The daemon, from outside.
    Kernel,
}

/// A name on the metrics page.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Exported {
    /// prom-client's name, if it has one.
    pub name: &'static str,
    /// A label and its value, for names shared by several rows.
    pub label: Option<(&'static str, &'static str)>,
    /// The factor for our value.
    pub factor: f64,
}

/// A name in OpenTelemetry: that of its semantic conventions, where they have one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OtelMetric {
    pub name: &'static str,
    /// As UCUM writes it.
    pub unit: &'static str,
    pub instrument: Instrument,
    /// An attribute and its value, of names that several rows share.
    pub attribute: Option<(&'static str, &'static str)>,
    /// What our value is multiplied by.
    pub factor: f64,
}

/// What OpenTelemetry takes the values for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instrument {
    Gauge,
    Counter,
    /// The sum over instances makes sense, too, and it may fall.
    UpDownCounter,
}

/// A metric in `@pm2/io`'s form in `axm_monitor`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pm2Metric {
    pub name: &'static str,
    /// Its `type`.
    pub kind: &'static str,
    pub unit: &'static str,
    /// The factor for our value.
    pub factor: f64,
}

const MS: f64 = 0.001;

/// All metrics, in display order.
pub const METRICS: &[Metric] = &[
    row("event_loop_utilization", Unit::Ratio, Gauge, Agent, "The share of time that the event loop was busy in the last second.")
        .shown("event loop busy")
        .exported(&[plain("nodejs_eventloop_utilization")])
        .otel(&[gauge("nodejs.eventloop.utilization", "1")]),
    row("main_thread_cpu", Unit::Ratio, Gauge, Kernel, "The share of time that the main thread, which runs JavaScript, was on a core.")
        .shown("main thread on cpu")
        .exported(&[plain("forkful_main_thread_cpu")])
        .otel(&[gauge("forkful.main_thread.cpu.utilization", "1")]),
    row("run_queue_wait", Unit::Ratio, Gauge, Kernel, "The share of time that the main thread was ready to run and had no core.")
        .shown("waiting for a cpu")
        .exported(&[plain("forkful_run_queue_wait")])
        .otel(&[gauge("forkful.main_thread.run_queue.utilization", "1")]),
    row("event_loop_delay_p50_ms", Unit::Milliseconds, Gauge, Agent, "The median of how late the event loop was in the last second.")
        .shown("event loop late")
        .exported(&[times("nodejs_eventloop_lag_p50_seconds", MS)])
        .in_pm2("Event Loop Latency", "internal/libuv/latency/p50", "ms", 1.0)
        .otel(&[gauge("nodejs.eventloop.delay.p50", "s").times(MS)]),
    row("event_loop_delay_p90_ms", Unit::Milliseconds, Gauge, Agent, "The 90th percentile of how late the event loop was in the last second.")
        .exported(&[times("nodejs_eventloop_lag_p90_seconds", MS)])
        .otel(&[gauge("nodejs.eventloop.delay.p90", "s").times(MS)]),
    row("event_loop_delay_p99_ms", Unit::Milliseconds, Gauge, Agent, "The 99th percentile of how late the event loop was in the last second.")
        .shown("late at the p99")
        .exported(&[times("nodejs_eventloop_lag_p99_seconds", MS)])
        .otel(&[gauge("nodejs.eventloop.delay.p99", "s").times(MS)]),
    row("event_loop_delay_min_ms", Unit::Milliseconds, Gauge, Agent, "The least that the event loop was late in the last second.")
        .exported(&[times("nodejs_eventloop_lag_min_seconds", MS)])
        .otel(&[gauge("nodejs.eventloop.delay.min", "s").times(MS)]),
    row("event_loop_delay_max_ms", Unit::Milliseconds, Gauge, Agent, "The most that the event loop was late in the last second.")
        .shown("late at most")
        .exported(&[times("nodejs_eventloop_lag_max_seconds", MS)])
        .otel(&[gauge("nodejs.eventloop.delay.max", "s").times(MS)]),
    row("event_loop_delay_mean_ms", Unit::Milliseconds, Gauge, Agent, "The mean of how late the event loop was in the last second.")
        .exported(&[times("nodejs_eventloop_lag_seconds", MS), times("nodejs_eventloop_lag_mean_seconds", MS)])
        .otel(&[gauge("nodejs.eventloop.delay.mean", "s").times(MS)]),
    row("event_loop_delay_stddev_ms", Unit::Milliseconds, Gauge, Agent, "The standard deviation of how late the event loop was in the last second.")
        .exported(&[times("nodejs_eventloop_lag_stddev_seconds", MS)])
        .otel(&[gauge("nodejs.eventloop.delay.stddev", "s").times(MS)]),
    row("event_loop_iterations_per_s", Unit::PerSecond, Gauge, Agent, "Turns of the event loop (Node.js 20.18, 22.8 and later).")
        .exported(&[]),
    row("heap_used_bytes", Unit::Bytes, Gauge, Agent, "The part of JavaScript's heap that is in use.")
        .shown("heap used")
        .exported(&[plain("nodejs_heap_size_used_bytes")])
        .in_pm2("Used Heap Size", "internal/v8/heap/used", "MiB", 1.0 / (1024.0 * 1024.0))
        .otel(&[level("v8js.memory.heap.used", "By")]),
    row("heap_total_bytes", Unit::Bytes, Gauge, Agent, "What V8 has reserved for JavaScript's heap.")
        .exported(&[plain("nodejs_heap_size_total_bytes")])
        .in_pm2("Heap Size", "internal/v8/heap/total", "MiB", 1.0 / (1024.0 * 1024.0))
        .otel(&[level("v8js.memory.heap.space.size", "By")]),
    row("heap_limit_bytes", Unit::Bytes, Gauge, Agent, "What JavaScript's heap may grow to; beyond, the process ends.")
        .shown("heap limit")
        .exported(&[plain("forkful_heap_size_limit_bytes")])
        .otel(&[gauge("forkful.heap.limit", "By")]),
    row("external_bytes", Unit::Bytes, Gauge, Agent, "Memory of buffers and other objects outside of the heap that JavaScript holds.")
        .exported(&[plain("nodejs_external_memory_bytes")])
        .otel(&[level("forkful.memory.external", "By")]),
    row("gc_pause_ms_per_s", Unit::MillisecondsPerSecond, Gauge, Agent, "How long garbage collection kept JavaScript from running in the last second; an estimate where there are many collections.")
        .shown("gc pauses"),
    row("gc_minor_ms_per_s", Unit::MillisecondsPerSecond, Gauge, Agent, "The part of this that collected young objects."),
    row("http_requests_per_s", Unit::PerSecond, Gauge, Agent, "HTTP requests that came in the last second.")
        .shown("http requests")
        .in_pm2("HTTP", "internal/http/builtin/reqs", "req/min", 60.0),
    row("http_errors_per_s", Unit::PerSecond, Gauge, Agent, "HTTP responses with a status of 500 or above.")
        .shown("http 5xx"),
    row("http_client_errors_per_s", Unit::PerSecond, Gauge, Agent, "HTTP responses with a status from 400 to 499."),
    row("http_latency_p50_ms", Unit::Milliseconds, Gauge, Agent, "The median of the time from an HTTP request to the end of its response, of those that ended in the last second; of what took longer than 10 s, only the mean is known.")
        .in_pm2("HTTP Mean Latency", "internal/http/builtin/latency/p50", "ms", 1.0),
    row("http_latency_p95_ms", Unit::Milliseconds, Gauge, Agent, "The 95th percentile of this time.")
        .in_pm2("HTTP P95 Latency", "internal/http/builtin/latency/p95", "ms", 1.0),
    row("http_latency_p99_ms", Unit::Milliseconds, Gauge, Agent, "The 99th percentile of this time.")
        .shown("latency at the p99"),
    row("http_in_flight", Unit::Count, Gauge, Agent, "HTTP requests that are being answered.")
        .shown("http in flight")
        .exported(&[plain("forkful_http_requests_in_flight")])
        .otel(&[level("http.server.active_requests", "{request}")]),
    row("outgoing_requests_per_s", Unit::PerSecond, Gauge, Agent, "Requests that the app sent with http, https or fetch."),
    row("outgoing_in_flight", Unit::Count, Gauge, Agent, "Of these, requests that wait for their response.")
        .shown("outgoing in flight")
        .exported(&[plain("forkful_outgoing_requests_in_flight")])
        .otel(&[level("http.client.active_requests", "{request}")]),
    row("outgoing_connections", Unit::Count, Gauge, Kernel, "Established TCP connections that the worker has opened itself, such as to databases. On the metrics page they are counted by host: at most 16 hosts of a worker, those with most connections.")
        .otel(&[level("forkful.outgoing.connections", "{connection}")]),
    row("outgoing_waiting", Unit::Count, Gauge, Agent, "Requests and queries that wait for a free connection: of fetch and of undici's Client, and of pools of mysql2 (3.20 and later). The pools of pg, and undici's Pool and Agent with `connections`, do not publish it.")
        .shown("outgoing waiting")
        .exported(&[plain("forkful_outgoing_waiting")])
        .otel(&[level("forkful.outgoing.waiting", "{request}")]),
    row("pool_threads", Unit::Count, Gauge, Kernel, "Threads of libuv's pool, which does file system calls, DNS look-ups, compression and cryptography; 0 until the first job.")
        .exported(&[plain("forkful_pool_threads")])
        .otel(&[level("forkful.pool.threads", "{thread}")]),
    row("pool_busy", Unit::Ratio, Gauge, Kernel, "The share of these threads that had a job when they were looked at.")
        .shown("thread pool busy")
        .exported(&[plain("forkful_pool_busy")])
        .otel(&[gauge("forkful.pool.utilization", "1")]),
    row("pool_cpu", Unit::Cores, Gauge, Kernel, "Cores that these threads used.")
        .exported(&[plain("forkful_pool_cpu_cores")]),
    row("pool_wait_ms", Unit::Milliseconds, Gauge, Agent, "How long a small job waited for a thread of the pool; measured only where the pool is in use.")
        .exported(&[times("forkful_pool_wait_seconds", MS)])
        .otel(&[gauge("forkful.pool.wait", "s").times(MS)]),
    row("cpu_cores", Unit::Cores, Gauge, Kernel, "Cores that all threads of the process used."),
    row("cpu_throttled", Unit::Ratio, Gauge, Kernel, "The share of time that a CPU quota kept the worker's control group from running.")
        .exported(&[plain("forkful_cpu_throttled")])
        .otel(&[gauge("forkful.cpu.throttled.utilization", "1")]),
    row("cpu_throttled_periods", Unit::Ratio, Gauge, Kernel, "The share of the quota's periods in which it was used up."),
    row("cpu_pressure", Unit::Ratio, Gauge, Kernel, "The share of 10 s in which a process of the app's control group waited for a core; of any process of the machine where the kernel does not measure the group. Measured every 10 s, as the next two.")
        .shown("cpu pressure")
        .exported(&[plain("forkful_cpu_pressure")])
        .otel(&[gauge("forkful.cpu.pressure", "1")]),
    row("memory_pressure", Unit::Ratio, Gauge, Kernel, "The same for memory that had to be freed or read again.")
        .shown("memory pressure")
        .exported(&[plain("forkful_memory_pressure")])
        .otel(&[gauge("forkful.memory.pressure", "1")]),
    row("io_pressure", Unit::Ratio, Gauge, Kernel, "The same for storage.")
        .shown("io pressure")
        .exported(&[plain("forkful_io_pressure")])
        .otel(&[gauge("forkful.io.pressure", "1")]),
    row("memory_bytes", Unit::Bytes, Gauge, Kernel, "Resident memory of the process.")
        .exported(&[plain("process_resident_memory_bytes")])
        .otel(&[level("process.memory.usage", "By")]),
    row("memory_pss_bytes", Unit::Bytes, Gauge, Kernel, "Memory of the process, with what it shares with others divided among them; measured twice a minute.")
        .exported(&[plain("forkful_memory_pss_bytes")])
        .otel(&[level("forkful.memory.pss", "By")]),
    row("memory_virtual_bytes", Unit::Bytes, Gauge, Kernel, "Address space of the process, used or not: V8 reserves much more than it needs. Measured twice a minute.")
        .exported(&[plain("process_virtual_memory_bytes")])
        .otel(&[level("process.memory.virtual", "By")]),
    row("memory_data_bytes", Unit::Bytes, Gauge, Kernel, "The part of the address space that is private and writable (the kernel's `VmData`); measured twice a minute.")
        .exported(&[plain("process_heap_bytes")])
        .otel(&[level("forkful.memory.data", "By")]),
    row("memory_limit_bytes", Unit::Bytes, Gauge, Kernel, "What the worker's control group may use; missing where there is no limit.")
        .exported(&[plain("forkful_memory_limit_bytes")])
        .otel(&[gauge("forkful.memory.limit", "By")]),
    row("memory_group_bytes", Unit::Bytes, Gauge, Kernel, "What the worker's control group uses of that limit: all processes in it, without files that the kernel can drop; missing where there is no limit.")
        .exported(&[plain("forkful_memory_group_bytes")])
        .otel(&[gauge("forkful.memory.group", "By")]),
    row("swap_bytes", Unit::Bytes, Gauge, Kernel, "Memory of the process that was swapped out; measured twice a minute.")
        .exported(&[plain("forkful_swap_bytes")])
        .otel(&[level("forkful.memory.swap", "By")]),
    row("open_files", Unit::Count, Gauge, Kernel, "Open descriptors; measured twice a minute.")
        .exported(&[plain("process_open_fds")])
        .otel(&[level("process.unix.file_descriptor.count", "{file_descriptor}")]),
    row("open_files_limit", Unit::Count, Gauge, Kernel, "The most open descriptors that the process may have.")
        .exported(&[plain("process_max_fds")])
        .otel(&[gauge("forkful.file_descriptor.limit", "{file_descriptor}")]),
    row("connections", Unit::Count, Gauge, Kernel, "Established TCP connections that the worker has accepted, those of keep-alive and WebSockets included; measured every 10 s, more seldom with many thousands of them.")
        .shown("connections")
        .exported(&[plain("forkful_connections")])
        .otel(&[level("forkful.connections", "{connection}")]),
    row("accept_queue", Unit::Count, Gauge, Kernel, "Connections that wait in the worker's own queues to be accepted.")
        .shown("accept queue")
        .exported(&[plain("forkful_accept_queue_connections")])
        .otel(&[level("forkful.accept_queue.connections", "{connection}")]),
    row("http_requests_total", Unit::Count, Counter, Agent, "HTTP requests that came.")
        .exported(&[plain("forkful_http_requests_total")])
        .otel(&[counter("forkful.http.requests", "{request}")]),
    row("http_responses_1xx_total", Unit::Count, Counter, Agent, "HTTP responses with a status from 100 to 199.")
        .exported(&[class("1xx")])
        .otel(&[counter("forkful.http.responses", "{response}").of("forkful.http.status_class", "1xx")]),
    row("http_responses_2xx_total", Unit::Count, Counter, Agent, "HTTP responses with a status from 200 to 299.")
        .exported(&[class("2xx")])
        .otel(&[counter("forkful.http.responses", "{response}").of("forkful.http.status_class", "2xx")]),
    row("http_responses_3xx_total", Unit::Count, Counter, Agent, "HTTP responses with a status from 300 to 399.")
        .exported(&[class("3xx")])
        .otel(&[counter("forkful.http.responses", "{response}").of("forkful.http.status_class", "3xx")]),
    row("http_responses_4xx_total", Unit::Count, Counter, Agent, "HTTP responses with a status from 400 to 499.")
        .exported(&[class("4xx")])
        .otel(&[counter("forkful.http.responses", "{response}").of("forkful.http.status_class", "4xx")]),
    row("http_responses_5xx_total", Unit::Count, Counter, Agent, "HTTP responses with a status of 500 or above.")
        .exported(&[class("5xx")])
        .otel(&[counter("forkful.http.responses", "{response}").of("forkful.http.status_class", "5xx")]),
    row("http_aborted_total", Unit::Count, Counter, Agent, "HTTP requests whose connection closed before the response had ended.")
        .exported(&[plain("forkful_http_aborted_total")])
        .otel(&[counter("forkful.http.aborted", "{request}")]),
    row("outgoing_requests_total", Unit::Count, Counter, Agent, "Requests that the app sent with http, https or fetch.")
        .exported(&[plain("forkful_outgoing_requests_total")])
        .otel(&[counter("forkful.http.client.requests", "{request}")]),
    row("outgoing_errors_total", Unit::Count, Counter, Agent, "Of these, requests that got no response.")
        .exported(&[plain("forkful_outgoing_errors_total")])
        .otel(&[counter("forkful.http.client.errors", "{request}")]),
    row("outgoing_refused_total", Unit::Count, Counter, Agent, "Connections that a database refused because it has too many: PostgreSQL and MySQL, with or without TLS.")
        .exported(&[plain("forkful_outgoing_refused_total")])
        .otel(&[counter("forkful.outgoing.refused", "{connection}")]),
    row("event_loop_active_seconds_total", Unit::Seconds, Counter, Agent, "Time that the event loop was busy.")
        .exported(&[state("active")])
        .otel(&[counter("nodejs.eventloop.time", "s").of("nodejs.eventloop.state", "active")]),
    row("event_loop_idle_seconds_total", Unit::Seconds, Counter, Agent, "Time that the event loop waited for something to do.")
        .exported(&[state("idle")])
        .otel(&[counter("nodejs.eventloop.time", "s").of("nodejs.eventloop.state", "idle")]),
    row("event_loop_iterations_total", Unit::Count, Counter, Agent, "Turns of the event loop (Node.js 20.18, 22.8 and later).")
        .exported(&[plain("forkful_eventloop_iterations_total")])
        .otel(&[counter("forkful.eventloop.iterations", "{iteration}")]),
    row("cpu_user_seconds_total", Unit::Seconds, Counter, Kernel, "CPU time of the process in its own code.")
        .exported(&[plain("process_cpu_user_seconds_total")])
        .otel(&[counter("process.cpu.time", "s").of("cpu.mode", "user")]),
    row("cpu_system_seconds_total", Unit::Seconds, Counter, Kernel, "CPU time of the process in the kernel.")
        .exported(&[plain("process_cpu_system_seconds_total")])
        .otel(&[counter("process.cpu.time", "s").of("cpu.mode", "system")]),
    row("cpu_seconds_total", Unit::Seconds, Counter, Kernel, "CPU time of the process.")
        .exported(&[plain("process_cpu_seconds_total")]),
    row("main_thread_cpu_seconds_total", Unit::Seconds, Counter, Kernel, "CPU time of the main thread.")
        .exported(&[plain("forkful_main_thread_cpu_seconds_total")])
        .otel(&[counter("forkful.main_thread.cpu.time", "s")]),
    row("run_queue_wait_seconds_total", Unit::Seconds, Counter, Kernel, "Time that the main thread was ready to run and had no core.")
        .exported(&[plain("forkful_run_queue_wait_seconds_total")])
        .otel(&[counter("forkful.main_thread.run_queue.time", "s")]),
    row("cpu_throttled_seconds_total", Unit::Seconds, Counter, Kernel, "Time that a CPU quota kept the worker's control group from running.")
        .exported(&[plain("forkful_cpu_throttled_seconds_total")])
        .otel(&[counter("forkful.cpu.throttled.time", "s")]),
    row("log_bytes_total", Unit::Count, Counter, Kernel, "Bytes of lines that the worker has written to its stdout and stderr.")
        .exported(&[plain("forkful_log_bytes_total")])
        .otel(&[counter("forkful.log.size", "By")]),
    row("log_lines_dropped_total", Unit::Count, Counter, Kernel, "Of these, lines that could not be written to a file.")
        .exported(&[plain("forkful_log_lines_dropped_total")])
        .otel(&[counter("forkful.log.dropped", "{line}")]),
    row("restarts_total", Unit::Count, Counter, Kernel, "Restarts of the worker, asked for or not. `forkful list` shows those that no crash caused, since the last `forkful reset`.")
        .exported(&[plain("forkful_worker_restarts_total")])
        .otel(&[counter("forkful.worker.restarts", "{process}")]),
    row("crashes_total", Unit::Count, Counter, Kernel, "Unexpected ends of the worker that led to a restart or to giving up.")
        .exported(&[plain("forkful_worker_crashes_total")])
        .otel(&[counter("forkful.worker.crashes", "{process}")]),
];

const fn row(name: &'static str, unit: Unit, kind: Kind, source: Source, meaning: &'static str) -> Metric {
    Metric { name, label: None, unit, kind, source, exported: &[], otel: &[], pm2: None, meaning }
}

const fn plain(name: &'static str) -> Exported {
    times(name, 1.0)
}

const fn times(name: &'static str, factor: f64) -> Exported {
    Exported { name, label: None, factor }
}

const fn class(class: &'static str) -> Exported {
    Exported { name: "forkful_http_responses_total", label: Some(("class", class)), factor: 1.0 }
}

const fn state(state: &'static str) -> Exported {
    Exported { name: "forkful_eventloop_time_seconds_total", label: Some(("state", state)), factor: 1.0 }
}

const fn gauge(name: &'static str, unit: &'static str) -> OtelMetric {
    OtelMetric::plain(name, unit, Instrument::Gauge)
}

const fn counter(name: &'static str, unit: &'static str) -> OtelMetric {
    OtelMetric::plain(name, unit, Instrument::Counter)
}

const fn level(name: &'static str, unit: &'static str) -> OtelMetric {
    OtelMetric::plain(name, unit, Instrument::UpDownCounter)
}

impl OtelMetric {
    pub(crate) const fn plain(name: &'static str, unit: &'static str, instrument: Instrument) -> Self {
        Self { name, unit, instrument, attribute: None, factor: 1.0 }
    }

    const fn times(mut self, factor: f64) -> Self {
        self.factor = factor;
        self
    }

    const fn of(mut self, attribute: &'static str, value: &'static str) -> Self {
        self.attribute = Some((attribute, value));
        self
    }
}

impl Metric {
    const fn shown(mut self, label: &'static str) -> Self {
        self.label = Some(label);
        self
    }

    const fn exported(mut self, names: &'static [Exported]) -> Self {
        self.exported = names;
        self
    }

    const fn otel(mut self, names: &'static [OtelMetric]) -> Self {
        self.otel = names;
        self
    }

    const fn in_pm2(
        mut self,
        name: &'static str,
        kind: &'static str,
        unit: &'static str,
        factor: f64,
    ) -> Self {
        self.pm2 = Some(Pm2Metric { name, kind, unit, factor });
        self
    }

    /// The row with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        METRICS.iter().find(|metric| metric.name == name)
    }

    /// A value, for people.
    pub fn display(&self, value: f64) -> String {
        match self.unit {
            Unit::Ratio => format!("{:.1}%", value * 100.0),
            Unit::Milliseconds => format!("{value:.1} ms"),
            Unit::MillisecondsPerSecond => format!("{value:.1} ms/s"),
            Unit::PerSecond => format!("{value:.1}/s"),
            Unit::Bytes => format!("{:.1} MiB", value / (1024.0 * 1024.0)),
            Unit::Count => format!("{value}"),
            Unit::Cores => format!("{value:.2} cores"),
            Unit::Seconds => format!("{value:.1} s"),
        }
    }
}

impl Unit {
    /// The maximum accepted value.
    pub const fn max(self) -> f64 {
        match self {
            Self::Ratio => 1.0,
            Self::MillisecondsPerSecond => 1000.0,
            Self::Milliseconds
            | Self::PerSecond
            | Self::Bytes
            | Self::Count
            | Self::Cores
            | Self::Seconds => 1e15,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn are_distinct<T: Ord>(names: Vec<T>) -> bool {
        let count = names.len();
        names.into_iter().collect::<std::collections::BTreeSet<_>>().len() == count
    }

    #[test]
    fn names_are_unique() {
        assert!(are_distinct(METRICS.iter().map(|metric| metric.name).collect()));
        assert!(are_distinct(METRICS.iter().filter_map(|metric| metric.label).collect()));
        assert!(are_distinct(METRICS.iter().filter_map(|metric| Some(metric.pm2?.name)).collect()));
        let exported =
            METRICS.iter().flat_map(|metric| metric.exported.iter().map(|as_| (as_.name, as_.label)));
        assert!(are_distinct(exported.collect()));
    }

    #[test]
    fn counters_are_named_as_counters() {
        for metric in METRICS {
            let is_counter = metric.kind == Kind::Counter;
            assert_eq!(metric.name.ends_with("_total"), is_counter, "{}", metric.name);
            for exported in metric.exported {
                assert_eq!(exported.name.ends_with("_total"), is_counter, "{}", exported.name);
            }
        }
    }

    #[test]
    fn names_in_opentelemetry_are_of_one_instrument_and_counters_are_sums() {
        let names = || METRICS.iter().flat_map(|metric| metric.otel.iter().map(move |as_| (metric, as_)));
        assert!(are_distinct(names().map(|(_, as_)| (as_.name, as_.attribute)).collect()));
        for (metric, as_) in names() {
            assert_eq!(as_.instrument == Instrument::Counter, metric.kind == Kind::Counter, "{}", as_.name);
            let same = names().filter(|(_, other)| other.name == as_.name);
            assert!(
                same.into_iter()
                    .all(|(_, other)| (other.unit, other.instrument) == (as_.unit, as_.instrument))
            );
        }
    }

    #[test]
    fn values_have_their_units() {
        let shown = |unit, value| row("x", unit, Gauge, Agent, "").display(value);
        assert_eq!(shown(Unit::Ratio, 0.123), "12.3%");
        assert_eq!(shown(Unit::Milliseconds, 1.26), "1.3 ms");
        assert_eq!(shown(Unit::MillisecondsPerSecond, 20.0), "20.0 ms/s");
        assert_eq!(shown(Unit::PerSecond, 3.0), "3.0/s");
        assert_eq!(shown(Unit::Bytes, 5.0 * 1024.0 * 1024.0), "5.0 MiB");
        assert_eq!(shown(Unit::Count, 3.0), "3");
        assert_eq!(shown(Unit::Cores, 1.234), "1.23 cores");
        assert_eq!(shown(Unit::Seconds, 1.26), "1.3 s");
    }
}
