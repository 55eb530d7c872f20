//! Whether the daemon still has its keeper, and if not, why.

use std::fmt;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Why a daemon goes on without its keeper.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// The keeper has ended.
    Ended,
    /// The keeper has not read for a long time, so it is stopped, or hangs.
    Silent,
    /// The keeper has sent what is no frame.
    Nonsense,
}

impl Loss {
    /// What an error of the keeper's socket means.
    pub(super) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::InvalidData => Self::Nonsense,
            _ => Self::Ended,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended => write!(f, "the keeper has ended"),
            Self::Silent => write!(f, "the keeper has not read for too long"),
            Self::Nonsense => write!(f, "the keeper speaks another protocol"),
        }
    }
}

/// The first loss counts, and is taken once.
#[derive(Debug, Default)]
pub(super) struct LossBook {
    loss: OnceLock<Loss>,
    is_taken: AtomicBool,
}

impl LossBook {
    pub(super) fn found(&self) -> Option<Loss> {
        self.loss.get().copied()
    }

    pub(super) fn is_lost(&self) -> bool {
        self.found().is_some()
    }

    pub(super) fn note(&self, loss: Loss) {
        let _first = self.loss.set(loss);
    }

    /// The daemon has left on purpose: nothing is lost.
    pub(super) fn leave(&self) {
        self.is_taken.store(true, Ordering::SeqCst);
        self.note(Loss::Ended);
    }

    pub(super) fn is_untold(&self) -> bool {
        self.is_lost() && !self.is_taken.load(Ordering::SeqCst)
    }

    pub(super) fn take(&self) -> Option<Loss> {
        let loss = self.loss.get()?;
        (!self.is_taken.swap(true, Ordering::SeqCst)).then_some(*loss)
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd as _;

    use super::super::{End, Frame, Handover, Update, seat, send_frame};
    use super::*;

    #[test]
    fn a_keeper_that_has_ended_is_told_of_once() {
        let (keeper, daemon) = seat().unwrap();
        let hello = Frame::Hello { keeper: 7, died: 0, last: End::Unknown, update: Update::None };
        for frame in [hello, Frame::Done] {
            send_frame(keeper.as_fd(), &frame, None).unwrap();
        }
        let keeping = Handover::receive(daemon).unwrap().keeping;
        assert_eq!(keeping.take_news(), Ok(false));
        drop(keeper);
        assert_eq!(keeping.ask(8), None);
        assert!(keeping.has_news() && !keeping.is_on());
        assert_eq!(keeping.take_news(), Err(Loss::Ended));
        assert_eq!(keeping.take_news(), Ok(false));
        assert!(!keeping.has_news());
    }

    #[test]
    fn a_daemon_that_leaves_has_lost_nothing() {
        let book = LossBook::default();
        book.leave();
        book.note(Loss::Silent);
        assert!(book.is_lost() && !book.is_untold());
        assert_eq!(book.take(), None);
    }
}
