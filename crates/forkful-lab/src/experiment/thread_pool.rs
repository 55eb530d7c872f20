//! Experiment 2: key derivation on libuv's thread pool. It times a few concurrent requests, a route that
//! needs no pool, and how busy the worker's event loop and its pool are.

use std::time::Duration;

use forkful_load::report::Check;
use forkful_load::{Arrivals, Load, Plan, Report, Reuse, Stop, StopHandle, Think, run as load};
use serde_json::{Value, json};

use super::blocks;
use super::catalogue::Description;
use super::document::{Claim, Document, counted, number, time};
use super::figures::{self, Latency};
use super::observe::{self, Look, Observer, now_ms};
use super::setting::{Extent, Setting};
use crate::LabError;
use crate::arms::Arm;
use crate::server::Server;
use crate::target::Target;

/// Requests per second to `/fast` at the same time.
const FAST_RATE: f64 = 50.0;

/// The load on `/fast` ends after this time at the latest.
const FAST_BOUND: Duration = Duration::from_secs(60);

/// A key takes one or two seconds; 6 at once on slow cores take longer.
const KEY_TIMEOUT: Duration = Duration::from_secs(120);

/// With fewer rounds a key would be done before the pool is sampled.
const ROUNDS_LEAST: u64 = 20_000;

/// One case of the report, and one additional case at the end.
struct Case {
    workers: u16,
    requests: u64,
    pool: u32,
    reported: &'static str,
    why: &'static str,
}

const CASES: [Case; 5] = [
    Case {
        workers: 1,
        requests: 2,
        pool: 1,
        reported: "1.09 and 2.15 s",
        why: "one pool thread: the second key waits for the first",
    },
    Case {
        workers: 2,
        requests: 2,
        pool: 1,
        reported: "1.16 s each",
        why: "two pool threads, one in each worker",
    },
    Case {
        workers: 6,
        requests: 6,
        pool: 1,
        reported: "3.46 to 3.52 s each (2 cores)",
        why: "more workers than cores: all share the cores and end together, late",
    },
    Case {
        workers: 2,
        requests: 6,
        pool: 1,
        reported: "1.13 to 3.45 s, median 2.26",
        why: "as many workers as cores: the last ends as late, but the first ones early",
    },
    Case {
        workers: 1,
        requests: 2,
        pool: 4,
        reported: "not tried",
        why: "the same single event loop, only a larger pool: so it was the pool",
    },
];

/// The results of a case.
struct Outcome {
    case: &'static Case,
    keys: Vec<f64>,
    fast: Latency,
    fast_report: Report,
    looks: Vec<Look>,
    begun: f64,
    errors: u64,
}

pub(super) fn run(
    description: &'static Description,
    setting: &Setting,
    say: &mut dyn FnMut(&str),
) -> Result<Document, LabError> {
    let mut outcomes = Vec::new();
    let rounds = rounds(setting.extent);
    for case in &CASES {
        say(&format!(
            "{}, {} at once, pool of {}",
            counted(u64::from(case.workers), "worker"),
            counted(case.requests, "request"),
            case.pool
        ));
        outcomes.push(one(case, setting, rounds)?);
    }
    let mut document = Document::new(description);
    describe(&mut document, &outcomes, setting);
    document.plots = plots(&outcomes);
    let errors: u64 = outcomes.iter().map(|outcome| outcome.errors).sum();
    let requests: u64 = CASES.iter().map(|case| case.requests).sum();
    let words = figures::error_words(outcomes.iter().map(|outcome| &outcome.fast_report));
    document.check(figures::errors_check(errors, requests, &words));
    document.check(
        Check::judged("Samples", None)
            .found(counted(requests, "key"), "")
            .means("Each request is listed, as in the report; six requests make no percentile."),
    );
    document.plan = json!({"rounds": rounds, "bytes": 512, "digest": "SHA-512", "fast_rate": FAST_RATE});
    Ok(document)
}

/// Rounds of PBKDF2: those of the report unless the run is shortened.
fn rounds(extent: Extent) -> u64 {
    extent.requests(100_000, 100_000, ROUNDS_LEAST)
}

fn one(case: &'static Case, setting: &Setting, rounds: u64) -> Result<Outcome, LabError> {
    let observer = Observer::new(true)?;
    let name = format!("{} workers, pool {}", case.workers, case.pool);
    let arm = Arm { pool: Some(case.pool), ..Setting::cluster(&name, case.workers) };
    let mut app = setting.app.clone();
    app.launch.env.insert("ROUNDS".to_owned(), rounds.to_string());
    let server = blocks::start_app(&app, setting, &arm, &Target::get("/fast"), &observer)?;
    let keys = keys_plan(&server, case.requests)?;
    let fast = fast_plan(&server)?;
    warm(&server, &arm, setting)?;
    let enough = StopHandle::new();
    let ended = enough.clone();
    let begun = now_ms();
    let aside = std::thread::spawn(move || load(&fast, &mut |_| {}, &ended));
    let report = blocks::perform(&keys, &arm, &setting.stop);
    let end = now_ms();
    if setting.stop.is_stopped() {
        enough.stop_at_once();
    } else {
        enough.stop();
    }
    let fast_report = aside.join().expect("a load does not panic").map_err(LabError::load(&arm.name))?;
    let report = report?;
    if report.counts.completed < case.requests {
        return Err(blocks::unanswered(&arm, &report, &server));
    }
    let looks = observer.seen_whole(begun, end).into_iter().flat_map(|watched| watched.looks).collect();
    Ok(Outcome {
        case,
        keys: figures::each_response(&report),
        fast: Latency::of(&fast_report.response),
        errors: report.errors_total() + fast_report.errors_total(),
        fast_report,
        looks,
        begun,
    })
}

/// A few requests to every worker, so that compiling and starting are not measured.
fn warm(server: &Server, arm: &Arm, setting: &Setting) -> Result<(), LabError> {
    let workers = u64::from(arm.runner.workers());
    let mut fast = fast_plan(server)?;
    fast.load = Load::Closed { think: Think::None };
    fast.connections = workers as usize;
    fast.reuse = Reuse::Never;
    fast.stop = Stop::Requests(workers * 20);
    blocks::perform(&fast, arm, &setting.stop)?;
    blocks::perform(&keys_plan(server, workers)?, arm, &setting.stop)?;
    Ok(())
}

fn keys_plan(server: &Server, requests: u64) -> Result<Plan, LabError> {
    let mut plan = blocks::load(server.address(), "/")?;
    plan.connections = requests as usize;
    plan.stop = Stop::Requests(requests);
    plan.reuse = Reuse::Never;
    plan.timeout = KEY_TIMEOUT;
    Ok(plan)
}

fn fast_plan(server: &Server) -> Result<Plan, LabError> {
    let mut plan = blocks::load(server.address(), "/fast")?;
    plan.connections = 2;
    plan.load = Load::Open { rate: FAST_RATE, connections_max: 64, arrivals: Arrivals::Even };
    plan.stop = Stop::Duration(FAST_BOUND);
    plan.timeout = KEY_TIMEOUT;
    plan.drain = Duration::from_secs(1);
    Ok(plan)
}

/// How busy a worker was while its pool had work.
struct Busy {
    event_loop: f64,
    main_cpu: f64,
    pool_cpu: f64,
    latest_ms: f64,
    pool_wait_ms: f64,
}

impl Busy {
    /// Weighted by time; the pool's CPU is relative to its number of threads.
    fn of(looks: &[Look]) -> Self {
        let worked: Vec<&Look> = looks.iter().filter(|look| look.pool_threads > 0).collect();
        let length: f64 = worked.iter().map(|look| look.length_ms).sum::<f64>().max(1e-9);
        let share = |of: &dyn Fn(&Look) -> f64| worked.iter().map(|look| of(look)).sum::<f64>() / length;
        Self {
            event_loop: share(&|look| look.event_loop * look.length_ms),
            main_cpu: share(&|look| look.main_cpu_ms),
            pool_cpu: share(&|look| look.pool_cpu_ms / f64::from(look.pool_threads.max(1))),
            latest_ms: worked.iter().map(|look| look.late_ms).fold(0.0, f64::max),
            pool_wait_ms: worked.iter().filter_map(|look| look.pool_wait_ms).fold(0.0, f64::max),
        }
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

/// `0.52 and 1.04 s`, `0.98 to 1.01 s (median 1)`.
fn times(ms: &[f64]) -> String {
    match ms {
        [] => "–".to_owned(),
        [one] => time(*one),
        [first, second] => format!("{} and {} s", number(first / 1000.0), number(second / 1000.0)),
        several => {
            let (first, last) = (several[0], several[several.len() - 1]);
            let median = f64::midpoint(several[(several.len() - 1) / 2], several[several.len() / 2]);
            format!(
                "{} to {} s, median {}",
                number(first / 1000.0),
                number(last / 1000.0),
                number(median / 1000.0)
            )
        }
    }
}

/// What is the bottleneck, as far as it was observed.
fn verdict(busy: &Busy, fast_ms: f64, slowest_ms: f64) -> String {
    let seen = format!(
        "while one worker derives two keys, its only pool thread uses {} of a core, its event loop is busy {} of the time; /fast is answered in {} (median), a key takes up to {}.",
        percent(busy.pool_cpu),
        percent(busy.event_loop),
        time(fast_ms),
        time(slowest_ms),
    );
    if busy.pool_cpu > 2.0 * busy.event_loop {
        format!("It is the pool that is busy, not the event loop: {seen}")
    } else {
        format!("Too much else went on here to tell the pool from the event loop: {seen}")
    }
}

fn describe(document: &mut Document, outcomes: &[Outcome], setting: &Setting) {
    let first = &outcomes[0];
    let busy = Busy::of(&first.looks);
    let slowest = first.keys.last().copied().unwrap_or_default();
    document.headline = verdict(&busy, first.fast.p50, slowest);
    document.details.push(format!(
        "A tiny file-system call waited up to {} for the pool, while a timer of the event loop came at most {} late.",
        time(busy.pool_wait_ms),
        time(busy.latest_ms),
    ));
    let (six, two) = (&outcomes[2], &outcomes[3]);
    let mean = |outcome: &Outcome| outcome.keys.iter().sum::<f64>() / outcome.keys.len().max(1) as f64;
    document.details.push(format!(
        "Six keys on {}: 6 workers take {} on average, 2 workers {}, and the last key comes after {} and {}.",
        counted(u64::from(setting.cores), "core"),
        time(mean(six)),
        time(mean(two)),
        time(six.keys.last().copied().unwrap_or_default()),
        time(two.keys.last().copied().unwrap_or_default()),
    ));
    for outcome in outcomes {
        let case = outcome.case;
        let what = format!(
            "{}, {}{}",
            counted(u64::from(case.workers), "worker"),
            counted(case.requests, "request"),
            if case.pool == 1 { String::new() } else { format!(", pool of {}", case.pool) },
        );
        document.claims.push(Claim::new(what, case.reported, times(&outcome.keys), case.why));
    }
    document.claims.push(Claim::new(
        "what is busy",
        "the event loop",
        format!(
            "pool thread {}, event loop {}, JavaScript's thread {} of a core",
            percent(busy.pool_cpu),
            percent(busy.event_loop),
            percent(busy.main_cpu)
        ),
        "pbkdf2 runs on libuv's pool; the event loop only takes the order and hands out the key",
    ));
    document.claims.push(Claim::new(
        "/fast meanwhile, 1 worker",
        "not tried",
        format!("median {}, slowest {}", time(first.fast.p50), time(first.fast.max)),
        "a busy event loop would have held it up for the whole time",
    ));
    document.arms = outcomes.iter().map(row).collect();
    document.found = json!({
        "pool_cpu": busy.pool_cpu, "event_loop": busy.event_loop, "main_cpu": busy.main_cpu, "pool_wait_ms": busy.pool_wait_ms,
        "timer_late_ms": busy.latest_ms, "fast_p50_ms": first.fast.p50, "fast_max_ms": first.fast.max,
        "keys_ms": outcomes.iter().map(|outcome| json!(outcome.keys)).collect::<Vec<_>>(),
    });
}

fn row(outcome: &Outcome) -> Value {
    let busy = Busy::of(&outcome.looks);
    json!({
        "workers": outcome.case.workers, "pool": outcome.case.pool, "requests": outcome.case.requests,
        "first_key_ms": outcome.keys.first(), "last_key_ms": outcome.keys.last(),
        "event_loop_percent": busy.event_loop * 100.0, "pool_thread_percent": busy.pool_cpu * 100.0,
        "fast_p50_ms": outcome.fast.p50, "fast_max_ms": outcome.fast.max,
    })
}

fn plots(outcomes: &[Outcome]) -> Vec<Value> {
    let first = &outcomes[0];
    let line = |name: &str, of: &dyn Fn(&Look) -> f64| -> Value {
        let points = observe::line(&first.looks, first.begun, |look| of(look).min(100.0));
        json!({"name": name, "points": points})
    };
    let keys: Vec<Value> = outcomes
        .iter()
        .flat_map(|outcome| {
            let case = outcome.case;
            outcome.keys.iter().enumerate().map(move |(index, ms)| {
                let name = format!(
                    "{} × pool {}, key {}",
                    counted(u64::from(case.workers), "worker"),
                    case.pool,
                    index + 1
                );
                json!({"name": name, "value": ms})
            })
        })
        .collect();
    vec![
        json!({
            "type": "timeline", "title": "Who is busy: 1 worker, 2 requests, a pool of one thread", "unit": "%",
            "series": [
                line("event loop", &|look| look.event_loop * 100.0),
                line("pool thread", &|look| look.pool_cpu_ms / look.length_ms.max(1.0) * 100.0),
            ],
            "note": "Event-loop utilisation as Node counts it, and CPU of the pool's thread as the kernel counts it, seen from the inside of the worker every 50 ms.",
        }),
        json!({
            "type": "timeline", "title": "/fast while keys are derived", "unit": "ms",
            "series": [figures::over_time("/fast", &first.fast_report)],
            "note": "Response time over the moment of the request, in the same worker at the same time.",
        }),
        json!({"type": "bars", "title": "Every key", "unit": "ms", "rows": keys, "note": "All requests of an arrangement were sent at once."}),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_as_the_report_told_them() {
        assert_eq!(times(&[1090.0, 2150.0]), "1.09 and 2.15 s");
        assert_eq!(times(&[1130.0, 2200.0, 2320.0, 3450.0]), "1.13 to 3.45 s, median 2.26");
    }

    #[test]
    fn the_verdict_follows_what_was_seen() {
        let busy = |pool_cpu, event_loop| Busy {
            event_loop,
            main_cpu: 0.0,
            pool_cpu,
            latest_ms: 0.0,
            pool_wait_ms: 0.0,
        };
        assert!(
            verdict(&busy(0.97, 0.02), 0.5, 1000.0)
                .starts_with("It is the pool that is busy, not the event loop")
        );
        assert!(verdict(&busy(0.4, 0.9), 0.5, 1000.0).starts_with("Too much else went on here"));
    }

    #[test]
    fn the_pools_share_is_of_the_time_in_which_there_was_a_pool() {
        let look = |pool_threads, pool_cpu_ms, event_loop| Look {
            at: 0.0,
            length_ms: 50.0,
            late_ms: 1.0,
            event_loop,
            requests: 0,
            main_cpu_ms: 1.0,
            pool_cpu_ms,
            pool_threads,
            pool_wait_ms: Some(7.0),
        };
        let busy = Busy::of(&[look(0, 0.0, 1.0), look(2, 50.0, 0.1), look(2, 100.0, 0.3)]);
        assert!((busy.pool_cpu - 0.75).abs() < 1e-9 && (busy.event_loop - 0.2).abs() < 1e-9);
        assert!((busy.pool_wait_ms - 7.0).abs() < 1e-9);
        assert!(Busy::of(&[]).pool_cpu.abs() < 1e-9, "nothing seen is nothing told");
    }
}
