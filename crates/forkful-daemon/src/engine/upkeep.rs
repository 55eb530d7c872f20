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

use forkful_cluster::WorkerId;
use forkful_cluster::protocol::incoming::AgentReport;
use forkful_core::Time;
use forkful_core::spec::WatchIgnore;
use forkful_core::supervisor::{Event, Observation};
use forkful_core::upkeep::renewal::LOOK_EVERY;
use forkful_os::procinfo;

use super::app::{App, AppId, Process};
use super::{Back, Engine};
use crate::watch::{News, Watcher};
use cron::Cron;

/// Loops are measured for so long after somebody wanted to know; he asks again in time, or has gone.
const MEASURED_FOR: Duration = Duration::from_secs(4);

/// What is kept of an app for this.
#[derive(Default)]
pub(crate) struct AppUpkeep {
    /// Until when somebody wants to know how late the loops are.
    measured_until: Option<Time>,
    cron: Option<Cron>,
    /// Watches the app's files, while that is asked for.
    watcher: Option<Watcher>,
    /// Why the app's files cannot be watched.
    pub(crate) watch_fault: Option<String>,
}

impl App {
    /// When something here is due.
    pub(crate) fn next_upkeep(&self) -> Option<Time> {
        let cron = self.upkeep.cron.as_ref().map(Cron::next_look);
        [self.upkeep.measured_until, cron].into_iter().flatten().min()
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

impl Engine {
    /// An app is new or has another spec: what is looked after follows.
    pub(crate) fn begin_upkeep(&mut self, app: AppId) {
        let now = self.clock.now();
        let watcher = self.watcher_for(app);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        entry.upkeep.cron = entry.spec().renewal.cron.as_ref().map(|pattern| Cron::new(pattern, now));
        entry.order_reports(now);
        match watcher {
            Kept::As => {}
            Kept::New(watcher, fault) => {
                entry.upkeep.watcher = watcher;
                entry.upkeep.watch_fault = fault;
            }
        }
    }

    /// Something may be due for an app.
    pub(crate) fn upkeep(&mut self, app: AppId, now: Time) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.upkeep.measured_until.is_some_and(|until| until <= now) {
            entry.upkeep.measured_until = None;
            entry.order_reports(now);
        }
        if entry.upkeep.cron.as_mut().is_some_and(|cron| cron.strikes(now)) {
            self.supervise(app, Event::Renew { why: "its hour has come (`cron_restart`)".to_owned() });
        }
    }

    /// Looks at the memory of an app's workers.
    pub(super) fn observe(&mut self, app: AppId) {
        let now = self.clock.now();
        // Looks that come sooner than usual take the trees as they were found before.
        let is_fresh = |(taken, _): &(Time, _)| now.since(*taken) < LOOK_EVERY / 2;
        if !self.snapshot.as_ref().is_some_and(is_fresh) {
            self.look_at_processes(now);
        }
        let Some(entry) = self.apps.get(&app) else { return };
        let observed = entry.slots().filter_map(|(slot, record, place)| {
            let generation = record.online()?;
            let process = place.processes.get(&generation).filter(|process| process.ended.is_none())?;
            Some(Observation { slot, generation, memory_bytes: self.tree_bytes(process)? })
        });
        let event = Event::Observed(observed.collect());
        self.tell(app, event);
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
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let Some((slot, generation)) = entry.find_worker(worker) else { return };
        if let Some(process) = entry.process_of(worker) {
            process.loop_delay = Some((now, report.delay_p99_us));
        }
        self.supervise(app, Event::Requests { slot, generation, served: report.requests });
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
        self.supervise(app, Event::Renew { why: format!("{first}{more} changed (`watch`)") });
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
