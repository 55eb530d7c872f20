//! When a worker hardly runs any more because its app has used all memory of its limit (`memory_max`). The kernel does not
//! always kill such a process: as long as it finds pages of files to free, above all those of the program itself, it frees
//! them, and the process waits for each of them to be read again. That may last for minutes, in which the worker answers
//! nothing.

use std::fmt;
use std::time::Duration;

use super::renewal::mebi;

/// A worker is killed if its event loop has stood still for this long. The kernel usually decides in less.
pub const SILENT_FOR: Duration = Duration::from_secs(10);

/// The fewest major page faults per second of a worker that thrashes. A worker that computes for long, or waits, has no
/// major page faults; workers that thrashed had more than 100 per second wherever they were measured.
const FAULTS_PER_SECOND_MIN: u64 = 10;

/// What an event loop that stands still goes with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// For how long it has stood still.
    pub silent: Duration,
    /// Major page faults of the process since `counted_for`: pages that were read from a disk.
    pub major_faults: u64,
    /// For how long the faults were counted.
    pub counted_for: Duration,
    /// Memory of the process, in bytes.
    pub own_bytes: u64,
    /// Memory of the app that counts for its limit, with the page cache, in bytes.
    pub used_bytes: u64,
    /// The app's limit, in bytes.
    pub limit_bytes: u64,
}

impl Stall {
    /// Whether the worker is to be killed: it cannot go on, and a new one can.
    pub fn is_thrashing(&self) -> bool {
        self.silent >= SILENT_FOR
            && is_used_up(self.used_bytes, self.limit_bytes)
            && self.major_faults >= FAULTS_PER_SECOND_MIN * self.counted_for.as_secs()
            && self.major_faults > 0
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "its event loop stood still for {:.1} s: its app had used {} of its `memory_max` of {}, so the kernel \
             took pages of the program out of memory, and {} of them had to be read again",
            self.silent.as_secs_f64(),
            mebi(self.used_bytes),
            mebi(self.limit_bytes),
            self.major_faults
        )
    }
}

/// Whether a limit is used up. Usually the page cache grows until it is, and the kernel only frees what nobody needs.
pub fn is_used_up(used_bytes: u64, limit_bytes: u64) -> bool {
    used_bytes >= limit_bytes - limit_bytes / 20
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_silent_worker_that_reads_its_pages_again_in_a_full_group_is_thrashing() {
        let stall = Stall {
            silent: Duration::from_secs(10),
            major_faults: 90,
            counted_for: Duration::from_secs(9),
            own_bytes: 100 << 20,
            used_bytes: 190 << 20,
            limit_bytes: 200 << 20,
        };
        assert!(stall.is_thrashing());
        for other in [
            Stall { silent: Duration::from_secs(9), ..stall },
            Stall { major_faults: 89, ..stall },
            Stall { used_bytes: 189 << 20, ..stall },
            Stall { major_faults: 0, counted_for: Duration::ZERO, ..stall },
        ] {
            assert!(!other.is_thrashing(), "{other:?}");
        }
        insta::assert_snapshot!(stall, @"its event loop stood still for 10.0 s: its app had used 190.0 MiB of its `memory_max` of 200.0 MiB, so the kernel took pages of the program out of memory, and 90 of them had to be read again");
    }
}
