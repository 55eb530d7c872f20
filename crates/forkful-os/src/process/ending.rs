//! The end of a child as a descriptor that becomes readable, for systems without pidfd: a thread waits for the
//! child and closes the other end of a pipe.

use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

/// The thread calls `waitid` only.
const STACK_BYTES: usize = 64 * 1024;

/// A descriptor that is readable once this child has ended, which stays a zombie. The caller must not reap the child
/// before the call.
pub(super) fn watch(pid: Pid) -> io::Result<OwnedFd> {
    let (ended, living) = io::pipe()?;
    let wait = move || {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        // An error means that the child has been reaped, so it has ended, too.
        let _ended = rustix::io::retry_on_intr(|| waitid(WaitId::Pid(pid), options));
        drop(living);
    };
    thread::Builder::new().name("forkful-wait".to_owned()).stack_size(STACK_BYTES).spawn(wait)?;
    Ok(ended.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::wait_readable;
    use crate::testing::start_shell;

    #[test]
    fn it_becomes_readable_at_the_end_of_the_child_which_stays_a_zombie() {
        let (child, _output) = start_shell("exec sleep 100", &[("PATH", "/usr/bin:/bin")]);
        let pid = Pid::from_raw(i32::try_from(child.0.pid).unwrap()).unwrap();
        let ended = watch(pid).unwrap();
        assert!(!crate::process::is_readable(&ended).unwrap());
        child.0.signal(9).unwrap();
        wait_readable(&ended).unwrap();
        assert!(child.0.try_wait(false).unwrap().is_some());
    }
}
