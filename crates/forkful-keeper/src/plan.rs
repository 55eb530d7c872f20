//! What a keeper is started with.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// What the keeper starts.
#[derive(Debug)]
pub struct KeeperPlan {
    /// The daemon's program.
    pub program: PathBuf,
    /// Its name and its arguments; its connection to the keeper is descriptor 3.
    pub argv: Vec<String>,
    /// Name and arguments with which another program becomes this keeper; the number of the passage's
    /// descriptor follows.
    pub successor: Vec<String>,
    /// What the previous keeper has left, if this process was one.
    pub passage: Option<OwnedFd>,
    pub env: Vec<(String, String)>,
    /// The process that waits until the daemon serves.
    pub ready: Option<OwnedFd>,
    /// The socket of the service manager, see `sd_notify(3)`.
    pub manager: Option<String>,
    /// Listening sockets that the manager has kept over a restart, see `sd_listen_fds(3)`.
    pub stored: Vec<OwnedFd>,
    /// A daemon whose event loop is blocked for this long is killed; `None`: never.
    pub patience: Option<Duration>,
}
