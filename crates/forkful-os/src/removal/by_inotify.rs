//! Removals on Linux.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;

/// Its descriptor is readable when there are reports.
#[derive(Debug)]
pub struct Removals(OwnedFd);

impl Removals {
    /// Reports removals in a folder, and of the folder or a move of it.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let what = WatchFlags::DELETE | WatchFlags::DELETE_SELF | WatchFlags::MOVE_SELF | WatchFlags::ONLYDIR;
        inotify::add_watch(&fd, folder, what)?;
        Ok(Self(fd))
    }

    /// Takes all reports.
    pub fn clear(&self) -> io::Result<()> {
        let mut news = [0; 4096];
        loop {
            match rustix::io::read(&self.0, &mut news) {
                Ok(0) | Err(Errno::AGAIN) => return Ok(()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl AsFd for Removals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Removals {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
