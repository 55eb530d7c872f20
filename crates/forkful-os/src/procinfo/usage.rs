//! What a process has used.

use std::time::Duration;

use super::stat::Scheduled;

/// Resources that a process has used since its start, and the state of its thread pool.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// CPU time of the main thread; where threads are not distinguished, that of all of them.
    pub main: Scheduled,
    /// CPU time in user mode, of all threads.
    pub user: Duration,
    /// CPU time in kernel mode, of all threads.
    pub system: Duration,
    /// Threads of the pool; none where threads are not distinguished.
    pub pool_threads: usize,
    /// Pool threads that have a job now.
    pub pool_busy: usize,
    /// CPU time of the current pool threads.
    pub pool_ran: Duration,
    pub resident_bytes: u64,
}

/// Parts of the memory of a process, in bytes; nothing where the kernel does not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryParts {
    /// All of its address space, used or not.
    pub virtual_bytes: Option<u64>,
    /// The part of it that is private and writable: heaps and other data, without stacks.
    pub data_bytes: Option<u64>,
    /// What is swapped out.
    pub swapped_bytes: Option<u64>,
}
