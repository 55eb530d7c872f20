//! Divides an app's memory among its workers (`memory: auto`): the heap limit of each worker, the size at
//! which a worker is replaced, and messages about it.
//!
//! "Own memory" of a worker is memory in RAM that only its process tree has: heap, buffers, stacks. Pages of
//! the Node.js program are shared by all workers and count once. The kernel charges a control group in the
//! same way.
//!
//! ```text
//! limit = shared pages + kernel and page cache + one new worker beside the others + workers × share
//! share = outside the heap + young generation + buffers and code + heap
//! ```
//! A worker is replaced before its heap is full and before its share is used up, so that neither V8 nor the
//! kernel kills it.

use std::fmt;

use crate::spec::{AppSpec, Runtime};

const MIB: u64 = 1 << 20;

/// V8's own maximum heap on a machine with much memory. A larger heap makes pauses longer.
const HEAP_MAX: u64 = 4096 * MIB;
/// With a smaller heap Node.js starts, but spends most of its time collecting garbage.
const HEAP_MIN: u64 = 16 * MIB;
/// Memory of Forkful's own processes if they share the limit with the workers.
const FORKFUL: u64 = 24 * MIB;
/// Page tables, socket buffers and other kernel memory per worker.
const KERNEL_EACH: u64 = 2 * MIB;
/// V8's default semi-space on 64 bits.
const SEMI_SPACE_DEFAULT: u64 = 16 * MIB;
/// 1/32 of the limit is for the page cache, such as log files being written.
const CACHE_PART: u64 = 32;
/// 1/4 of a machine's memory is for everything except the app.
const MACHINE_PART: u64 = 4;
/// 1/8 of a worker's share is for buffers outside the heap and for compiled code.
const BUFFERS_PART: u64 = 8;

/// Memory of an idle Node.js worker. File pages are measured with `node:http` (one run of each version); the
/// other two are estimates above all measurements: 12 to 19 MiB of own memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Footprint {
    /// Pages of the program, counted once for all workers.
    shared: u64,
    /// Own memory outside the heap.
    outside: u64,
    /// Used heap.
    heap: u64,
}

/// By major version; later versions count as the last one.
const FOOTPRINTS: [(u16, Footprint); 5] = [
    (18, Footprint { shared: 38 * MIB, outside: 10 * MIB, heap: 8 * MIB }),
    (20, Footprint { shared: 41 * MIB, outside: 8 * MIB, heap: 8 * MIB }),
    (22, Footprint { shared: 46 * MIB, outside: 8 * MIB, heap: 8 * MIB }),
    (24, Footprint { shared: 41 * MIB, outside: 12 * MIB, heap: 10 * MIB }),
    (26, Footprint { shared: 43 * MIB, outside: 12 * MIB, heap: 10 * MIB }),
];

/// The available memory and its limit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Available {
    pub bytes: u64,
    pub source: Source,
}

/// What limits the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// `memory_max` of the app: the group contains only its workers.
    MemoryMax,
    /// The control group with this path, which contains Forkful.
    Group(String),
    /// Only the machine's memory.
    Machine,
}

/// The claim of another app of the same daemon on the same limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Claim {
    pub workers: u16,
    /// The limit of all its workers together; without a limit, each counts like one of ours.
    pub bytes: Option<u64>,
}

/// The facts for a plan.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    pub available: &'a Available,
    pub workers: u16,
    pub others: &'a [Claim],
    /// Major version of Node.js; if unknown, the largest footprint is used.
    pub node_major: Option<u16>,
    pub own: OwnOptions,
}

/// Limits set by the user, which a plan never overrides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OwnOptions {
    pub heap: OwnHeap,
    /// The size of the young generation is set, or cannot be set.
    pub semi_space: bool,
    /// `max_memory_restart` decides when a worker is replaced.
    pub replaces: bool,
}

/// The heap limit set by the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OwnHeap {
    #[default]
    None,
    Mib(u64),
    /// A limit that is not in bytes, such as a percentage.
    Other,
}

/// How an app's memory is divided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryPlan {
    pub available: Available,
    pub workers: u16,
    /// The major version of Node.js that the figures are for; none for another program or an unknown version.
    pub node_major: Option<u16>,
    /// Own memory available to each worker.
    pub share: u64,
    /// The heap limit of each worker.
    pub heap: Heap,
    /// Size of a semi-space of the young generation, if the plan sets it.
    pub semi_space_mib: Option<u64>,
    pub replaces: Replaces,
    /// Reserved for a new worker next to the serving ones.
    pub spare: u64,
    /// Reserved for shared pages, the kernel, the page cache and Forkful.
    pub beside: u64,
    /// Own memory of a worker that has just started.
    pub idle: u64,
}

/// When a worker is replaced because of its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replaces {
    /// If it has more own memory than this many bytes.
    Above(u64),
    /// As set by `max_memory_restart`.
    Users,
    /// Never: there is no room for a new worker next to the serving ones.
    NoRoom,
}

/// The heap limit of each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heap {
    /// The plan sets it.
    Mib(u64),
    /// The user has set it.
    Users,
    /// Not set: there is too little memory for this many workers.
    TooSmall,
}

impl OwnOptions {
    /// The limits set in `node_args`, `NODE_OPTIONS` and `max_memory_restart`.
    pub fn of(spec: &AppSpec) -> Self {
        let launch = &spec.launch;
        let from_env = launch.env.get("NODE_OPTIONS").map(String::as_str).unwrap_or_default();
        let words = launch.program_args.iter().map(String::as_str).chain(from_env.split_whitespace());
        let words: Vec<String> = words.map(|word| word.replace('_', "-")).collect();
        let mut own = Self {
            heap: OwnHeap::None,
            // Older versions of Node.js refuse this option in `NODE_OPTIONS`.
            semi_space: launch.runtime != Runtime::Node,
            replaces: spec.renewal.max_memory_bytes.is_some(),
        };
        for (at, word) in words.iter().enumerate() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            match name {
                "--max-old-space-size" => {
                    let next = words.get(at + 1).map_or("", String::as_str);
                    let value = if value.is_empty() { next } else { value };
                    own.heap = value.parse().map_or(OwnHeap::Other, OwnHeap::Mib);
                }
                "--max-heap-size" | "--max-old-space-size-percentage" => own.heap = OwnHeap::Other,
                "--max-semi-space-size" => own.semi_space = true,
                _ => {}
            }
        }
        own
    }
}

impl MemoryPlan {
    pub fn new(inputs: &Inputs<'_>) -> Self {
        let Inputs { available, node_major, own, .. } = *inputs;
        let workers = inputs.workers.max(1);
        let footprint = footprint_of(node_major);
        let idle = footprint.outside + footprint.heap;
        let beside = beside(available, workers, footprint);
        let for_workers = available.bytes.saturating_sub(beside.saturating_add(claimed_by(inputs.others)));
        let all_workers = u64::from(workers) + sharing(inputs.others);
        let beside_a_new_one = for_workers.saturating_sub(idle) / all_workers;
        // Without room for a useful worker there is none for a second one either.
        let has_room = beside_a_new_one >= 2 * idle;
        let (share, spare) = if has_room { (beside_a_new_one, idle) } else { (for_workers / all_workers, 0) };
        let semi_space = if own.semi_space { SEMI_SPACE_DEFAULT } else { semi_space_of(share) };
        let outside = footprint.outside + 3 * semi_space + share / BUFFERS_PART;
        let room = share.saturating_sub(outside).min(HEAP_MAX);
        let (heap, heap_bytes) = match own.heap {
            OwnHeap::Mib(mib) => (Heap::Users, Some(mib.saturating_mul(MIB))),
            OwnHeap::Other => (Heap::Users, None),
            OwnHeap::None if room < HEAP_MIN => (Heap::TooSmall, None),
            OwnHeap::None => (Heap::Mib(room / MIB), Some(room)),
        };
        let sets_semi_space = matches!(heap, Heap::Mib(_)) && !own.semi_space;
        Self {
            available: available.clone(),
            workers,
            node_major,
            share,
            heap,
            semi_space_mib: sets_semi_space.then_some(semi_space / MIB),
            replaces: match (own.replaces, has_room) {
                (true, _) => Replaces::Users,
                (false, true) => Replaces::Above(replace_above(share, footprint, heap_bytes)),
                (false, false) => Replaces::NoRoom,
            },
            spare,
            beside,
            idle,
        }
    }

    /// Node.js options for its command line.
    pub fn node_options(&self) -> Vec<String> {
        let Heap::Mib(heap) = self.heap else { return Vec::new() };
        let semi_space = self.semi_space_mib.map(|mib| format!("--max-semi-space-size={mib}"));
        std::iter::once(format!("--max-old-space-size={heap}")).chain(semi_space).collect()
    }

    /// The minimum memory with which these workers can be replaced in time.
    fn enough(&self) -> u64 {
        let needed = self.beside + self.idle + u64::from(self.workers) * 2 * self.idle;
        // The part for the page cache grows with the total, and other apps have their parts.
        needed + needed / CACHE_PART + MIB
    }
}

/// The figures of a version; for an unknown version the largest, for a later one those of the last known.
fn footprint_of(node_major: Option<u16>) -> Footprint {
    let up_to = |major: u16| FOOTPRINTS.iter().rev().find(|(from, _)| *from <= major);
    let (_, footprint) = node_major.and_then(up_to).unwrap_or(&FOOTPRINTS[FOOTPRINTS.len() - 1]);
    *footprint
}

/// Memory that does not belong to a single worker.
fn beside(available: &Available, workers: u16, footprint: Footprint) -> u64 {
    let whose = match available.source {
        Source::MemoryMax => 0,
        Source::Group(_) => FORKFUL,
        Source::Machine => available.bytes / MACHINE_PART,
    };
    whose + footprint.shared + available.bytes / CACHE_PART + KERNEL_EACH * u64::from(workers)
}

/// Memory for apps with their own limit.
fn claimed_by(others: &[Claim]) -> u64 {
    others.iter().filter_map(|claim| claim.bytes).fold(0, u64::saturating_add)
}

/// How many workers of other apps count like one of ours.
fn sharing(others: &[Claim]) -> u64 {
    others.iter().filter(|claim| claim.bytes.is_none()).map(|claim| u64::from(claim.workers)).sum()
}

/// The size of a semi-space of the young generation, which has three: a small one costs CPU time, a large one
/// costs memory that the heap limit does not include.
fn semi_space_of(share: u64) -> u64 {
    match share / MIB {
        0..96 => MIB,
        96..192 => 2 * MIB,
        192..384 => 4 * MIB,
        384..768 => 8 * MIB,
        _ => SEMI_SPACE_DEFAULT,
    }
}

/// A fifth of the heap below V8's limit, so that a new worker is ready before the heap is full, and always
/// below the share.
fn replace_above(share: u64, footprint: Footprint, heap: Option<u64>) -> u64 {
    let of_share = share - share / 8;
    heap.map_or(of_share, |heap| of_share.min(footprint.outside + heap - heap / 5))
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MemoryMax => f.write_str("`memory_max`"),
            Self::Group(path) => write!(f, "cgroup {path}"),
            Self::Machine => f.write_str("the machine"),
        }
    }
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Available { bytes, source } = &self.available;
        let workers = if self.workers == 1 { "worker" } else { "workers" };
        let node = self.node_major.map_or(String::new(), |major| format!(" on Node.js {major}"));
        write!(
            f,
            "{} MiB ({source}) for {} {workers}{node}: {} MiB each",
            bytes / MIB,
            self.workers,
            self.share / MIB
        )?;
        match self.heap {
            Heap::Mib(heap) => write!(f, ", {heap} MiB of it heap")?,
            Heap::Users => f.write_str(", with the heap limit that the app has")?,
            Heap::TooSmall => f.write_str(", too little for a heap limit")?,
        }
        match self.replaces {
            Replaces::Above(bytes) => {
                write!(f, "; a worker is replaced above {} MiB of its own", bytes / MIB)
            }
            Replaces::Users => f.write_str("; `max_memory_restart` says when a worker is replaced"),
            Replaces::NoRoom => write!(
                f,
                "; none is replaced in time, because a second worker has no room beside it: {} MiB would do, or fewer workers",
                self.enough().div_ceil(MIB)
            ),
        }
    }
}
