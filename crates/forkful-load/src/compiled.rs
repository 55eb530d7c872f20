//! A checked plan, with everything precomputed that does not depend on the clock.

use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;

use crate::LoadError;
use crate::network::Address;
use crate::plan::{HttpVersion, Load, Order, Plan, Reuse, Stop, Think, Threads};
use crate::template::Template;
use crate::tls;
use forkful_core::random::mixed;

/// One generator thread for this many cores: it can load the Node.js workers on the other cores.
const CORES_PER_THREAD: usize = 8;
/// Requests in a plan. Their index must fit 16 bits, and each takes memory in every thread.
const REQUESTS_MAX: usize = 50_000;
/// Threads; more than machines have cores.
const THREADS_MAX: usize = 1_024;
/// Requests under way on one connection.
const PIPELINING_MAX: usize = 10_000;

/// What the engines work with.
pub(crate) struct Compiled {
    pub(crate) plan: Plan,
    pub(crate) templates: Vec<Template>,
    /// Weighted: the running sum of weights.
    sums: Vec<u64>,
    pub(crate) address: Address,
    pub(crate) tls: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    pub(crate) threads: usize,
}

impl Compiled {
    pub(crate) fn new(plan: &Plan) -> Result<Self, LoadError> {
        check(plan)?;
        let templates =
            plan.requests.iter().map(|request| Template::new(request, plan)).collect::<Result<_, _>>()?;
        let first = &plan.requests[0].url;
        if let Some(other) = plan.requests.iter().find(|request| request.url.origin() != first.origin()) {
            return Err(LoadError::DifferentServers { first: first.origin(), second: other.url.origin() });
        }
        let tls = if first.tls { Some(tls::client(&plan.tls, &first.host, plan.http)?) } else { None };
        let sums = plan.requests.iter().scan(0, |sum, request| {
            *sum += u64::from(request.weight);
            Some(*sum)
        });
        Ok(Self {
            templates,
            sums: sums.collect(),
            address: Address::of(plan)?,
            tls,
            threads: threads(plan),
            plan: plan.clone(),
        })
    }

    /// The index in the plan of request number `id`.
    #[inline]
    pub(crate) fn choose(&self, id: u64) -> u16 {
        if self.templates.len() == 1 {
            return 0;
        }
        match self.plan.order {
            Order::InOrder => (id % self.templates.len() as u64) as u16,
            Order::Weighted { seed } => {
                let total = *self.sums.last().expect("a plan has a request");
                let point = mixed(seed ^ mixed(id)) % total;
                self.sums.partition_point(|sum| *sum <= point) as u16
            }
        }
    }

    pub(crate) fn is_unix(&self) -> bool {
        matches!(self.address, Address::Unix(_))
    }

    /// Maximum connections of all threads together.
    pub(crate) fn connections_max(&self) -> usize {
        match self.plan.load {
            Load::Closed { .. } => self.plan.connections,
            Load::Open { connections_max, .. } => connections_max,
        }
    }
}

fn threads(plan: &Plan) -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let wanted = match plan.threads {
        Threads::Auto => (cores / CORES_PER_THREAD).max(1),
        Threads::Count(count) => count,
    };
    wanted.min(plan.connections)
}

/// Whether a number is out of range, and the message for it.
fn bounded(field: &'static str, most: usize, given: usize) -> (bool, &'static str, String) {
    (given == 0 || given > most, field, format!("must be 1 to {most}, not {given}"))
}

/// The longest duration of a plan: their sums then fit the run's clock.
const DURATION_MAX: Duration = Duration::from_secs(366 * 24 * 3_600);

/// Refuses durations that no run can last.
fn check_durations(plan: &Plan) -> Result<(), LoadError> {
    let duration = match plan.stop {
        Stop::Requests(_) => Duration::ZERO,
        Stop::Duration(duration) => duration,
    };
    let think = match plan.load {
        Load::Closed { think: Think::Fixed(pause) | Think::UpTo(pause) } => pause,
        Load::Closed { think: Think::None } | Load::Open { .. } => Duration::ZERO,
    };
    let durations = [
        ("duration", duration),
        ("duration", plan.time_limit.unwrap_or_default()),
        ("ramp", plan.ramp),
        ("warm-up", plan.warmup),
        ("timeout", plan.timeout),
        ("think time", think),
        ("window", plan.window),
    ];
    match durations.into_iter().find(|(_, duration)| *duration > DURATION_MAX) {
        Some((field, _)) => Err(LoadError::Plan { field, reason: "must be at most a year".to_owned() }),
        None => Ok(()),
    }
}

/// Refuses plans that cannot produce a load; reports the first error found.
fn check(plan: &Plan) -> Result<(), LoadError> {
    check_durations(plan)?;
    let together = plan.http.together();
    let threads = if let Threads::Count(threads) = plan.threads { threads } else { 1 };
    let (requests, duration) = match plan.stop {
        Stop::Requests(requests) => (requests, Duration::MAX),
        Stop::Duration(duration) => (u64::MAX, duration),
    };
    let is_open = matches!(plan.load, Load::Open { .. });
    let (think, rate, connections_max) = match plan.load {
        Load::Closed { think } => (think, 1.0, plan.connections),
        Load::Open { rate, connections_max, .. } => (Think::None, rate, connections_max),
    };
    let is_weighted = matches!(plan.order, Order::Weighted { .. });
    let longer = || "must be longer than nothing".to_owned();
    let faults = [
        bounded("requests", REQUESTS_MAX, plan.requests.len()),
        (
            is_weighted && plan.requests.iter().all(|request| request.weight == 0),
            "weights",
            "are all 0, so nothing would be sent".to_owned(),
        ),
        (plan.connections == 0, "connections", "must be at least 1, not 0".to_owned()),
        bounded("threads", THREADS_MAX, threads),
        bounded(together, PIPELINING_MAX, plan.pipelining),
        (requests == 0, "requests", "to send must be at least 1, not 0".to_owned()),
        (duration.is_zero(), "duration", longer()),
        (
            !is_open && requests < plan.connections as u64,
            "requests",
            format!(
                "to send ({requests}) are fewer than connections ({}): some would have nothing to do",
                plan.connections
            ),
        ),
        (plan.timeout.is_zero(), "timeout", longer()),
        (plan.window.is_zero(), "window", longer()),
        (plan.reuse == Reuse::Requests(0), "requests per connection", "must be at least 1, not 0".to_owned()),
        (
            think != Think::None && plan.pipelining > 1,
            together,
            "and think time exclude each other".to_owned(),
        ),
        (
            !(rate.is_finite() && rate > 0.0 && rate <= 1e9),
            "rate",
            format!("must be above 0 and at most 1,000,000,000 per second, not {rate}"),
        ),
        (
            connections_max < plan.connections,
            "connections",
            format!("to begin with ({}) are more than their bound ({connections_max})", plan.connections),
        ),
        (
            is_open && plan.pipelining > 1 && !plan.http.is_on_tasks(),
            together,
            "need a closed loop: a rate decides when a request starts".to_owned(),
        ),
        (
            plan.reuse == Reuse::Never && plan.pipelining > 1,
            together,
            "need connections that are kept".to_owned(),
        ),
    ];
    if let Some((_, field, reason)) = faults.into_iter().find(|(is_fault, ..)| *is_fault) {
        return Err(LoadError::Plan { field, reason });
    }
    check_protocol(plan)
}

/// Refuses what the protocol does not support.
fn check_protocol(plan: &Plan) -> Result<(), LoadError> {
    if let Some(request) = plan.requests.iter().find(|request| request.url.socket)
        && plan.http != HttpVersion::WebSocket
    {
        let reason = format!("{} is a WebSocket, and this load speaks HTTP", request.url);
        return Err(LoadError::Plan { field: "URL", reason });
    }
    match plan.http {
        HttpVersion::Http10 | HttpVersion::Http11 => Ok(()),
        HttpVersion::Http2 => crate::tasks::check_http2(plan),
        HttpVersion::WebSocket | HttpVersion::EventStream => crate::tasks::check_streams(plan),
    }
}
