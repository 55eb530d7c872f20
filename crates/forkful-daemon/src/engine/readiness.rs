//! When a worker counts as ready: it listens through the primary, it has a socket of its own, or it says so.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::{Event, Generation, OwnSocket, Policy, ReadySign, State};
use forkful_core::spec::Mode;
use forkful_core::supervisor::{self, SlotRecord};
use forkful_os::procinfo::{self, ListeningSocket};

use super::Engine;
use super::actions::LOOK_FRESH;
use super::app::{App, AppId, Later, ListenFault, Place, Process};
use super::launch::{inspect_port, inspector_number};

/// First look for a socket of the worker's own; the pauses grow by half each.
pub(super) const SOCKET_LOOK_FIRST: Duration = Duration::from_millis(80);
/// Longest pause between two looks.
const SOCKET_LOOK_MAX: Duration = Duration::from_millis(500);
/// `process.send('ready')` of an app that was not expected to say so counts after this, if nothing speaks against it.
const READY_GRACE: Duration = Duration::from_secs(1);

impl Engine {
    /// Looks whether a starting worker listens on a socket of its own (`exclusive`, fork mode).
    pub(crate) fn look_for_socket(&mut self, app: AppId, slot: u16, generation: Generation, looks: u32) {
        let Some(entry) = self.apps.get(&app) else { return };
        let Some(record) = entry.supervisor.slot(slot) else { return };
        let Some(process) = entry.process(slot, generation) else { return };
        if process.ended.is_some() || !super::view::awaits_readiness(&record.slot, generation) {
            return;
        }
        let has_asked = entry.primary.has_asked(process.worker);
        let follows = entry.followed_by(slot, generation).is_some();
        let listens = if has_asked {
            !entry.primary.listening_on(process.worker).is_empty()
        } else {
            let own = self.own_socket_at_start(app, slot, generation);
            self.trusts_own_socket(app, slot, generation, own)
        };
        let Some(entry) = self.apps.get(&app) else { return };
        if listens && entry.missing(slot, generation).is_empty() {
            self.feed(app, slot, Event::Ready(generation, ReadySign::Listening));
        } else if !has_asked || follows {
            // One that shares its port is looked at, too, while it follows another: that one may let go of an address.
            let pause = SOCKET_LOOK_FIRST.mul_f64(1.5_f64.powi(looks.min(8) as i32)).min(SOCKET_LOOK_MAX);
            self.later(app, pause, Later::LookForSocket { slot, generation, looks: looks + 1 });
        }
    }

    /// What a starting process listens on by itself. A compiler may run the app in a process of its own.
    fn own_socket_at_start(&mut self, app: AppId, slot: u16, generation: Generation) -> Option<OwnSocket> {
        let compiles = self.apps.get(&app).is_some_and(|entry| Policy::of(entry.spec()).compiles);
        if compiles {
            self.look_at_processes(self.clock.now() - LOOK_FRESH);
        }
        let entry = self.apps.get(&app)?;
        let process = entry.process(slot, generation)?;
        let snapshot = self.snapshot.as_ref().filter(|_| compiles).map(|(_, snapshot)| snapshot);
        let family = snapshot.map(|snapshot| snapshot.pids(&process.child, process.mark)).unwrap_or_default();
        let kinds = family.iter().filter_map(|pid| own_socket_of(entry, process, *pid));
        own_socket(entry, process).into_iter().chain(kinds).min_by_key(|socket| *socket != OwnSocket::Tcp)
    }

    /// Whether what a starting process listens on by itself makes it ready by now.
    fn trusts_own_socket(
        &mut self,
        app: AppId,
        slot: u16,
        generation: Generation,
        own: Option<OwnSocket>,
    ) -> bool {
        let now = self.clock.now();
        let Some(entry) = self.apps.get_mut(&app) else { return false };
        let policy = Policy::of(entry.spec());
        let Some(place) = entry.places.get_mut(&slot) else { return false };
        let Some(process) = place.processes.get_mut(&generation) else { return false };
        let Some(own) = own else {
            process.own_socket_since = None;
            return false;
        };
        let since = *process.own_socket_since.get_or_insert(now);
        policy.trusts(own, now.since(since))
    }

    /// A worker listens on an address. One that follows another is ready only when it listens wherever that one does:
    /// an app may listen for its administrators at once and for its clients much later, or never.
    pub(crate) fn on_listening(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.apps.get(&app) else { return };
        if entry.missing(slot, generation).is_empty() {
            self.feed(app, slot, Event::Ready(generation, ReadySign::Listening));
        }
    }

    /// Notes why successors are given up whose time is over: they listen, but not wherever the old workers do.
    pub(crate) fn note_missing(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get(&app).filter(|entry| !entry.spec().readiness.wait_ready) else {
            return;
        };
        let faults: Vec<_> = entry.slots().filter_map(|slot| entry.missing_fault(slot, now)).collect();
        for (slot, fault) in faults {
            self.supervise(app, supervisor::Event::ListenRefused(slot, fault));
        }
    }

    /// A worker said `process.send('ready')`. With `wait_ready` that is the word that was waited for, and a fork-mode
    /// app has its port to itself. Else many apps say it out of habit before they listen, and a reload that
    /// believed them would take the old worker away too early.
    pub(crate) fn on_said_ready(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.apps.get(&app) else { return };
        if entry.spec().readiness.wait_ready || entry.spec().mode == Mode::Fork {
            self.feed(app, slot, Event::Ready(generation, ReadySign::Message));
        } else {
            self.later(app, READY_GRACE, Later::SaidReady(slot, generation));
        }
    }

    /// The word counts if the worker has not asked for an address meanwhile, and does not follow one that listens:
    /// otherwise its listening decides.
    pub(crate) fn trust_ready(&mut self, app: AppId, slot: u16, generation: Generation) {
        let Some(entry) = self.apps.get(&app) else { return };
        let Some(record) = entry.supervisor.slot(slot) else { return };
        let Some(process) = entry.process(slot, generation) else { return };
        let follows_a_listener = entry.followed_by(slot, generation).is_some_and(|old| entry.listens(old));
        if follows_a_listener || entry.primary.has_asked(process.worker) || record.listen_fault.is_some() {
            return;
        }
        self.feed(app, slot, Event::Ready(generation, ReadySign::Message));
    }
}

impl App {
    fn missing_fault(
        &self,
        (slot, record, place): (u16, &SlotRecord, &Place),
        now: Time,
    ) -> Option<(u16, ListenFault)> {
        let new = record.late_successor(now)?;
        let (there, missing) = (self.addresses_of(place.processes.get(&new)?), self.missing(slot, new));
        // A listen that was refused says more.
        if record.listen_fault.is_some() || there.is_empty() || missing.is_empty() {
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
            self.spec().name
        );
        Some((slot, ListenFault { error, hint: Some(hint) }))
    }

    /// The process that serves in a slot while this one starts to follow it.
    fn followed_by(&self, slot: u16, successor: Generation) -> Option<&Process> {
        match &self.supervisor.slot(slot)?.slot.state {
            State::Replacing { old, new, .. } if *new == successor => self.process(slot, old.generation),
            _ => None,
        }
    }

    /// Where a successor does not listen, and the process that it follows does.
    fn missing(&self, slot: u16, successor: Generation) -> Vec<&str> {
        let old = self.followed_by(slot, successor).zip(self.process(slot, successor));
        old.map_or_else(Vec::new, |(old, new)| self.primary.missing_of(new.worker, old.worker))
    }

    /// What a process listens on, for people.
    fn addresses_of(&self, process: &Process) -> Vec<&str> {
        if self.primary.has_asked(process.worker) {
            self.primary.listening_on(process.worker)
        } else if own_socket(self, process).is_some() {
            vec!["a socket of its own"]
        } else {
            Vec::new()
        }
    }

    fn listens(&self, process: &Process) -> bool {
        self.primary.has_asked(process.worker) || own_socket(self, process).is_some()
    }
}

/// What a process listens on by itself, the inspector apart; a port before a unix socket.
fn own_socket(app: &App, process: &Process) -> Option<OwnSocket> {
    own_socket_of(app, process, process.child.pid)
}

/// The same of any process that it has started.
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
