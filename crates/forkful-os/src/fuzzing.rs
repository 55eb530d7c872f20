//! A fuzz target: the kernel's answers over netlink. A kernel is trusted, but offsets and lengths that are read wrongly
//! would panic in the daemon's loop.

use crate::netlink;

/// A datagram of `sock_diag(7)`, read as each kind of message that is expected.
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
