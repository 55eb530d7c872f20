//! Profiles of a worker: what is ordered ([`ProfileOrder`]), whether a heap snapshot has room ([`heap_fits`]), which worker one is about
//! ([`foremost`]), and what a CPU profile says ([`CpuProfile`]).

mod cpu;
mod functions;

use std::fmt;
use std::time::Duration;

pub use cpu::{BYTES_MAX, CpuProfile, Frame, Node, NotAProfile, Origin};
pub use functions::{FunctionTime, Functions};

/// The shortest and the longest CPU profile.
pub const LENGTH_MIN: Duration = Duration::from_secs(1);
/// See [`LENGTH_MIN`].
pub const LENGTH_MAX: Duration = Duration::from_secs(60);
/// The time between two samples: V8 takes no more than ten thousand a second without slowing the app down noticeably.
pub const INTERVAL_MIN: Duration = Duration::from_micros(100);
/// See [`INTERVAL_MIN`].
pub const INTERVAL_MAX: Duration = Duration::from_millis(100);

/// What a worker's agent is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileOrder {
    /// A CPU profile, in the format of Chrome's developer tools.
    Cpu { length: Duration, interval: Duration },
    /// A heap snapshot, in their format.
    Heap,
}

/// The worker with the largest load (the share of its core, the bytes of its heap), of equals the one with the smallest number. Workers of which nothing
/// is known come last.
pub fn foremost(workers: impl IntoIterator<Item = (u32, Option<f64>)>) -> Option<u32> {
    let known = |load: Option<f64>| load.filter(|load| load.is_finite()).unwrap_or(-1.0);
    workers
        .into_iter()
        .min_by(|(a, of_a), (b, of_b)| known(*of_b).total_cmp(&known(*of_a)).then(a.cmp(b)))
        .map(|(worker, _)| worker)
}

/// Memory that is left somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    pub of: RoomOf,
    pub bytes: u64,
}

/// Where memory is left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoomOf {
    Machine,
    /// A control group around the daemon and its workers.
    Group,
    /// The app's `memory_max`.
    MemoryMax,
    /// The app's `max_memory_restart`: a worker above it is replaced.
    MemoryRestart,
}

impl fmt::Display for RoomOf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Machine => write!(f, "the machine"),
            Self::Group => write!(f, "a control group around the daemon"),
            Self::MemoryMax => write!(f, "the app's `memory_max`"),
            Self::MemoryRestart => write!(f, "the app's `max_memory_restart`"),
        }
    }
}

/// Why a heap snapshot is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TooLittle {
    pub needs_bytes: u64,
    pub room: Room,
}

impl fmt::Display for TooLittle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        let (needs, left) = (mib(self.needs_bytes), self.room.bytes >> 20);
        write!(
            f,
            "a heap snapshot needs about as much memory as the heap has, {needs} MiB, but {} has {left} MiB left",
            self.room.of
        )
    }
}

/// Whether a heap snapshot fits: V8 builds a copy of the heap's graph, which takes about as much memory as the heap.
///
/// # Errors
/// The tightest of the rooms that are too small.
pub fn heap_fits(heap_bytes: u64, rooms: impl IntoIterator<Item = Room>) -> Result<(), TooLittle> {
    let tightest = rooms.into_iter().min_by_key(|room| room.bytes);
    match tightest.filter(|room| room.bytes < heap_bytes) {
        Some(room) => Err(TooLittle { needs_bytes: heap_bytes, room }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_foremost_worker_is_the_one_with_the_largest_known_load() {
        assert_eq!(foremost([(0, Some(0.2)), (1, Some(0.9)), (2, None)]), Some(1));
        assert_eq!(foremost([(3, Some(0.5)), (2, Some(0.5))]), Some(2));
        assert_eq!(foremost([(4, None), (1, Some(f64::NAN)), (7, Some(0.0))]), Some(7));
        assert_eq!(foremost([(4, None), (1, None)]), Some(1));
        assert_eq!(foremost([]), None);
    }

    #[test]
    fn a_heap_snapshot_needs_as_much_memory_as_the_heap_in_each_place() {
        const MIB: u64 = 1 << 20;
        let machine = Room { of: RoomOf::Machine, bytes: 900 * MIB };
        let group = Room { of: RoomOf::Group, bytes: 120 * MIB };
        assert_eq!(heap_fits(100 * MIB, [machine, group]), Ok(()));
        assert_eq!(heap_fits(120 * MIB, [group]), Ok(()));
        assert_eq!(heap_fits(u64::MAX, []), Ok(()));
        let refusal = heap_fits(410 * MIB, [machine, group]).unwrap_err();
        assert_eq!(
            refusal.to_string(),
            "a heap snapshot needs about as much memory as the heap has, 410 MiB, but a control group around the daemon has 120 MiB left"
        );
    }
}
