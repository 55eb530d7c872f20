//! Lines to our own stdout and stderr, for the foreground mode.

use std::io::{self, IsTerminal as _};
use std::os::fd::{AsFd, OwnedFd};

use forkful_api::types::LogStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// What stands before each echoed line; may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EchoPrefix(pub String);

/// How long a stream of ours that takes no more is waited for before lines are dropped.
const ECHO_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

#[derive(Debug)]
pub(super) struct Echo {
    out: Target,
    err: Target,
}

#[derive(Debug)]
enum Target {
    /// Not used so far; ours will be duplicated.
    Ours,
    Open {
        fd: OwnedFd,
        /// The last write ended within a line.
        torn: bool,
    },
    /// Its reader has gone. Nothing is echoed any more.
    Closed,
}

impl Echo {
    /// Echo to this process's stdout and stderr.
    pub(super) fn to_ours() -> Self {
        Self { out: Target::Ours, err: Target::Ours }
    }

    /// Echo to other descriptors.
    #[cfg(test)]
    pub(super) fn to(out: OwnedFd, err: OwnedFd) -> Self {
        Self { out: Target::open(out), err: Target::open(err) }
    }

    /// Writes `bytes`, whole lines. An error means that some of them were not written; when the stream was
    /// closed that is no error, for nobody wants them.
    pub(super) fn write(&mut self, stream: LogStream, bytes: &[u8]) -> io::Result<()> {
        let target = match stream {
            LogStream::Out => &mut self.out,
            LogStream::Err => &mut self.err,
        };
        if matches!(target, Target::Ours) {
            let duplicate = match stream {
                LogStream::Out => io::stdout().as_fd().try_clone_to_owned(),
                LogStream::Err => io::stderr().as_fd().try_clone_to_owned(),
            };
            *target = duplicate.map_or(Target::Closed, Target::open);
        }
        let Target::Open { fd, torn } = target else { return Ok(()) };
        let written = if *torn { write_all(fd, b"\n") } else { Ok(()) }.and_then(|()| {
            *torn = false;
            write_all(fd, bytes)
        });
        match written {
            Err(Fault { kept, fault }) if fault == Errno::AGAIN || fault == Errno::NOSPC => {
                *torn = kept > 0 && bytes[kept - 1] != b'\n' || *torn;
                Err(fault.into())
            }
            Err(_) => {
                *target = Target::Closed;
                Ok(())
            }
            Ok(()) => Ok(()),
        }
    }
}

/// Whether people read what is echoed to this stream of ours.
pub fn echoes_to_terminal(stream: LogStream) -> bool {
    match stream {
        LogStream::Out => io::stdout().is_terminal(),
        LogStream::Err => io::stderr().is_terminal(),
    }
}

impl Target {
    fn open(fd: OwnedFd) -> Self {
        Self::Open { fd, torn: false }
    }
}

/// Not everything was written.
struct Fault {
    kept: usize,
    fault: Errno,
}

fn write_all(fd: &OwnedFd, bytes: &[u8]) -> Result<(), Fault> {
    let mut kept = 0;
    while kept < bytes.len() {
        match rustix::io::write(fd, &bytes[kept..]) {
            Ok(written) => kept += written,
            Err(Errno::INTR) => {}
            // The terminal or pipe is shared with a program that made it non-blocking.
            Err(Errno::AGAIN) => match poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&ECHO_WAIT)) {
                Ok(0) => return Err(Fault { kept, fault: Errno::AGAIN }),
                Ok(_) | Err(Errno::INTR) => {}
                Err(fault) => return Err(Fault { kept, fault }),
            },
            Err(fault) => return Err(Fault { kept, fault }),
        }
    }
    Ok(())
}
