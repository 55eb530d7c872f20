//! When a socket that a process opened by itself, without the primary, makes the process ready.

use std::time::Duration;

use super::Policy;

/// What a process listens on by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnSocket {
    /// A TCP port, the inspector's apart.
    Tcp,
    /// A unix socket, and no TCP port.
    Unix,
}

impl Policy {
    /// Whether such a socket, which has been there for `seen_for`, makes a process ready.
    ///
    /// A port is opened to serve. A unix socket may be that of an interpreter or a tool (tsx opens one before it runs
    /// the app), so it counts only once it has been there for as long as a process has to stay alive.
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
            // A compiler has one for its own ends.
            let policy = Policy { compiles: true, ..policy };
            assert!(!policy.trusts(OwnSocket::Unix, Duration::from_secs(9)));
            assert!(policy.trusts(OwnSocket::Tcp, Duration::ZERO));
        }
    }
}
