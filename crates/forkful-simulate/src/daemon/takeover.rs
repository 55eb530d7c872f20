//! The daemon dies at any moment while its workers live on, and another daemon continues from the written
//! state.
//!
//! What survives a daemon: the processes, their unread messages, their unreported exits (a keeper is their
//! parent and holds their channels), and the written state. Before the effects of a step are performed, the
//! supervisor and these effects are written; after they are performed, this is recorded. So each effect is
//! performed, and an effect in progress when the daemon died may be performed twice. A process's message
//! counts as read once its consequences are written.
//!
//! Writing begins shortly before the daemon dies, because earlier writes are never read.

use std::collections::{BTreeMap, BTreeSet};

use forkful_core::snapshot;
use forkful_core::supervisor::{Adopted, AppId, AppSupervisor, Effect, Event, JobId};

use super::applying::Applying;
use super::{App, Daemon};
use crate::disk::Saved;
use crate::machine::{Deed, Phase, Pid};
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

/// What survives a daemon, and how far it is from its death.
#[derive(Debug, Default)]
pub(crate) struct Kept {
    /// The number of operations until the daemon dies.
    dies_in: Option<u64>,
    pub(crate) is_dead: bool,
    /// It does not die before it has passed on what its primaries have noticed, because nobody would report
    /// that again.
    pub(crate) is_spared: bool,
    apps: BTreeMap<AppId, Record>,
    own: Own,
    /// Unreported events, because no daemon existed.
    untold: Vec<Happening>,
}

/// The written state of an app.
#[derive(Debug)]
struct Record {
    bytes: Vec<u8>,
    /// Its effects were performed.
    is_performed: bool,
}

/// The written state of the daemon itself.
#[derive(Debug, Default, Clone)]
struct Own {
    last_app: u32,
    last_job: u64,
    /// Commands that continue without a client.
    unwatched: BTreeSet<JobId>,
    /// Apps of a saved state that are not created yet.
    pending: Vec<Saved>,
    /// Plans in progress.
    applies: Vec<Applying>,
}

impl Kept {
    /// Whether the daemon dies soon.
    pub(crate) fn is_dying(&self) -> bool {
        self.dies_in.is_some()
    }
}

impl World {
    /// The daemon performs this many more operations, then dies.
    pub(crate) fn die_after(&mut self, things: u64) {
        if self.kept.dies_in.is_some() || self.kept.is_dead {
            return;
        }
        self.kept.dies_in = Some(things);
        let apps: Vec<AppId> = self.daemon.apps.keys().copied().collect();
        apps.into_iter().for_each(|app| self.write_down(app, None, &[]));
        self.write_own();
    }

    /// Whether the daemon may perform another operation.
    pub(super) fn lives(&mut self) -> bool {
        match &mut self.kept.dies_in {
            Some(_) if self.kept.is_spared => {}
            Some(0) => self.die(),
            Some(left) => *left -= 1,
            None => {}
        }
        !self.kept.is_dead
    }

    fn die(&mut self) {
        self.trace(|| "      the daemon dies".to_owned());
        self.kept.dies_in = None;
        self.kept.is_dead = true;
        self.crash_disk();
        for request in &mut self.clients.requests {
            request.has_left |= request.answers == 0;
        }
        let slow = self.dice.percent(10);
        let after = if slow { self.dice.millis(100, 5_000) } else { self.dice.millis(0, 100) };
        self.after(after, Happening::TakeOver);
    }

    /// The daemon without a keeper: nothing survives it.
    pub(super) fn forget_kept(&mut self) {
        self.kept = Kept::default();
    }

    /// Keeps an event for the next daemon.
    pub(crate) fn keep(&mut self, happening: Happening) {
        self.kept.untold.push(happening);
    }

    /// Writes an app with its next effects; where a look is not written, as it was `before` the look.
    pub(super) fn write_down(&mut self, app: AppId, before: Option<AppSupervisor>, effects: &[Effect]) {
        let is_kept = self.kept.is_dying();
        let is_read_back = self.is_checked();
        if !is_kept && !is_read_back {
            return;
        }
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        let mut bytes = Vec::new();
        let value = match &before {
            Some(before) => (before, Default::default()),
            None => (&entry.supervisor, effects),
        };
        snapshot::write(&value, &mut bytes).expect("definitions of a simulated world are texts");
        if is_read_back {
            let read = snapshot::read::<(AppSupervisor, Vec<Effect>)>(&bytes);
            let is_same = read.is_ok_and(|((supervisor, read), rest)| {
                supervisor == *value.0 && read == value.1 && rest.is_empty()
            });
            if !is_same {
                self.watch.fail(Invariant::ReadAsWritten, format!("{}", String::from_utf8_lossy(&bytes)));
            }
        }
        if !is_kept {
            return;
        }
        if self.plant == Some(Plant::UnwrittenEffects) {
            bytes.clear();
            snapshot::write(&(value.0, [0; 0]), &mut bytes).expect("the same without effects");
        } else if self.plant == Some(Plant::UnwrittenField) {
            bytes = without(&value, |record| record["deadline"] = serde_json::Value::Null);
        } else if self.plant == Some(Plant::UnwrittenCounter) {
            bytes = without(&value, |record| record["slot"]["counters"]["restarts"] = 0.into());
        } else if self.plant == Some(Plant::UnwrittenWait) {
            bytes = without(&value, |record| record["waits_for_cron"] = false.into());
        }
        self.kept.apps.insert(app, Record { bytes, is_performed: value.1.is_empty() });
        self.write_own();
    }

    /// The effects of an app's last step were performed.
    pub(super) fn note_performed(&mut self, app: AppId) {
        if let Some(record) = self.kept.apps.get_mut(&app) {
            record.is_performed = true;
        }
    }

    /// An app is removed.
    pub(super) fn forget_written(&mut self, app: AppId) {
        self.kept.apps.remove(&app);
    }

    fn write_own(&mut self) {
        self.kept.own = Own {
            last_app: self.daemon.next_app,
            last_job: self.daemon.jobs.newest(),
            unwatched: self.daemon.jobs.unwatched(|job| job.request.is_some()),
            pending: self.daemon.pending.clone(),
            applies: self.daemon.applies.clone(),
        };
    }

    /// A plan performs its next action: it is written first.
    pub(super) fn write_plans(&mut self) {
        if self.kept.is_dying() {
            self.write_own();
        }
    }

    /// Another daemon takes over.
    pub(crate) fn take_over(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let seed = self.dice.bits();
        self.daemon = Daemon::new(seed);
        self.daemon.holds_some = true;
        self.daemon.has_moved = true;
        self.net.forget_timer();
        self.watch.was_taken_over = true;
        self.daemon.saving.take_up(self.disk.owed.is_empty());
        self.daemon.saving.note_change();
        self.daemon.next_app = kept.own.last_app;
        let last_job = if self.plant == Some(Plant::NumbersAgain) { 0 } else { kept.own.last_job };
        self.daemon.jobs.resume_after(last_job, kept.own.unwatched);
        let mut undone = Vec::new();
        for (app, record) in kept.apps {
            let read = snapshot::read::<(AppSupervisor, Vec<Effect>)>(&record.bytes);
            let ((supervisor, effects), _) = read.expect("what was written can be read");
            self.daemon.apps.insert(app, App::adopted(supervisor));
            undone.extend(effects.into_iter().filter(|_| !record.is_performed).map(|effect| (app, effect)));
        }
        let is_new = |saved: &Saved| self.daemon.find(&saved.spec.name).is_none();
        self.daemon.pending = kept.own.pending.into_iter().filter(is_new).collect();
        self.adopt_processes();
        for (app, effect) in undone {
            self.trace(|| format!("      → again: {effect:?}"));
            self.perform_again(app, effect);
        }
        let apps: Vec<AppId> = self.daemon.apps.keys().copied().collect();
        for app in apps {
            self.excuse_clock(app);
            self.follow_load(app);
            let there = self.adopted(app);
            self.supervise(app, Event::TakenOver(there));
        }
        self.resume_plans(kept.own.applies);
        // Events from before the takeover come before deadlines from before it.
        for happening in kept.untold {
            self.handle(happening);
        }
    }

    /// Adopts the existing processes. Starts that the previous daemon had queued are lost, and so are signals
    /// that it kept for processes whose start was in progress.
    fn adopt_processes(&mut self) {
        self.machine.lose_unbegun();
        let there = self.machine.processes.iter().map(|(pid, process)| (process.whose, pid));
        self.daemon.pids = there.collect();
        for (app, entry) in self.daemon.apps.iter() {
            for (slot, record) in entry.supervisor.slots() {
                let lost = record.slot.generations();
                let lost =
                    lost.filter(|generation| !self.daemon.pids.contains_key(&(*app, *slot, *generation)));
                lost.for_each(|generation| self.watch.allow_again(*app, *slot, generation));
            }
        }
    }

    /// What exists of an app, for its supervisor.
    fn adopted(&self, app: AppId) -> Vec<Adopted> {
        if self.plant == Some(Plant::NobodyAdopted) {
            return Vec::new();
        }
        let own = self.processes_of(app);
        own.map(|(slot, generation, process)| {
            let runs = matches!(process.phase, Phase::Alive | Phase::Dead);
            Adopted { slot, generation, runs }
        })
        .collect()
    }

    /// Performs an effect that may have been performed before.
    fn perform_again(&mut self, app: AppId, effect: Effect) {
        self.watch.is_again = true;
        match effect {
            Effect::Spawn(slot, generation) if self.daemon.pids.contains_key(&(app, slot, generation)) => {}
            // The supervisor requests this again by itself.
            Effect::LookAtSockets(..) | Effect::AskHealth(..) | Effect::WarmUp { .. } => {}
            effect => self.perform(app, effect),
        }
        self.watch.is_again = false;
    }

    /// An event while there is no daemon; returns false if it concerns nobody.
    pub(crate) fn happen_unseen(&mut self, happening: Happening) -> bool {
        match happening {
            Happening::TakeOver => self.take_over(),
            Happening::Act if self.calm => return false,
            Happening::Act => self.act(),
            Happening::Deed(pid, deed) => self.perform_deed(pid, deed),
            Happening::Measure => {
                self.measure_later();
                return false;
            }
            Happening::Seen(_) if self.plant == Some(Plant::UnseenExit) => {}
            Happening::Seen(_)
            | Happening::Told(..)
            | Happening::StartOver(_)
            | Happening::GiveUpStart(_)
            | Happening::Revive(_)
            | Happening::Heard(_)
            | Happening::Ring(_)
            | Happening::CountCloses => self.keep(happening),
            Happening::Connect(connection) => return self.connect(connection),
            Happening::GiveUp(connection) => return self.client_gives_up(connection),
            Happening::Finish(connection) => return self.finish(connection),
            Happening::Turn(pid) => return self.turn_loop(pid),
            // These belonged to the daemon itself.
            Happening::Begin(_)
            | Happening::Asked(..)
            | Happening::Warmed(..)
            | Happening::Written(_)
            | Happening::Patience(_)
            | Happening::NextStep(_)
            | Happening::NetWake
            | Happening::Wake => return false,
        }
        true
    }

    /// Repeats what the daemon was handling when it died, if the consequences were not written.
    pub(crate) fn untold(&mut self, happening: &Happening) {
        match happening {
            Happening::Told(..) | Happening::Seen(_) | Happening::GiveUpStart(_) | Happening::Revive(_) => {
                self.keep(happening.clone());
            }
            // Whether the program runs can be observed.
            Happening::StartOver(pid) => self.untold_start(*pid),
            Happening::Deed(pid, deed) => self.untold_deed(*pid, deed),
            Happening::Act
            | Happening::TakeOver
            | Happening::Begin(_)
            | Happening::Asked(..)
            | Happening::Warmed(..)
            | Happening::Written(_)
            | Happening::Patience(_)
            | Happening::NextStep(_)
            | Happening::Measure
            | Happening::Wake => {}
            // The events of primaries are kept in the channels.
            Happening::Connect(_)
            | Happening::GiveUp(_)
            | Happening::Finish(_)
            | Happening::Turn(_)
            | Happening::Heard(_)
            | Happening::Ring(_)
            | Happening::NetWake
            | Happening::CountCloses => {}
        }
    }

    fn untold_start(&mut self, pid: Pid) {
        let is_under_way =
            self.machine.processes.get(pid).is_some_and(|process| process.phase == Phase::Starting);
        if is_under_way {
            self.keep(Happening::StartOver(pid));
        }
    }

    fn untold_deed(&mut self, pid: Pid, deed: &Deed) {
        if !matches!(deed, Deed::Die(_)) && !self.has_channel(pid) {
            self.keep(Happening::Told(pid, deed.clone()));
        }
    }
}

/// The written state if the code had forgotten a field of slots.
fn without(value: &(&AppSupervisor, &[Effect]), forget: fn(&mut serde_json::Value)) -> Vec<u8> {
    let mut json = serde_json::to_value(value).expect("it was written before");
    let slots = json[0]["slots"].as_object_mut();
    slots.into_iter().flatten().for_each(|(_, record)| forget(record));
    let mut bytes = Vec::new();
    snapshot::write(&json, &mut bytes).expect("the same without a field");
    bytes
}

impl App {
    /// An app that was read from the written state.
    fn adopted(supervisor: AppSupervisor) -> Self {
        let places = supervisor.slots().keys().copied().collect();
        Self { supervisor, places }
    }
}
