//! How a unix socket is bound.

use crate::behalf::Rights;

/// Options for binding a unix socket.
#[derive(Debug, Clone, Default)]
pub struct UnixOptions {
    /// Maximum queued connections.
    pub backlog: u32,
    /// Everybody may read, in addition to what the umask allows.
    pub readable_all: bool,
    /// Everybody may write, so that everybody can connect.
    pub writable_all: bool,
    /// The user who creates and owns the file; `None`: this process's user.
    pub owner: Option<Owner>,
}

/// Another user for whom a file is created.
pub type Owner = Rights;
