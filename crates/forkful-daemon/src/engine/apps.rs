//! The apps that exist, and the numbers that they and their workers get. Everybody may read them as a map; they come and
//! go through the functions here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::rc::Rc;
use std::time::Duration;

use forkful_cluster::{Primary, PrimaryConfig};
use forkful_core::Time;
use forkful_core::random::Random;
use forkful_core::request;
use forkful_core::spec::{AppName, AppSpec, Mode};
use forkful_core::supervisor::{AppSupervisor, SlotRecord, waiting_for_others};
use forkful_core::wakes::Wakes;
use forkful_os::keeper::Keeping;
use forkful_os::reactor::{self, Reactor};

use super::app::{App, AppId, Place};
use super::autoscaling::SharedCores;
use super::closes::CountedPorts;
use super::exit_tail::{Tail, known_secrets};
use super::launch::{balance_of, lowest_port_of, other_user};
use super::memory::SharedMemory;
use super::metrics::Machine;
use super::outgoing::SharedTable;
use super::tokens::app_of;
use crate::history::History;
use crate::home::Home;
use crate::logs::LogService;

/// App numbers go up to here: a token has room for them below the bit that marks processes.
pub(super) const APP_IDS_MAX: u32 = (1 << (63 - forkful_cluster::primary::TOKEN_BITS)) - 1;

/// After a takeover, the processes of one app after the other are looked at, this far apart.
const LOOKS_APART: Duration = Duration::from_millis(10);
/// Apps whose former ids are known.
const FORMER_APPS_MAX: usize = 10_000;

/// See the module's documentation.
pub(crate) struct Apps {
    all: BTreeMap<AppId, App>,
    /// The number of the app that was made last.
    pub(super) last: u32,
    next_pm_id: u32,
    /// The ids that deleted slots had, by app: the app's next worker in the slot gets it again, so that it goes on with the same log files.
    former_pm_ids: BTreeMap<AppName, BTreeMap<u16, u32>>,
    /// Some app may hold something back for another.
    holds_some: bool,
    wakes: Wakes<AppId>,
    /// Ports where closed connections are counted.
    counted: CountedPorts,
    /// Seeds of the apps' jitter.
    chance: Random,
    /// Those that are not any more what was written down of them.
    unwritten: BTreeSet<AppId>,
    history: History,
    /// What memory plans divide.
    pub(super) shared_memory: SharedMemory,
    /// What autoscaling may use.
    pub(super) shared_cores: SharedCores,
    /// Which connections processes have opened.
    pub(super) outgoing: SharedTable,
    /// What is measured once for all apps.
    machine: Machine,
}

impl Deref for Apps {
    type Target = BTreeMap<AppId, App>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

impl Apps {
    pub(crate) fn new(chance: Random, history: History) -> Self {
        Self {
            all: BTreeMap::new(),
            last: 0,
            next_pm_id: 0,
            former_pm_ids: BTreeMap::new(),
            holds_some: false,
            wakes: Wakes::default(),
            counted: CountedPorts::default(),
            chance,
            unwritten: BTreeSet::new(),
            history,
            shared_memory: SharedMemory::default(),
            shared_cores: SharedCores::default(),
            outgoing: SharedTable::default(),
            machine: Machine::default(),
        }
    }

    /// An app to be changed, after which it may be due at another time.
    pub(crate) fn get_mut(&mut self, app: AppId) -> Option<&mut App> {
        self.wakes.note_change(app);
        self.all.get_mut(&app)
    }

    /// Looks at all processes of an app, if it is time; says whether it was.
    pub(super) fn take_samples(&mut self, app: AppId, logs: &LogService, now: Time) -> bool {
        self.wakes.note_change(app);
        let Self { all, machine, .. } = self;
        all.get_mut(&app).is_some_and(|entry| entry.take_samples(logs, machine, now))
    }

    /// What workers have said in these events is written down.
    pub(crate) fn take_read(&mut self, events: &[reactor::Event], now: Time) {
        for event in events {
            if let Some(app) = app_of(event)
                && self.all.get_mut(&app).is_some_and(|entry| entry.primary.take_read(event, now))
            {
                self.wakes.note_change(app);
            }
        }
    }

    /// The same of all apps.
    pub(crate) fn values_mut(&mut self) -> impl Iterator<Item = &mut App> {
        let Self { all, wakes, .. } = self;
        all.iter_mut().map(|(id, entry)| {
            wakes.note_change(*id);
            entry
        })
    }

    /// All apps, for what neither is due at another time nor is written down.
    pub(super) fn values_to_show(&mut self) -> impl Iterator<Item = &mut App> {
        self.all.values_mut()
    }

    /// When the first app is due.
    pub(super) fn next_wake(&mut self) -> Option<Time> {
        self.refresh();
        self.wakes.first()
    }

    /// The apps that are due.
    pub(super) fn due(&mut self, now: Time) -> Vec<AppId> {
        self.refresh();
        self.wakes.due(now)
    }

    /// Where the daemon hands connections over and counts those that close.
    pub(super) fn counted_ports(&mut self) -> &mut CountedPorts {
        self.refresh();
        &mut self.counted
    }

    /// What another daemon has to know of an app may have changed.
    pub(super) fn note_unwritten(&mut self, app: AppId) {
        self.unwritten.insert(app);
    }

    /// The apps that are to be written down again.
    pub(super) fn take_unwritten(&mut self) -> BTreeSet<AppId> {
        self.refresh();
        std::mem::take(&mut self.unwritten)
    }

    /// The numbers that were given last: of apps, and of workers the next one.
    pub(super) fn numbers(&self) -> (u32, u32) {
        (self.last, self.next_pm_id)
    }

    /// Goes on with the numbers of a daemon before this one.
    pub(super) fn resume_numbers(&mut self, (last, next_pm_id): (u32, u32)) {
        (self.last, self.next_pm_id) = (last, next_pm_id);
    }

    /// An app of a daemon before this one. All apps come at once, and to look at the processes of all of them at once would keep clients
    /// waiting.
    pub(super) fn insert_again(&mut self, id: AppId, mut entry: App, now: Time) {
        entry.keep_history(id, self.history.clone());
        entry.look_from(now + LOOKS_APART * u32::try_from(self.all.len()).unwrap_or_default());
        self.holds_some |= entry.supervisor.waits_for_others();
        self.wakes.note_change(id);
        self.unwritten.insert(id);
        self.all.insert(id, entry);
    }

    /// What the primary of an app is told.
    pub(super) fn config_of(id: AppId, spec: &AppSpec, keeping: &Keeping) -> PrimaryConfig {
        PrimaryConfig {
            balance: balance_of(spec),
            lends: spec.mode == Mode::Fork,
            token_base: u64::from(id.0) << forkful_cluster::primary::TOKEN_BITS,
            owner: other_user(spec),
            lowest_port: lowest_port_of(spec),
            keeping: keeping.clone(),
        }
    }

    /// Asks the apps that may have changed what is kept of them here.
    fn refresh(&mut self) {
        let Self { all, wakes, counted, unwritten, .. } = self;
        wakes.refresh(|app| {
            if all.get_mut(&app).is_none_or(|entry| entry.primary.take_changed()) {
                unwritten.insert(app);
            }
            let entry = all.get(&app);
            counted.note(app, entry.into_iter().flat_map(|entry| entry.primary.counted_ports()).collect());
            entry?.next_wake()
        });
    }

    pub(crate) fn find(&self, name: &str) -> Option<AppId> {
        request::find(&self.all, name)
    }

    /// An app's name; nothing when it is gone.
    pub(crate) fn name_of(&self, app: AppId) -> String {
        self.all.get(&app).map_or_else(String::new, |entry| entry.spec().name.to_string())
    }

    pub(crate) fn pm_id(&self, app: AppId, slot: u16) -> Option<u32> {
        self.all.get(&app).and_then(|entry| entry.places.get(&slot)).map(|place| place.pm_id)
    }

    /// Makes an app that has no slots yet.
    pub(crate) fn create(&mut self, spec: AppSpec, reactor: &Rc<Reactor>, keeping: &Keeping) -> AppId {
        let id = self.new_id();
        let config = Self::config_of(id, &spec, keeping);
        let supervisor = AppSupervisor::new(spec, self.chance.bits());
        self.wakes.note_change(id);
        let mut entry = App::new(supervisor, Primary::new(config, Rc::clone(reactor), false));
        entry.keep_history(id, self.history.clone());
        self.all.insert(id, entry);
        id
    }

    /// A number that no app has, and that fits into a reactor token. After half a million apps the numbers come again;
    /// events of the first ones are long gone.
    fn new_id(&mut self) -> AppId {
        loop {
            self.last = self.last % APP_IDS_MAX + 1;
            let id = AppId(self.last);
            if !self.all.contains_key(&id) {
                return id;
            }
        }
    }

    /// An app has another slot.
    pub(super) fn add_place(&mut self, app: AppId, number: u16, home: &Home, now: Time) {
        let Some(entry) = self.all.get(&app) else { return };
        let former = self.former_pm_ids.get_mut(&entry.spec().name);
        let pm_id = former.and_then(|ids| ids.remove(&number)).unwrap_or_else(|| {
            self.next_pm_id += 1;
            self.next_pm_id - 1
        });
        if let Some(entry) = self.get_mut(app) {
            entry.add_place(number, pm_id, &home.logs());
            entry.count_slots(now);
        }
    }

    /// A deleted slot goes.
    pub(super) fn remove_place(
        &mut self,
        app: AppId,
        (slot, record): (u16, &SlotRecord),
        logs: &LogService,
        now: Time,
    ) {
        let Some(entry) = self.get_mut(app) else { return };
        entry.later.forget(slot);
        entry.count_removed(slot, record, logs);
        let name = entry.spec().name.clone();
        let Some(place) = entry.places.remove(&slot) else { return };
        entry.count_slots(now);
        logs.forget(place.pm_id);
        if self.former_pm_ids.len() < FORMER_APPS_MAX || self.former_pm_ids.contains_key(&name) {
            self.former_pm_ids.entry(name).or_default().insert(slot, place.pm_id);
        }
    }

    /// The last slot of an app is gone, and the app with it.
    pub(super) fn remove(&mut self, app: AppId) {
        self.wakes.note_change(app);
        self.history.forget(app);
        if let Some(group) = self.all.remove(&app).and_then(|entry| entry.group) {
            group.remove();
        }
        if self.all.is_empty() {
            // As under PM2: nobody can mean an older worker by its id any more.
            self.next_pm_id = 0;
            self.former_pm_ids.clear();
        }
    }

    /// An app may hold something back for another.
    pub(super) fn note_holds(&mut self, holds: bool) {
        self.holds_some |= holds;
    }

    /// Apps that wait for others and can go on.
    pub(super) fn waiting(&mut self) -> Vec<AppId> {
        if !self.holds_some {
            return Vec::new();
        }
        let waiting = waiting_for_others(&self.all);
        self.holds_some = !waiting.is_empty();
        waiting
    }

    /// When nothing of an app runs any more, its ports are free.
    pub(super) fn free_ports(&mut self, app: AppId) {
        if let Some(entry) = self.get_mut(app)
            && entry.is_at_rest()
        {
            entry.primary.close_all();
        }
    }

    /// Whether the apps have more than one worker together.
    pub(super) fn has_several_workers(&self) -> bool {
        let most = |spec: &AppSpec| spec.autoscale.map_or(spec.instances, |bounds| bounds.max);
        self.all.values().map(|entry| usize::from(most(entry.spec()))).sum::<usize>() > 1
    }

    /// The last lines that a failed process wrote to stderr: with `has_ended` the process that ended last, otherwise the process
    /// that began last.
    pub(super) fn tail_of(
        &mut self,
        app: AppId,
        pm_id: u32,
        has_ended: bool,
        logs: &LogService,
    ) -> Option<Tail> {
        let entry = self.all.get_mut(&app)?;
        let place = entry.places.values_mut().find(|place| has_ended && place.pm_id == pm_id);
        let ended = place.and_then(|place| place.exit_tail.take());
        Some(ended.unwrap_or_else(|| Tail::new(logs.stderr_tail(pm_id, None), known_secrets(entry.spec()))))
    }

    /// What the processes that ended last wrote, by the worker's id: what a process that has written nothing itself is
    /// described with.
    pub(super) fn ended_tails(&mut self) -> BTreeMap<u32, Vec<String>> {
        self.places_mut().map(|place| (place.pm_id, place.exit_tail.lines().to_vec())).collect()
    }

    fn places_mut(&mut self) -> impl Iterator<Item = &mut Place> {
        self.all.values_mut().flat_map(|entry| entry.places.values_mut().map(|place| &mut **place))
    }

    /// From now on connections wait in the kernel's queues alone, for another daemon.
    pub(super) fn accept_no_more(&mut self, now: Time) {
        self.values_mut().for_each(|entry| entry.primary.accept_no_more(now));
    }

    /// Whether every connection that was accepted is with a worker.
    pub(super) fn have_handed_all_over(&self) -> bool {
        self.all.values().all(|entry| entry.primary.has_handed_all_over())
    }

    /// Sends a signal to every process.
    pub(super) fn signal_all(&self, number: i32) {
        let places = self.all.values().flat_map(|entry| entry.places.values());
        for process in places.flat_map(|place| place.processes.values()) {
            if process.ended.is_none() {
                // It may have ended this moment.
                let _gone = process.child.signal(number);
            }
        }
    }
}
