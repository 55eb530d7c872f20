//! Whether a socket that a process opened itself, without the primary, makes the process ready.

use std::time::Duration;

use super::Policy;

/// A socket on which a process listens by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnSocket {
    /// A TCP port other than the inspector's.
    Tcp,
    /// A unix socket, without a TCP port.
    Unix,
}

impl Policy {
    /// Whether such a socket, which has existed for `seen_for`, makes a process ready.
    ///
    /// A TCP port is opened to serve. A unix socket may belong to an interpreter or a tool (tsx opens one
    /// before it runs the app), so it counts only after it has existed for as long as a process has to stay
    /// alive.
    pub fn trusts(&self, socket: OwnSocket, seen_for: Duration) -> bool {
        match socket {
            OwnSocket::Tcp => true,
            OwnSocket::Unix => seen_for >= self.proving_time(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Mode, Readiness, RestartPolicy, StopPolicy};

    #[test]
    fn a_unix_socket_counts_only_after_the_minimal_uptime() {
        let restart = RestartPolicy { min_uptime: Duration::from_secs(1), ..RestartPolicy::default() };
        for mode in [Mode::Fork, Mode::Cluster] {
            let policy = Policy {
                restart: restart.clone(),
                readiness: Readiness { wait_ready: false, listen_timeout: None },
                stop: StopPolicy::default(),
                mode,
                greets: true,
                compiles: false,
            };
            let table = [
                (OwnSocket::Tcp, 0, true),
                (OwnSocket::Tcp, 1000, true),
                (OwnSocket::Unix, 0, false),
                (OwnSocket::Unix, 999, false),
                (OwnSocket::Unix, 1000, true),
            ];
            for (socket, seen_ms, counts) in table {
                assert_eq!(
                    policy.trusts(socket, Duration::from_millis(seen_ms)),
                    counts,
                    "{socket:?} {seen_ms}"
                );
            }
            // A compiler has a socket for its own use.
            let policy = Policy { compiles: true, ..policy };
            assert!(!policy.trusts(OwnSocket::Unix, Duration::from_secs(9)));
            assert!(policy.trusts(OwnSocket::Tcp, Duration::ZERO));
        }
    }
}
