//! How much room file systems have, so that logs never take the last of it.

use std::collections::HashMap;
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use forkful_core::logs::MinFree;

/// How long what the kernel said is believed.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The same when our own writing since has taken what was left.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// File systems by device number.
#[derive(Debug, Default)]
pub(super) struct Space {
    disks: HashMap<u64, Disk>,
}

#[derive(Debug)]
struct Disk {
    looked_at: Instant,
    size: u64,
    free: u64,
    /// Written by us since.
    written: u64,
}

impl Space {
    /// Refuses to write `bytes` to `file` when less than the floor would be left.
    pub(super) fn take(
        &mut self,
        file: &impl AsFd,
        device: u64,
        floor: MinFree,
        bytes: u64,
        now: Instant,
    ) -> io::Result<()> {
        if floor == MinFree::Bytes(0) {
            return Ok(());
        }
        if let Some(disk) = self.disks.get_mut(&device) {
            let age = now.saturating_duration_since(disk.looked_at);
            if age < LOOK_EVERY && (disk.shortage(floor, bytes).is_none() || age < LOOK_AGAIN) {
                return disk.grant(floor, bytes);
            }
        }
        // Where that cannot be told, there is no floor.
        let Ok(stat) = rustix::fs::fstatvfs(file) else { return Ok(()) };
        let size = stat.f_blocks.saturating_mul(stat.f_frsize);
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        let disk = Disk { looked_at: now, size, free, written: 0 };
        self.disks.entry(device).insert_entry(disk).get_mut().grant(floor, bytes)
    }
}

impl Disk {
    /// What is free and what must stay, when that is not given after a write.
    fn shortage(&self, floor: MinFree, bytes: u64) -> Option<(u64, u64)> {
        let (free, floor) = (self.free.saturating_sub(self.written), floor.floor(self.size));
        (free < floor.saturating_add(bytes)).then_some((free, floor))
    }

    fn grant(&mut self, floor: MinFree, bytes: u64) -> io::Result<()> {
        // A file system without a size, as of some network mounts, says nothing about its room.
        if self.size > 0
            && let Some((free, floor)) = self.shortage(floor, bytes)
        {
            let message = format!(
                "its file system has {} MiB left, and {} MiB are to stay free (min_free)",
                free >> 20,
                floor.div_ceil(1 << 20)
            );
            return Err(io::Error::new(io::ErrorKind::StorageFull, message));
        }
        self.written += bytes;
        Ok(())
    }
}
