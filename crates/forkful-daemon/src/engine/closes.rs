//! The kernel's reports of closed connections: followed for the ports where the daemon hands
//! connections over, as long as they are few.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use forkful_os::closed::{ClosedConnections, Overflow};
use forkful_os::reactor::Interest;

use super::{CLOSES_TOKEN, Engine};

/// More closed connections than this in a second are not worth following: evenness is for few.
const CLOSES_PER_SECOND_MAX: u32 = 8_000;
/// After that, they are not followed for so long.
const CLOSES_PAUSE: Duration = Duration::from_secs(30);

impl Engine {
    /// Subscribes to closed connections of the ports where the daemon hands connections over.
    pub(super) fn follow_closes(&mut self) {
        let now = self.clock.now();
        if self.closes_pause.is_some_and(|until| until > now) {
            return self.stop_following_closes();
        }
        let mut ports: Vec<u16> =
            self.apps.values().flat_map(|entry| entry.primary.counted_ports()).collect();
        ports.sort_unstable();
        ports.dedup();
        if ports == self.closes_ports {
            return;
        }
        if ports.is_empty() {
            return self.stop_following_closes();
        }
        if self.subscribe_to_closes(&ports).is_err() {
            // Without it, connections are handed out in turns.
            self.closes_pause = Some(now + CLOSES_PAUSE);
            return self.stop_following_closes();
        }
        self.closes_ports = ports;
        for entry in self.apps.values_mut() {
            entry.primary.count_closes(true);
        }
    }

    pub(super) fn subscribe_to_closes(&mut self, ports: &[u16]) -> io::Result<()> {
        if self.closes.is_none() {
            let closes = ClosedConnections::open()?;
            self.reactor.add(closes.as_fd(), CLOSES_TOKEN, Interest::READ)?;
            self.closes = Some(closes);
        }
        self.closes.as_ref().map_or(Ok(()), |closes| closes.only_ports(ports))
    }

    pub(super) fn stop_following_closes(&mut self) {
        if let Some(closes) = self.closes.take() {
            let _gone = self.reactor.remove(closes.as_fd());
            for entry in self.apps.values_mut() {
                entry.primary.count_closes(false);
            }
        }
        self.closes_ports.clear();
    }

    pub(super) fn on_closes(&mut self) {
        let now = self.clock.now();
        let Some(closes) = &mut self.closes else { return };
        let mut seen = 0_u32;
        let apps = &mut self.apps;
        let outcome = closes.read(|cookie| {
            seen += 1;
            for entry in apps.values_mut() {
                entry.primary.connection_closed(cookie);
            }
        });
        if now.since(self.closes_seen.0) > Duration::from_secs(1) {
            self.closes_seen = (now, 0);
        }
        self.closes_seen.1 += seen;
        let lost = !matches!(outcome, Ok(Overflow::None));
        if lost || self.closes_seen.1 > CLOSES_PER_SECOND_MAX {
            // Counts cannot be trusted any more, or cost more than they are worth.
            self.closes_pause = Some(now + CLOSES_PAUSE);
            self.follow_closes();
        }
    }
}
