//! Pipes: looking at bytes that stay where they are, and dropping bytes that are known already.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::fs::{CWD, FileType, Mode, OFlags, major, minor};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice, tee};

/// Of the pipe that bytes are looked at through.
const SIDE_BYTES: usize = 256 << 10;
/// Of the stack, for bytes that are dropped where there is no `/dev/null`.
const WASTE_BYTES: usize = 16 << 10;
/// The number of the device `/dev/null`, see `Documentation/admin-guide/devices.txt` of Linux.
const NULL_DEVICE: (u32, u32) = (1, 3);

/// Makes a pipe larger, if this user may; otherwise it stays as it is.
pub fn enlarge(pipe: &OwnedFd, bytes: usize) {
    let _refused = fcntl_setpipe_size(pipe, bytes);
}

/// A pipe at the side, which gets the pages of another pipe: what is looked at is copied once. One serves any number of
/// pipes, one after the other.
#[derive(Debug)]
pub struct View {
    read: OwnedFd,
    write: OwnedFd,
    /// Takes pages without copying them.
    null: Option<OwnedFd>,
}

impl View {
    pub fn new() -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // With less, a look sees less.
        let _ = fcntl_setpipe_size(&write, SIDE_BYTES);
        Ok(Self { read, write, null: open_null() })
    }

    /// Passes bytes at the head of a pipe, at most so many, to an empty buffer, and leaves them in the pipe. 0 is the end;
    /// `EAGAIN`: it is empty. `buffer_of` is told how many bytes there are, and gives a buffer for them.
    pub fn look(
        &self,
        pipe: &OwnedFd,
        bytes_max: usize,
        buffer_of: impl FnOnce(usize) -> Vec<u8>,
    ) -> Result<Vec<u8>, Errno> {
        let seen = tee(pipe, &self.write, bytes_max, SpliceFlags::NONBLOCK)?;
        let mut buffer = buffer_of(seen);
        buffer.clear();
        buffer.reserve_exact(seen);
        while buffer.len() < seen {
            // There is as much in it, and no other process has it.
            rustix::io::retry_on_intr(|| rustix::io::read(&self.read, spare_capacity(&mut buffer)))?;
        }
        Ok(buffer)
    }

    /// Takes so many bytes from a pipe that has them.
    pub fn discard(&self, pipe: &OwnedFd, mut bytes: usize) {
        while bytes > 0
            && let Some(null) = &self.null
            && let Ok(dropped @ 1..) = splice(pipe, None, null, None, bytes, SpliceFlags::NONBLOCK)
        {
            bytes = bytes.saturating_sub(dropped);
        }
        let mut waste = [const { MaybeUninit::<u8>::uninit() }; WASTE_BYTES];
        while bytes > 0 {
            let most = waste.len().min(bytes);
            match rustix::io::retry_on_intr(|| {
                rustix::io::read(pipe.as_fd(), &mut waste[..most]).map(|(read, _)| read.len())
            }) {
                Ok(0) | Err(_) => return,
                Ok(read) => bytes -= read,
            }
        }
    }
}

/// The device, and not something else that has its name in a container.
fn open_null() -> Option<OwnedFd> {
    let null = rustix::fs::openat(CWD, c"/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let stat = rustix::fs::fstat(&null).ok()?;
    let is_device = FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
        && (major(stat.st_rdev), minor(stat.st_rdev)) == NULL_DEVICE;
    is_device.then_some(null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(view: &View, pipe: &OwnedFd) -> Result<Vec<u8>, Errno> {
        view.look(pipe, 100, |_| Vec::new())
    }

    #[test]
    fn a_look_leaves_the_bytes_where_they_are() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
        let view = View::new().unwrap();
        assert_eq!(look(&view, &read), Err(Errno::AGAIN));
        rustix::io::write(&write, b"one\ntwo\nthr").unwrap();
        for _ in 0..2 {
            assert_eq!(look(&view, &read).unwrap(), b"one\ntwo\nthr");
        }
        assert_eq!(view.look(&read, 5, |bytes| vec![b'x'; bytes]).unwrap(), b"one\nt");
        view.discard(&read, 8);
        drop(write);
        assert_eq!(look(&view, &read).unwrap(), b"thr");
        view.discard(&read, 3);
        assert_eq!(look(&view, &read).unwrap(), b"", "the end");
    }

    #[test]
    fn bytes_are_dropped_with_and_without_the_device() {
        let with = View::new().unwrap();
        assert!(with.null.is_some(), "every Linux for tests has one");
        for view in [with, View { null: None, ..View::new().unwrap() }] {
            let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
            rustix::io::write(&write, &vec![b'x'; 40_000]).unwrap();
            rustix::io::write(&write, b"rest").unwrap();
            view.discard(&read, 40_000);
            assert_eq!(look(&view, &read).unwrap(), b"rest");
            // More than there is, as of a pipe whose writer was killed.
            view.discard(&read, 5);
            assert_eq!(look(&view, &read), Err(Errno::AGAIN));
        }
    }
}
