//! Classic BPF programs: the instructions that we use, and attaching programs to sockets.
//!
//! Instruction set: the kernel's `Documentation/networking/filter.rst`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

pub(crate) use libc::sock_filter;

/// The kernel's limit for the length of a program (`BPF_MAXINSNS`).
pub(crate) const PROGRAM_MAX: usize = 4096;

/// Attaches a program by `option` (`SO_ATTACH_FILTER` or `SO_ATTACH_REUSEPORT_CBPF`), replacing the previous
/// one.
pub(crate) fn attach(socket: impl AsFd, option: libc::c_int, program: &mut [sock_filter]) -> io::Result<()> {
    if crate::portable::is_on() {
        return Err(crate::portable::unsupported());
    }
    if program.len() > PROGRAM_MAX {
        return Err(rustix::io::Errno::INVAL.into());
    }
    let description = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: the description points to `len` instructions that live until the call returns; the kernel
    // copies them.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            option,
            (&raw const description).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Any instruction.
pub(crate) fn instruction(code: u32, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt, jf, k }
}

/// Ends the program with a constant.
pub(crate) fn ret(value: u32) -> sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, 0, value)
}

/// A = the big-endian word at an offset.
pub(crate) fn load_word(offset: i32) -> sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, offset as u32)
}

/// A = A `operation` k.
pub(crate) fn alu(operation: u32, k: u32) -> sock_filter {
    instruction(libc::BPF_ALU | operation, 0, 0, k)
}

/// Skips `yes` instructions if A = k, otherwise `no`.
pub(crate) fn jump_if_equal(k: u32, yes: u8, no: u8) -> sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, k)
}
