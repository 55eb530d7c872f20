//! Data that a start prepares in the parent: the new process's strings in the kernel's layout, and its
//! descriptors.

use std::ffi::{CStr, CString, c_char};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

use super::FIRST_FOREIGN_FD;
use crate::process::SpawnPlan;

/// The new process's strings in the kernel's layout. The pointers stay valid when this is moved, because they
/// point to the heap.
pub(super) struct Image {
    pub(super) program: CString,
    pub(super) cwd: CString,
    /// All arguments, then all variables.
    texts: Vec<CString>,
    pub(super) argv_pointers: Vec<*const c_char>,
    pub(super) shell_argv_pointers: Vec<*const c_char>,
    pub(super) env_pointers: Vec<*const c_char>,
}

impl Image {
    pub(super) fn prepare(plan: &SpawnPlan) -> io::Result<Self> {
        if plan.argv.is_empty() {
            return Err(rustix::io::Errno::INVAL.into());
        }
        let program = c_path(&plan.program)?;
        let cwd = c_path(&plan.cwd)?;
        let mut texts = Vec::with_capacity(plan.argv.len() + plan.env.len() + 1);
        for argument in &plan.argv {
            texts.push(c_text(argument.clone().into_bytes())?);
        }
        let mut argv_pointers: Vec<_> = texts.iter().map(|t| t.as_ptr()).collect();
        argv_pointers.push(ptr::null());
        let mut env_pointers = Vec::with_capacity(plan.env.len() + 1);
        for (name, value) in &plan.env {
            if name.is_empty() || name.contains('=') {
                return Err(rustix::io::Errno::INVAL.into());
            }
            let text = c_text(format!("{name}={value}").into_bytes())?;
            env_pointers.push(text.as_ptr());
            texts.push(text);
        }
        env_pointers.push(ptr::null());
        // As a shell does with an executable text file without an interpreter line.
        let mut shell_argv_pointers = vec![SHELL.as_ptr(), program.as_ptr()];
        shell_argv_pointers.extend_from_slice(&argv_pointers[1..]);
        Ok(Self { program, cwd, texts, argv_pointers, shell_argv_pointers, env_pointers })
    }

    /// Why the kernel refuses these strings as too long. The values of variables may be secret.
    pub(super) fn excess(&self) -> String {
        let longest = rustix::param::page_size() * STRING_PAGES - 1;
        let arguments = self.argv_pointers.len() - 1;
        let bytes = |text: &CString| text.as_bytes().len();
        let Some(at) = self.texts.iter().position(|text| bytes(text) > longest) else {
            let all: usize = self.texts.iter().map(bytes).sum();
            return format!("its arguments and environment have {all} bytes, more than the system allows");
        };
        let text = &self.texts[at];
        let what = if at < arguments {
            format!("argument {at}")
        } else {
            let name = text.as_bytes().split(|byte| *byte == b'=').next().unwrap_or_default();
            format!("the variable {}", String::from_utf8_lossy(name))
        };
        format!("{what} has {} bytes, and the system allows {longest}", bytes(text))
    }
}

/// The longest argument, or variable with its name, in pages (`MAX_ARG_STRLEN` of Linux), with its NUL.
const STRING_PAGES: usize = 32;

pub(super) const SHELL: &CStr = c"/bin/sh";

pub(super) fn c_path(path: &Path) -> io::Result<CString> {
    c_text(path.as_os_str().as_bytes().to_vec())
}

fn c_text(bytes: Vec<u8>) -> io::Result<CString> {
    CString::new(bytes).map_err(|_| rustix::io::Errno::INVAL.into())
}

/// The child's descriptors, with numbers that differ from its final descriptors.
pub(super) struct Files {
    stdin: OwnedFd,
    stdout: OwnedFd,
    stderr: OwnedFd,
    channel: Option<OwnedFd>,
    pub(super) groups: Vec<OwnedFd>,
}

impl Files {
    pub(super) fn prepare(plan: SpawnPlan) -> io::Result<Self> {
        let stdin = match plan.stdin {
            Some(stdin) => stdin,
            None => rustix::fs::openat(CWD, c"/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?,
        };
        Ok(Self {
            stdin: out_of_the_way(stdin)?,
            stdout: out_of_the_way(plan.stdout)?,
            stderr: out_of_the_way(plan.stderr)?,
            channel: plan.channel.map(out_of_the_way).transpose()?,
            groups: plan
                .groups
                .map(|groups| groups.files)
                .unwrap_or_default()
                .into_iter()
                .map(out_of_the_way)
                .collect::<io::Result<_>>()?,
        })
    }

    pub(super) fn raw(&self) -> [RawFd; 4] {
        let channel = self.channel.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        [self.stdin.as_raw_fd(), self.stdout.as_raw_fd(), self.stderr.as_raw_fd(), channel]
    }
}

pub(super) fn out_of_the_way(fd: OwnedFd) -> io::Result<OwnedFd> {
    if fd.as_raw_fd() >= FIRST_FOREIGN_FD {
        return Ok(fd);
    }
    Ok(fcntl_dupfd_cloexec(&fd, FIRST_FOREIGN_FD)?)
}
