//! Resource use of a process by thread, measured from outside: the main thread, which runs JavaScript in
//! Node.js, and libuv's thread pool.
//!
//! Pool threads are identified by their name, `libuv-worker`, which Node.js sets since version 24. In older
//! versions all threads are called `node`; then the threads created after those of the start count as the
//! pool. A pool thread is idle while it waits for a futex: libuv's workers wait for their next job in this
//! way, and system calls of a job wait elsewhere.

use std::io;
use std::time::Duration;

use rustix::io::Errno;

use super::stat::{read_some, read_text, scheduled};
use super::usage::{MemoryParts, Usage};

/// The name of libuv's pool threads.
const POOL_NAME: &str = "libuv-worker";
/// The name of all threads before Node.js 24.
const OLD_NAME: &str = "node";
/// Threads of Node.js after its start, before version 24: the main thread, four for V8, one for delayed
/// tasks, one for the inspector.
const OLD_THREADS: usize = 7;
/// Maximum threads whose names are read; the pool has 4 by default and at most 1024.
const THREADS_MAX: usize = 256;

/// Follows one process.
#[derive(Debug)]
pub struct Meter {
    pid: u32,
    /// The number of threads at the last read.
    threads: u32,
    /// The pool's threads.
    pool: Vec<u32>,
}

impl Meter {
    pub fn new(pid: u32) -> Self {
        Self { pid, threads: 0, pool: Vec::new() }
    }

    /// Reads the process's state: a few kernel files, without waiting.
    pub fn read(&mut self) -> io::Result<Usage> {
        let mut buffer = [0; 1024];
        let length = read_some(&format!("/proc/{}/stat", self.pid), &mut buffer)?;
        let times = Times::parse(&buffer[..length]).ok_or(Errno::INVAL)?;
        if times.threads != self.threads {
            self.threads = times.threads;
            self.find_pool();
        }
        let (mut pool_busy, mut pool_ran) = (0, Duration::ZERO);
        for thread in &self.pool {
            pool_ran += thread_time(self.pid, *thread).unwrap_or_default();
            pool_busy += usize::from(is_busy(self.pid, *thread));
        }
        Ok(Usage {
            main: scheduled(self.pid)?,
            user: times.user,
            system: times.system,
            pool_threads: self.pool.len(),
            pool_busy,
            pool_ran,
            resident_bytes: super::resident_bytes(self.pid)?,
        })
    }

    fn find_pool(&mut self) {
        let mut threads: Vec<u32> = std::fs::read_dir(format!("/proc/{}/task", self.pid))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .take(THREADS_MAX)
            .collect();
        // Thread ids are in the order of creation.
        threads.sort_unstable();
        let names: Vec<(u32, String)> =
            threads.iter().filter_map(|thread| Some((*thread, name_of(self.pid, *thread)?))).collect();
        self.pool = pool_of(&names);
    }
}

/// The pool's threads among a process's threads, given with their names.
fn pool_of(threads: &[(u32, String)]) -> Vec<u32> {
    let named: Vec<u32> =
        threads.iter().filter(|(_, name)| name == POOL_NAME).map(|(thread, _)| *thread).collect();
    if !named.is_empty() {
        return named;
    }
    // An app may have renamed its main thread (`process.title`).
    let is_old = threads.get(1).is_some_and(|(_, name)| name == OLD_NAME);
    let later = threads.iter().skip(OLD_THREADS).filter(|(_, name)| is_old && name == OLD_NAME);
    later.map(|(thread, _)| *thread).collect()
}

fn name_of(pid: u32, thread: u32) -> Option<String> {
    let mut buffer = [0; 32];
    let length = read_some(&format!("/proc/{pid}/task/{thread}/comm"), &mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned())
}

fn thread_time(pid: u32, thread: u32) -> Option<Duration> {
    let mut buffer = [0; 64];
    let length = read_some(&format!("/proc/{pid}/task/{thread}/schedstat"), &mut buffer).ok()?;
    let text = std::str::from_utf8(&buffer[..length]).ok()?;
    text.split_ascii_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// Whether a thread is busy: it runs, or waits for something other than the next job. If the kernel does not
/// report what it waits for, only running threads and those waiting for a disk count.
fn is_busy(pid: u32, thread: u32) -> bool {
    let mut buffer = [0; 64];
    let length = read_some(&format!("/proc/{pid}/task/{thread}/wchan"), &mut buffer).unwrap_or(0);
    match &buffer[..length] {
        b"" | b"0" => {
            let mut buffer = [0; 256];
            let length = read_some(&format!("/proc/{pid}/task/{thread}/stat"), &mut buffer).unwrap_or(0);
            let text = &buffer[..length];
            let state = text.iter().rposition(|byte| *byte == b')').and_then(|close| text.get(close + 2));
            matches!(state, Some(b'R' | b'D'))
        }
        place => !place.starts_with(b"futex"),
    }
}

/// Fields 14, 15 and 20 of `/proc/PID/stat`.
#[derive(Debug, PartialEq)]
struct Times {
    user: Duration,
    system: Duration,
    threads: u32,
}

impl Times {
    fn parse(text: &[u8]) -> Option<Self> {
        let close = text.iter().rposition(|byte| *byte == b')')?;
        let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
        // Field 3, the state, is number 0 here.
        let mut fields = rest.split_ascii_whitespace().skip(14 - 3);
        let ticks = rustix::param::clock_ticks_per_second().max(1) as f64;
        let mut number = || fields.next()?.parse::<u64>().ok();
        let mut time = || Some(Duration::from_secs_f64(number()? as f64 / ticks));
        let (user, system) = (time()?, time()?);
        let threads = fields.nth(20 - 16)?.parse().ok()?;
        Some(Self { user, system, threads })
    }
}

/// What `/proc/PID/status` tells of a process's memory.
pub fn memory_parts(pid: u32) -> io::Result<MemoryParts> {
    let text = read_text(format!("/proc/{pid}/status"))?;
    Ok(MemoryParts::parse(&text))
}

impl MemoryParts {
    fn parse(text: &str) -> Self {
        let bytes = |name: &str| {
            let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
            Some(value.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
        };
        Self { virtual_bytes: bytes("VmSize"), data_bytes: bytes("VmData"), swapped_bytes: bytes("VmSwap") }
    }
}

/// The number of open descriptors of a process, and its limit.
pub fn open_files(pid: u32) -> io::Result<(u64, Option<u64>)> {
    let path = format!("/proc/{pid}/fd");
    // Since Linux 6.2 the folder's size is their number.
    let count = match std::fs::metadata(&path)?.len() {
        0 => std::fs::read_dir(&path)?.count() as u64,
        size => size,
    };
    let limits = read_text(format!("/proc/{pid}/limits"))?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    Ok((count, line.and_then(|line| line.split_ascii_whitespace().next()?.parse().ok())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_known_by_its_name_and_before_it_had_one_by_its_age() {
        let threads = |names: &[&str]| -> Vec<(u32, String)> {
            names.iter().enumerate().map(|(at, name)| (at as u32 + 10, (*name).to_owned())).collect()
        };
        let new =
            ["MainThread", "DelayedTaskSche", "V8Worker", "libuv-worker", "SignalInspector", "libuv-worker"];
        assert_eq!(pool_of(&threads(&new)), [13, 15]);
        assert_eq!(pool_of(&threads(&["node"; 7])), [0; 0]);
        assert_eq!(pool_of(&threads(&["node"; 11])), [17, 18, 19, 20]);
        let mut titled = ["node"; 8];
        titled[0] = "my app";
        assert_eq!(pool_of(&threads(&titled)), [17]);
        assert_eq!(pool_of(&threads(&["python3"; 20])), [0; 0]);
        assert_eq!(pool_of(&[]), [0; 0]);
    }

    #[test]
    fn a_name_with_parentheses_does_not_shift_the_fields() {
        let ticks = rustix::param::clock_ticks_per_second();
        let text = format!(
            "42 (a) S 1 (b)) R 7 8 9 0 -1 4194304 1 2 3 4 {ticks} {} 7 8 20 0 5 0 123456 9 9\n",
            2 * ticks
        );
        let expected = Times { user: Duration::from_secs(1), system: Duration::from_secs(2), threads: 5 };
        assert_eq!(Times::parse(text.as_bytes()), Some(expected));
        for broken in [&b""[..], b"42 (x", b"42 (x) R 1", b"42 (x) R 7 8 9 0 -1 4194304 1 2 3 4 5"] {
            assert_eq!(Times::parse(broken), None);
        }
    }

    #[test]
    fn memory_is_read_by_its_names() {
        let text = "Name:\tVmSize: 1 kB\nVmPeak:\t  9 kB\nVmSize:\t 700 kB\nVmData:\t  50 kB\nVmSwap:\t   0 kB\nThreads:\t1\n";
        let expected = MemoryParts {
            virtual_bytes: Some(700 << 10),
            data_bytes: Some(50 << 10),
            swapped_bytes: Some(0),
        };
        assert_eq!(MemoryParts::parse(text), expected);
        let without_data = MemoryParts { data_bytes: None, ..expected };
        for broken in [text.replace("50 kB", "50"), text.replace("50", "x"), text.replace("VmData", "Other")]
        {
            assert_eq!(MemoryParts::parse(&broken), without_data, "{broken}");
        }
        // A zombie has no memory.
        for none in ["", "Name:\tnode\nThreads:\t1\n"] {
            assert_eq!(MemoryParts::parse(none), MemoryParts::default(), "{none}");
        }
    }

    #[test]
    fn a_process_is_followed_until_it_is_gone() {
        let mut meter = Meter::new(std::process::id());
        let before = meter.read().unwrap();
        assert_eq!((before.pool_threads, before.pool_busy), (0, 0), "it is no Node.js");
        assert!(before.resident_bytes > 0);
        let mut rounds: u64 = 0;
        let spent = |usage: Usage| usage.user + usage.system;
        while spent(meter.read().unwrap()) < spent(before) + Duration::from_millis(30) {
            rounds = std::hint::black_box(rounds + 1);
        }
        let parts = memory_parts(std::process::id()).unwrap();
        assert!(parts.virtual_bytes >= parts.data_bytes && parts.data_bytes > Some(0), "{parts:?}");
        let (open, limit) = open_files(std::process::id()).unwrap();
        assert!(open >= 3 && limit.is_none_or(|limit| limit >= open), "{open} {limit:?}");
        assert!(Meter::new(u32::MAX).read().is_err());
    }
}
