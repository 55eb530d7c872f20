//! The kernel's reports of closed connections: followed for the ports where the daemon hands
//! connections over, as long as they are few.

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use forkful_core::Time;
use forkful_os::closed::{ClosedConnections, Overflow};
use forkful_os::reactor::{Interest, Reactor};

use super::CLOSES_TOKEN;
use super::app::AppId;
use super::apps::Apps;

/// More closed connections than this in a second are not worth following: evenness is for few.
const CLOSES_PER_SECOND_MAX: u32 = 8_000;
/// After that, they are not followed for so long.
const CLOSES_PAUSE: Duration = Duration::from_secs(30);

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Closes {
    reports: Option<ClosedConnections>,
    /// Of which ports they are.
    ports: Vec<u16>,
    /// How many came since then; a second at most.
    seen: (Time, u32),
    /// They are not followed until then.
    pause: Option<Time>,
}

impl Closes {
    /// Subscribes to closed connections of the ports where the daemon hands connections over.
    pub(super) fn follow(&mut self, apps: &mut Apps, reactor: &Reactor, now: Time) {
        if self.pause.is_some_and(|until| until > now) {
            return self.stop(apps, reactor);
        }
        let mut ports: Vec<u16> = apps.counted_ports().values().flatten().copied().collect();
        ports.sort_unstable();
        ports.dedup();
        if ports == self.ports {
            return;
        }
        if ports.is_empty() {
            return self.stop(apps, reactor);
        }
        if self.subscribe(&ports, reactor).is_err() {
            // Without it, connections are handed out in turns.
            self.pause = Some(now + CLOSES_PAUSE);
            return self.stop(apps, reactor);
        }
        self.ports = ports;
        for entry in apps.values_mut() {
            entry.primary.count_closes(true);
        }
    }

    fn subscribe(&mut self, ports: &[u16], reactor: &Reactor) -> io::Result<()> {
        if self.reports.is_none() {
            let reports = ClosedConnections::open()?;
            reactor.add(reports.as_fd(), CLOSES_TOKEN, Interest::READ)?;
            self.reports = Some(reports);
        }
        self.reports.as_ref().map_or(Ok(()), |reports| reports.only_ports(ports))
    }

    fn stop(&mut self, apps: &mut Apps, reactor: &Reactor) {
        if let Some(reports) = self.reports.take() {
            let _gone = reactor.remove(reports.as_fd());
            for entry in apps.values_mut() {
                entry.primary.count_closes(false);
            }
        }
        self.ports.clear();
    }

    /// The kernel has reports.
    pub(super) fn on_readable(&mut self, apps: &mut Apps, reactor: &Reactor, now: Time) {
        let Some(reports) = &mut self.reports else { return };
        let mut cookies = Vec::new();
        let outcome = reports.read(|cookie| cookies.push(cookie));
        let counting: Vec<AppId> = apps.counted_ports().keys().copied().collect();
        for app in counting {
            if let Some(entry) = apps.get_mut(app) {
                cookies.iter().for_each(|cookie| entry.primary.connection_closed(*cookie));
            }
        }
        let seen = u32::try_from(cookies.len()).unwrap_or(u32::MAX);
        if now.since(self.seen.0) > Duration::from_secs(1) {
            self.seen = (now, 0);
        }
        self.seen.1 += seen;
        let lost = !matches!(outcome, Ok(Overflow::None));
        if lost || self.seen.1 > CLOSES_PER_SECOND_MAX {
            // Counts cannot be trusted any more, or cost more than they are worth.
            self.pause = Some(now + CLOSES_PAUSE);
            self.follow(apps, reactor, now);
        }
    }
}
