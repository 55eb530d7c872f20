//! The daemon's saved state, its crash, and what the next daemon restores.

use std::rc::Rc;
use std::time::Duration;

use forkful_core::saving::may_reply;
use forkful_core::spec::AppName;

use super::{Daemon, Patient};
use crate::disk::{Saved, State};
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::{Invariant, Watch};
use crate::world::World;

/// How long a reply waits for the state to be on disk; after that it reports that the state is not saved.
const PATIENCE: Duration = Duration::from_secs(2);

impl World {
    /// The state to save: what should run.
    fn state(&self) -> Vec<Saved> {
        let saved = |app: &super::App| Saved {
            spec: Rc::clone(app.supervisor.spec()),
            first: app.supervisor.saved_states(),
        };
        self.daemon.apps.values().map(saved).chain(self.daemon.pending.iter().cloned()).collect()
    }

    /// The apps whose workers are being deleted.
    fn going(&self) -> Vec<AppName> {
        let goes = |app: &&super::App| app.supervisor.slots().values().any(|record| record.slot.is_going());
        self.daemon.apps.values().filter(goes).map(|app| app.supervisor.spec().name.clone()).collect()
    }

    /// Writes the state if it has changed.
    pub(super) fn save_changes(&mut self) {
        if let Some(save) = self.daemon.saving.begin() {
            let keep = save.keep && self.plant != Some(Plant::PreviousOverwritten);
            let state = State { number: save.number, taken: self.events, keep, apps: self.state() };
            self.write(state);
        }
    }

    /// A reply is ready: it is sent when its state is on disk.
    pub(super) fn reply_when_saved(&mut self, request: usize) {
        let patient = Patient {
            request,
            ticket: self.daemon.saving.ticket(),
            ready: self.events,
            state: self.state(),
            going: self.going(),
        };
        let is_early = self.plant == Some(Plant::AnsweredBeforeSaved);
        if is_early || may_reply(patient.ticket, self.daemon.saved) {
            self.reply_saved(&patient);
        } else {
            self.daemon.patient.push(patient);
            self.after(PATIENCE, Happening::Patience(request));
        }
    }

    /// A reply without an error is still true after a crash.
    fn reply_saved(&mut self, patient: &Patient) {
        let on_disk = &self.disk.state;
        // For an app that is being deleted, nothing is promised either way.
        let stays = |saved: &&Saved| !patient.going.contains(&saved.spec.name);
        let is_same = on_disk.apps.iter().filter(stays).eq(patient.state.iter().filter(stays));
        if on_disk.taken < patient.ready && !is_same {
            let seen = format!("request {} is answered, and what it says is not on disk", patient.request);
            self.watch.fail(Invariant::RepliesHold, seen);
        }
        self.reply(patient.request, "done");
    }

    /// A state is on disk.
    pub(crate) fn release_replies(&mut self, number: u64) {
        self.daemon.saved = number;
        let waiting = std::mem::take(&mut self.daemon.patient);
        let (ready, waiting) = waiting.into_iter().partition(|patient| may_reply(patient.ticket, number));
        self.daemon.patient = waiting;
        let ready: Vec<Patient> = ready;
        ready.iter().for_each(|patient| self.reply_saved(patient));
    }

    /// A state could not be written: the replies that wait for it report this.
    pub(crate) fn fail_replies(&mut self, number: u64) {
        let waiting = std::mem::take(&mut self.daemon.patient);
        let (told, waiting) = waiting.into_iter().partition(|patient| may_reply(patient.ticket, number));
        self.daemon.patient = waiting;
        let told: Vec<Patient> = told;
        told.iter().for_each(|patient| self.reply(patient.request, "done, and not saved"));
    }

    /// A reply has waited long enough. Returns whether it still waits.
    pub(crate) fn lose_patience(&mut self, request: usize) -> bool {
        let Some(at) = self.daemon.patient.iter().position(|patient| patient.request == request) else {
            return false;
        };
        self.daemon.patient.remove(at);
        self.reply(request, "done, and not saved yet");
        true
    }

    /// The daemon and its workers are gone. The next daemon begins.
    pub(crate) fn crash(&mut self) {
        self.forget_kept();
        self.crash_disk();
        for request in &mut self.clients.requests {
            request.has_left |= request.answers == 0;
        }
        self.machine = self.machine.reborn();
        self.net.crash();
        let seed = self.dice.bits();
        self.life += 1;
        self.daemons += 1;
        self.daemon = Daemon::new(seed);
        let broken = self.watch.broken.take();
        self.watch = Watch::default();
        self.watch.broken = broken;
        self.disk.leave();
        // A daemon started by a command restores nothing until a client requests it.
        if self.dice.percent(70) || self.calm {
            self.resurrect();
        }
    }

    /// The saved apps are restored, and belong to this daemon from now on.
    pub(crate) fn resurrect(&mut self) {
        let is_own = self.daemon.saving.is_own();
        let loaded = self.disk.newest(is_own);
        if !is_own {
            let is_whole = !self.disk.state.apps.is_empty();
            self.daemon.saving.take_up(is_whole);
        }
        self.disk.owed.retain(|owed| loaded.iter().all(|saved| saved.spec.name != owed.spec.name));
        for saved in loaded {
            if !self.daemon.is_known(&saved.spec.name) {
                self.daemon.pending.push(saved);
            }
        }
        self.daemon.saving.note_change();
        let after = self.dice.millis(0, 50);
        self.after(after, Happening::Revive(self.life));
    }

    /// Creates the saved apps.
    pub(crate) fn revive(&mut self) {
        let before = self.daemon.pending.clone();
        let job = self.new_job(None);
        before.iter().for_each(|saved| self.note_change_of(&saved.spec.name));
        for saved in &before {
            if self.daemon.find(&saved.spec.name).is_none() {
                self.create((*saved.spec).clone(), job, saved.first.clone());
            }
        }
        if self.kept.is_dead {
            return;
        }
        self.daemon.pending.clear();
        self.daemon.saving.note_change();
        for saved in &before {
            let app = self.daemon.find(&saved.spec.name).and_then(|id| self.daemon.apps.get(&id));
            let is_back = app.is_some_and(|app| {
                **app.supervisor.spec() == *saved.spec && app.supervisor.saved_states() == saved.first
            });
            if !is_back {
                let seen = format!("{} is not back as it was saved", saved.spec.name);
                self.watch.fail(Invariant::ComesBack, seen);
            }
        }
    }
}
