//! The rules in their order: the first that matches gives the verdict. Each uses one second, or the mean of
//! several.

use super::evidence::{Evidence, Quantity, Rows};
use super::{Signs, Unclear, Verdict};

/// A worker with a lower event-loop utilisation and less than one request in flight is idle.
pub(super) const IDLE_BELOW: f64 = 0.3;
/// Above this, the event loop is the bottleneck.
const LOOP_FULL: f64 = 0.9;
/// Below this, the event loop is not the bottleneck.
const LOOP_FREE: f64 = 0.8;
/// Below this, the event loop mostly waits.
const LOOP_WAITS: f64 = 0.6;
/// Above this share of time, or of its periods, a quota is the bottleneck.
const THROTTLED: f64 = 0.05;
/// A main thread that waits longer for a core gets too little CPU.
const CPU_WAIT: f64 = 0.15;
/// A main thread that is less on a core hardly runs: its waits matter only to requests that wait for little else.
const HARDLY_RUNS: f64 = 0.1;
/// The share of a request's time in which it waits for a core, from which on the wait matters.
const CPU_WAIT_OF_REQUEST: f64 = 0.1;
/// A main thread that waits longer would run for most of the time.
const STARVED: f64 = 0.5;
/// A heap or control group above this is nearly full.
pub(super) const MEMORY_FULL: f64 = 0.9;
/// A process with a larger share of its memory in swap is short of memory.
const SWAPPED: f64 = 0.1;
/// Above this, garbage collection is the bottleneck (Clinic.js: 100 ms per second).
const GC: f64 = 0.1;
/// The difference between the event loop's busy time and its CPU time is noise up to this.
const BLOCKED: f64 = 0.15;
/// A thread pool without a free thread.
pub(super) const POOL_FULL: f64 = 0.9;
/// A thread pool with free threads.
const POOL_FREE: f64 = 0.5;
/// Busy pool threads above this CPU share compute.
const POOL_COMPUTES: f64 = 0.5;
/// A shorter wait for the pool does not matter.
const POOL_WAIT_MS: f64 = 5.0;
/// A longer callback noticeably delays all other requests.
const LONG_MS: f64 = 100.0;
/// Requests that need less event-loop time have short callbacks.
const SHORT_MS: f64 = 50.0;
/// An event loop that stands still for more of the time answers nobody.
const STANDS: f64 = 0.5;
/// The share of requests in flight that wait for outgoing requests.
const OUTGOING: f64 = 0.8;

/// The result of the rules.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) verdict: Verdict,
    /// The measurements are far from the limits, and everything that the rule needs was measured.
    pub(super) is_clear: bool,
    pub(super) evidence: Vec<Evidence>,
}

/// A rule: whether it matches, how clearly, and why.
type Rule = fn(&Signs, f64) -> Option<Finding>;

const RULES: [Rule; 12] = [
    memory,
    standing,
    idle,
    quota,
    contention,
    collection,
    synchronous,
    computing,
    pool,
    upstream,
    other_waiting,
    outside_only,
];

/// The result of the rules for some seconds, on a machine with this many usable cores.
pub(super) fn judge(signs: &Signs, cores: f64) -> Finding {
    let found = RULES.iter().find_map(|rule| rule(signs, cores));
    found.unwrap_or_else(|| {
        let why = if signs.loop_busy.is_none() { Unclear::NoAgent } else { Unclear::NothingStandsOut };
        finding(Verdict::Unclear(why), false, usual(signs))
    })
}

fn finding(verdict: Verdict, is_clear: bool, rows: Rows) -> Finding {
    Finding { verdict, is_clear, evidence: rows.list() }
}

/// What to show if no rule matches.
fn usual(signs: &Signs) -> Rows {
    Rows::default()
        .row("event loop busy", Quantity::Share, signs.loop_busy)
        .row("main thread on a core", Quantity::Share, signs.main_cpu)
        .row("requests in flight", Quantity::Count, signs.in_flight)
        .row("requests", Quantity::PerSecond, signs.requests)
        .row("thread pool busy", Quantity::Share, signs.pool_busy)
}

fn over(value: Option<f64>, bound: f64) -> bool {
    value.is_some_and(|value| value > bound)
}

/// The event loop does not answer, so the agent reports nothing: an endless loop, or a call without an end.
fn standing(signs: &Signs, _cores: f64) -> Option<Finding> {
    let on_core = signs.main_cpu?;
    // A thread that gets no core cannot answer either.
    if !over(signs.standing, STANDS) || over(signs.cpu_wait, STARVED) {
        return None;
    }
    let verdict = if on_core > STANDS { Verdict::CpuLongCallbacks } else { Verdict::SynchronousCall };
    let rows = Rows::default()
        .above("time without an answer of the event loop", Quantity::Share, signs.standing, STANDS)
        .row("main thread on a core", Quantity::Share, Some(on_core))
        .row("main thread waiting for a core", Quantity::Share, signs.cpu_wait);
    Some(finding(verdict, true, rows))
}

fn idle(signs: &Signs, _cores: f64) -> Option<Finding> {
    let busy = signs.loop_busy?;
    let holds = busy < IDLE_BELOW
        && signs.in_flight.is_none_or(|requests| requests < 1.0)
        && signs.accept_queue.is_none_or(|waiting| waiting < 1.0)
        && !over(signs.pool_busy, POOL_FREE)
        && !over(signs.outgoing, 1.0);
    let is_clear = signs.in_flight.is_some() && busy < 0.2;
    holds.then(|| {
        let rows = Rows::default()
            .below("event loop busy", Quantity::Share, Some(busy), IDLE_BELOW)
            .below("requests in flight", Quantity::Count, signs.in_flight, 1.0)
            .row("requests", Quantity::PerSecond, signs.requests)
            .row("connections in the accept queue", Quantity::Count, signs.accept_queue);
        finding(Verdict::Idle, is_clear, rows)
    })
}

fn quota(signs: &Signs, _cores: f64) -> Option<Finding> {
    let (time, periods) = (signs.throttled, signs.throttled_periods);
    (over(time, THROTTLED) || over(periods, THROTTLED)).then(|| {
        let is_clear = over(time, 2.0 * THROTTLED) || over(periods, 4.0 * THROTTLED);
        let rows = Rows::default()
            .above("time in which the CPU quota stopped the app", Quantity::Share, time, THROTTLED)
            .above("periods in which the quota was used up", Quantity::Share, periods, THROTTLED)
            .row("cores used", Quantity::Cores, signs.cpu_cores);
        finding(Verdict::CpuQuota, is_clear, rows)
    })
}

fn contention(signs: &Signs, cores: f64) -> Option<Finding> {
    let hardly_runs = signs.main_cpu.is_some_and(|on_core| on_core < HARDLY_RUNS);
    let of_request = signs.cpu_wait_of_request().filter(|_| hardly_runs);
    let matters = |times: f64| {
        !hardly_runs || over(signs.cpu_wait, STARVED) || over(of_request, times * CPU_WAIT_OF_REQUEST)
    };
    (over(signs.cpu_wait, CPU_WAIT) && matters(1.0)).then(|| {
        let mut rows = Rows::default().above(
            "main thread waiting for a core",
            Quantity::Share,
            signs.cpu_wait,
            CPU_WAIT,
        );
        if of_request.is_some() {
            rows = rows.above("of a request's time", Quantity::Share, of_request, CPU_WAIT_OF_REQUEST);
        }
        let rows = rows.row("main thread on a core", Quantity::Share, signs.main_cpu).row(
            "usable cores",
            Quantity::Count,
            Some(cores),
        );
        finding(Verdict::CpuContention, over(signs.cpu_wait, 2.0 * CPU_WAIT) && matters(2.0), rows)
    })
}

/// First of all rules: nearly full memory ends a process even under low load.
fn memory(signs: &Signs, _cores: f64) -> Option<Finding> {
    let (heap, group, swapped) = (signs.heap_full(), signs.memory_full(), signs.swapped());
    let swapped = swapped.filter(|_| !signs.loop_busy.is_some_and(|busy| busy < IDLE_BELOW));
    (over(heap, MEMORY_FULL) || over(group, MEMORY_FULL) || over(swapped, SWAPPED)).then(|| {
        let rows = Rows::default()
            .above("heap of old objects full", Quantity::Share, heap, MEMORY_FULL)
            .above("memory of the control group full", Quantity::Share, group, MEMORY_FULL)
            .above("memory in swap", Quantity::Share, swapped, SWAPPED)
            .row("heap used", Quantity::Bytes, signs.heap_used_bytes)
            .row("heap limit", Quantity::Bytes, signs.heap_limit_bytes)
            .row("resident memory", Quantity::Bytes, signs.memory_bytes)
            .row("memory of the control group", Quantity::Bytes, signs.memory_group_bytes)
            .row("garbage collection", Quantity::Share, signs.gc);
        finding(Verdict::MemoryLimit, over(heap, MEMORY_FULL) || over(group, MEMORY_FULL), rows)
    })
}

fn collection(signs: &Signs, _cores: f64) -> Option<Finding> {
    over(signs.gc, GC).then(|| {
        let rows = Rows::default()
            .above("garbage collection", Quantity::Share, signs.gc, GC)
            .row("of it young objects", Quantity::Share, signs.gc_minor)
            .row("event loop busy", Quantity::Share, signs.loop_busy)
            .row("heap used", Quantity::Bytes, signs.heap_used_bytes);
        finding(Verdict::GarbageCollection, over(signs.gc, 2.0 * GC), rows)
    })
}

fn synchronous(signs: &Signs, _cores: f64) -> Option<Finding> {
    let (busy, blocked) = (signs.loop_busy?, signs.blocked()?);
    let is_full = busy > LOOP_FULL;
    // If the event loop is not saturated, blocking must be most of its busy time.
    let holds = blocked > BLOCKED && (is_full || blocked > busy / 2.0);
    holds.then(|| {
        let rows = Rows::default()
            .above("event loop standing still in a call", Quantity::Share, Some(blocked), BLOCKED)
            .above("event loop busy", Quantity::Share, Some(busy), LOOP_FULL)
            .row("main thread on a core", Quantity::Share, signs.main_cpu)
            .row("main thread waiting for a core", Quantity::Share, signs.cpu_wait)
            .row("event loop late by at most", Quantity::Milliseconds, signs.delay_max_ms);
        finding(Verdict::SynchronousCall, blocked > 2.0 * BLOCKED, rows)
    })
}

fn computing(signs: &Signs, _cores: f64) -> Option<Finding> {
    let (busy, on_core) = (signs.loop_busy?, signs.main_cpu?);
    if busy <= LOOP_FULL || on_core / busy <= 0.8 {
        return None;
    }
    let (is_long, is_clear) = length(signs);
    let verdict = if is_long { Verdict::CpuLongCallbacks } else { Verdict::CpuShortCallbacks };
    let rows = Rows::default()
        .above("event loop busy", Quantity::Share, Some(busy), LOOP_FULL)
        .row("main thread on a core", Quantity::Share, Some(on_core))
        .row("event loop time of a request", Quantity::Milliseconds, signs.loop_ms_per_request())
        .row("event loop late by at most", Quantity::Milliseconds, signs.delay_max_ms)
        .row("turns of the event loop", Quantity::PerSecond, signs.iterations)
        .row("requests", Quantity::PerSecond, signs.requests);
    Some(finding(verdict, is_clear, rows))
}

/// Whether callbacks are long, and whether that is clear. One turn of the event loop handles all ready
/// requests, so its delay may be the sum over all requests in flight although each is short.
fn length(signs: &Signs) -> (bool, bool) {
    let late = signs.delay_max_ms;
    let Some(request) = signs.loop_ms_per_request() else {
        let is_long = over(late, LONG_MS) || signs.iterations.is_some_and(|turns| turns < 1000.0 / LONG_MS);
        return (is_long, over(late, 2.0 * LONG_MS) || late.is_some_and(|late| late < SHORT_MS));
    };
    if request > LONG_MS {
        return (true, true);
    }
    let all_ready = request * signs.together().unwrap_or(1.0).max(1.0);
    let has_outliers = late.is_some_and(|late| late > LONG_MS && late > 2.0 * all_ready);
    if has_outliers { (true, over(late, 4.0 * all_ready)) } else { (false, request < SHORT_MS) }
}

fn pool(signs: &Signs, cores: f64) -> Option<Finding> {
    let (busy, computes) = (signs.pool_busy?, signs.pool_computes(cores)?);
    let wait_min = POOL_WAIT_MS.max(0.2 * signs.latency_p50_ms.unwrap_or(0.0));
    let has_queue = signs.pool_wait_ms.is_none_or(|wait| wait > wait_min);
    let is_loop_free = signs.loop_busy.is_none_or(|busy| busy < LOOP_FREE);
    if busy <= POOL_FULL || !is_loop_free || !(has_queue || busy > 0.97) {
        return None;
    }
    let computes_clearly = !(0.2..0.7).contains(&computes);
    let verdict = if computes > POOL_COMPUTES { Verdict::PoolCpu } else { Verdict::PoolWaiting };
    let rows = Rows::default()
        .above("thread pool busy", Quantity::Share, Some(busy), POOL_FULL)
        .row("threads of the pool", Quantity::Count, signs.pool_threads)
        .row("cores that they use", Quantity::Cores, signs.pool_cpu)
        .above("wait for a thread", Quantity::Milliseconds, signs.pool_wait_ms, wait_min)
        .below("event loop busy", Quantity::Share, signs.loop_busy, LOOP_FREE);
    Some(finding(verdict, computes_clearly && has_queue && signs.pool_wait_ms.is_some(), rows))
}

fn upstream(signs: &Signs, _cores: f64) -> Option<Finding> {
    let (busy, outgoing, requests) = (signs.loop_busy?, signs.outgoing?, signs.in_flight?);
    let holds = busy < LOOP_WAITS
        && !over(signs.pool_busy, POOL_FREE)
        && outgoing >= 1.0
        && outgoing >= OUTGOING * requests;
    holds.then(|| {
        let rows = Rows::default()
            .row("outgoing requests in flight", Quantity::Count, Some(outgoing))
            .row("requests in flight", Quantity::Count, Some(requests))
            .below("event loop busy", Quantity::Share, Some(busy), LOOP_WAITS)
            .row("median latency", Quantity::Milliseconds, signs.latency_p50_ms);
        finding(Verdict::Upstream, busy < 0.5, rows)
    })
}

fn other_waiting(signs: &Signs, _cores: f64) -> Option<Finding> {
    let (busy, requests) = (signs.loop_busy?, signs.in_flight?);
    let waits = requests > 2.0 || (requests >= 1.0 && busy < IDLE_BELOW);
    let holds = busy < LOOP_WAITS && !over(signs.pool_busy, POOL_FREE) && waits;
    // What it waits for was not observed, so it is at most likely.
    holds.then(|| {
        let rows = Rows::default()
            .above("requests in flight", Quantity::Count, Some(requests), 2.0)
            .below("event loop busy", Quantity::Share, Some(busy), LOOP_WAITS)
            .row("outgoing requests in flight", Quantity::Count, signs.outgoing)
            .row("thread pool busy", Quantity::Share, signs.pool_busy)
            .row("median latency", Quantity::Milliseconds, signs.latency_p50_ms);
        finding(Verdict::OtherWaiting, false, rows)
    })
}

/// Without the agent, the main thread's CPU time alone says little: nearly a whole core means some kind of
/// computing.
fn outside_only(signs: &Signs, _cores: f64) -> Option<Finding> {
    let on_core = signs.main_cpu.filter(|_| signs.loop_busy.is_none())?;
    (on_core > LOOP_FULL).then(|| {
        let rows = Rows::default().above("main thread on a core", Quantity::Share, Some(on_core), LOOP_FULL);
        finding(Verdict::CpuShortCallbacks, false, rows)
    })
}
