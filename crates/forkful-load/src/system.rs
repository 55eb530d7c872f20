//! The kernel's counters around a run: network, CPU of the machine, throttling, memory.

use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};

use crate::report::facts::{Host, Kernel};

/// Counters at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Snapshot {
    network: Vec<(String, u64)>,
    time_wait: Option<u64>,
    /// CPU time of all CPUs in jiffies: busy, stolen, total.
    cpu: Option<(u64, u64, u64)>,
    /// How often and how long the cgroup was throttled.
    throttled: Option<(u64, Duration)>,
    /// CPU of this process, seconds.
    pub(crate) process_cpu: f64,
}

impl Snapshot {
    pub(crate) fn take() -> Self {
        let mut network = table(&read("/proc/net/netstat"));
        network.extend(table(&read("/proc/net/snmp")));
        let time = clock_gettime(ClockId::ProcessCPUTime);
        Self {
            network,
            time_wait: time_wait(&read("/proc/net/sockstat")),
            cpu: cpu(&read("/proc/stat")),
            throttled: throttled(),
            process_cpu: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9,
        }
    }

    fn counter(&self, name: &str) -> Option<u64> {
        self.network.iter().find(|(known, _)| known == name).map(|(_, count)| *count)
    }

    /// The network counters since `before`.
    pub(crate) fn kernel_since(&self, before: &Self) -> Kernel {
        let difference = |name| Some(self.counter(name)?.saturating_sub(before.counter(name)?));
        Kernel {
            retransmits: difference("Tcp.RetransSegs"),
            syn_retransmits: difference("TcpExt.TCPSynRetrans"),
            timeouts: difference("TcpExt.TCPTimeouts"),
            listen_overflows: difference("TcpExt.ListenOverflows"),
            listen_drops: difference("TcpExt.ListenDrops"),
            time_wait_before: before.time_wait,
            time_wait_after: self.time_wait,
            local_ports: local_ports(&read("/proc/sys/net/ipv4/ip_local_port_range")),
        }
    }

    /// The machine's counters since `before`.
    pub(crate) fn host_since(&self, before: &Self) -> Host {
        let part = |pick: fn((u64, u64, u64)) -> u64| {
            let (now, then) = (self.cpu?, before.cpu?);
            let all = now.2.saturating_sub(then.2);
            (all > 0).then(|| pick(now).saturating_sub(pick(then)) as f64 / all as f64)
        };
        let throttled = self.throttled.zip(before.throttled);
        Host {
            cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            busy: part(|cpu| cpu.0),
            steal: part(|cpu| cpu.1),
            others: None,
            throttled_times: throttled.map(|(now, then)| now.0.saturating_sub(then.0)),
            throttled: throttled.map(|(now, then)| now.1.saturating_sub(then.1)),
            descriptors_max: getrlimit(Resource::Nofile).current,
        }
    }
}

/// Whether other programs use the CPUs that target and generator need. A program that runs both before and after the load does not
/// belong to the target: the target's database or proxy is idle then.
#[derive(Debug, Clone, Copy)]
pub struct OtherPrograms {
    /// How many other threads ran or waited for a CPU before the load: the median of several looks.
    before: u64,
}

/// Looks before the load, and the pause between two: 20 ms in all.
const LOOKS: usize = 11;
const LOOK_PAUSE: Duration = Duration::from_millis(2);
/// After the load: the time for connections to close, and the time over which CPU is counted, in steps of 10 ms.
const SETTLE: Duration = Duration::from_millis(30);
const COUNTED: Duration = Duration::from_millis(250);
/// From this share on, all CPUs of the machine together count as full.
pub(crate) const MACHINE_FULL: f64 = 0.9;

impl OtherPrograms {
    /// Looks at the machine before a load; takes 20 ms.
    pub fn before() -> Self {
        let mut looks: Vec<u64> = (0..LOOKS)
            .map(|_| {
                std::thread::sleep(LOOK_PAUSE);
                running(&read("/proc/stat")).unwrap_or(1).saturating_sub(1)
            })
            .collect();
        looks.sort_unstable();
        Self { before: looks[LOOKS / 2] }
    }

    /// Looks again after the load, and sets [`Host::others`]. Takes 0.3 s if other programs ran before the load and all CPUs
    /// were busy in it, and no time otherwise.
    pub fn after(self, report: &mut crate::Report) {
        if self.before == 0 || report.host.busy.is_none_or(|busy| busy < MACHINE_FULL) {
            return;
        }
        std::thread::sleep(SETTLE);
        let from = Snapshot::take();
        std::thread::sleep(COUNTED);
        let host = Snapshot::take().host_since(&from);
        // What the hypervisor took counts as busy, and no program of this machine used it.
        report.host.others = host.busy.zip(host.steal).map(|(busy, steal)| (busy - steal).max(0.0));
    }
}

/// Raises the descriptor limit as far as needed, or up to the hard limit if that is lower. The error is the
/// limit that holds then.
pub(crate) fn allow_descriptors(needed: u64) -> Result<(), u64> {
    let limit = getrlimit(Resource::Nofile);
    let Some(current) = limit.current.filter(|current| *current < needed) else { return Ok(()) };
    let possible = needed.min(limit.maximum.unwrap_or(u64::MAX));
    let raised = Rlimit { current: Some(possible), maximum: limit.maximum };
    let reached = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => possible,
        Err(_) => current,
    };
    if reached >= needed { Ok(()) } else { Err(reached) }
}

/// Resident memory of this process, current and peak, in bytes.
pub(crate) fn memory() -> (u64, u64) {
    let status = read("/proc/self/status");
    let kilobytes = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    (kilobytes("VmRSS:") * 1024, kilobytes("VmHWM:") * 1024)
}

fn read(path: &str) -> String {
    fs_err::read_to_string(path).unwrap_or_default()
}

/// `/proc/net/snmp` and `netstat`: pairs of lines, names and numbers, each prefixed with the group.
fn table(text: &str) -> Vec<(String, u64)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut entries = Vec::new();
    for pair in lines.chunks_exact(2) {
        let (Some((group, names)), Some((_, values))) = (pair[0].split_once(':'), pair[1].split_once(':'))
        else {
            continue;
        };
        for (name, value) in names.split_whitespace().zip(values.split_whitespace()) {
            if let Ok(value) = value.parse() {
                entries.push((format!("{group}.{name}"), value));
            }
        }
    }
    entries
}

/// `TCP: inuse 5 orphan 0 tw 12 …`
fn time_wait(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.lines().find(|line| line.starts_with("TCP:"))?.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "tw")?;
    words.get(at + 1)?.parse().ok()
}

/// `cpu user nice system idle iowait irq softirq steal …`
fn cpu(text: &str) -> Option<(u64, u64, u64)> {
    let numbers: Vec<u64> = text
        .lines()
        .find_map(|line| line.strip_prefix("cpu "))?
        .split_whitespace()
        .take(8)
        .map_while(|number| number.parse().ok())
        .collect();
    let all = numbers.iter().sum::<u64>();
    let idle = numbers.get(3)? + numbers.get(4)?;
    Some((all - idle, *numbers.get(7)?, all))
}

/// `procs_running`: threads that run or wait for a CPU, including our own.
fn running(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("procs_running "))?.trim().parse().ok()
}

/// The cgroup's `cpu.stat`, version 2.
fn throttled() -> Option<(u64, Duration)> {
    let own = read("/proc/self/cgroup");
    let path = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    let text = read(&format!("/sys/fs/cgroup{}/cpu.stat", path.trim_end_matches('/')));
    let value = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse::<u64>().ok()
    };
    Some((value("nr_throttled ")?, Duration::from_micros(value("throttled_usec ")?)))
}

fn local_ports(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map_while(|number| number.parse::<u64>().ok());
    let (first, last) = (numbers.next()?, numbers.next()?);
    Some((last + 1).saturating_sub(first))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_tables_are_read() {
        let text = "Tcp: RtoMin RetransSegs\nTcp: 200 17\nTcpExt: ListenDrops X\nTcpExt: 3 -1\n";
        assert_eq!(
            table(text),
            [("Tcp.RtoMin".into(), 200), ("Tcp.RetransSegs".into(), 17), ("TcpExt.ListenDrops".into(), 3)]
        );
        assert_eq!(time_wait("sockets: used 1\nTCP: inuse 5 orphan 0 tw 12 alloc 9\n"), Some(12));
        assert_eq!(cpu("cpu  10 0 20 60 5 0 3 2 0 0\ncpu0 1\n"), Some((35, 2, 100)));
        assert_eq!(running("btime 5\nprocs_running 3\nprocs_blocked 0\n"), Some(3));
        assert_eq!(local_ports("32768\t60999\n"), Some(28_232));
        assert_eq!(running(""), None);
        assert_eq!((table(""), time_wait(""), cpu("")), (Vec::new(), None, None));
    }

    #[test]
    fn descriptors_are_allowed_up_to_the_hard_limit_also_where_that_is_too_few() {
        let before = getrlimit(Resource::Nofile);
        // Without a hard limit there is nothing to reach.
        let Some(hard) = before.maximum else { return };
        setrlimit(Resource::Nofile, Rlimit { current: Some(hard - 1), ..before }).unwrap();
        assert_eq!(allow_descriptors(hard - 1), Ok(()));
        assert_eq!(getrlimit(Resource::Nofile).current, Some(hard - 1));
        assert_eq!(allow_descriptors(hard + 1), Err(hard));
        assert_eq!(getrlimit(Resource::Nofile).current, Some(hard));
        assert_eq!(allow_descriptors(hard), Ok(()));
        setrlimit(Resource::Nofile, before).unwrap();
    }

    #[test]
    fn others_are_looked_for_only_where_they_may_have_disturbed() {
        let looked = |before: u64, busy: Option<f64>| {
            let mut report = crate::Report::empty("test");
            report.host.busy = busy;
            OtherPrograms { before }.after(&mut report);
            report.host.others
        };
        assert_eq!(looked(0, Some(1.0)), None, "nothing ran before the load");
        assert_eq!(looked(2, Some(0.5)), None, "there were CPUs enough");
        assert_eq!(looked(2, None), None);
        assert!(looked(2, Some(0.95)).is_some_and(|share| (0.0..=1.0).contains(&share)));
    }
}
