//! Scheduling of this process stays as it is.

use std::io;
use std::time::Duration;

/// Children have no other attributes than this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attributes;

/// What the kernel granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Granted {
    pub short_slice: bool,
    pub nice: bool,
    /// The same for the session.
    pub session: bool,
}

/// Grants nothing.
pub fn request_short_slice(_slice: Duration) -> io::Result<Granted> {
    Ok(Granted { short_slice: false, nice: false, session: false })
}

pub(crate) fn original_attributes() -> Option<Attributes> {
    None
}
