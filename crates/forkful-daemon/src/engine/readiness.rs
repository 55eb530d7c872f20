//! The sockets on which processes listen: through the primary, and by themselves.

use std::io;
use std::os::fd::AsFd as _;
use std::time::Duration;

use forkful_cluster::WorkerId;
use forkful_core::Time;
use forkful_core::slot::{Generation, OwnSocket};
use forkful_core::supervisor::{Event, Sockets, may_listen};
use forkful_core::words::shell_word;
use forkful_os::listener::shared_listeners_of;
use forkful_os::procinfo::{self, ListeningSocket};

use super::app::{App, Later, ListenFault, Process};
use super::launch::{inspect_port, inspector_number};
use super::processes::Processes;

/// How often a process without a socket of its own is checked, and the first interval; it doubles after each
/// check.
pub(super) const SOCKETS_LOOKS: u8 = 6;
const SOCKETS_PAUSE: Duration = Duration::from_secs(1);

impl App {
    /// Checks on what a process listens; nothing if it has ended.
    pub(super) fn look_at_sockets(
        &self,
        slot: u16,
        generation: Generation,
        processes: &mut Processes,
        now: Time,
    ) -> Option<Event> {
        let process = self.process(slot, generation).filter(|process| process.ended.is_none())?;
        let mut seen = self.shared_sockets(slot, generation);
        if !seen.follows_listener {
            let followed = self.followed_by(slot, generation);
            seen.follows_listener = followed.is_some_and(|(_, old)| own_socket(self, old).is_some());
        }
        let listener = self.listener_of(slot, process, generation);
        if !seen.has_asked
            && may_listen(self.spec(), self.primary.has_agent(listener), now.since(process.spawned))
        {
            seen.own = self.own_socket_at_start(process, processes, now);
        }
        Some(Event::Sockets(slot, generation, seen))
    }

    /// What a starting process listens on by itself. A compiler may run the app in a child process.
    fn own_socket_at_start(
        &self,
        process: &Process,
        processes: &mut Processes,
        now: Time,
    ) -> Option<OwnSocket> {
        let compiles = self.supervisor.policy().compiles;
        let family = if compiles { processes.family(process, now) } else { Vec::new() };
        let kinds = family.iter().filter_map(|pid| own_socket_of(self, process, *pid));
        own_socket(self, process).into_iter().chain(kinds).min_by_key(|socket| *socket != OwnSocket::Tcp)
    }

    /// Duplicates the sockets that a process has opened itself and shares with others of the app
    /// (`reusePort`), so that waiting connections are not lost. A process without such a socket (so far) is
    /// checked again later, `looks` times. If it is not permitted, the log reports that once.
    pub(super) fn adopt_sockets(&mut self, slot: u16, generation: Generation, looks: u8, now: Time) {
        let Some(process) = self.process(slot, generation).filter(|process| process.ended.is_none()) else {
            return;
        };
        let worker = process.worker;
        let is_online = self.supervisor.slot(slot).is_some_and(|record| record.online() == Some(generation));
        if looks < SOCKETS_LOOKS && !is_online {
            return;
        }
        let is_served = |worker| self.primary.has_asked(worker) || self.primary.has_agent(worker);
        if self.workers_of(slot, generation).into_iter().any(is_served) {
            return;
        }
        let sockets = shared_listeners_of(process.child.pidfd.as_fd(), process.child.pid);
        let adopted = match sockets {
            Ok(sockets) if sockets.is_empty() => {
                if let Some(looks) = looks.checked_sub(1) {
                    let pause = SOCKETS_PAUSE * (1 << SOCKETS_LOOKS.saturating_sub(looks + 1));
                    self.later.plan(now + pause, Later::AdoptSockets(slot, generation, looks));
                }
                return;
            }
            Ok(sockets) => self.primary.adopt(worker, sockets, now),
            // It has ended, or belongs to another user.
            Err(error) if error.kind() != io::ErrorKind::PermissionDenied => return,
            Err(error) => Err(error),
        };
        if let Err(error) = adopted
            && !std::mem::replace(&mut self.told.adoption, true)
        {
            let name = &self.spec().name;
            log_line!(
                "forkful: {name}: its processes share a port by themselves (reusePort). When a process dies or its event loop is blocked, the connections in its queue cannot be given to another process: {error}. This needs CAP_BPF and the right to trace the processes"
            );
        }
    }

    /// Whether a process that listens lacks an address, see [`Sockets::lacks_any`].
    pub(super) fn lacks_address(&self, slot: u16, generation: Generation) -> bool {
        self.shared_sockets(slot, generation).lacks_any(self.spec().mode)
    }

    /// What the primary knows of a process's sockets, and of those of the process that it follows.
    fn shared_sockets(&self, slot: u16, generation: Generation) -> Sockets {
        let followed = self.followed_by(slot, generation);
        let old = followed.map(|(old, _)| self.workers_of(slot, old)).unwrap_or_default();
        self.primary.sockets_of(&self.workers_of(slot, generation), &old)
    }

    /// Why successors whose time limit has passed are given up: they listen, but not on all addresses of the
    /// old workers.
    pub(super) fn missing_faults(&self, now: Time) -> Vec<(u16, ListenFault)> {
        let late = self.supervisor.late_successors(now);
        late.into_iter().filter_map(|late| self.missing_fault(late)).collect()
    }

    fn missing_fault(&self, (slot, new): (u16, Generation)) -> Option<(u16, ListenFault)> {
        let place = self.places.get(&slot)?;
        let process = place.processes.get(&new)?;
        let there = self.addresses_of(process, &self.workers_of(slot, new));
        let missing = self.missing(slot, new);
        if there.is_empty() || missing.is_empty() {
            return None;
        }
        let missing = missing.join(" and ");
        let error = format!(
            "worker {} listens on {}, but not on {missing}, where the old one listens",
            place.pm_id,
            there.join(" and ")
        );
        let hint = format!(
            "if it is not meant to listen on {missing} any more: `forkful restart {}`, or let the app say \
             itself when it is ready (`wait_ready`)",
            shell_word(self.spec().name.as_str())
        );
        Some((slot, ListenFault { error, hint: Some(hint) }))
    }

    /// The serving process in a slot while this one starts as its successor.
    fn followed_by(&self, slot: u16, successor: Generation) -> Option<(Generation, &Process)> {
        let old = self.supervisor.slot(slot)?.followed_by(successor)?;
        Some((old, self.process(slot, old)?))
    }

    /// The addresses on which a successor does not listen, but its predecessor does.
    fn missing(&self, slot: u16, successor: Generation) -> Vec<&str> {
        let Some((old, _)) = self.followed_by(slot, successor) else { return Vec::new() };
        self.primary.missing_of(&self.workers_of(slot, successor), &self.workers_of(slot, old))
    }

    /// The listen addresses of a process, for people.
    fn addresses_of(&self, process: &Process, workers: &[WorkerId]) -> Vec<&str> {
        if workers.iter().any(|worker| self.primary.has_asked(*worker)) {
            workers.iter().flat_map(|worker| self.primary.listening_on(*worker)).collect()
        } else if own_socket(self, process).is_some() {
            vec!["a socket of its own"]
        } else {
            Vec::new()
        }
    }
}

/// What a process listens on by itself, except the inspector; a port before a unix socket.
fn own_socket(app: &App, process: &Process) -> Option<OwnSocket> {
    own_socket_of(app, process, process.child.pid)
}

/// The same for any of its descendants.
fn own_socket_of(app: &App, process: &Process, pid: u32) -> Option<OwnSocket> {
    let slot = app.find_worker(process.worker).map_or(0, |(slot, _)| slot);
    let number = inspector_number(app.spec().mode, slot, process.worker.0);
    let inspector = inspect_port(&app.spec().launch, number);
    let apps = |socket: &ListeningSocket| match (socket, inspector) {
        (ListeningSocket::Tcp(_), Some(0)) => None,
        (ListeningSocket::Tcp(address), Some(port)) => (address.port() != port).then_some(OwnSocket::Tcp),
        (ListeningSocket::Tcp(_), None) => Some(OwnSocket::Tcp),
        (ListeningSocket::Unix(_), _) => Some(OwnSocket::Unix),
    };
    let sockets = procinfo::listening_sockets_of(pid).unwrap_or_default();
    let is_port = |socket: &OwnSocket| *socket == OwnSocket::Tcp;
    let found: Vec<OwnSocket> = sockets.iter().filter_map(apps).collect();
    found.iter().copied().find(is_port).or(found.first().copied())
}
