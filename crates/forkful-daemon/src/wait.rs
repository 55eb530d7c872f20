//! Waiting for a process without blocking the loop.

use std::io;
use std::os::fd::OwnedFd;

use forkful_os::process::{Child, Exit};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Waits until a process has ended; it stays a zombie, so that its number is its own.
#[expect(deprecated, reason = "its successor is unsafe for types that may close early; an OwnedFd cannot")]
pub(crate) async fn ended(child: &Child) -> io::Result<Exit> {
    let fd: OwnedFd = child.pidfd.try_clone()?;
    let watched = AsyncFd::with_interest(fd, Interest::READABLE)?;
    loop {
        let mut guard = watched.readable().await?;
        if let Some(exit) = child.try_wait(false)? {
            return Ok(exit);
        }
        guard.clear_ready();
    }
}
