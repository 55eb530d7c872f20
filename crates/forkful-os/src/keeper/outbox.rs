//! Frames for a keeper that does not read for a while: it is stopped, or has no core. They wait here, in order,
//! with their descriptors; the daemon goes on meanwhile.

use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::frame::Frame;

/// If more frames wait, the daemon goes on without its keeper. Some frames hold a descriptor.
const WAITING_MAX: usize = 4096;

/// Frames with their descriptors, in order.
pub(super) type Waiting = VecDeque<(Frame, Option<OwnedFd>)>;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    waiting: Mutex<Waiting>,
    is_behind: AtomicBool,
}

impl Outbox {
    /// What waits; locked, so that frames are sent in order.
    pub(super) fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a wait for the keeper has timed out, and the keeper has neither read nor sent a frame since. Then the
    /// daemon does not wait for it again.
    pub(super) fn is_behind(&self) -> bool {
        self.is_behind.load(Ordering::SeqCst)
    }

    /// A wait for the keeper has timed out.
    pub(super) fn falls_behind(&self) {
        self.is_behind.store(true, Ordering::SeqCst);
    }

    /// The keeper reads, or has sent something.
    pub(super) fn keeps_up(&self) {
        self.is_behind.store(false, Ordering::SeqCst);
    }

    /// Queues a frame; `false` if that is not possible.
    pub(super) fn put(waiting: &mut Waiting, frame: &Frame, fd: Option<BorrowedFd<'_>>) -> bool {
        let copy = fd.map(|fd| fd.try_clone_to_owned()).transpose();
        match copy {
            Ok(fd) if waiting.len() < WAITING_MAX => {
                waiting.push_back((*frame, fd));
                true
            }
            Ok(_) | Err(_) => false,
        }
    }
}
