//! Identifies a worker's descendants, wherever they go.
//!
//! Two things are inherited by every descendant. The first is the environment, which a program can clear or
//! overwrite with a title. The second are resource limits: Linux has ignored `RLIMIT_LOCKS` since 2.4.25
//! (getrlimit(2)), but it is still inherited over `fork`, `execve` and `setsid`, and everybody may read it in
//! `/proc/PID/limits`. Its soft limit therefore contains a number of ours; the hard limit is unchanged.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Read};

#[cfg(target_os = "linux")]
use rustix::process::{Resource, getrlimit};

/// The environment variable that marks a worker's processes.
pub const MARK_VARIABLE: &str = "FORKFUL_WORKER";

/// Maximum bytes of an environment to search; the kernel allows more, but that is not used in practice.
const ENVIRONMENT_MAX: u64 = 4 << 20;

/// The line of `/proc/PID/limits`; the soft limit is the next word.
const LIMIT_LINE: &str = "Max file locks";

/// Marks a number as ours. The result is also positive as an `i64`, as shells interpret it.
const TAG: u64 = 1 << 62;
const INSTANCE_BITS: u32 = 38;
const WORKER_BITS: u32 = 24;
/// No instance has no bits or all bits set, because limits set by others look like that.
const INSTANCES: std::ops::Range<u64> = 1..(1 << INSTANCE_BITS) - 1;

/// A daemon, unique among all past and present ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Instance(u64);

impl Instance {
    /// A new random instance.
    pub fn random() -> Self {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u32(std::process::id());
        Self(INSTANCES.start + hasher.finish() % (INSTANCES.end - INSTANCES.start))
    }

    /// Parses its text form.
    pub fn parse(text: &str) -> Option<Self> {
        let number = u64::from_str_radix(text, 16).ok()?;
        INSTANCES.contains(&number).then_some(Self(number))
    }
}

impl fmt::Display for Instance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}", self.0)
    }
}

/// One start of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    instance: Instance,
    worker: u32,
}

impl Mark {
    /// No worker has it: membership is then by descent, session and group only.
    pub const NONE: Self = Self { instance: Instance(0), worker: 0 };

    /// A worker of a daemon; the number counts all starts.
    pub fn new(instance: Instance, worker: u32) -> Self {
        Self { instance, worker: worker & ((1 << WORKER_BITS) - 1) }
    }

    /// The daemon of the worker.
    pub fn instance(self) -> Instance {
        self.instance
    }

    /// The resource limit with the mark.
    #[cfg(target_os = "linux")]
    pub(crate) fn limit(self) -> libc::rlimit {
        let hard = getrlimit(Resource::Locks).maximum;
        let number = TAG | self.instance.0 << WORKER_BITS | u64::from(self.worker);
        libc::rlimit { rlim_cur: number, rlim_max: hard.unwrap_or(libc::RLIM_INFINITY) }
    }

    /// If this process itself carries a mark: the limit without a mark, usually infinite. The kernel does not
    /// use it.
    #[cfg(target_os = "linux")]
    pub(crate) fn inherited_limit_without() -> Option<libc::rlimit> {
        let own = getrlimit(Resource::Locks);
        Self::from_number(own.current?)?;
        let all = own.maximum.unwrap_or(libc::RLIM_INFINITY);
        Some(libc::rlimit { rlim_cur: all, rlim_max: all })
    }

    /// There is no limit to carry it: only the environment does. The result is not set.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn limit(self) -> libc::rlimit {
        libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY }
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn inherited_limit_without() -> Option<libc::rlimit> {
        None
    }

    /// The mark of a live process, if it has one.
    pub fn of(pid: u32) -> Option<Self> {
        let by_limit = crate::procinfo::read_text(format!("/proc/{pid}/limits")).ok().and_then(|text| {
            let (_, rest) = text.split_once(LIMIT_LINE)?;
            Self::from_number(rest.split_ascii_whitespace().next()?.parse().ok()?)
        });
        by_limit.or_else(|| Self::parse(&read_variable(pid, MARK_VARIABLE)?))
    }

    fn from_number(number: u64) -> Option<Self> {
        let instance = Instance((number & !TAG) >> WORKER_BITS);
        let is_ours = number >> 62 == 1 && INSTANCES.contains(&instance.0);
        is_ours.then(|| Self::new(instance, (number & ((1 << WORKER_BITS) - 1)) as u32))
    }

    /// Parses its text form.
    pub fn parse(text: &str) -> Option<Self> {
        let (instance, worker) = text.split_once('-')?;
        Some(Self::new(Instance::parse(instance)?, worker.parse().ok()?))
    }
}

/// The form in the environment.
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.instance, self.worker)
    }
}

/// Generates the marks of a daemon's workers.
#[derive(Debug)]
pub struct Marks {
    instance: Instance,
    last: u32,
}

impl Marks {
    /// For a new daemon.
    pub fn new() -> Self {
        Self { instance: Instance::random(), last: 0 }
    }

    /// For a daemon that replaces another one, which has already generated this many.
    pub fn resume(instance: Instance, given: u32) -> Self {
        Self { instance, last: given }
    }

    /// How many marks were generated.
    pub fn given(&self) -> u32 {
        self.last
    }

    pub fn instance(&self) -> Instance {
        self.instance
    }

    /// The mark of the next worker. After 16 million starts they repeat; the first workers are long gone.
    pub fn give(&mut self) -> Mark {
        self.last = self.last.wrapping_add(1);
        Mark::new(self.instance, self.last)
    }
}

impl Default for Marks {
    fn default() -> Self {
        Self::new()
    }
}

/// The value of a variable in the environment with which a process was executed.
pub(super) fn read_variable(pid: u32, name: &str) -> Option<String> {
    let environment = read_environment(pid).ok()?;
    let value = environment
        .split(|b| *b == 0)
        .find_map(|variable| variable.strip_prefix(name.as_bytes())?.strip_prefix(b"="))?;
    String::from_utf8(value.to_vec()).ok()
}

fn read_environment(pid: u32) -> io::Result<Vec<u8>> {
    let mut environment = Vec::with_capacity(crate::procinfo::USUAL_LENGTH);
    std::fs::File::open(format!("/proc/{pid}/environ"))?
        .take(ENVIRONMENT_MAX)
        .read_to_end(&mut environment)?;
    Ok(environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_is_the_same_as_text_and_as_number() {
        for (instance, worker) in [(1, 0), (0x3f_ffff_fffe, 0xff_ffff), (0x12_3456_789a, 77)] {
            let mark = Mark::new(Instance(instance), worker);
            assert_eq!(Mark::parse(&mark.to_string()), Some(mark));
            let number = mark.limit().rlim_cur;
            assert_eq!(Mark::from_number(number), Some(mark));
            assert!(i64::try_from(number).is_ok());
        }
    }

    #[test]
    fn what_is_none_of_ours_is_no_mark() {
        for number in [0, 1, 8 << 20, TAG, u64::MAX, i64::MAX as u64, 1 << 63] {
            assert_eq!(Mark::from_number(number), None, "{number}");
        }
        for text in ["", "-", "1", "0-1", "x-1", "1-x", "ffffffffffff-1", "1-1-1"] {
            assert_eq!(Mark::parse(text), None, "{text}");
        }
        assert_ne!(Instance::random(), Instance::random());
    }

    #[test]
    fn marks_are_told_apart() {
        let mut marks = Marks::new();
        let (one, two) = (marks.give(), marks.give());
        assert_ne!(one, two);
        assert_eq!(one.instance(), marks.instance());
        assert_ne!(one, Mark::NONE);
    }
}
