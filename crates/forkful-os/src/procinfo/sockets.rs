//! Which process listens where: matches the kernel's list of sockets with the descriptors of processes.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use super::proc_net;
use super::stat::command_line;
use crate::diagnosed::{InetSocket, UnixSocket};
use crate::netlink;

/// An address on which a process listens.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ListeningSocket {
    Tcp(SocketAddr),
    /// A unix socket; an abstract one begins with a NUL byte.
    Unix(PathBuf),
}

/// The owner of a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOwner {
    /// The listening address, which may be a wildcard.
    pub addr: SocketAddr,
    /// The process that holds the listener, the lowest pid if there are several; unknown if it is another
    /// user's or in another namespace.
    pub pid: Option<u32>,
    /// The arguments of its command line, empty if unknown. They may hold secrets.
    pub command: Vec<String>,
    /// The user who created the listener.
    pub uid: u32,
    /// That user's name, if the machine's own list has it.
    pub user: Option<String>,
}

/// The TCP and unix sockets on which a process listens, unsorted. `EACCES` if it belongs to another user.
pub fn listening_sockets_of(pid: u32) -> io::Result<Vec<ListeningSocket>> {
    let inodes = socket_inodes(pid)?;
    if inodes.is_empty() {
        return Ok(Vec::new());
    }
    let tcp = tcp_listeners(0)?.into_iter().filter(|socket| inodes.contains(&socket.inode));
    let mut found: Vec<_> = tcp.map(|socket| ListeningSocket::Tcp(socket.local)).collect();
    let unix = unix_listeners()?.into_iter().filter(|socket| inodes.contains(&socket.inode));
    found.extend(unix.map(|socket| ListeningSocket::Unix(PathBuf::from(OsStr::from_bytes(&socket.name)))));
    Ok(found)
}

/// The listener on `addr`, or on a wildcard that covers it, or, if it is a wildcard, on any address that it
/// covers; `None` if there is none (or the kernel does not provide it).
pub fn owner_of_port(addr: SocketAddr) -> Option<PortOwner> {
    let mut listeners = tcp_listeners(addr.port()).ok()?;
    listeners.retain(|socket| collide(socket.local, addr));
    // The exact address is preferred over a wildcard.
    listeners.sort_by_key(|socket| socket.local.ip() != addr.ip());
    let first = listeners.first()?;
    let inodes: HashMap<u64, SocketAddr> = listeners.iter().map(|s| (s.inode, s.local)).collect();
    let holder = holder_of(&inodes);
    let (pid, local) = holder.map_or((None, first.local), |(pid, local)| (Some(pid), local));
    let uid = listeners.iter().find(|s| s.local == local).map_or(first.uid, |s| s.uid);
    Some(PortOwner {
        addr: local,
        pid,
        command: pid.map(command_line).unwrap_or_default(),
        uid,
        user: user_name(uid),
    })
}

/// Whether both addresses cannot be bound at the same time: they are equal, or one is a wildcard. IPv4
/// conflicts with `::` unless that is IPv6-only, which the list does not tell.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    let covers = |wild: IpAddr, ip: IpAddr| wild.is_unspecified() && (wild.is_ipv6() || ip.is_ipv4());
    one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
}

/// The process with the lowest pid that holds one of the sockets.
fn holder_of(inodes: &HashMap<u64, SocketAddr>) -> Option<(u32, SocketAddr)> {
    let mut pids: Vec<u32> = std::fs::read_dir("/proc")
        .ok()?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect();
    pids.sort_unstable();
    pids.into_iter().find_map(|pid| {
        let held = socket_inodes(pid).ok()?;
        held.iter().find_map(|inode| inodes.get(inode)).map(|local| (pid, *local))
    })
}

/// The inodes of all open sockets of a process. `EACCES` if it belongs to another user.
pub fn socket_inodes(pid: u32) -> io::Result<HashSet<u64>> {
    Ok(socket_numbers(pid)?.into_iter().map(|(_, inode)| inode).collect())
}

/// The socket descriptors of a process, with their inodes.
fn socket_numbers(pid: u32) -> io::Result<Vec<(i32, u64)>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        // Skip a descriptor that was closed meanwhile.
        let Ok((name, target)) =
            entry.and_then(|entry| Ok((entry.file_name(), std::fs::read_link(entry.path())?)))
        else {
            continue;
        };
        let inode = target.to_str().and_then(|text| text.strip_prefix("socket:[")?.strip_suffix(']'));
        let inode = inode.and_then(|number| number.parse().ok());
        found.extend(name.to_str().and_then(|name| name.parse().ok()).zip(inode));
    }
    Ok(found)
}

/// The descriptors with which a process listens on TCP ports, each socket once. `EACCES` if it belongs to
/// another user.
#[cfg(target_os = "linux")]
pub(crate) fn tcp_listener_numbers(pid: u32) -> io::Result<Vec<i32>> {
    let mut numbers = socket_numbers(pid)?;
    if numbers.is_empty() {
        return Ok(Vec::new());
    }
    let listeners: HashSet<u64> = tcp_listeners(0)?.into_iter().map(|socket| socket.inode).collect();
    let mut seen = HashSet::new();
    numbers.retain(|(_, inode)| listeners.contains(inode) && seen.insert(*inode));
    Ok(numbers.into_iter().map(|(number, _)| number).collect())
}

/// TCP listeners, from the diagnostics or, if they are missing, from the slower text files.
pub(super) fn tcp_listeners(port: u16) -> io::Result<Vec<InetSocket>> {
    netlink::tcp_listeners(port).or_else(|_| proc_net::tcp_listeners(port))
}

fn unix_listeners() -> io::Result<Vec<UnixSocket>> {
    netlink::listening_unix_sockets().or_else(|_| proc_net::unix_listeners())
}

/// A user's name from `/etc/passwd`.
pub fn user_name(uid: u32) -> Option<String> {
    let text = super::stat::read_text("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| name.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn the_listeners_of_a_process_are_found_whichever_way_is_asked() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let v6 = TcpListener::bind("[::1]:0").unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("own.sock");
        let _unix = UnixListener::bind(&path).unwrap();
        let found = listening_sockets_of(std::process::id()).unwrap();
        for addr in [tcp.local_addr().unwrap(), v6.local_addr().unwrap()] {
            assert!(found.contains(&ListeningSocket::Tcp(addr)), "{addr}");
            let by_text = proc_net::tcp_listeners(addr.port()).unwrap();
            let by_netlink = tcp_listeners(addr.port()).unwrap();
            let inode = |list: &[InetSocket]| list.iter().find(|s| s.local == addr).unwrap().inode;
            assert_eq!(inode(&by_text), inode(&by_netlink));
        }
        assert!(found.contains(&ListeningSocket::Unix(path.clone())));
        let by_text = proc_net::unix_listeners().unwrap();
        assert!(by_text.iter().any(|socket| socket.name == path.as_os_str().as_bytes()));
        assert!(listening_sockets_of(4_194_304).is_err());
    }

    #[test]
    fn the_owner_of_a_taken_port_is_named() {
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        for asked in [format!("127.0.0.1:{port}"), format!("[::]:{port}"), format!("0.0.0.0:{port}")] {
            let owner = owner_of_port(asked.parse().unwrap()).unwrap();
            assert_eq!(owner.addr, listener.local_addr().unwrap(), "{asked}");
            assert_eq!(owner.pid, Some(std::process::id()));
            assert!(owner.command[0].contains("forkful_os"));
            assert_eq!(owner.uid, crate::identity::euid());
            assert_eq!(owner.user.is_some(), user_name(crate::identity::euid()).is_some());
        }
        drop(listener);
        let free = SocketAddr::from(([127, 0, 0, 1], port));
        crate::testing::wait_until("the port is free", || owner_of_port(free).is_none());
    }

    #[test]
    fn only_addresses_that_exclude_each_other_collide() {
        let collides = |a: &str, b: &str| collide(a.parse().unwrap(), b.parse().unwrap());
        assert!(collides("127.0.0.1:1", "127.0.0.1:1"));
        assert!(collides("0.0.0.0:1", "127.0.0.1:1"));
        assert!(collides("127.0.0.1:1", "[::]:1"));
        assert!(collides("[::ffff:127.0.0.1]:1", "127.0.0.1:1"));
        assert!(!collides("127.0.0.1:1", "127.0.0.2:1"));
        assert!(!collides("127.0.0.1:1", "127.0.0.1:2"));
        assert!(!collides("0.0.0.0:1", "[::1]:1"));
    }
}
