//! Becoming another program.

use std::ffi::{CString, c_char};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};

use crate::procinfo;

unsafe extern "C" {
    /// The environment of this process, see environ(7).
    static environ: *const *const c_char;
}

/// Replaces this process by another program, with the same pid, children, signal mask and environment; these
/// descriptors stay open. Returns only on failure, and then nothing has changed.
pub fn become_program(program: &OwnedFd, arguments: &[String], keep: &[BorrowedFd<'_>]) -> io::Error {
    let texts: Result<Vec<CString>, _> = arguments.iter().map(|text| CString::new(text.as_str())).collect();
    let Ok(texts) = texts else { return Errno::INVAL.into() };
    let mut pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
    pointers.push(ptr::null());
    let prepared = keep.iter().try_for_each(|fd| set_close_on_exec(*fd, false));
    // The limit only affects new files. The program finds the original limit, and its children get it too.
    let failed = prepared.and_then(|()| procinfo::restore_open_files_limit()).err().unwrap_or_else(|| {
        // SAFETY: texts and lists end as the call expects, and outlive it; nobody changes the environment meanwhile, because
        // no other thread of a keeper exists. `environ` is the C library's own.
        unsafe { libc::fexecve(program.as_fd().as_raw_fd(), pointers.as_ptr(), environ) };
        io::Error::last_os_error()
    });
    let _limit = procinfo::raise_open_files_limit();
    for fd in keep {
        // It could be set before, so it can be set again.
        let _set = set_close_on_exec(*fd, true);
    }
    failed
}

fn set_close_on_exec(fd: BorrowedFd<'_>, closes: bool) -> io::Result<()> {
    let mut flags = fcntl_getfd(fd)?;
    flags.set(FdFlags::CLOEXEC, closes);
    Ok(fcntl_setfd(fd, flags)?)
}
