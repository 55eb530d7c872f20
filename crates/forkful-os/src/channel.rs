//! A stream between two processes that carries bytes and descriptors: one `sendmsg`, one `recvmsg`.
//!
//! No framing and no queue: the protocol decides what to send after a partial write, and which message a
//! descriptor belongs to.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
#[cfg(target_os = "linux")]
use std::os::fd::{AsFd, AsRawFd as _};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

use crate::sys;

/// Maximum descriptors that one [`receive`] accepts: the kernel's limit for a message. Node sends one.
pub const HANDLES_MAX: usize = 253;

/// Maximum reads of [`close_with_all`]; the kernel bounds the content of a socket, too.
const LAST_READS_MAX: usize = 4096;

/// Bytes that [`take`] reads at a time.
const TAKEN_BYTES: usize = 8 * 1024;

/// A connected pair, ours first. Both are close-on-exec; ours is non-blocking, the other end's mode is set by
/// its user.
pub fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = sys::stream_pair()?;
    rustix::io::ioctl_fionbio(&ours, true)?;
    Ok((ours, theirs))
}

/// A connected pair, ours first, for what another process writes to us. Both close on exec, and neither blocks; where the other process makes its
/// end block, a write to a full socket fails after `patience`.
pub fn pair_to_read(patience: Duration) -> io::Result<(OwnedFd, OwnedFd)> {
    let (ours, theirs) = pair()?;
    rustix::io::ioctl_fionbio(&theirs, true)?;
    rustix::net::sockopt::set_socket_timeout(&theirs, rustix::net::sockopt::Timeout::Send, Some(patience))?;
    Ok((ours, theirs))
}

/// Sends as many of `bytes` as fit now, with `handle` attached to the first.
///
/// Returns the number of bytes sent; if it is at least one, the handle was sent too. `EAGAIN` if nothing
/// fits, `ETOOMANYREFS` if this user has too many descriptors in flight, `EPIPE` if the other side is gone
/// (no signal is raised). A handle without bytes is refused with `EINVAL`.
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], handle: Option<BorrowedFd<'_>>) -> io::Result<usize> {
    if bytes.is_empty() && handle.is_some() {
        return Err(Errno::INVAL.into());
    }
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let handles = handle.map(|h| [h]);
    if let Some(handles) = &handles {
        control.push(SendAncillaryMessage::ScmRights(handles));
    }
    let flags = sys::NO_SIGNAL | SendFlags::DONTWAIT;
    Ok(rustix::io::retry_on_intr(|| sendmsg(fd, &[IoSlice::new(bytes)], &mut control, flags))?)
}

/// Reads available data into `buf` and appends received descriptors to `handles`.
///
/// Returns 0 at the end of the stream, also if the other side died with our bytes unread. `EAGAIN` if nothing
/// is available. Descriptors are close-on-exec. One call may return bytes from before a message with
/// descriptors together with it, but never bytes after it: the descriptors belong to the last message that
/// was read, and more bytes of that message may follow in the next call. If this process has no free
/// descriptor (`RLIMIT_NOFILE`), the kernel drops it and the message arrives without it.
pub fn receive(fd: BorrowedFd<'_>, buf: &mut [u8], handles: &mut Vec<OwnedFd>) -> io::Result<usize> {
    receive_with(fd, buf, handles, RecvFlags::empty())
}

fn receive_with(
    fd: BorrowedFd<'_>,
    buf: &mut [u8],
    handles: &mut Vec<OwnedFd>,
    flags: RecvFlags,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(HANDLES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = flags | sys::CLOSE_ON_EXEC | RecvFlags::DONTWAIT;
    let received =
        rustix::io::retry_on_intr(|| recvmsg(fd, &mut [IoSliceMut::new(buf)], &mut control, flags));
    let message = match received {
        Ok(message) => message,
        Err(Errno::CONNRESET) => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    for part in control.drain() {
        if let RecvAncillaryMessage::ScmRights(received) = part {
            handles.extend(received.inspect(sys::received));
        }
    }
    Ok(message.bytes)
}

/// Makes [`look`] start at the first byte in the socket. The position is a property of the socket, not of the
/// process: a process that receives the socket from another process finds the position where that process
/// left it.
#[cfg(not(target_os = "linux"))]
pub fn look_from_the_beginning(_fd: BorrowedFd<'_>) -> io::Result<()> {
    Err(crate::portable::unsupported())
}

/// Makes [`look`] start at the first byte in the socket, see above.
#[cfg(target_os = "linux")]
pub fn look_from_the_beginning(fd: BorrowedFd<'_>) -> io::Result<()> {
    let offset: libc::c_int = 0;
    // SAFETY: the option's value is an int of ours.
    let outcome = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEEK_OFF,
            (&raw const offset).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Like [`receive`], but leaves the bytes in the socket; the next look continues after them. Call
/// [`look_from_the_beginning`] first. The descriptors are copies. If the buffer ends where a message ends,
/// the descriptors of the next message may already be included.
pub fn look(fd: BorrowedFd<'_>, buf: &mut [u8], handles: &mut Vec<OwnedFd>) -> io::Result<usize> {
    receive_with(fd, buf, handles, RecvFlags::PEEK)
}

/// To be called before the last descriptor of a socket is closed. The other process can send no more, and descriptors that
/// nobody has read are [closed aside](crate::closing). Otherwise the kernel would close them in this thread, with the socket.
pub fn close_with_all(fd: BorrowedFd<'_>) {
    // The other end may be gone.
    let _gone = rustix::net::shutdown(fd, rustix::net::Shutdown::Read);
    let (mut buffer, mut handles) = ([0; TAKEN_BYTES], Vec::new());
    for _ in 0..LAST_READS_MAX {
        match receive(fd, &mut buffer, &mut handles) {
            Ok(0) | Err(_) => break,
            Ok(_) => handles.drain(..).for_each(crate::closing::close_aside),
        }
    }
    handles.into_iter().for_each(crate::closing::close_aside);
}

/// Removes this many bytes that were looked at. The kernel closes the descriptors that came with them in this thread: keep the
/// copies from [`look`] until this call has returned, so that none is the last.
pub fn take(fd: BorrowedFd<'_>, bytes: usize) -> io::Result<()> {
    let mut buffer = [0; TAKEN_BYTES];
    let mut left = bytes;
    while left > 0 {
        let room = left.min(TAKEN_BYTES);
        match rustix::io::retry_on_intr(|| rustix::net::recv(fd, &mut buffer[..room], RecvFlags::DONTWAIT)) {
            Ok((_, 0)) => break,
            Ok((_, taken)) => left -= taken,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// The other process's end of a [`pair`], accessed through its pidfd while it is not reading.
///
/// Sent data that the process has not read can be taken back, so that nothing is lost in a process whose
/// event loop is stuck. Needs the right to trace the process (given for our own children, unless a seccomp
/// filter or `kernel.yama` forbids it).
#[derive(Debug)]
pub struct RemoteEnd {
    pidfd: OwnedFd,
    number: i32,
    cookie: u64,
}

impl RemoteEnd {
    /// The end `theirs`, which is descriptor `number` in the process of `pidfd`. Call it before passing
    /// `theirs` on.
    pub fn new(pidfd: OwnedFd, number: i32, cookie: u64) -> Self {
        Self { pidfd, number, cookie }
    }

    /// [`receive`] on behalf of the process: everything that it has not read, up to and including the first
    /// message with descriptors, in one read, so that the process cannot read in between. `EAGAIN` if it has
    /// read everything. `EBADF` if the descriptor is no longer our channel (the process has closed it, and
    /// the number may now belong to something else, which is left alone).
    pub fn take_back(&self, handles: &mut Vec<OwnedFd>) -> io::Result<Vec<u8>> {
        if crate::portable::is_on() {
            return Err(crate::portable::unsupported());
        }
        self.take_back_by_pidfd(handles)
    }

    #[cfg(not(target_os = "linux"))]
    fn take_back_by_pidfd(&self, _handles: &mut Vec<OwnedFd>) -> io::Result<Vec<u8>> {
        let _unused = (&self.pidfd, self.number, self.cookie);
        Err(crate::portable::unsupported())
    }

    #[cfg(target_os = "linux")]
    fn take_back_by_pidfd(&self, handles: &mut Vec<OwnedFd>) -> io::Result<Vec<u8>> {
        let end = rustix::process::pidfd_getfd(
            &self.pidfd,
            self.number,
            rustix::process::PidfdGetfdFlags::empty(),
        )?;
        if cookie(end.as_fd())? != self.cookie {
            return Err(Errno::BADF.into());
        }
        // From now on only the process can reduce this; the kernel limits it by the send buffer.
        let waiting = usize::try_from(rustix::io::ioctl_fionread(&end)?).map_err(|_| Errno::NOMEM)?;
        if waiting == 0 {
            return Err(Errno::AGAIN.into());
        }
        let mut unread = vec![0; waiting];
        let read = receive(end.as_fd(), &mut unread, handles)?;
        unread.truncate(read);
        Ok(unread)
    }
}

/// The kernel's identifier of a socket, unique until reboot.
pub fn cookie(socket: BorrowedFd<'_>) -> io::Result<u64> {
    crate::listener::cookie(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::receive_soon;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn what_a_process_has_not_read_can_be_taken_back() {
        let (ours, theirs) = pair().unwrap();
        let own = rustix::process::getpid();
        let pidfd = rustix::process::pidfd_open(own, rustix::process::PidfdFlags::empty()).unwrap();
        let number = std::os::fd::AsRawFd::as_raw_fd(&theirs);
        let remote = RemoteEnd::new(pidfd.try_clone().unwrap(), number, cookie(theirs.as_fd()).unwrap());
        let (carried, _far_end) = UnixStream::pair().unwrap();
        send(ours.as_fd(), &vec![b'x'; 100_000], None).unwrap();
        assert_eq!(send(ours.as_fd(), b"line", Some(carried.as_fd())).unwrap(), 4);
        send(ours.as_fd(), b"behind", None).unwrap();
        let mut handles = Vec::new();
        let mut taken = remote.take_back(&mut handles).unwrap();
        assert_eq!(taken.split_off(100_000), b"line", "all up to the handle, at once");
        assert_eq!(handles.len(), 1);
        assert_eq!(remote.take_back(&mut handles).unwrap(), b"behind");
        assert_eq!(remote.take_back(&mut handles).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        let stranger = RemoteEnd::new(pidfd, number, 1);
        assert_eq!(stranger.take_back(&mut handles).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn what_was_looked_at_stays_until_it_is_taken() {
        let (ours, theirs) = pair().unwrap();
        let (carried, _far_end) = UnixStream::pair().unwrap();
        let (mut buffer, mut handles) = ([0; 5], Vec::new());
        look_from_the_beginning(ours.as_fd()).unwrap();
        send(theirs.as_fd(), b"first", None).unwrap();
        send(theirs.as_fd(), b"other", Some(carried.as_fd())).unwrap();
        let mut next = |handles: &mut Vec<OwnedFd>| {
            let length = look(ours.as_fd(), &mut buffer, handles)?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&buffer[..length]).into_owned())
        };
        assert_eq!(next(&mut handles).unwrap(), "first");
        assert_eq!(next(&mut handles).unwrap(), "other");
        assert!(!handles.is_empty());
        assert_eq!(next(&mut handles).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Nothing was removed: the next owner of the socket finds all of it.
        look_from_the_beginning(ours.as_fd()).unwrap();
        assert_eq!(next(&mut handles).unwrap(), "first");
        take(ours.as_fd(), 5).unwrap();
        assert_eq!(next(&mut handles).unwrap(), "other");
        take(ours.as_fd(), 5).unwrap();
        look_from_the_beginning(ours.as_fd()).unwrap();
        assert_eq!(next(&mut handles).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        drop(theirs);
        // A child of another test may briefly hold a copy.
        crate::testing::wait_until("the end", || next(&mut handles).is_ok_and(|text| text.is_empty()));
    }

    #[test]
    fn a_handle_arrives_with_its_message_and_nothing_that_follows_it() {
        let (ours, theirs) = pair().unwrap();
        let (carried, mut far_end) = UnixStream::pair().unwrap();
        assert_eq!(send(ours.as_fd(), b"before,", None).unwrap(), 7);
        assert_eq!(send(ours.as_fd(), b"with", Some(carried.as_fd())).unwrap(), 4);
        assert_eq!(send(ours.as_fd(), b"after", None).unwrap(), 5);
        drop(carried);
        let (mut buf, mut handles) = ([0; 64], Vec::new());
        let read = receive(theirs.as_fd(), &mut buf, &mut handles).unwrap();
        assert_eq!(&buf[..read], b"before,with");
        assert_eq!(handles.len(), 1);
        let read = receive(theirs.as_fd(), &mut buf, &mut handles).unwrap();
        assert_eq!(&buf[..read], b"after");
        assert_eq!(handles.len(), 1);
        assert!(rustix::io::fcntl_getfd(&handles[0]).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        send(handles[0].as_fd(), b"through", None).unwrap();
        handles.clear();
        let mut text = String::new();
        far_end.read_to_string(&mut text).unwrap();
        assert_eq!(text, "through");
    }

    #[test]
    fn says_nothing_yet_and_end_and_broken_apart() {
        let (ours, theirs) = pair().unwrap();
        let (mut buf, mut handles) = ([0; 8], Vec::new());
        let error = receive(ours.as_fd(), &mut buf, &mut handles).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        send(ours.as_fd(), b"never read", None).unwrap();
        drop(theirs);
        // Unread bytes on the dead side make the kernel report a reset, which we treat as the end.
        assert_eq!(receive_soon(ours.as_fd(), &mut buf, &mut handles), 0);
        assert_eq!(receive_soon(ours.as_fd(), &mut buf, &mut handles), 0);
        let error = send(ours.as_fd(), b"x", None).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPIPE));
    }

    #[test]
    fn a_full_stream_takes_a_part_and_then_refuses() {
        let (ours, theirs) = pair().unwrap();
        let big = vec![b'x'; 8 << 20];
        let taken = send(ours.as_fd(), &big, None).unwrap();
        assert!(taken > 0 && taken < big.len());
        let mut total = taken;
        loop {
            match send(ours.as_fd(), b"y", None) {
                Ok(more) => total += more,
                Err(error) => {
                    assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
                    break;
                }
            }
        }
        drop(ours);
        let (mut buf, mut handles, mut read) = (vec![0; 65536], Vec::new(), 0);
        loop {
            match receive_soon(theirs.as_fd(), &mut buf, &mut handles) {
                0 => break,
                more => read += more,
            }
        }
        assert_eq!(read, total);
        assert_eq!(
            send(theirs.as_fd(), &[], Some(theirs.as_fd())).unwrap_err().raw_os_error(),
            Some(libc::EINVAL)
        );
    }
}
