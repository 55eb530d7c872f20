//! Becoming another program, which only a keeper does, and there is none.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

/// Always an error.
pub fn become_program(_program: &OwnedFd, _arguments: &[String], _keep: &[BorrowedFd<'_>]) -> io::Error {
    crate::portable::unsupported()
}
