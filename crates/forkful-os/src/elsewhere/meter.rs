//! Resource use of a process as a whole; its threads are not distinguished.

use std::io;
use std::time::Duration;

use super::stat::{Scheduled, cpu_times};

/// Follows one process.
#[derive(Debug)]
pub struct Meter {
    pid: u32,
}

/// Resources that a process has used since its start. There is nothing about its thread pool.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Usage {
    /// CPU time of all threads, which is mostly that of the main thread.
    pub main: Scheduled,
    /// CPU time in user mode, of all threads.
    pub user: Duration,
    /// CPU time in kernel mode, of all threads.
    pub system: Duration,
    pub pool_threads: usize,
    /// Pool threads that have a job now.
    pub pool_busy: usize,
    /// CPU time of the current pool threads.
    pub pool_ran: Duration,
    pub resident_bytes: u64,
}

impl Meter {
    pub fn new(pid: u32) -> Self {
        Self { pid }
    }

    pub fn read(&mut self) -> io::Result<Usage> {
        let (user, system) = cpu_times(self.pid)?;
        Ok(Usage {
            main: Scheduled { ran: user + system, waited: Duration::ZERO },
            user,
            system,
            pool_threads: 0,
            pool_busy: 0,
            pool_ran: Duration::ZERO,
            resident_bytes: super::resident_bytes(self.pid)?,
        })
    }
}

/// It is not known.
pub fn swapped_bytes(_pid: u32) -> io::Result<u64> {
    Err(crate::portable::unsupported())
}

/// It is not known.
pub fn open_files(_pid: u32) -> io::Result<(u64, Option<u64>)> {
    Err(crate::portable::unsupported())
}
