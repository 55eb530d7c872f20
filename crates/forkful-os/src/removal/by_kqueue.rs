//! Removals on systems with kqueue.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr;
use std::time::Duration;

use rustix::event::kqueue::{Event, EventFilter, EventFlags, VnodeEvents, kevent, kqueue};
use rustix::fs::{CWD, Mode, OFlags, openat};

/// Its descriptor is readable when there are reports.
#[derive(Debug)]
pub struct Removals {
    queue: OwnedFd,
    /// Named in the queue for as long as that exists.
    _folder: OwnedFd,
}

impl Removals {
    /// Reports changes in a folder, and the removal of the folder or a move of it.
    pub fn of(folder: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = openat(CWD, folder, flags, Mode::empty())?;
        let queue = kqueue()?;
        rustix::io::fcntl_setfd(&queue, rustix::io::FdFlags::CLOEXEC)?;
        let what = VnodeEvents::DELETE | VnodeEvents::WRITE | VnodeEvents::RENAME;
        let filter = EventFilter::Vnode { vnode: folder.as_raw_fd(), flags: what };
        let change = [Event::new(filter, EventFlags::ADD | EventFlags::CLEAR, ptr::null_mut())];
        let mut none: [Event; 0] = [];
        // SAFETY: the folder is open for as long as the queue.
        unsafe { kevent(&queue, &change, &mut none, Some(Duration::ZERO)) }?;
        Ok(Self { queue, _folder: folder })
    }

    /// Takes all reports.
    pub fn clear(&self) -> io::Result<()> {
        let mut events = Vec::with_capacity(1);
        let room = rustix::buffer::spare_capacity(&mut events);
        // SAFETY: no change is made.
        unsafe { kevent(&self.queue, &[], room, Some(Duration::ZERO)) }?;
        Ok(())
    }
}

impl AsFd for Removals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl AsRawFd for Removals {
    fn as_raw_fd(&self) -> RawFd {
        self.queue.as_raw_fd()
    }
}
