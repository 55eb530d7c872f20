//! The service manager (systemd), through the socket of `sd_notify(3)`: notifications, and the sockets that
//! it keeps over a restart of the service (`FileDescriptorStoreMax=` of systemd.service(5)). Nothing here
//! allocates after the manager is known.

use std::io::{self, IoSlice, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};

use forkful_os::listener;
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags,
    SocketType, sendmsg_addr, sendto, socket_with, sockopt,
};

/// See the module's documentation.
pub(crate) struct Manager {
    socket: OwnedFd,
    address: SocketAddrUnix,
}

impl Manager {
    /// The manager that listens at a path, or at an abstract name (`@…`).
    pub(crate) fn at(name: &str) -> io::Result<Self> {
        let address = match name.strip_prefix('@') {
            Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes())?,
            None => SocketAddrUnix::new(name)?,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        Ok(Self { socket, address })
    }

    /// Sends it lines. A manager that cannot receive right now misses them.
    pub(crate) fn tell(&self, lines: &[u8]) {
        let _missed = sendto(&self.socket, lines, SendFlags::NOSIGNAL, &self.address);
    }

    /// Lets it keep a listening TCP socket. A socket that it already keeps is kept once.
    pub(crate) fn store(&self, socket: &OwnedFd) {
        let mut text = [0; 64];
        let Some(length) = name_of(socket, "FDSTORE=1\nFDPOLL=0", &mut text) else { return };
        let fds = [socket.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&fds));
        let text = [IoSlice::new(&text[..length])];
        let _missed = sendmsg_addr(&self.socket, &self.address, &text, &mut control, SendFlags::NOSIGNAL);
    }

    /// Lets it close its copies of a socket.
    pub(crate) fn forget(&self, socket: &OwnedFd) {
        let mut text = [0; 64];
        if let Some(length) = name_of(socket, "FDSTOREREMOVE=1", &mut text) {
            self.tell(&text[..length]);
        }
    }
}

/// Writes a command with the name of a listening TCP socket, which is the same in all processes; returns its
/// length. `None` for anything else.
fn name_of(socket: &OwnedFd, order: &str, text: &mut [u8]) -> Option<usize> {
    let listens = sockopt::socket_acceptconn(socket).unwrap_or(false);
    listener::local_addr(socket.as_fd()).ok().filter(|_| listens)?;
    let cookie = listener::cookie(socket.as_fd()).ok()?;
    let room = text.len();
    let mut rest = text;
    write!(rest, "{order}\nFDNAME=forkful-{cookie:x}").ok()?;
    Some(room - rest.len())
}
