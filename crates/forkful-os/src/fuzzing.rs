//! A fuzz target for the kernel's netlink messages. The kernel is trusted, but wrong offsets and lengths
//! would make the daemon's loop panic.

use crate::netlink;

/// A `sock_diag(7)` datagram, parsed as each expected kind of message.
pub fn netlink(bytes: &[u8]) {
    let mut bodies = 0;
    let _ = netlink::messages(bytes, |body| {
        bodies += 1;
        netlink::read_all_kinds(body);
    });
    assert!(bodies <= bytes.len() / 16, "{bodies} messages in {} bytes", bytes.len());
    netlink::read_all_kinds(bytes);
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_netlink() {
        forkful_testkit::replay("netlink", super::netlink);
    }
}
