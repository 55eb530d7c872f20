//! Systems on which there is no keeper: its process needs pidfds, `CLONE_PARENT` and sockets that keep messages apart.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// What a keeper would start.
#[derive(Debug)]
pub struct KeeperPlan {
    pub program: PathBuf,
    pub argv: Vec<String>,
    pub successor: Vec<String>,
    pub passage: Option<OwnedFd>,
    pub env: Vec<(String, String)>,
    pub ready: Option<OwnedFd>,
    pub manager: Option<String>,
    pub stored: Vec<OwnedFd>,
    pub patience: Option<Duration>,
}

/// Always an error: commands start daemons without a keeper here.
pub fn run(_plan: KeeperPlan) -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}
