//! Lines to our own stdout and stderr, for the foreground mode.

use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};

use forkful_api::types::LogStream;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// What stands before each echoed line; may be empty.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EchoPrefix(pub String);

/// How long a stream of ours that takes no more is waited for before lines are dropped.
const ECHO_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The two streams.
#[derive(Debug)]
pub(super) struct Echo {
    out: Target,
    err: Target,
}

#[derive(Debug)]
enum Target {
    /// Not used so far; ours will be duplicated.
    Ours,
    Open(OwnedFd),
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
        Self { out: Target::Open(out), err: Target::Open(err) }
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
            *target = duplicate.map_or(Target::Closed, Target::Open);
        }
        let Target::Open(fd) = target else { return Ok(()) };
        match write_all(fd, bytes) {
            Ok(()) => Ok(()),
            Err(fault) if matches!(fault.kind(), io::ErrorKind::StorageFull | io::ErrorKind::TimedOut) => {
                Err(fault)
            }
            Err(_) => {
                *target = Target::Closed;
                Ok(())
            }
        }
    }
}

fn write_all(fd: &OwnedFd, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match rustix::io::write(fd, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(rustix::io::Errno::INTR) => {}
            // The terminal or pipe is shared with a program that made it non-blocking.
            Err(rustix::io::Errno::AGAIN) => {
                if poll(&mut [PollFd::new(fd, PollFlags::OUT)], Some(&ECHO_WAIT))? == 0 {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            Err(fault) => return Err(fault.into()),
        }
    }
    Ok(())
}

/// Says something to this process's stderr; that it cannot be said is no error.
pub(super) fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "{message}");
}
