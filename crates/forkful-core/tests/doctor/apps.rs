//! Apps whose workers have the same second over and over, each with a known limit.

use forkful_core::doctor::{App, Diagnosis, Signs, Verdict, WorkerSeconds, examine};
use forkful_core::outgoing::HostLoad;

pub(crate) const MIB: f64 = 1024.0 * 1024.0;

/// A busy server without any limit: the other seconds differ from it in what they say.
pub(crate) fn usual() -> Signs {
    Signs {
        loop_busy: Some(0.5),
        main_cpu: Some(0.48),
        cpu_wait: Some(0.01),
        gc: Some(0.01),
        gc_minor: Some(0.01),
        delay_max_ms: Some(4.0),
        iterations: Some(2000.0),
        requests: Some(500.0),
        latency_p50_ms: Some(2.0),
        in_flight: Some(1.0),
        outgoing: Some(0.0),
        pool_threads: Some(4.0),
        pool_busy: Some(0.05),
        pool_cpu: Some(0.01),
        pool_wait_ms: Some(0.2),
        cpu_cores: Some(0.5),
        throttled: Some(0.0),
        throttled_periods: Some(0.0),
        memory_bytes: Some(80.0 * MIB),
        memory_limit_bytes: None,
        memory_group_bytes: None,
        swap_bytes: Some(0.0),
        heap_used_bytes: Some(20.0 * MIB),
        heap_limit_bytes: Some(2096.0 * MIB),
        accept_queue: Some(0.0),
        standing: Some(0.0),
    }
}

/// A worker whose JavaScript uses its core.
pub(crate) fn computing() -> Signs {
    Signs {
        loop_busy: Some(0.99),
        main_cpu: Some(0.97),
        in_flight: Some(8.0),
        cpu_cores: Some(1.0),
        ..usual()
    }
}

/// A worker whose event loop has time while many requests wait.
pub(crate) fn waiting() -> Signs {
    Signs {
        loop_busy: Some(0.1),
        main_cpu: Some(0.1),
        in_flight: Some(20.0),
        cpu_cores: Some(0.1),
        ..usual()
    }
}

pub(crate) fn idle() -> Signs {
    Signs {
        loop_busy: Some(0.02),
        main_cpu: Some(0.02),
        in_flight: Some(0.1),
        requests: Some(3.0),
        ..usual()
    }
}

/// For each cause, the seconds of workers that have it.
pub(crate) fn causes() -> Vec<(Verdict, Vec<Signs>)> {
    let pool = Signs { pool_busy: Some(1.0), pool_wait_ms: Some(200.0), ..waiting() };
    vec![
        (
            Verdict::MemoryLimit,
            vec![Signs {
                heap_used_bytes: Some(61.0 * MIB),
                heap_limit_bytes: Some(112.0 * MIB),
                gc: Some(0.5),
                ..computing()
            }],
        ),
        (Verdict::Idle, vec![idle()]),
        (
            Verdict::CpuQuota,
            vec![Signs {
                throttled: Some(0.45),
                throttled_periods: Some(0.9),
                cpu_wait: Some(0.5),
                ..computing()
            }],
        ),
        (Verdict::CpuContention, vec![Signs { cpu_wait: Some(0.45), main_cpu: Some(0.5), ..computing() }]),
        (Verdict::GarbageCollection, vec![Signs { gc: Some(0.35), gc_minor: Some(0.3), ..computing() }]),
        (Verdict::SynchronousCall, vec![Signs { main_cpu: Some(0.1), cpu_wait: Some(0.02), ..computing() }]),
        (Verdict::CpuShortCallbacks, vec![computing()]),
        (
            Verdict::CpuLongCallbacks,
            vec![Signs {
                requests: Some(3.0),
                delay_max_ms: Some(330.0),
                iterations: Some(6.0),
                ..computing()
            }],
        ),
        (Verdict::PoolCpu, vec![Signs { pool_threads: Some(1.0), pool_cpu: Some(0.98), ..pool }]),
        (Verdict::PoolWaiting, vec![pool]),
        (Verdict::Upstream, vec![Signs { outgoing: Some(19.0), ..waiting() }]),
        (Verdict::OtherWaiting, vec![waiting()]),
        (Verdict::Imbalance, vec![computing(), idle()]),
    ]
}

/// An app on four cores whose workers have the same second over and over.
pub(crate) fn app_of(workers: &[Signs], seconds: usize) -> App {
    let workers = workers.iter().enumerate();
    let workers =
        workers.map(|(slot, signs)| WorkerSeconds { slot: slot as u16, seconds: vec![*signs; seconds] });
    App {
        name: "web".to_owned(),
        cores: 4.0,
        is_scalable: true,
        bounds: None,
        workers: workers.collect(),
        node_args: Vec::new(),
        refusing: None,
    }
}

/// An app with pools of 10, of which a database with 40 places refuses some.
pub(crate) fn refused_app(workers: usize) -> App {
    let refusing = HostLoad {
        host: "db:5432".to_owned(),
        connections: 40,
        workers: 5,
        most: 10,
        refused: 17,
        limit: Some(40),
    };
    App { refusing: Some(refusing), ..app_of(&vec![waiting(); workers], 12) }
}

pub(crate) fn diagnose(workers: &[Signs]) -> Diagnosis {
    examine(&app_of(workers, 12))
}

pub(crate) fn verdict(signs: &Signs) -> Verdict {
    diagnose(&[*signs]).verdict
}
