//! The kernel's socket diagnostics (`sock_diag(7)`): lists of sockets, and notifications of closed ones.
//!
//! Messages are parsed as bytes, by the offsets of the structures in `linux/inet_diag.h` and
//! `linux/unix_diag.h`; messages that are too short are skipped.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use rustix::buffer::spare_capacity;
use rustix::io::Errno;
use rustix::net::netlink::{SOCK_DIAG, SocketAddrNetlink};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send, socket_with, sockopt,
};

use crate::diagnosed::{InetSocket, UnixSocket};

/// Type of requests and replies (`SOCK_DIAG_BY_FAMILY`).
const SOCK_DIAG_BY_FAMILY: u16 = 20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const DUMP_REQUEST: u16 = 0x301;
const HEADER_BYTES: usize = 16;

/// `UDIAG_SHOW_NAME`, and the attribute that it requests.
const SHOW_NAME: u32 = 1;
const UNIX_DIAG_NAME: u16 = 0;

/// The attribute with a `tcp_info`, and the offset of the attributes: after an `inet_diag_msg`.
const INET_DIAG_INFO: u16 = 2;
const INET_ATTRIBUTES_OFFSET: usize = 72;
/// Offset of `tcpi_bytes_received` in a `tcp_info`.
const BYTES_RECEIVED_OFFSET: usize = 128;

/// The number of the established state.
const ESTABLISHED: u32 = 1;

/// The number of the listening state, in TCP and for unix sockets.
const LISTEN: u32 = 10;

/// A reply of a dump never exceeds the kernel's maximum of 32 KiB.
const DUMP_BUFFER_BYTES: usize = 64 * 1024;

/// A connection to the diagnostics that is a member of the multicast `groups` (a bit mask).
pub(crate) fn open(groups: u32) -> io::Result<OwnedFd> {
    if crate::portable::is_on() {
        return Err(crate::portable::unsupported());
    }
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, Some(SOCK_DIAG))?;
    bind(&socket, &SocketAddrNetlink::new(0, groups))?;
    Ok(socket)
}

/// The established connections with the own port `port`: socket, peer, received bytes.
pub(crate) fn established(port: u16, mut f: impl FnMut(InetSocket, SocketAddr, u64)) -> io::Result<()> {
    dump_tcp(ESTABLISHED, 1 << (INET_DIAG_INFO - 1), port, |message| {
        if let (Some(socket), Some(peer)) = (parse_inet(message), parse_peer(message)) {
            f(socket, peer, parse_received(message).unwrap_or(0));
        }
    })
}

/// All established connections of this network namespace: socket and peer.
pub(crate) fn all_established(mut f: impl FnMut(InetSocket, SocketAddr)) -> io::Result<()> {
    dump_tcp(ESTABLISHED, 0, 0, |message| {
        if let (Some(socket), Some(peer)) = (parse_inet(message), parse_peer(message)) {
            f(socket, peer);
        }
    })
}

/// All TCP listeners with the own port `port`, or all if it is 0.
pub(crate) fn tcp_listeners(port: u16) -> io::Result<Vec<InetSocket>> {
    let mut found = Vec::new();
    dump_tcp(LISTEN, 0, port, |message| found.extend(parse_inet(message)))?;
    Ok(found)
}

/// The TCP sockets in a state with that port (0: any), each with the attributes in the mask.
fn dump_tcp(state: u32, attributes: u8, port: u16, mut f: impl FnMut(&[u8])) -> io::Result<()> {
    let mut dumps = Dumps::open()?;
    for family in [libc::AF_INET, libc::AF_INET6] {
        let mut request = [0; 56];
        request[0] = family as u8;
        request[1] = libc::IPPROTO_TCP as u8;
        request[2] = attributes;
        request[4..8].copy_from_slice(&(1_u32 << state).to_ne_bytes());
        request[8..10].copy_from_slice(&port.to_be_bytes());
        dumps.read(&request, &mut f)?;
    }
    Ok(())
}

/// All listening unix sockets that have a name.
pub(crate) fn listening_unix_sockets() -> io::Result<Vec<UnixSocket>> {
    let mut request = [0; 24];
    request[0] = libc::AF_UNIX as u8;
    request[4..8].copy_from_slice(&(1_u32 << LISTEN).to_ne_bytes());
    request[12..16].copy_from_slice(&SHOW_NAME.to_ne_bytes());
    let mut found = Vec::new();
    Dumps::open()?.read(&request, |message| found.extend(parse_unix(message)))?;
    Ok(found)
}

/// The socket's own port in an `inet_diag_msg`.
pub(crate) fn parse_port(message: &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(message.get(4..6)?.try_into().ok()?))
}

/// The cookie in an `inet_diag_msg`.
pub(crate) fn parse_cookie(message: &[u8]) -> Option<u64> {
    let (low, high) = (u32_at(message, 44)?, u32_at(message, 48)?);
    Some(u64::from(high) << 32 | u64::from(low))
}

/// Calls `f` with the bodies of all socket messages in a datagram, which may be truncated; `Ok(true)` at the
/// end of a dump.
pub(crate) fn messages(mut datagram: &[u8], mut f: impl FnMut(&[u8])) -> io::Result<bool> {
    while let (Some(length), Some(kind)) = (u32_at(datagram, 0), u16_at(datagram, 4)) {
        let end = (length as usize).min(datagram.len());
        let Some(body) = datagram.get(HEADER_BYTES..end) else { break };
        match kind {
            NLMSG_DONE => return Ok(true),
            NLMSG_ERROR => {
                let code = u32_at(body, 0).unwrap_or(0).cast_signed();
                return Err(io::Error::from_raw_os_error(code.saturating_neg()));
            }
            SOCK_DIAG_BY_FAMILY => f(body),
            _ => {}
        }
        datagram = datagram.get(end.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

/// Parses a message as each expected kind, for fuzzing.
#[cfg(any(test, forkful_fuzzing))]
pub(crate) fn read_all_kinds(message: &[u8]) {
    let name = parse_unix(message).map(|socket| socket.name);
    assert!(name.is_none_or(|name| name.len() <= message.len()), "a name from beyond the message");
    std::hint::black_box((parse_inet(message), parse_peer(message), parse_received(message)));
}

/// A connection for dumps, one after the other.
struct Dumps {
    socket: OwnedFd,
    buffer: Vec<u8>,
}

impl Dumps {
    fn open() -> io::Result<Self> {
        let socket = open(0)?;
        // The kernel answers synchronously, so waiting only means one more read.
        rustix::io::ioctl_fionbio(&socket, false)?;
        Ok(Self { socket, buffer: Vec::with_capacity(DUMP_BUFFER_BYTES) })
    }

    /// Calls `f` with each message of the answer.
    fn read(&mut self, request: &[u8], mut f: impl FnMut(&[u8])) -> io::Result<()> {
        let mut message = Vec::with_capacity(HEADER_BYTES + request.len());
        message.extend_from_slice(&((HEADER_BYTES + request.len()) as u32).to_ne_bytes());
        message.extend_from_slice(&SOCK_DIAG_BY_FAMILY.to_ne_bytes());
        message.extend_from_slice(&DUMP_REQUEST.to_ne_bytes());
        message.extend_from_slice(&[0; 8]);
        message.extend_from_slice(request);
        send(&self.socket, &message, SendFlags::empty())?;
        loop {
            self.buffer.clear();
            let (read, _) = rustix::io::retry_on_intr(|| {
                recv(&self.socket, spare_capacity(&mut self.buffer), RecvFlags::empty())
            })?;
            if read == 0 {
                return Err(Errno::PIPE.into());
            }
            if messages(&self.buffer, &mut f)? {
                return Ok(());
            }
        }
    }
}

/// Requests a large receive buffer: with privilege if possible, otherwise up to the machine's limit.
pub(crate) fn widen_receive_buffer(socket: impl AsFd, bytes: usize) {
    let forced = sockopt::set_socket_recv_buffer_size_force(&socket, bytes);
    if forced.is_err() {
        let _ = sockopt::set_socket_recv_buffer_size(&socket, bytes);
    }
}

/// One end of a connection: its port at `port`, its address at `address`.
fn parse_end(message: &[u8], port: usize, address: usize) -> Option<SocketAddr> {
    let port = u16::from_be_bytes(*message.get(port..)?.first_chunk()?);
    let address = message.get(address..)?;
    let ip = match i32::from(*message.first()?) {
        libc::AF_INET => IpAddr::from(*address.first_chunk::<4>()?),
        libc::AF_INET6 => IpAddr::from(*address.first_chunk::<16>()?),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

fn parse_peer(message: &[u8]) -> Option<SocketAddr> {
    parse_end(message, 6, 24)
}

/// The received bytes of a connection, from its `tcp_info`.
fn parse_received(message: &[u8]) -> Option<u64> {
    let info = attribute(message.get(INET_ATTRIBUTES_OFFSET..)?, INET_DIAG_INFO)?;
    Some(u64::from_ne_bytes(*info.get(BYTES_RECEIVED_OFFSET..)?.first_chunk()?))
}

fn attribute(mut attributes: &[u8], wanted: u16) -> Option<&[u8]> {
    while let (Some(length), Some(kind)) = (u16_at(attributes, 0), u16_at(attributes, 2)) {
        let length = usize::from(length);
        let value = attributes.get(4..length)?;
        if kind == wanted {
            return Some(value);
        }
        attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    None
}

fn parse_inet(message: &[u8]) -> Option<InetSocket> {
    Some(InetSocket {
        local: parse_end(message, 4, 8)?,
        cookie: parse_cookie(message)?,
        uid: u32_at(message, 64)?,
        inode: u32_at(message, 68)?.into(),
    })
}

fn parse_unix(message: &[u8]) -> Option<UnixSocket> {
    let inode = u32_at(message, 4)?;
    let value = attribute(message.get(16..)?, UNIX_DIAG_NAME)?;
    let name = value.strip_suffix(&[0]).filter(|name| !name.is_empty()).unwrap_or(value);
    Some(UnixSocket { name: name.to_vec(), inode: inode.into() })
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::cookie;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_listener_is_listed_with_its_cookie_and_user() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let found = tcp_listeners(addr.port()).unwrap();
        let ours = found.iter().find(|socket| socket.local == addr).unwrap();
        assert_eq!(ours.cookie, cookie(listener.as_fd()).unwrap());
        assert_eq!(ours.uid, crate::identity::euid());
        assert!(found.iter().all(|socket| socket.local.port() == addr.port()));
    }

    #[test]
    fn a_unix_listener_is_listed_by_its_path() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("listed.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let sockets = listening_unix_sockets().unwrap();
        assert!(sockets.iter().any(|socket| socket.name == path.as_os_str().as_encoded_bytes()));
    }

    #[test]
    fn broken_messages_are_passed_over() {
        for cut in 0..100 {
            let mut bytes = vec![0xff; cut];
            assert!(!messages(&bytes, |_| ()).unwrap_or(false));
            assert!(parse_unix(&bytes).is_none());
            assert!(parse_received(&bytes).is_none());
            bytes.fill(0);
            assert!(!messages(&bytes, |_| ()).unwrap());
            assert!(parse_inet(&bytes).is_none());
        }
    }
}
