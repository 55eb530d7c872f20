//! Systems on which there is no keeper: its process needs pidfds, `CLONE_PARENT` and sockets that keep messages apart.

use std::io;

use crate::plan::KeeperPlan;

/// Always an error: commands start daemons without a keeper here.
pub fn run(_plan: KeeperPlan) -> io::Result<i32> {
    Err(io::ErrorKind::Unsupported.into())
}
