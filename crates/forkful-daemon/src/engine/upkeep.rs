//! Keeps what runs in good shape: memory, age, requests and the clock renew workers, health checks and
//! changed files replace them. What is due is decided by `forkful_core::upkeep`; carried out it is a
//! reload of one slot or of the app, so nothing is lost and a fresh worker that fails leaves the old one.
//!
//! - `cron`: points in time · `health`: questions to workers, `command`: by a program · `stuck`: workers whose loop does not turn

mod command;
mod cron;
mod health;
mod stuck;

use std::time::Duration;

use forkful_api::types::ActionReply;
use forkful_cluster::WorkerId;
use forkful_cluster::protocol::incoming::AgentReport;
use forkful_core::Time;
use forkful_core::slot::{Generation, Report};
use forkful_core::spec::{AppSpec, WatchIgnore};
use forkful_core::supervisor::{Event, ReloadOrder, Whom};
use forkful_core::upkeep::health::Health;
use forkful_core::upkeep::renewal::{self, LOOK_EVERY, MemorySample, Observed, Pause};
use forkful_os::procinfo;

use super::app::{App, AppId, Process, places_mut};
use super::{Back, Engine};
use crate::command::Reply;
use crate::watch::{News, Watcher};
use cron::Cron;

/// Loops are measured for so long after somebody wanted to know; he asks again in time, or has gone.
const MEASURED_FOR: Duration = Duration::from_secs(4);

/// What is kept of an app for this.
#[derive(Default)]
pub(crate) struct AppUpkeep {
    /// When memory, requests and ages are looked at next.
    next_look: Option<Time>,
    /// Until when somebody wants to know how late the loops are.
    measured_until: Option<Time>,
    cron: Option<Cron>,
    /// Watches the app's files, while that is asked for.
    watcher: Option<Watcher>,
    /// Why the app's files cannot be watched.
    pub(crate) watch_fault: Option<String>,
}

/// What is kept of a slot for this.
#[derive(Debug, Default)]
pub(crate) struct PlaceUpkeep {
    current: Option<Current>,
    pause: Pause,
    /// Why the slot's worker was replaced the last time, in words.
    pub(crate) renewed: Option<String>,
}

/// The process that serves in a slot.
#[derive(Debug)]
struct Current {
    generation: Generation,
    /// Its own random number: limits vary by it.
    share: f64,
    health: Option<Health>,
    question: Option<health::Question>,
    report: Option<AgentReport>,
    /// Its memory at the last look.
    memory: Option<MemorySample>,
    /// The loop was found stuck, and said so.
    stuck: bool,
}

impl App {
    /// When something here is due.
    pub(crate) fn next_upkeep(&self) -> Option<Time> {
        let cron = self.upkeep.cron.as_ref().map(Cron::next_look);
        let health = self.places.values().filter_map(|place| place.upkeep.current.as_ref()?.next_question());
        let own = [self.upkeep.next_look, self.upkeep.measured_until, cron];
        own.into_iter().flatten().chain(health).min()
    }
}

impl App {
    /// Agents report while a limit needs it, or somebody looks.
    fn order_reports(&mut self, now: Time) {
        let wanted = self.spec().renewal.max_requests.is_some() || self.upkeep.measured_until.is_some();
        self.primary.want_reports(wanted.then_some(LOOK_EVERY), now);
    }
}

impl Process {
    /// How late its loop was, if that is known of the last seconds.
    pub(crate) fn loop_delay_ms(&self, now: Time) -> Option<f64> {
        let (at, delay_us) = self.loop_delay?;
        (now.since(at) <= MEASURED_FOR).then_some(delay_us as f64 / 1000.0)
    }
}

impl Current {
    fn next_question(&self) -> Option<Time> {
        match &self.question {
            Some(question) => question.next_try(),
            None => self.health.as_ref()?.next_question(),
        }
    }
}

impl PlaceUpkeep {
    /// What was wrong with the last health check.
    pub(crate) fn health_fault(&self) -> Option<&str> {
        self.current.as_ref()?.health.as_ref()?.last_fault()
    }
}

impl Engine {
    /// An app is new or has another spec: what is looked after follows.
    pub(crate) fn begin_upkeep(&mut self, app: AppId) {
        let now = self.clock.now();
        let watcher = self.watcher_for(app);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let renewal = &entry.spec().renewal;
        entry.upkeep.cron = renewal.cron.as_ref().map(|pattern| Cron::new(pattern, now));
        entry.upkeep.next_look = looks(entry.spec()).then(|| next_look(now));
        entry.order_reports(now);
        match watcher {
            Kept::As => {}
            Kept::New(watcher, fault) => {
                entry.upkeep.watcher = watcher;
                entry.upkeep.watch_fault = fault;
            }
        }
        for place in entry.places.values_mut() {
            place.upkeep.current = None;
        }
    }

    /// Something may be due for an app.
    pub(crate) fn upkeep(&mut self, app: AppId, now: Time) {
        self.note_current(app, now);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.upkeep.measured_until.is_some_and(|until| until <= now) {
            entry.upkeep.measured_until = None;
            entry.order_reports(now);
        }
        if entry.upkeep.cron.as_mut().is_some_and(|cron| cron.strikes(now)) {
            self.renew_app(app, "its hour has come (`cron_restart`)");
        }
        let looks = self.apps.get_mut(&app).is_some_and(|entry| {
            let due = entry.upkeep.next_look.is_some_and(|at| at <= now);
            if due {
                entry.upkeep.next_look = Some(next_look(now));
            }
            due
        });
        if looks {
            self.look_at_workers(app, now);
        }
        self.ask_for_health(app, now);
    }

    /// Notes which process serves in each slot.
    pub(crate) fn note_current(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get(&app) else { return };
        let check = entry.spec().health.clone();
        if check.is_none() && entry.upkeep.next_look.is_none() {
            return;
        }
        let changed: Vec<(u16, Option<Generation>)> = entry
            .slots()
            .map(|(slot, record, place)| (slot, record.online(), place.upkeep.current.as_ref()))
            .filter(|(_, serving, current)| *serving != current.map(|current| current.generation))
            .map(|(slot, serving, _)| (slot, serving))
            .collect();
        for (slot, generation) in changed {
            let share = self.chance.draw();
            let place = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot));
            if let Some(place) = place {
                place.upkeep.current = generation.map(|generation| Current {
                    generation,
                    share,
                    health: check.as_ref().map(|check| Health::new(check, now)),
                    question: None,
                    report: None,
                    memory: None,
                    stuck: false,
                });
            }
        }
    }

    /// One look at all workers of an app: the first that is due is renewed, the others have their turn later.
    fn look_at_workers(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get(&app) else { return };
        if entry.supervisor.is_reloading() {
            return;
        }
        if entry.spec().renewal.max_memory_bytes.is_some() {
            // Looks that come sooner than usual take the trees as they were found before.
            let is_fresh = |(taken, _): &(Time, _)| now.since(*taken) < LOOK_EVERY / 2;
            if !self.snapshot.as_ref().is_some_and(is_fresh) {
                self.look_at_processes(now);
            }
            self.look_sooner(app, now);
        }
        let Some(entry) = self.apps.get(&app) else { return };
        let due = entry.places.iter().find_map(|(slot, place)| {
            let current = place.upkeep.current.as_ref()?;
            let process = place.processes.get(&current.generation)?;
            if !place.upkeep.pause.is_over(now) || process.ended.is_some() {
                return None;
            }
            let observed = Observed {
                age: now.since(process.spawned),
                memory_bytes: entry.spec().renewal.max_memory_bytes.and_then(|_| self.tree_bytes(process)),
                requests: current.report.map(|report| report.requests),
            };
            let cause = renewal::due(&entry.spec().renewal, current.share, &observed)?;
            Some((*slot, cause, observed.age))
        });
        if let Some((slot, cause, age)) = due {
            if let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot)) {
                place.upkeep.pause.on_renewal(now, age);
            }
            self.renew_slot(app, slot, &cause.to_string());
        }
    }

    /// Notes how much memory workers have, and looks again sooner at those that may soon have too much.
    fn look_sooner(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get(&app) else { return };
        let Some(limit) = entry.spec().renewal.max_memory_bytes else { return };
        let samples: Vec<(u16, MemorySample, Duration)> = entry
            .places
            .iter()
            .filter_map(|(slot, place)| {
                let current = place.upkeep.current.as_ref()?;
                let process = place.processes.get(&current.generation)?;
                let sample = MemorySample { at: now, bytes: self.tree_bytes(process)? };
                let before = current.memory.unwrap_or(MemorySample { at: process.spawned, bytes: 0 });
                Some((*slot, sample, renewal::look_again_after(limit, before, sample)))
            })
            .collect();
        let Some(entry) = self.apps.get_mut(&app) else { return };
        for (slot, sample, after) in samples {
            if let Some(current) = entry.places.get_mut(&slot).and_then(|place| place.upkeep.current.as_mut())
            {
                current.memory = Some(sample);
            }
            let again = now + after;
            entry.upkeep.next_look = entry.upkeep.next_look.map(|next| next.min(again));
        }
    }

    /// Resident bytes of a worker and of everything that it has started.
    fn tree_bytes(&self, process: &super::app::Process) -> Option<u64> {
        let own = procinfo::resident_bytes(process.child.pid).ok()?;
        let others = self.snapshot.as_ref().map(|(_, snapshot)| {
            let pids = snapshot.pids(&process.child, process.mark);
            pids.into_iter()
                .filter(|pid| *pid != process.child.pid)
                .filter_map(|pid| procinfo::resident_bytes(pid).ok())
                .sum::<u64>()
        });
        Some(own + others.unwrap_or(0))
    }

    /// Somebody looks at the apps who wants to know how late their loops are.
    pub(crate) fn measure_loops(&mut self) {
        let now = self.clock.now();
        for entry in self.apps.values_mut() {
            entry.upkeep.measured_until = Some(now + MEASURED_FOR);
            entry.order_reports(now);
        }
    }

    /// What a worker's agent says of it.
    pub(crate) fn on_agent_report(&mut self, app: AppId, worker: WorkerId, report: AgentReport) {
        let now = self.clock.now();
        self.note_current(app, now);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some((slot, generation)) = entry.find_worker(worker) else { return };
        if let Some(process) = entry.process_of(worker) {
            process.loop_delay = Some((now, report.delay_p99_us));
        }
        if let Some(place) = entry.places.get_mut(&slot)
            && let Some(current) = place.upkeep.current.as_mut().filter(|c| c.generation == generation)
        {
            current.report = Some(report);
        }
    }

    /// Replaces the worker of one slot.
    fn renew_slot(&mut self, app: AppId, slot: u16, why: &str) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if let Some(place) = entry.places.get_mut(&slot) {
            place.upkeep.renewed = Some(why.to_owned());
        }
        log_line!("forkful: {} worker {slot}: renewed: {why}", entry.spec().name);
        self.order_renewal(app, Whom::Slot(slot));
    }

    /// Replaces all workers of an app, one after the other, but for those that somebody has stopped.
    pub(crate) fn renew_app(&mut self, app: AppId, why: &str) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let App { supervisor, places, .. } = entry;
        let wanted = places_mut(supervisor, places).filter(|(_, record, _)| record.wanted);
        let renewed = wanted.map(|(.., place)| place.upkeep.renewed = Some(why.to_owned()));
        if renewed.count() == 0 {
            return;
        }
        log_line!("forkful: {}: renewed: {why}", entry.spec().name);
        self.order_renewal(app, Whom::Wanted);
    }

    fn order_renewal(&mut self, app: AppId, whom: Whom) {
        let job = self.new_job(None, |reply: Reply<ActionReply>| reply);
        self.supervise(app, Event::Reload(ReloadOrder { job, spec: None, whom }));
    }

    /// What a slot reports: a renewal that did not succeed makes the next one wait.
    pub(crate) fn on_upkeep_report(&mut self, app: AppId, slot: u16, report: &Report) {
        let now = self.clock.now();
        if let Report::ReplaceFailed { .. } = report
            && let Some(place) = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot))
        {
            place.upkeep.pause.on_failure(now);
        }
        // Who serves may have changed.
        self.note_current(app, now);
    }

    /// What a watch of files has to tell.
    pub(crate) fn on_files(&mut self, app: AppId, news: News) {
        match news {
            News::Changed(paths) => self.on_files_changed(app, &paths),
            News::Failed(why) => {
                let Some(entry) = self.apps.get_mut(&app) else { return };
                log_line!("forkful: {}: its files cannot be watched: {why}", entry.spec().name);
                entry.upkeep.watch_fault = Some(why);
                entry.upkeep.watcher = None;
            }
        }
    }

    /// Files that an app consists of have changed.
    fn on_files_changed(&mut self, app: AppId, paths: &[std::path::PathBuf]) {
        let Some(entry) = self.apps.get(&app).filter(|entry| entry.spec().watch.is_some()) else { return };
        let first = paths.first().map_or_else(String::new, |path| {
            path.strip_prefix(&entry.spec().launch.cwd).unwrap_or(path).display().to_string()
        });
        let more = match paths.len() {
            0 | 1 => String::new(),
            n => format!(" and {} more", n - 1),
        };
        self.renew_app(app, &format!("{first}{more} changed (`watch`)"));
    }

    fn watcher_for(&self, app: AppId) -> Kept {
        let Some(entry) = self.apps.get(&app) else { return Kept::As };
        let Some(watch) = &entry.spec().watch else { return Kept::New(None, None) };
        let mut never = vec![self.home.path().to_owned()];
        never.extend(entry.places.values().flat_map(|p| [p.out_file.clone(), p.error_file.clone()]));
        never.extend(entry.spec().logs.combined_file.clone());
        let mut watch = watch.clone();
        let pid_files = entry.spec().pid_file.as_deref().map(crate::pid_files::pattern);
        watch.ignore.extend(pid_files.map(WatchIgnore::Regex));
        let watch = &watch;
        if entry.upkeep.watcher.as_ref().is_some_and(|watcher| watcher.is_for(watch)) {
            return Kept::As;
        }
        let back = self.back.clone();
        // The engine is gone only when the daemon ends.
        let tell = move |news| {
            let _gone = back.send(Back::Files { app, news });
        };
        match Watcher::start(watch, &entry.spec().launch.cwd, never, tell) {
            Ok(watcher) => Kept::New(Some(watcher), None),
            Err(error) => {
                log_line!("forkful: {}: its files cannot be watched: {error}", entry.spec().name);
                Kept::New(None, Some(error.to_string()))
            }
        }
    }
}

/// What becomes of an app's watcher.
enum Kept {
    As,
    /// Another one, or none, and why.
    New(Option<Watcher>, Option<String>),
}

/// Whether workers have to be looked at from time to time.
fn looks(spec: &AppSpec) -> bool {
    let renewal = &spec.renewal;
    renewal.max_memory_bytes.is_some() || renewal.max_requests.is_some() || renewal.max_age.is_some()
}

/// All apps are looked at in the same moment, so that one reading of `/proc` serves all.
fn next_look(now: Time) -> Time {
    let since = now.since(Time::default());
    Time::default() + Duration::from_secs(since.as_secs()) + LOOK_EVERY
}
