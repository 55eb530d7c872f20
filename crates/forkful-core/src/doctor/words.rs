//! All texts of a diagnosis.

use super::open_trial::{OpenTrial, TrialState};
use super::remedy::{BoundsChange, Gain, Remedy};
use super::{Certainty, Diagnosis, Outcome, SECONDS_MIN, Unclear, Verdict};
use crate::autoscale::ScaleBounds;
use crate::date_format::utc;
use crate::outgoing::HostLoad;
use crate::words::{count, shell_word};

/// The verdict in a few words.
pub const fn title(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Idle => "idle, or too little load to tell",
        Verdict::CpuQuota => "stopped by its CPU quota",
        Verdict::CpuContention => "waiting for a CPU",
        Verdict::MemoryLimit => "nearly out of memory",
        Verdict::GarbageCollection => "busy with garbage collection",
        Verdict::SynchronousCall => "blocked in synchronous calls",
        Verdict::CpuShortCallbacks => "limited by JavaScript on the CPU, in short callbacks",
        Verdict::CpuLongCallbacks => "limited by JavaScript on the CPU, in long callbacks",
        Verdict::PoolCpu => "limited by its thread pool, which computes",
        Verdict::PoolWaiting => "limited by its thread pool, which waits",
        Verdict::Upstream => "waiting for the services that it calls",
        Verdict::OtherWaiting => "waiting for something outside of the event loop",
        Verdict::Imbalance => "unevenly loaded: one worker is full while another has time",
        Verdict::ConnectionLimit => "refused connections by a server that has too many",
        Verdict::Unclear(Unclear::TooShort) => "not watched for long enough",
        Verdict::Unclear(Unclear::NoAgent) => "not measured from inside",
        Verdict::Unclear(Unclear::NothingStandsOut) => "busy, with nothing that stands out",
        Verdict::Unclear(Unclear::Mixed) => "limited by different things at different times",
    }
}

/// The meaning of the verdict.
pub const fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Idle => {
            "The workers have time left. Whatever is slow is in front of the app or behind it, or nobody uses the app now."
        }
        Verdict::CpuQuota => {
            "The control group of the app may use so much CPU time in each period and used it up; its threads then stand still until the next period."
        }
        Verdict::CpuContention => {
            "The main threads are ready to run and wait for a core: more threads want to run than there are cores. They may be workers of this app or other programs."
        }
        Verdict::MemoryLimit => {
            "The heap or the memory of the control group is nearly full. Garbage collection runs ever more often, and at the limit the process is ended."
        }
        Verdict::GarbageCollection => {
            "Much of the event loop's time goes to collecting garbage: the app allocates many objects per request."
        }
        Verdict::SynchronousCall => {
            "The event loop is in calls that wait (such as execSync, readFileSync, Atomics.wait or a synchronous database): it neither computes nor serves other requests meanwhile."
        }
        Verdict::CpuShortCallbacks => {
            "JavaScript uses all of a worker's core, in pieces that are short: each worker does as much as it can."
        }
        Verdict::CpuLongCallbacks => {
            "JavaScript uses all of a worker's core, and some callbacks run so long that the other requests of the worker wait for them."
        }
        Verdict::PoolCpu => {
            "All threads of libuv's pool compute (crypto, zlib, image libraries), and jobs wait for a thread while the event loop has time."
        }
        Verdict::PoolWaiting => {
            "All threads of libuv's pool wait (a slow disk or network file system, dns.lookup), and other jobs wait for a thread although CPU time is left."
        }
        Verdict::Upstream => {
            "The event loop has time, and nearly every request waits for an HTTP request of the app to another service."
        }
        Verdict::OtherWaiting => {
            "The event loop and the thread pool have time, and requests wait all the same: for a database, a timer, a lock or a queue of the app."
        }
        Verdict::Imbalance => {
            "Requests wait in a full worker although another one has time: long-lived connections tie them to their worker."
        }
        Verdict::ConnectionLimit => {
            "The server allows a number of connections, and the pools of all workers together want more. A request that needs one more connection fails, or waits until one is free."
        }
        Verdict::Unclear(Unclear::TooShort) => {
            "A verdict needs at least 10 seconds of measurements under load."
        }
        Verdict::Unclear(Unclear::NoAgent) => {
            "The agent reports nothing: it is switched off, or this is not Node.js. The figures from outside the process are not enough for a verdict."
        }
        Verdict::Unclear(Unclear::NothingStandsOut) => "No limit is reached. The app has room for more load.",
        Verdict::Unclear(Unclear::Mixed) => {
            "No single cause holds for most of the time and most of the load."
        }
    }
}

/// The meaning of a verdict that is of means, while the event loop stood still at times.
pub const fn meaning_with_stalls(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Idle => {
            "The workers have time left on average. But at times an event loop stood still, and the requests of its worker waited: the places are below."
        }
        Verdict::Unclear(Unclear::NothingStandsOut) => {
            "No limit is reached on average. But at times an event loop stood still, and the requests of its worker waited: the places are below."
        }
        other => meaning(other),
    }
}

/// What to do about places of the stall ledger.
pub fn shorter(name: &str) -> String {
    format!(
        "Make what runs at these places shorter, or move it off the event loop (worker_threads, an asynchronous call): forkful stalls {name}"
    )
}

/// What to do, most important first. `name` is the app's.
pub fn advice(diagnosis: &Diagnosis, name: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        diagnosis.remedy.map(|remedy| change(diagnosis, remedy, name)).into_iter().collect();
    lines.extend(diagnosis.bounds_change.map(|change| other_bounds(change, name)));
    if let Some(host) = &diagnosis.host {
        lines.push(smaller_pools(host, diagnosis.workers.len()));
    }
    lines.extend(by_verdict(diagnosis.verdict).iter().map(|line| (*line).to_owned()));
    let is_full = matches!(diagnosis.verdict, Verdict::CpuShortCallbacks | Verdict::PoolCpu)
        && diagnosis.remedy.is_none()
        && diagnosis.bounds_change.is_none();
    if is_full {
        lines.push("All cores that the app may use are in use: the next step is another machine (forkful export kubernetes).".to_owned());
    }
    if matches!(diagnosis.verdict, Verdict::Unclear(Unclear::TooShort)) {
        lines.push(format!(
            "Watch it for longer, under load: forkful doctor {name} --for {}s",
            3 * SECONDS_MIN
        ));
    }
    lines
}

/// Other bounds for an app whose number of workers follows its load: `scale` only sets a number within them.
fn other_bounds(change: BoundsChange, name: &str) -> String {
    let (purpose, ScaleBounds { min, max }) = match change {
        BoundsChange::Widen(bounds) => ("Widen the bounds of its number of workers", bounds),
        BoundsChange::Limit(bounds) => ("Limit its number of workers", bounds),
    };
    let numbers = if min == max { min.to_string() } else { format!("{min} to {max}") };
    format!("{purpose} to {numbers}: forkful restart {} -i {min}..{max}", shell_word(name))
}

/// The pool size with which all workers fit into a host's limit.
fn smaller_pools(load: &HostLoad, workers: usize) -> String {
    let HostLoad { host, most, .. } = load;
    let each = load.limit.map_or(0, |limit| limit / u32::try_from(workers.max(1)).unwrap_or(u32::MAX));
    let wanted = u64::from(*most) * workers as u64;
    let pools = format!("{} with pools of {most} want {wanted}", count(workers, "worker"));
    if each == 0 {
        return format!("Use fewer connections to {host} in all workers together ({pools}).");
    }
    format!(
        "Or give the pool for {host} at most {} in each worker ({pools}).",
        count(each as usize, "connection")
    )
}

fn change(diagnosis: &Diagnosis, remedy: Remedy, name: &str) -> String {
    match command(diagnosis, name) {
        Some(command) => format!("{}: {command}", purpose(remedy)),
        None => purpose(remedy),
    }
}

/// The purpose of a change.
pub fn purpose(remedy: Remedy) -> String {
    match remedy {
        Remedy::Workers(workers) => format!("Run {}", count(workers.into(), "worker")),
        Remedy::PoolSize(threads) => {
            format!("Give each worker a pool of {}", count(threads.into(), "thread"))
        }
        Remedy::SemiSpace(megabytes) => {
            format!("Give young objects more room ({megabytes} MB), so that fewer of them are copied")
        }
        Remedy::HeapLimit(megabytes) => {
            format!("Raise the limit of the heap to {megabytes} MB if the machine has the memory")
        }
        Remedy::BalanceLeast => "Give new connections to the worker with the fewest".to_owned(),
    }
}

/// A change and the verdict behind it: `forkful scale web 2: web is limited by …`.
pub fn tried(diagnosis: &Diagnosis, remedy: Remedy, name: &str) -> String {
    let change = command(diagnosis, name).unwrap_or_else(|| purpose(remedy));
    format!("{change}: {}", headline(diagnosis, name))
}

/// A trial that nobody has decided about. The text stays the same while the trial does.
pub fn undecided(trial: &OpenTrial) -> String {
    let OpenTrial { since_ms, state, keep, undo, .. } = trial;
    let at = utc(*since_ms, "%Y-%m-%d %H:%M:%S UTC");
    let told = match state {
        TrialState::Changing => {
            format!(
                "is trying a change of a setting, ordered at {at}: it is being made, unless the doctor was killed. Then"
            )
        }
        TrialState::Changed => {
            format!("changed a setting at {at} and has not finished. If it is no longer running,")
        }
        TrialState::Reverting => {
            format!("is undoing the change made at {at}. If this does not finish,")
        }
        TrialState::CutOff => format!(
            "was cut off by the end of the daemon while it made a change of a setting of {at} or took it back: the change may be in \
             place. Then"
        ),
    };
    format!("forkful doctor --fix {told} undo the change with {undo}, or keep it with {keep}")
}

/// When the numbers of a report with a profile were measured.
pub fn measured_before_profile(seconds: u32) -> String {
    format!(
        "the verdict and the figures are from the {seconds} s before the profile, because profiling makes the event loop look busier"
    )
}

/// The result of a trial that was interrupted.
pub const INTERRUPTED: &str = "interrupted before it was known whether the change helps";

/// The command that makes the change of a diagnosis; `None` if there is none, or if it would show a secret.
pub fn command(diagnosis: &Diagnosis, name: &str) -> Option<String> {
    diagnosis.setting.as_ref().filter(|setting| !setting.is_secret()).map(|setting| setting.command(name))
}

const fn by_verdict(verdict: Verdict) -> &'static [&'static str] {
    match verdict {
        Verdict::Idle => &[
            "Do not tune. Ask again while the app is under load; forkful bench makes load.",
            "If clients see a slow app all the same, look at what stands in front of it: proxy, network, load generator.",
        ],
        Verdict::CpuQuota => &[
            "Raise or remove the quota (cpu_max, the container's CPU limit).",
            "Do not add workers: they share the same quota, and stop more often.",
        ],
        Verdict::CpuContention => &[
            "Run no more workers than cores, and find out what else uses the cores (top).",
            "A load generator on the same machine counts too: measure from another one.",
        ],
        Verdict::MemoryLimit => &[
            "Look for a leak first: heap snapshots at three times show which objects only grow in number.",
            "If there is none, raise the limit, or run fewer workers with a larger heap each.",
        ],
        Verdict::GarbageCollection => &[
            "Find the code that allocates most (node --cpu-prof, or an allocation profile of the inspector), and keep or reuse objects there.",
        ],
        Verdict::SynchronousCall => &[
            "Replace the call by its asynchronous form (exec, fs.promises), or move it into a worker thread.",
            "More workers serve others meanwhile, but each of them stands still as long.",
        ],
        Verdict::CpuShortCallbacks => &[],
        Verdict::CpuLongCallbacks => &[
            "Move the computation into worker_threads, or cut it into pieces with setImmediate between them.",
            "More workers only make it rarer that a request waits for a long one.",
            "If the event loop answers no more at all, look for an endless loop: forkful stalls shows where workers were blocked before, and stuck_limit restarts such workers.",
        ],
        Verdict::PoolCpu => &["More pool threads than cores do not help jobs that compute."],
        Verdict::PoolWaiting => {
            &["If the jobs are dns.lookup: cache names or use dns.resolve, which needs no thread."]
        }
        Verdict::Upstream => &[
            "Neither workers nor a larger pool help. Make the service faster, call it less (cache, batch), or in parallel.",
            "Check the limits on the way: maxSockets of the agent, the pool of the database.",
        ],
        Verdict::OtherWaiting => &[
            "Look at what a request waits for: the pool of the database driver (workers times its size against the database's limit), timers, locks, queues.",
        ],
        Verdict::ConnectionLimit => &[
            "Or raise the limit of the server (max_connections), or put a pooler such as PgBouncer in front of it.",
        ],
        Verdict::Imbalance => {
            &["Have clients open connections anew: server.maxRequestsPerSocket, a shorter keepAliveTimeout."]
        }
        Verdict::Unclear(Unclear::NoAgent) => &[
            "If the app runs on Node.js, switch the agent on (agent: true), and ask again. Other programs, such as the file server of forkful serve, are measured from outside alone.",
        ],
        Verdict::Unclear(Unclear::NothingStandsOut) => {
            &["Drive more load if you want to find the limit (forkful bench)."]
        }
        Verdict::Unclear(Unclear::Mixed) => {
            &["Ask again under a steady load, or look at the workers one by one below."]
        }
        Verdict::Unclear(Unclear::TooShort) => &[],
    }
}

/// The expected gain, as a sentence without a full stop.
pub fn gain(gain: Gain) -> String {
    let percent = |factor: f64| ((factor - 1.0) * 100.0).round();
    let (low, high) = (percent(gain.low), percent(gain.high));
    if low <= 0.0 {
        format!("up to {high} % more requests per second")
    } else {
        format!("{low} to {high} % more requests per second")
    }
}

/// The result of a change, as a sentence.
pub fn outcome(outcome: Outcome) -> String {
    let percent = |factor: f64| ((factor - 1.0) * 100.0).round();
    match outcome {
        Outcome::MoreRequests(factor) => format!("it helped: {:+} % requests per second", percent(factor)),
        Outcome::LessLatency(factor) => format!("it helped: {:+} % median latency", percent(factor)),
        Outcome::NoGain(factor) => {
            format!(
                "it did not help: {:+} % requests per second, within chance or too little",
                percent(factor)
            )
        }
        Outcome::NotMeasured => "there were too few requests to tell".to_owned(),
    }
}

/// A part of a second, by its name in JSON.
pub fn part(name: &str) -> &'static str {
    match name {
        "idle" => "idle",
        "javascript" => "JavaScript",
        "gc" => "GC",
        "waiting_for_cpu" => "waiting for a CPU",
        _ => "blocked in a call",
    }
}

/// `refused connections by db:5432, which takes 40 of this app`.
fn refused_by(load: &HostLoad) -> String {
    let takes = load.limit.filter(|limit| *limit > 0);
    let takes = takes.map_or_else(String::new, |limit| format!(", which takes {limit} of this app"));
    format!("refused connections by {}{takes}", load.host)
}

/// `web is limited by …`, with the confidence.
pub fn headline(diagnosis: &Diagnosis, name: &str) -> String {
    let title = match &diagnosis.host {
        Some(load) => refused_by(load),
        None => title(diagnosis.verdict).to_owned(),
    };
    match diagnosis.certainty {
        Certainty::Certain => format!("{name} is {title} (certain)"),
        Certainty::Likely => format!("{name} is probably {title} (likely)"),
        Certainty::Inconclusive => format!("{name}: inconclusive: it is {title}"),
    }
}
