//! What tests of several modules share.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Held by a test that waits for a child of its own, and by one that turns the engine's loop: the loop reaps every child
/// of this process that is not its own.
pub(crate) fn alone_with_children() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
