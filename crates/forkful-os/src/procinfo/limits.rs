//! The limit of open files: high for the daemon, the original one for the processes it starts.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit before it was raised, which children get. Set at most once.
static ORIGINAL: OnceLock<Rlimit> = OnceLock::new();

/// The current limit of open files: the soft limit, and the hard limit up to which the process may raise it.
pub fn open_files_limit() -> Rlimit {
    getrlimit(Resource::Nofile)
}

/// Raises this process's limit as far as possible and returns the new one. Processes started by
/// [`crate::process::spawn`] get the original soft limit.
pub fn raise_open_files_limit() -> io::Result<Rlimit> {
    let before = open_files_limit();
    setrlimit(Resource::Nofile, Rlimit { current: before.maximum, maximum: before.maximum })?;
    ORIGINAL.get_or_init(|| before);
    Ok(open_files_limit())
}

/// Restores it for another program that replaces this process and may raise it again.
#[cfg(target_os = "linux")]
pub(crate) fn restore_open_files_limit() -> io::Result<()> {
    ORIGINAL.get().map_or(Ok(()), |original| Ok(setrlimit(Resource::Nofile, *original)?))
}

/// The limit for children; `None` if ours was never raised.
pub(crate) fn original_open_files_limit() -> Option<libc::rlimit> {
    let original = ORIGINAL.get()?;
    let raw = |bound: Option<u64>| bound.unwrap_or(libc::RLIM_INFINITY);
    Some(libc::rlimit { rlim_cur: raw(original.current), rlim_max: raw(original.maximum) })
}

/// For tests, which share a process, and change its limit.
#[cfg(test)]
pub(crate) static CHANGING: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raising_reaches_the_hard_limit_and_remembers_the_first_soft_one() {
        let _alone = CHANGING.lock();
        let before = open_files_limit();
        let raised = raise_open_files_limit().unwrap();
        assert_eq!(raised.current, before.maximum);
        raise_open_files_limit().unwrap();
        let original = original_open_files_limit().unwrap();
        assert!(before.current.is_none_or(|soft| original.rlim_cur <= soft));
        restore_open_files_limit().unwrap();
        assert_eq!(open_files_limit().current.unwrap_or(libc::RLIM_INFINITY), original.rlim_cur);
        raise_open_files_limit().unwrap();
    }
}
