//! The kernel's reports of closed connections: used for the ports where the daemon hands connections over,
//! while they are few.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use forkful_core::Time;
use forkful_os::closed::{ClosedConnections, Overflow};
use forkful_os::reactor::{Interest, Reactor};

use super::app::AppId;
use super::apps::Apps;
use super::tokens::CLOSES_TOKEN;

/// With more closed connections per second than this, following them is not worth the cost: evenness matters
/// for few connections.
const CLOSES_PER_SECOND_MAX: u32 = 8_000;
/// How long they are not followed after that.
const CLOSES_PAUSE: Duration = Duration::from_secs(30);

/// The ports where the daemon hands connections over and counts closed ones.
#[derive(Debug, Default)]
pub(super) struct CountedPorts {
    /// The sorted ports of each app that has any.
    of_apps: BTreeMap<AppId, Vec<u16>>,
    /// The apps of each port.
    apps: BTreeMap<u16, BTreeSet<AppId>>,
    /// Apps whose ports have changed.
    changed: BTreeSet<AppId>,
}

impl CountedPorts {
    /// Sets the current ports of an app.
    pub(super) fn note(&mut self, app: AppId, mut ports: Vec<u16>) {
        ports.sort_unstable();
        ports.dedup();
        if self.of_apps.get(&app).map_or(&[][..], Vec::as_slice) == ports {
            return;
        }
        for port in self.of_apps.remove(&app).unwrap_or_default() {
            if let Some(apps) = self.apps.get_mut(&port) {
                apps.remove(&app);
                if apps.is_empty() {
                    self.apps.remove(&port);
                }
            }
        }
        for port in &ports {
            self.apps.entry(*port).or_default().insert(app);
        }
        self.of_apps.extend((!ports.is_empty()).then_some((app, ports)));
        self.changed.insert(app);
    }
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Closes {
    reports: Option<ClosedConnections>,
    /// The ports that are followed.
    ports: Vec<u16>,
    /// The number of reports since then; for at most a second.
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
        let is_resumed = self.pause.take().is_some();
        let counted = apps.counted_ports();
        if counted.changed.is_empty() && !is_resumed {
            return;
        }
        let changed = std::mem::take(&mut counted.changed);
        let ports: Vec<u16> = counted.apps.keys().copied().collect();
        let told = if self.reports.is_some() { changed } else { counted.of_apps.keys().copied().collect() };
        if ports.is_empty() {
            return self.stop(apps, reactor);
        }
        if ports != self.ports && self.subscribe(&ports, reactor).is_err() {
            // Without the reports, connections are handed out in turns.
            self.pause = Some(now + CLOSES_PAUSE);
            return self.stop(apps, reactor);
        }
        self.ports = ports;
        for app in told {
            if let Some(entry) = apps.get_mut(app) {
                entry.primary.count_closes(true);
            }
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
        let mut closed: BTreeMap<u16, Vec<u64>> = BTreeMap::new();
        let outcome = reports.read(|port, cookie| closed.entry(port).or_default().push(cookie));
        let seen = closed.values().map(Vec::len).sum::<usize>();
        for (port, cookies) in closed {
            for app in apps.counted_ports().apps.get(&port).cloned().unwrap_or_default() {
                if let Some(entry) = apps.get_mut(app) {
                    cookies.iter().for_each(|cookie| entry.primary.connection_closed(*cookie));
                }
            }
        }
        let seen = u32::try_from(seen).unwrap_or(u32::MAX);
        if now.since(self.seen.0) > Duration::from_secs(1) {
            self.seen = (now, 0);
        }
        self.seen.1 += seen;
        let lost = !matches!(outcome, Ok(Overflow::None));
        if lost || self.seen.1 > CLOSES_PER_SECOND_MAX {
            // The counts are no longer reliable, or cost more than they are worth.
            self.pause = Some(now + CLOSES_PAUSE);
            self.follow(apps, reactor, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_kept_by_app_and_only_apps_with_other_ports_count_as_changed() {
        let (one, two) = (AppId(1), AppId(2));
        let mut counted = CountedPorts::default();
        counted.note(one, vec![81, 80, 80]);
        counted.note(two, vec![80]);
        assert_eq!(std::mem::take(&mut counted.changed), [one, two].into());
        counted.note(one, vec![80, 81]);
        counted.note(AppId(3), Vec::new());
        assert!(counted.changed.is_empty());
        assert_eq!(counted.apps.keys().copied().collect::<Vec<_>>(), [80, 81]);
        counted.note(one, Vec::new());
        assert_eq!((counted.apps.len(), &counted.apps[&80]), (1, &[two].into()));
        assert_eq!(counted.changed, [one].into());
    }
}
