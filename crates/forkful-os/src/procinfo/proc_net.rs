//! The kernel's socket lists in text form (`proc_net(5)`), for machines without socket diagnostics.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::stat::read_text;
use crate::diagnosed::{InetSocket, UnixSocket};

/// The listening state in hexadecimal.
const LISTEN: &str = "0A";

/// `__SO_ACCEPTCON` in a unix socket's flags.
const ACCEPTS: u32 = 0x10000;

/// TCP listeners on `port`, or on any port if it is 0.
pub(super) fn tcp_listeners(port: u16) -> io::Result<Vec<InetSocket>> {
    let mut found = Vec::new();
    for file in ["/proc/net/tcp", "/proc/net/tcp6"] {
        match read_text(file) {
            Ok(text) => found.extend(text.lines().skip(1).filter_map(parse_tcp)),
            // A machine without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    found.retain(|socket| port == 0 || socket.local.port() == port);
    Ok(found)
}

/// Listening unix sockets that have a name.
pub(super) fn unix_listeners() -> io::Result<Vec<UnixSocket>> {
    Ok(read_text("/proc/net/unix")?.lines().skip(1).filter_map(parse_unix).collect())
}

/// `slot: local remote state queues timer retransmits uid timeout inode …`
fn parse_tcp(line: &str) -> Option<InetSocket> {
    let mut fields = line.split_ascii_whitespace();
    let local = parse_address(fields.nth(1)?)?;
    if fields.nth(1)? != LISTEN {
        return None;
    }
    let uid = fields.nth(3)?.parse().ok()?;
    let inode = fields.nth(1)?.parse().ok()?;
    Some(InetSocket { local, cookie: 0, uid, inode })
}

/// `0100007F:1F90`: words in the machine's byte order, the port as a number.
fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let port = u16::from_str_radix(port, 16).ok()?;
    let word = |at: usize| u32::from_str_radix(address.get(at * 8..at * 8 + 8)?, 16).ok();
    let ip = match address.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?.to_ne_bytes())),
        32 => {
            let mut bytes = [0; 16];
            for (at, chunk) in bytes.chunks_exact_mut(4).enumerate() {
                chunk.copy_from_slice(&word(at)?.to_ne_bytes());
            }
            IpAddr::from(Ipv6Addr::from(bytes))
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

/// `number: references protocol flags type state inode [path]`; the path may contain spaces.
fn parse_unix(line: &str) -> Option<UnixSocket> {
    let mut rest = line;
    let mut field = || {
        let (first, after) = rest.trim_start().split_once(' ')?;
        rest = after;
        Some(first)
    };
    let flags = (field()?, field()?, field()?, field()?).3;
    if u32::from_str_radix(flags, 16).ok()? & ACCEPTS == 0 {
        return None;
    }
    let inode = (field()?, field()?, field()?).2.parse().ok()?;
    let name = rest;
    let name = match name.strip_prefix('@') {
        Some(name) => [b"\0", name.as_bytes()].concat(),
        None => name.as_bytes().to_vec(),
    };
    Some(UnixSocket { name, inode })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_all_kinds_are_understood() {
        let v4 = "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4242 1 x";
        let expected =
            InetSocket { local: "127.0.0.1:8080".parse().unwrap(), cookie: 0, uid: 1000, inode: 4242 };
        if cfg!(target_endian = "little") {
            assert_eq!(parse_tcp(v4), Some(expected));
            let v6 = v4.replace("0100007F:", "00000000000000000000000001000000:");
            assert_eq!(parse_tcp(&v6).unwrap().local, "[::1]:8080".parse().unwrap());
        }
        assert_eq!(parse_tcp(&v4.replace(" 0A ", " 01 ")), None);
        let unix = "0000000000000000: 00000002 00000000 00010000 0001 01  77 /tmp/with blank.sock";
        let expected = UnixSocket { name: b"/tmp/with blank.sock".to_vec(), inode: 77 };
        assert_eq!(parse_unix(unix), Some(expected));
        assert_eq!(parse_unix(&unix.replace("/tmp/with blank.sock", "@name")).unwrap().name, b"\0name");
        assert_eq!(parse_unix("0000000000000000: 00000002 00000000 00000000 0001 01 77 /x"), None);
        assert_eq!(parse_unix("0000000000000000: 00000002 00000000 00010000 0001 01 77"), None);
    }
}
