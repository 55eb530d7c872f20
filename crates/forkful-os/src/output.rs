//! Writes to our own stdout and stderr without waiting for the reader.
//!
//! Other processes (a shell, a pager, `head`) share the file description, so we must not change its flags. A
//! pipe or terminal is therefore opened a second time through `/proc/self/fd`: the new file description is
//! only ours and is non-blocking. A socket is written with `MSG_DONTWAIT`. Everything else (a regular file,
//! `/dev/null`) is written directly.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::net::SendFlags;

/// A pipe that polls as writable takes this many bytes without blocking (`PIPE_BUF`).
const PIPE_BYTES: usize = 4096;

/// One of this process's output streams.
#[derive(Debug)]
pub struct Output {
    fd: OwnedFd,
    way: Way,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// A non-blocking file description of our own, or a file whose writes never wait for a reader.
    Write,
    Send,
    /// A pipe or terminal that could not be opened a second time: polled before each small write.
    Poll,
}

impl Output {
    /// For a stream that stays open as long as this exists.
    pub fn of(stream: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = FileType::from_raw_mode(rustix::fs::fstat(stream)?.st_mode);
        let waits =
            kind == FileType::Fifo || kind == FileType::CharacterDevice && rustix::termios::isatty(stream);
        if waits && let Ok(fd) = open_again(stream) {
            return Ok(Self { fd, way: Way::Write });
        }
        let way = match kind {
            FileType::Socket => Way::Send,
            _ if waits => Way::Poll,
            _ => Way::Write,
        };
        Ok(Self { fd: stream.try_clone_to_owned()?, way })
    }

    /// Writes some of `bytes`, at least one; `EAGAIN` if nothing can be written now.
    pub fn write(&self, bytes: &[u8]) -> Result<usize, Errno> {
        match self.way {
            Way::Write => rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, bytes)),
            Way::Send => {
                let flags = SendFlags::DONTWAIT | crate::sys::NO_SIGNAL;
                rustix::io::retry_on_intr(|| rustix::net::send(&self.fd, bytes, flags))
            }
            Way::Poll if !self.wait(Duration::ZERO) => Err(Errno::AGAIN),
            Way::Poll => {
                let some = &bytes[..bytes.len().min(PIPE_BYTES)];
                rustix::io::retry_on_intr(|| rustix::io::write(&self.fd, some))
            }
        }
    }

    /// Waits until writing is possible or would fail with an error other than `EAGAIN`; false after
    /// `timeout`.
    pub fn wait(&self, timeout: Duration) -> bool {
        let timeout =
            Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
        let mut polled = [PollFd::new(&self.fd, PollFlags::OUT)];
        !matches!(poll(&mut polled, Some(&timeout)), Ok(0) | Err(Errno::INTR))
    }
}

fn open_again(stream: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    if cfg!(not(target_os = "linux")) {
        // `/dev/fd` gives the same file description again.
        return Err(crate::portable::unsupported());
    }
    let path = format!("/proc/self/fd/{}", stream.as_fd().as_raw_fd());
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    /// Writes until the stream is full; returns the number of bytes.
    fn fill(output: &Output) -> usize {
        let mut total = 0;
        loop {
            match output.write(&[b'x'; 10_000]) {
                Ok(written) => total += written,
                Err(fault) => {
                    assert_eq!(fault, Errno::AGAIN);
                    return total;
                }
            }
        }
    }

    #[test]
    fn a_stream_that_is_not_read_is_full_and_blocks_nobody() {
        let (reader, writer) = io::pipe().unwrap();
        let (near, far) = std::os::unix::net::UnixStream::pair().unwrap();
        let ends: [(OwnedFd, OwnedFd); 2] = [(reader.into(), writer.into()), (far.into(), near.into())];
        for (reader, writer) in ends {
            for way in [Output::of(writer.as_fd()).unwrap().way, Way::Poll] {
                if way == Way::Poll
                    && FileType::from_raw_mode(rustix::fs::fstat(&writer).unwrap().st_mode)
                        == FileType::Socket
                {
                    continue;
                }
                let output = Output { way, ..Output::of(writer.as_fd()).unwrap() };
                let filled = fill(&output);
                assert!(filled > 0 && !output.wait(Duration::ZERO));
                // The shared file description is still blocking: its flags are unchanged.
                assert!(!rustix::fs::fcntl_getfl(&writer).unwrap().contains(OFlags::NONBLOCK));
                let mut read = vec![0; filled];
                std::fs::File::from(reader.try_clone().unwrap()).read_exact(&mut read).unwrap();
                assert!(output.wait(Duration::from_secs(10)));
                assert_eq!(output.write(b"y"), Ok(1));
                std::fs::File::from(reader.try_clone().unwrap()).read_exact(&mut [0]).unwrap();
            }
            let output = Output::of(writer.as_fd()).unwrap();
            drop(reader);
            // A child of another test also holds the reader, between its fork and exec.
            crate::testing::wait_until("its reader is gone", || output.write(b"y") == Err(Errno::PIPE));
        }
    }

    #[test]
    fn a_file_keeps_its_place() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let file = fs_err::OpenOptions::new().append(true).open(path.path()).unwrap();
        let output = Output::of(file.as_fd()).unwrap();
        assert_eq!((output.write(b"one\n"), output.write(b"two\n")), (Ok(4), Ok(4)));
        assert_eq!(fs_err::read_to_string(path.path()).unwrap(), "one\ntwo\n");
    }
}
