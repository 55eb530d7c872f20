//! Resource use of a process as a whole; its threads are not distinguished.

use std::io;
use std::time::Duration;

use super::stat::{Scheduled, cpu_times};
use super::usage::{MemoryParts, Usage};

/// Follows one process.
#[derive(Debug)]
pub struct Meter {
    pid: u32,
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
pub fn memory_parts(_pid: u32) -> io::Result<MemoryParts> {
    Err(crate::portable::unsupported())
}

/// It is not known.
pub fn open_files(_pid: u32) -> io::Result<(u64, Option<u64>)> {
    Err(crate::portable::unsupported())
}
