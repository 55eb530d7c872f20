//! Whether the mechanisms of Linux are used, or only what every Unix has.
//!
//! Other systems have the portable mechanisms alone. On Linux, `FORKFUL_PORTABLE=1` chooses them, so that tests run
//! them there. Portable: processes are started by `fork`, and a thread waits for the end of each; signals go to
//! process ids. There is no steering by BPF, no netlink, no control group, no subreaper, and nothing is taken from
//! another process's descriptors.

use std::io;
use std::sync::OnceLock;

/// The variable that chooses the portable mechanisms on Linux with the value 1.
pub const VARIABLE: &str = "FORKFUL_PORTABLE";

/// Whether this process uses the portable mechanisms alone. It does not change while the process lives.
pub fn is_on() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    cfg!(not(target_os = "linux"))
        || *ON.get_or_init(|| std::env::var_os(VARIABLE).is_some_and(|wish| wish == "1"))
}

/// Whether the times of single threads and the lengths of accept queues are known: Linux has them in `/proc` and `TCP_INFO`,
/// also with the portable mechanisms.
pub const KNOWS_THREADS_AND_QUEUES: bool = cfg!(target_os = "linux");

/// The error of a mechanism that only Linux has.
pub(crate) fn unsupported() -> io::Error {
    rustix::io::Errno::NOTSUP.into()
}
