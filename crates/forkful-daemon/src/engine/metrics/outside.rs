//! One process, seen from outside: what the kernel and the daemon know of it.

use std::io;
use std::time::{Duration, Instant};

use forkful_core::metrics::{Metric, Readings};
use forkful_os::cgroup::Throttling;
use forkful_os::memory_limit::{free_memory, memory_limit};
use forkful_os::procinfo::{self, Meter, Usage};

/// How often the values are read that cost more to read.
const RARELY: Duration = Duration::from_secs(30);
/// The age at which they are read first. A process that starts has enough to do, and a process that is replaced earlier needs none.
const AT_FIRST: Duration = Duration::from_millis(1500);

/// Follows one process.
pub(super) struct Outside {
    pid: u32,
    meter: Meter,
    last: Option<Look>,
    /// When the values that cost more are read next.
    rare_from: Instant,
    /// For how long its CPU quota has stopped it, since the process was first seen: the kernel's counter is older.
    throttled: Duration,
}

/// A look.
struct Look {
    at: Instant,
    usage: Usage,
    cpu: Duration,
    account: Account,
}

/// What others know of a process.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Account {
    /// Of its control group.
    pub(super) throttling: Option<Throttling>,
    /// Connections in its queues.
    pub(super) queued: u32,
}

/// The memory of the group that limits a process: its app's, or one around the daemon. In bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct GroupMemory {
    pub(super) limit: Option<u64>,
    pub(super) used: Option<u64>,
}

impl Outside {
    pub(super) fn new(pid: u32) -> Self {
        let (meter, rare_from) = (Meter::new(pid), Instant::now() + AT_FIRST);
        Self { pid, meter, last: None, rare_from, throttled: Duration::ZERO }
    }

    /// Goes on where a daemon before was, with the counters that it has written down.
    pub(super) fn resume(pid: u32, counters: &Readings) -> Self {
        let throttled = counters.get("cpu_throttled_seconds_total").unwrap_or(0.0);
        let throttled = Duration::from_secs_f64(throttled.min(1e9));
        Self { throttled, rare_from: Instant::now(), ..Self::new(pid) }
    }

    /// Whether it is time to read the values that cost more to read.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.rare_from
    }

    /// Looks at it; what follows from two looks is there from the second one on. With `rare`, the values that cost more to read are read
    /// as well.
    pub(super) fn look(&mut self, account: &Account, rare: Option<GroupMemory>) -> io::Result<Readings> {
        let look = Look {
            at: Instant::now(),
            usage: self.meter.read()?,
            cpu: procinfo::cpu_time(self.pid)?,
            account: *account,
        };
        let mut readings = state_of(&look);
        if let Some(memory) = rare {
            self.rare_from = look.at + RARELY;
            self.add_rare(memory, &mut readings);
        }
        if let Some(before) = &self.last {
            add_rates(before, &look, &mut readings);
            let throttled = |account: &Account| account.throttling.unwrap_or_default().time;
            self.throttled += throttled(account).saturating_sub(throttled(&before.account));
        }
        readings.take("cpu_throttled_seconds_total", self.throttled.as_secs_f64());
        self.last = Some(look);
        if !forkful_os::portable::KNOWS_THREADS_AND_QUEUES {
            readings = readings.only(is_known_everywhere);
        }
        Ok(readings)
    }

    /// What costs more to ask.
    fn add_rare(&self, memory: GroupMemory, readings: &mut Readings) {
        let files = procinfo::open_files(self.pid).ok();
        let parts = procinfo::memory_parts(self.pid).unwrap_or_default();
        let known = [
            ("memory_pss_bytes", procinfo::proportional_bytes(self.pid).ok()),
            ("memory_virtual_bytes", parts.virtual_bytes),
            ("memory_data_bytes", parts.data_bytes),
            ("swap_bytes", parts.swapped_bytes),
            ("memory_limit_bytes", memory.limit),
            ("memory_group_bytes", memory.used),
            ("open_files", files.map(|(open, _)| open)),
            ("open_files_limit", files.and_then(|(_, limit)| limit)),
        ];
        for (name, value) in known {
            if let Some(value) = value {
                readings.take(name, value as f64);
            }
        }
    }
}

impl GroupMemory {
    /// The limit of all apps together, and what is used of it.
    pub(super) fn of_surroundings() -> Self {
        let limit = memory_limit().map(|limit| limit.bytes);
        let free = limit.and_then(|_| free_memory()).filter(|free| free.by_group);
        Self { limit, used: limit.zip(free).map(|(limit, free)| limit.saturating_sub(free.bytes)) }
    }
}

/// Metrics of single threads and of accept queues.
const OF_LINUX: [&str; 6] = [
    "pool_threads",
    "pool_busy",
    "pool_cpu",
    "accept_queue",
    "run_queue_wait",
    "run_queue_wait_seconds_total",
];

/// Whether a metric is known on other systems than Linux, too. A zero in its place would look like a measurement.
fn is_known_everywhere(metric: &Metric) -> bool {
    !OF_LINUX.contains(&metric.name)
}

/// What one look tells.
fn state_of(look: &Look) -> Readings {
    let Look { usage, cpu, account, .. } = look;
    let mut readings = Readings::of(&[
        ("pool_threads", usage.pool_threads as f64),
        ("memory_bytes", usage.resident_bytes as f64),
        ("accept_queue", f64::from(account.queued)),
        ("cpu_user_seconds_total", usage.user.as_secs_f64()),
        ("cpu_system_seconds_total", usage.system.as_secs_f64()),
        ("cpu_seconds_total", cpu.as_secs_f64()),
        ("main_thread_cpu_seconds_total", usage.main.ran.as_secs_f64()),
        ("run_queue_wait_seconds_total", usage.main.waited.as_secs_f64()),
    ]);
    if usage.pool_threads > 0 {
        readings.take("pool_busy", usage.pool_busy as f64 / usage.pool_threads as f64);
    }
    readings
}

/// What follows from two looks.
fn add_rates(before: &Look, now: &Look, readings: &mut Readings) {
    let seconds = now.at.duration_since(before.at).as_secs_f64();
    if seconds <= 0.0 {
        return;
    }
    let share = |now: Duration, before: Duration| now.saturating_sub(before).as_secs_f64() / seconds;
    readings.take("main_thread_cpu", share(now.usage.main.ran, before.usage.main.ran).min(1.0));
    readings.take("run_queue_wait", share(now.usage.main.waited, before.usage.main.waited).min(1.0));
    readings.take("cpu_cores", share(now.cpu, before.cpu));
    if now.usage.pool_threads == before.usage.pool_threads {
        readings.take("pool_cpu", share(now.usage.pool_ran, before.usage.pool_ran));
    }
    if let Some((now, before)) = now.account.throttling.zip(before.account.throttling) {
        readings.take("cpu_throttled", share(now.time, before.time).min(1.0));
        let periods = now.periods.saturating_sub(before.periods);
        let throttled = now.throttled.saturating_sub(before.throttled);
        if periods > 0 {
            readings.take("cpu_throttled_periods", (throttled as f64 / periods as f64).min(1.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forkful_os::procinfo::Scheduled;

    fn look(at: Instant, ms: u64, account: Account) -> Look {
        let time = Duration::from_millis(ms);
        let main = Scheduled { ran: time, waited: time / 2 };
        let usage = Usage { main, pool_threads: 4, pool_busy: 3, pool_ran: time * 3, ..Usage::default() };
        Look { at, usage, cpu: time * 4, account }
    }

    #[test]
    fn elsewhere_than_on_linux_figures_of_threads_and_queues_are_unknown_and_not_zero() {
        let began = Instant::now();
        let readings = state_of(&look(began, 1000, Account::default())).only(is_known_everywhere);
        assert!(OF_LINUX.iter().all(|name| readings.get(name).is_none()), "{readings:?}");
        assert_eq!(readings.get("main_thread_cpu_seconds_total"), Some(1.0));
        for name in OF_LINUX {
            assert!(Metric::named(name).is_some(), "{name}");
        }
    }

    #[test]
    fn two_looks_give_the_shares_of_the_time_between() {
        let began = Instant::now();
        let throttled = |periods, throttled, ms| Account {
            throttling: Some(Throttling { periods, throttled, time: Duration::from_millis(ms) }),
            ..Account::default()
        };
        let before = look(began, 1000, throttled(10, 1, 0));
        let now = look(began + Duration::from_secs(2), 1500, throttled(30, 6, 200));
        let mut readings = Readings::default();
        add_rates(&before, &now, &mut readings);
        let expected = [
            ("main_thread_cpu", 0.25),
            ("run_queue_wait", 0.125),
            ("cpu_cores", 1.0),
            ("pool_cpu", 0.75),
            ("cpu_throttled", 0.1),
            ("cpu_throttled_periods", 0.25),
        ];
        assert_eq!(readings, Readings::of(&expected));
        assert_eq!(state_of(&now).get("pool_busy"), Some(0.75));
    }

    #[test]
    fn what_was_counted_before_the_first_look_is_not_the_processs() {
        let mut outside = Outside::new(std::process::id());
        let account = |ms| Account {
            throttling: Some(Throttling { time: Duration::from_millis(ms), ..Throttling::default() }),
            ..Account::default()
        };
        assert!(!outside.is_due(), "not while it starts");
        let first = outside.look(&account(1000), None).unwrap();
        assert_eq!(first.get("cpu_throttled_seconds_total"), Some(0.0));
        assert!(first.get("main_thread_cpu").is_none() && first.get("memory_bytes").is_some());
        let second = outside.look(&account(1250), None).unwrap();
        assert_eq!(second.get("cpu_throttled_seconds_total"), Some(0.25));
        let is_asked = |readings: &Readings| {
            ["open_files", "memory_virtual_bytes", "memory_data_bytes"]
                .iter()
                .all(|name| readings.get(name).is_some_and(|value| value > 0.0))
        };
        assert!(!is_asked(&second));
        outside.rare_from = Instant::now();
        assert!(outside.is_due());
        assert!(is_asked(&outside.look(&account(1010), Some(GroupMemory::default())).unwrap()));
        assert!(!outside.is_due(), "it is asked for seldom");
        assert!(Outside::resume(std::process::id(), &first).is_due(), "after a takeover, at once");
        assert!(Outside::new(u32::MAX).look(&account(0), None).is_err());
    }
}
