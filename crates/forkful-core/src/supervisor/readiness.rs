//! When a worker counts as ready: it listens through the primary, it has a socket of its own, or it says so.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Effect, SlotRecord, Turn};
use crate::Time;
use crate::slot::{Generation, OwnSocket, ReadySign, State};
use crate::spec::{AppSpec, Mode};

/// First look for a socket of the worker's own; the pauses grow by half each.
const LOOK_FIRST: Duration = Duration::from_millis(80);
/// Longest pause between two looks.
const LOOK_PAUSE_MAX: Duration = Duration::from_millis(500);
/// The same for a process that counts as up only because its time was over: it may listen late, or never.
const LATE_LOOK_PAUSE_MAX: Duration = Duration::from_secs(60);
/// `process.send('ready')` of an app that was not expected to say so counts after this, if nothing speaks against it.
const READY_GRACE: Duration = Duration::from_secs(1);

/// A cluster-mode process whose agent has not spoken for this long may be a program that loads none, which can listen all the same.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// Whether a process of this age may have a socket of its own. Code of the app runs in a cluster-mode process only after its agent
/// has spoken, and a look at the kernel's tables costs much compared with the rest of a start. Half of `listen_timeout` is left for
/// a process whose agent never speaks.
pub fn may_listen(spec: &AppSpec, has_agent: bool, age: Duration) -> bool {
    spec.mode == Mode::Fork
        || has_agent
        || !spec.agent
        || age > SILENT_MAX.min(spec.readiness.start_timeout() / 2)
}

/// What is kept of a process whose readiness is awaited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Awaited {
    generation: Generation,
    /// When its sockets are looked at next.
    next_look: Option<Time>,
    /// Looks so far.
    looks: u32,
    /// Since when it has been seen to listen by itself.
    own_socket_since: Option<Time>,
    word: Word,
}

/// Whether the process has said that it is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum Word {
    None,
    /// It counts from this time on, if nothing speaks against it.
    Given(Time),
    /// That time has come, and its sockets are being looked at.
    Due,
}

/// What a driver has seen of a process's sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sockets {
    /// Whether it has asked the primary for an address.
    pub has_asked: bool,
    /// Whether it listens on an address of the primary's.
    pub shares: bool,
    /// Whether such an address has a port.
    pub shares_tcp: bool,
    /// What it listens on by itself.
    pub own: Option<OwnSocket>,
    /// Whether it lacks an address on which the process that it follows listens.
    pub lacks_address: bool,
    /// Whether it follows a process that listens, or has asked for an address.
    pub follows_listener: bool,
}

impl Sockets {
    /// What it says in a mode. In fork mode, a unix socket that the primary has lent to a process may belong to a tool which the process
    /// uses. Without a port beside it, such a socket counts as a socket of the process's own.
    fn in_mode(self, mode: Mode) -> Self {
        if self.is_lent_files_alone(mode) {
            Self { has_asked: false, own: self.shares.then_some(OwnSocket::Unix), ..self }
        } else {
            self
        }
    }

    fn is_lent_files_alone(self, mode: Mode) -> bool {
        mode == Mode::Fork && self.has_asked && !self.shares_tcp
    }

    /// Whether a process that listens on an address is not ready by that, because another address is missing.
    pub fn lacks_any(&self, mode: Mode) -> bool {
        self.lacks_address || self.is_lent_files_alone(mode)
    }
}

impl Awaited {
    /// When something is due.
    pub(super) fn next_wake(&self) -> Option<Time> {
        let word = match self.word {
            Word::Given(at) => Some(at),
            Word::None | Word::Due => None,
        };
        [self.next_look, word].into_iter().flatten().min()
    }
}

impl SlotRecord {
    fn awaited_as(&mut self, generation: Generation) -> Option<&mut Awaited> {
        self.awaited.as_mut().filter(|awaited| awaited.generation == generation)
    }

    /// Whether the readiness of a process is still awaited.
    pub(super) fn awaits(&self, generation: Generation) -> bool {
        match &self.slot.state {
            State::Starting { generation: current, .. } => *current == generation,
            State::Replacing { new, .. } => *new == generation,
            State::Stopped { .. }
            | State::Online(_)
            | State::Stopping { .. }
            | State::Backoff { .. }
            | State::Failed { .. } => false,
        }
    }

    /// Whether this process was started to replace another one of its slot that is still serving.
    fn follows(&self, generation: Generation) -> bool {
        matches!(&self.slot.state, State::Replacing { new, .. } if *new == generation)
    }
}

impl Turn<'_> {
    /// The program of a process runs: its readiness is awaited.
    pub(super) fn await_readiness(&mut self, slot: u16, generation: Generation) {
        let looks = !self.app.spec.readiness.wait_ready;
        let next_look = looks.then(|| self.context.now + LOOK_FIRST);
        if let Some(record) = self.app.slots.get_mut(&slot) {
            record.awaited =
                Some(Awaited { generation, next_look, looks: 0, own_socket_since: None, word: Word::None });
        }
    }

    /// Asks for a look at sockets whose time has come, in slots for which something is due.
    pub(super) fn look_at_sockets(&mut self, slots: &[u16]) {
        let now = self.context.now;
        for slot in slots {
            let Some(record) = self.app.slots.get_mut(slot) else { continue };
            let Some(mut awaited) = record.awaited else { continue };
            let generation = awaited.generation;
            let is_looked_for = awaited.next_look.is_some_and(|at| at <= now);
            if is_looked_for {
                awaited.next_look = None;
            }
            let mut is_due = is_looked_for && record.is_cold(generation);
            if let Word::Given(at) = awaited.word
                && at <= now
            {
                awaited.word = Word::Due;
                is_due = true;
            }
            record.awaited = Some(awaited);
            if is_due {
                self.effect(Effect::LookAtSockets(*slot, generation));
            }
        }
    }

    /// The sockets of a process have been looked at.
    pub(super) fn on_sockets(&mut self, slot: u16, generation: Generation, seen: Sockets) {
        let now = self.context.now;
        let seen = seen.in_mode(self.app.spec.mode);
        let policy = &self.app.policy;
        let Some(record) = self.app.slots.get_mut(&slot) else { return };
        let (awaits, is_cold) = (record.awaits(generation), record.is_cold(generation));
        let follows = record.follows(generation);
        let speaks_against = seen.follows_listener || seen.has_asked || record.listen_fault.is_some();
        let Some(awaited) = record.awaited_as(generation) else { return };
        let has_said_so = awaited.word == Word::Due && !speaks_against;
        if awaited.word == Word::Due {
            awaited.word = Word::None;
        }
        let listens = match seen.own {
            _ if seen.has_asked => seen.shares,
            None => {
                awaited.own_socket_since = None;
                false
            }
            Some(own) => {
                let since = *awaited.own_socket_since.get_or_insert(now);
                policy.trusts(own, now.since(since))
            }
        };
        let is_ready = is_cold && listens && !seen.lacks_address;
        // A process that shares its port, and replaces another one, is looked at as well: it may be ready because the old
        // process closes an address on which the new one never listens.
        if is_cold && !is_ready && awaited.next_look.is_none() && (!seen.has_asked || follows) {
            let longest = if awaits { LOOK_PAUSE_MAX } else { LATE_LOOK_PAUSE_MAX };
            let pause = LOOK_FIRST.mul_f64(1.5_f64.powi(awaited.looks.min(20) as i32)).min(longest);
            awaited.looks += 1;
            awaited.next_look = Some(now + pause);
        }
        if is_ready {
            self.can_serve(slot, generation, ReadySign::Listening);
        }
        if has_said_so {
            self.can_serve(slot, generation, ReadySign::Message);
        }
    }

    /// A worker listens on an address. A worker that replaces another one is ready only when it listens on every address
    /// of the old worker: an app may open its port for administrators at once and its port for clients much later, or
    /// never.
    pub(super) fn on_listening(&mut self, slot: u16, generation: Generation, lacks_address: bool) {
        if self.app.spec.mode == Mode::Fork
            && let Some(record) = self.app.slots.get_mut(&slot)
        {
            record.shares.insert(generation);
        }
        if let Some(record) = self.app.slots.get_mut(&slot) {
            // It may have tried another port first.
            record.listen_fault = None;
        }
        if !lacks_address {
            self.can_serve(slot, generation, ReadySign::Listening);
        }
    }

    /// A worker said `process.send('ready')`. With `wait_ready` that is the word that was waited for, and at a start a
    /// fork-mode app has its port to itself. Otherwise many apps say it out of habit before they listen, and a reload that
    /// believed them would take the old worker away too early.
    pub(super) fn on_said_ready(&mut self, slot: u16, generation: Generation) {
        let spec = &self.app.spec;
        let follows = self.app.slots.get(&slot).is_some_and(|record| record.follows(generation));
        if spec.readiness.wait_ready || spec.mode == Mode::Fork && !follows {
            return self.can_serve(slot, generation, ReadySign::Message);
        }
        let at = self.context.now + READY_GRACE;
        let record = self.app.slots.get_mut(&slot);
        if let Some(awaited) = record.and_then(|record| record.awaited_as(generation)) {
            awaited.word = Word::Given(at);
        }
    }
}
