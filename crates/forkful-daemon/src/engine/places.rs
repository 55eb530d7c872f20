//! What belongs to an app and its slots outside the supervisor comes and goes.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use forkful_cluster::{Primary, PrimaryConfig};
use forkful_core::spec::AppSpec;
use forkful_core::supervisor::{AppSupervisor, Event, FirstStates};

use super::Engine;
use super::app::{App, AppId, Place, log_files};
use super::exit_tail::ExitTail;
use super::jobs::JobId;
use super::launch::{lowest_port_of, other_user};

/// App numbers go up to here: a token has room for them below the bit that marks processes.
pub(super) const APP_IDS_MAX: u32 = (1 << (63 - forkful_cluster::primary::TOKEN_BITS)) - 1;

impl Engine {
    /// Makes an app and starts its workers.
    pub(crate) fn create(&mut self, spec: AppSpec, job: JobId) -> AppId {
        self.create_with(spec, job, FirstStates::default())
    }

    /// The same with slots that are not started.
    pub(crate) fn create_with(&mut self, spec: AppSpec, job: JobId, first: FirstStates) -> AppId {
        let id = self.new_app_id();
        let token_base = u64::from(id.0) << forkful_cluster::primary::TOKEN_BITS;
        let config = PrimaryConfig {
            balance: spec.balance,
            token_base,
            owner: other_user(&spec),
            lowest_port: lowest_port_of(&spec),
        };
        let app = App {
            supervisor: AppSupervisor::new(spec, self.chance.bits()),
            primary: Primary::new(config, Rc::clone(&self.reactor), false),
            places: BTreeMap::new(),
            created_at_ms: super::clock::wall_ms(),
            workers_started: 0,
            special_logs: super::app::SpecialFiles::new(),
            group: None,
            cpu: super::cpu_sample::CpuSample::default(),
            out_of_memory_kills: 0,
            told_lacks: BTreeSet::new(),
            upkeep: super::upkeep::AppUpkeep::default(),
            unknown_keys: Vec::new(),
            later: BTreeMap::new(),
        };
        self.apps.insert(id, app);
        self.hear_messages();
        self.join(job, id);
        self.supervise(id, Event::Create { first, job });
        id
    }

    /// The program of a slot has done its work under an earlier daemon: its command is told that it is not started.
    pub(super) fn note_finished_before(&mut self, app: AppId, slot: u16, job: JobId) {
        let Some(pm_id) = self.pm_id(app, slot) else { return };
        if let Some(part) = self.part(job, app) {
            part.pm_ids.push(pm_id);
            part.finished += 1;
            part.note(format!(
                "worker {pm_id} had finished with exit code 0 and is not started again; `forkful restart {pm_id}` \
                 starts it"
            ));
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
        let files = log_files(entry.spec(), &self.home.logs(), pm_id, &entry.special_logs);
        let place = Place {
            pm_id,
            processes: BTreeMap::new(),
            exit_cause: None,
            owner_looked_at: None,
            exit_tail: ExitTail::default(),
            started_at_ms: None,
            cpu: super::cpu_sample::CpuSample::default(),
            group_cpu: super::cpu_sample::CpuSample::default(),
            out_file: files.out,
            error_file: files.error,
            combined_file: files.combined,
        };
        entry.places.insert(number, place);
    }

    /// A deleted slot goes.
    pub(super) fn remove_place(&mut self, app: AppId, slot: u16) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        entry.forget_later(slot);
        if let Some(place) = entry.places.remove(&slot) {
            self.logs.forget(place.pm_id);
        }
    }

    /// The last slot of an app is gone, and the app with it.
    pub(super) fn remove_app(&mut self, app: AppId) {
        if let Some(group) = self.apps.remove(&app).and_then(|entry| entry.group) {
            group.remove();
        }
        if self.apps.is_empty() {
            // As under PM2: nobody can mean an older worker by its id any more.
            self.next_pm_id = 0;
        }
    }
}
