//! Apps and their places come and go: created, scaled up and down, removed.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forkful_cluster::{Primary, PrimaryConfig};
use forkful_core::slot::{Exit, Policy, Slot, Verb as SlotVerb};
use forkful_core::spec::{AppSpec, INSTANCES_MAX};

use super::Engine;
use super::app::{App, AppId, Place, log_files};
use super::exit_tail::ExitTail;
use super::jobs::JobId;
use super::launch::{lowest_port_of, other_user};

/// App numbers go up to here: a token has room for them below the bit that marks processes.
pub(super) const APP_IDS_MAX: u32 = (1 << (63 - forkful_cluster::primary::TOKEN_BITS)) - 1;

/// Which slots of a new app are not started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FirstStates<'a> {
    /// These are stopped and all others are started; `None` is what `autostart` says.
    pub(crate) stopped: Option<&'a [u16]>,
    /// The program of these has done its work under an earlier daemon.
    pub(crate) finished: &'a [u16],
}

impl Engine {
    /// Makes an app and starts its workers.
    pub(crate) fn create(&mut self, spec: AppSpec, job: JobId) -> AppId {
        self.create_with(spec, job, FirstStates::default())
    }

    /// The same with slots that are not started.
    pub(crate) fn create_with(&mut self, spec: AppSpec, job: JobId, first: FirstStates<'_>) -> AppId {
        let id = self.new_app_id();
        let token_base = u64::from(id.0) << forkful_cluster::primary::TOKEN_BITS;
        let config = PrimaryConfig {
            balance: spec.balance,
            token_base,
            owner: other_user(&spec),
            lowest_port: lowest_port_of(&spec),
        };
        let app = App {
            policy: Policy::of(&spec),
            primary: Primary::new(config, Rc::clone(&self.reactor), false),
            places: BTreeMap::new(),
            created_at_ms: super::clock::wall_ms(),
            workers_started: 0,
            reload: None,
            reloads: forkful_core::rollout::ReloadQueue::default(),
            held: None,
            special_logs: super::app::SpecialFiles::new(),
            group: None,
            cpu: super::cpu_sample::CpuSample::default(),
            out_of_memory_kills: 0,
            told_lacks: BTreeSet::new(),
            upkeep: super::upkeep::AppUpkeep::default(),
            unknown_keys: Vec::new(),
            later: BTreeMap::new(),
            spec: Rc::new(spec),
        };
        let instances = app.spec.instances;
        let autostart = app.spec.autostart;
        let starts = |number: &u16| {
            let is_wanted = first.stopped.map_or(autostart, |stopped| !stopped.contains(number));
            is_wanted && !first.finished.contains(number)
        };
        self.apps.insert(id, app);
        self.hear_messages();
        self.join(job, id);
        self.note_change();
        for number in 0..instances {
            self.add_place(id, number);
        }
        self.leave_finished(id, first.finished, job);
        self.begin_upkeep(id);
        self.start_in_order(id, (0..instances).filter(starts).collect(), job);
        id
    }

    /// Slots whose program has done its work are not started again.
    fn leave_finished(&mut self, app: AppId, slots: &[u16], job: JobId) {
        for slot in slots {
            let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(slot)) else {
                continue;
            };
            place.slot = Slot::finished();
            place.last_exit = Some(Exit::Code(0));
            place.wanted = true;
            let pm_id = place.pm_id;
            if let Some(part) = self.part(job, app) {
                part.pm_ids.push(pm_id);
                part.finished += 1;
                part.note(format!(
                    "worker {pm_id} had finished with exit code 0 and is not started again; `forkful restart {pm_id}` \
                     starts it"
                ));
            }
        }
    }

    /// A number that no app has, and that fits into a reactor token. After half a million apps the numbers come again;
    /// events of the first ones are long gone.
    fn new_app_id(&mut self) -> AppId {
        loop {
            self.next_app = self.next_app % APP_IDS_MAX + 1;
            let id = AppId(self.next_app);
            if !self.apps.contains_key(&id) {
                return id;
            }
        }
    }

    pub(super) fn add_place(&mut self, app: AppId, number: u16) {
        let pm_id = self.next_pm_id;
        self.next_pm_id += 1;
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let files = log_files(&entry.spec, &self.home.logs(), pm_id, &entry.special_logs);
        let place = Place {
            pm_id,
            slot: Slot::default(),
            processes: BTreeMap::new(),
            deadline: None,
            last_exit: None,
            exit_cause: None,
            listen_fault: None,
            owner_looked_at: None,
            exit_tail: ExitTail::default(),
            started_at_ms: None,
            cpu: super::cpu_sample::CpuSample::default(),
            group_cpu: super::cpu_sample::CpuSample::default(),
            out_file: files.out,
            error_file: files.error,
            combined_file: files.combined,
            upkeep: super::upkeep::PlaceUpkeep::default(),
            wanted: false,
        };
        entry.places.insert(number, place);
    }

    /// Gives an app this many places; yields those that go.
    pub(super) fn scale(&mut self, app: AppId, instances: u16, job: JobId) -> Vec<u16> {
        self.note_change();
        let Some(entry) = self.apps.get_mut(&app) else { return Vec::new() };
        let mut spec = AppSpec::clone(&entry.spec);
        spec.instances = instances;
        entry.spec = Rc::new(spec);
        let staying = |(_, place): &(&u16, &Place)| !place.slot.is_going();
        let present: Vec<u16> = entry.places.iter().filter(staying).map(|(slot, _)| *slot).collect();
        let taken: Vec<u16> = entry.places.keys().copied().collect();
        let wanted = usize::from(instances);
        let free: Vec<u16> = (0..INSTANCES_MAX)
            .filter(|number| !taken.contains(number))
            .take(wanted.saturating_sub(present.len()))
            .collect();
        for number in free {
            self.add_place(app, number);
            self.ask(app, number, SlotVerb::Start, job);
        }
        let leave = present.len().saturating_sub(wanted);
        let leaving: Vec<u16> = present.into_iter().rev().take(leave).collect();
        for number in &leaving {
            self.ask(app, *number, SlotVerb::Retire, job);
            // A reload goes on without it.
            self.on_slot_gone(app, *number);
        }
        leaving
    }

    /// A deleted slot goes; with the last one the app.
    pub(crate) fn remove_place(&mut self, app: AppId, slot: u16) {
        self.note_change();
        let Some(entry) = self.apps.get_mut(&app) else { return };
        entry.forget_later(slot);
        let removed = entry.places.remove(&slot);
        let left = entry.places.values().filter(|place| !place.slot.is_going()).count();
        if let Some(place) = removed {
            self.logs.forget(place.pm_id);
        }
        self.on_slot_gone(app, slot);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.places.is_empty() {
            self.cancel_reloads(app, SlotVerb::Delete);
            if let Some(group) = self.apps.remove(&app).and_then(|entry| entry.group) {
                group.remove();
            }
            if self.apps.is_empty() {
                // As under PM2: nobody can mean an older worker by its id any more.
                self.next_pm_id = 0;
            }
        } else {
            Rc::make_mut(&mut entry.spec).instances = left as u16;
        }
    }
}
