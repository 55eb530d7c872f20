//! The measurements of one second of one worker, or the mean of several. Values that were not measured are
//! `None`.

use crate::metrics::Readings;

/// Maximum pool threads.
const POOL_THREADS_MAX: f64 = 1024.0;

/// V8 adds this for young objects to the limit of `--max-old-space-size`.
const YOUNG_BYTES: f64 = 48.0 * 1024.0 * 1024.0;

/// Values are in the unit of their name; shares are 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Signs {
    /// The event loop's busy time (E in docs/DOCTOR.md).
    pub loop_busy: Option<f64>,
    /// The main thread's time on a core (C).
    pub main_cpu: Option<f64>,
    /// The main thread's time ready to run without a core (R).
    pub cpu_wait: Option<f64>,
    /// Pauses of garbage collection (G).
    pub gc: Option<f64>,
    /// The part of these pauses for young objects.
    pub gc_minor: Option<f64>,
    /// The maximum event-loop delay in the second (D).
    pub delay_max_ms: Option<f64>,
    /// Turns of the event loop per second (I).
    pub iterations: Option<f64>,
    /// Requests per second.
    pub requests: Option<f64>,
    /// Median latency (L).
    pub latency_p50_ms: Option<f64>,
    /// Requests being answered (H).
    pub in_flight: Option<f64>,
    /// Outgoing requests of the app that wait for a response (X).
    pub outgoing: Option<f64>,
    /// Threads of the pool.
    pub pool_threads: Option<f64>,
    /// The share of these threads with a job (P).
    pub pool_busy: Option<f64>,
    /// Cores used by these threads.
    pub pool_cpu: Option<f64>,
    /// The wait for a pool thread (Q).
    pub pool_wait_ms: Option<f64>,
    /// Cores used by the whole process.
    pub cpu_cores: Option<f64>,
    /// The share of time in which a quota throttled the group (T).
    pub throttled: Option<f64>,
    /// The share of the quota's periods that were exhausted.
    pub throttled_periods: Option<f64>,
    pub memory_bytes: Option<f64>,
    pub memory_limit_bytes: Option<f64>,
    pub memory_group_bytes: Option<f64>,
    pub swap_bytes: Option<f64>,
    pub heap_used_bytes: Option<f64>,
    pub heap_limit_bytes: Option<f64>,
    /// Connections that are not accepted yet (A).
    pub accept_queue: Option<f64>,
    /// 1 if the event loop has not answered for the whole second, otherwise 0; as a mean, the share of time.
    pub standing: Option<f64>,
}

/// Accesses one field; [`FIELDS`] lists all.
type Field = fn(&mut Signs) -> &mut Option<f64>;

/// The metric of each field, and the factor for its value.
const FIELDS: [(&str, f64, Field); 26] = [
    ("event_loop_utilization", 1.0, |signs| &mut signs.loop_busy),
    ("main_thread_cpu", 1.0, |signs| &mut signs.main_cpu),
    ("run_queue_wait", 1.0, |signs| &mut signs.cpu_wait),
    ("gc_pause_ms_per_s", 0.001, |signs| &mut signs.gc),
    ("gc_minor_ms_per_s", 0.001, |signs| &mut signs.gc_minor),
    ("event_loop_delay_max_ms", 1.0, |signs| &mut signs.delay_max_ms),
    ("event_loop_iterations_per_s", 1.0, |signs| &mut signs.iterations),
    ("http_requests_per_s", 1.0, |signs| &mut signs.requests),
    ("http_latency_p50_ms", 1.0, |signs| &mut signs.latency_p50_ms),
    ("http_in_flight", 1.0, |signs| &mut signs.in_flight),
    ("outgoing_in_flight", 1.0, |signs| &mut signs.outgoing),
    ("pool_threads", 1.0, |signs| &mut signs.pool_threads),
    ("pool_busy", 1.0, |signs| &mut signs.pool_busy),
    ("pool_cpu", 1.0, |signs| &mut signs.pool_cpu),
    ("pool_wait_ms", 1.0, |signs| &mut signs.pool_wait_ms),
    ("cpu_cores", 1.0, |signs| &mut signs.cpu_cores),
    ("cpu_throttled", 1.0, |signs| &mut signs.throttled),
    ("cpu_throttled_periods", 1.0, |signs| &mut signs.throttled_periods),
    ("memory_bytes", 1.0, |signs| &mut signs.memory_bytes),
    ("memory_limit_bytes", 1.0, |signs| &mut signs.memory_limit_bytes),
    ("memory_group_bytes", 1.0, |signs| &mut signs.memory_group_bytes),
    ("swap_bytes", 1.0, |signs| &mut signs.swap_bytes),
    ("heap_used_bytes", 1.0, |signs| &mut signs.heap_used_bytes),
    ("heap_limit_bytes", 1.0, |signs| &mut signs.heap_limit_bytes),
    ("accept_queue", 1.0, |signs| &mut signs.accept_queue),
    (STANDING, 1.0, |signs| &mut signs.standing),
];

/// No metric: only a worker that is watched is known to stand.
const STANDING: &str = "standing";

/// An event loop that has not answered for this long has not turned in the last second.
const STANDING_MS: u64 = 1000;

impl Signs {
    /// From measurements. Metrics that the doctor does not use are ignored.
    pub fn of(readings: &Readings) -> Self {
        Self::from_values(|name| readings.get(name))
    }

    /// The same from any source of values by metric name.
    pub fn from_values(value: impl Fn(&str) -> Option<f64>) -> Self {
        let mut signs = Self::default();
        for (name, factor, field) in FIELDS {
            *field(&mut signs) = value(name).map(|value| value * factor);
        }
        signs
    }

    /// The last second of a worker that is watched: its measurements, and for how long its event loop has not answered.
    pub fn of_watched(value: impl Fn(&str) -> Option<f64>, blocked_ms: Option<u64>) -> Self {
        let stands = blocked_ms.is_some_and(|blocked| blocked >= STANDING_MS);
        Self { standing: Some(if stands { 1.0 } else { 0.0 }), ..Self::from_values(value) }
    }

    /// From series of values: the value of a metric at a point. Points without any value are left out.
    pub fn from_series(points: usize, value: impl Fn(&str, usize) -> Option<f64>) -> Vec<Self> {
        let at = |point| Self::from_values(|name| value(name, point));
        (0..points).map(at).filter(|signs| !signs.is_empty()).collect()
    }

    /// Whether no value is known.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The metrics that the doctor reads.
    pub fn metrics() -> impl Iterator<Item = &'static str> {
        FIELDS.into_iter().map(|(name, _, _)| name).filter(|name| *name != STANDING)
    }

    /// The mean of each value over the seconds in which it is known.
    pub fn mean(seconds: &[Self]) -> Self {
        let mut mean = Self::default();
        for (_, _, field) in FIELDS {
            let known: Vec<f64> =
                seconds.iter().copied().filter_map(|mut second| *field(&mut second)).collect();
            *field(&mut mean) = (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64);
        }
        mean
    }

    /// The share of time that the event loop was blocked in a waiting call: busy, but neither on a core nor
    /// waiting for one (B).
    pub fn blocked(&self) -> Option<f64> {
        Some((self.loop_busy? - self.main_cpu? - self.cpu_wait.unwrap_or(0.0)).max(0.0))
    }

    /// Event-loop milliseconds per request; `None` without requests.
    pub fn loop_ms_per_request(&self) -> Option<f64> {
        let requests = self.requests.filter(|requests| *requests > 0.0)?;
        Some(self.loop_busy? * 1000.0 / requests)
    }

    /// The share of a request's time in which the main thread waits for a core on its behalf; `None` without requests.
    pub fn cpu_wait_of_request(&self) -> Option<f64> {
        let requests = self.requests.filter(|requests| *requests > 0.0)?;
        let latency_ms = self.latency_p50_ms.filter(|latency| *latency > 0.0)?;
        Some(self.cpu_wait? * 1000.0 / requests / latency_ms)
    }

    /// Concurrent requests. A request that is answered within one callback is never observed in flight: then
    /// this is the number of requests that one turn of the event loop handles.
    pub fn together(&self) -> Option<f64> {
        let turns = self.iterations.filter(|turns| *turns > 0.0);
        let per_turn = self.requests.zip(turns).map(|(requests, turns)| requests / turns);
        [self.in_flight, per_turn].into_iter().flatten().reduce(f64::max)
    }

    /// The used share of the heap for old objects.
    pub fn heap_full(&self) -> Option<f64> {
        let limit = self.heap_limit_bytes.filter(|limit| *limit > 0.0)?;
        let old = if limit > 2.0 * YOUNG_BYTES { limit - YOUNG_BYTES } else { limit };
        Some(self.heap_used_bytes? / old)
    }

    /// The used share of the control group's memory.
    pub fn memory_full(&self) -> Option<f64> {
        Some(self.memory_group_bytes? / self.memory_limit_bytes.filter(|limit| *limit > 0.0)?)
    }

    /// The share of the process's memory in swap.
    pub fn swapped(&self) -> Option<f64> {
        let (swap, memory) = (self.swap_bytes?, self.memory_bytes?);
        (swap + memory > 0.0).then(|| swap / (swap + memory))
    }

    /// The share of their possible CPU time that the busy pool threads use.
    pub fn pool_computes(&self, cores: f64) -> Option<f64> {
        let busy = self.pool_threads?.min(POOL_THREADS_MAX) * self.pool_busy?;
        let possible = busy.min(cores);
        (possible > 0.0).then(|| (self.pool_cpu.unwrap_or(0.0) / possible).min(1.0))
    }
}
