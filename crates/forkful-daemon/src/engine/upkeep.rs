//! Keeps what runs in good shape: memory, age, requests and the clock renew workers, health checks and
//! changed files replace them. What is due is decided by `forkful_core::upkeep`; carried out it is a
//! reload of one slot or of the app, so nothing is lost and a fresh worker that fails leaves the old one.
//!
//! - `health`: questions to workers, `command`: by a program · `stuck`: workers whose loop does not turn · `warmup`: requests to
//!   new workers

mod command;
mod health;
mod stuck;
mod warmup;

pub(super) use command::Helper;

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forkful_cluster::WorkerId;
use forkful_cluster::protocol::incoming::AgentReport;
use forkful_core::Time;
use forkful_core::doctor::OpenTrial;
use forkful_core::memory_plan::MemoryPlan;
use forkful_core::spec::WatchIgnore;
use forkful_core::supervisor::Event;
use forkful_core::upkeep::changed_in_words;
use tokio::sync::mpsc;

use super::Back;
use super::app::{App, AppId, Place};
use super::launch::other_user;
use super::metrics::{LISTED_PACE, USUAL_PACE, WATCHED_PACE};
use super::persistence::Missing;
use super::written::WrittenUpkeep;
use crate::watch::{News, WatchRequest, Watcher};

/// How long agents report after a client has asked for measurements.
const MEASURED_FOR: Duration = Duration::from_secs(15);

/// The data of an app for this.
#[derive(Default)]
pub(crate) struct AppUpkeep {
    /// Until when clients want measurements of agents.
    measured_until: Option<Time>,
    /// Until when one of them looks at this app closely: also at workers that are idle.
    studied_until: Option<Time>,
    /// Watches the app's files, while requested.
    watcher: Option<Watcher>,
    /// Changes of the app's files up to here have been handled.
    files_seen: Option<SystemTime>,
    /// That the app's files cannot be watched, or are watched in another way, and why.
    pub(super) watch_fault: Option<String>,
    /// The division of its memory, at the last start or check.
    pub(super) memory: Option<MemoryPlan>,
    /// A change of `forkful doctor --fix` that nobody has decided about.
    pub(super) trial: Option<OpenTrial>,
    pub(super) missing: Missing,
}

impl AppUpkeep {
    /// The log files of a worker are no files of the app. To be called before its process writes to them.
    pub(super) fn exclude_logs(&mut self, place: &Place) {
        if let Some(watcher) = &mut self.watcher {
            watcher.exclude_logs(place.all_log_paths());
        }
    }
}

impl App {
    /// What another daemon has to know.
    pub(super) fn write_upkeep_down(&self) -> WrittenUpkeep {
        let in_ms =
            |at: SystemTime| at.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as u64);
        WrittenUpkeep {
            cron_next_ms: self.supervisor.next_strike_ms(),
            files_seen_ms: self.upkeep.files_seen.map(in_ms),
        }
    }

    /// When something here is due.
    pub(crate) fn next_upkeep(&self) -> Option<Time> {
        [self.upkeep.measured_until, self.upkeep.studied_until].into_iter().flatten().min()
    }
}

impl App {
    /// Agents report continuously while clients watch.
    fn order_reports(&mut self, now: Time) {
        let pace = match (self.upkeep.studied_until, self.upkeep.measured_until) {
            (Some(_), _) => WATCHED_PACE,
            (None, Some(_)) => LISTED_PACE,
            (None, None) => USUAL_PACE,
        };
        self.primary.want_reports(Some(pace), now);
    }

    /// Agents report blocked event loops, if the app wants that.
    fn order_stalls(&mut self, now: Time) {
        let from = self.spec().stall_threshold;
        self.primary.want_stalls((!from.is_zero()).then_some(from), now);
    }
}

impl App {
    /// A client asks for measurements of the agents, of this app alone (`closely`) or of a list of apps.
    pub(crate) fn measure(&mut self, closely: bool, now: Time) {
        let until = Some(now + MEASURED_FOR);
        if closely {
            self.upkeep.studied_until = until;
        } else {
            self.upkeep.measured_until = until;
        }
        self.order_reports(now);
    }
}

impl App {
    /// Continues from the previous daemon; [`Self::begin_upkeep`] follows.
    pub(super) fn resume_upkeep(&mut self, written: WrittenUpkeep, now: Time) {
        if let Some(next_ms) = written.cron_next_ms {
            self.supervisor.resume_clock(next_ms, now);
        }
        self.upkeep.files_seen = written.files_seen_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms));
    }

    /// The app is new or has another spec: updates the maintenance. `home` is never watched; file changes go
    /// `back`.
    pub(crate) fn begin_upkeep(
        &mut self,
        app: AppId,
        home: &Path,
        now: Time,
        back: &mpsc::UnboundedSender<Back>,
    ) {
        let watcher = self.watcher(app, home, back);
        self.order_reports(now);
        self.order_stalls(now);
        self.follow_otlp(now);
        match watcher {
            WatcherChange::Unchanged => {}
            WatcherChange::Replaced(watcher, fault) => {
                let seen = self.files_unseen().unwrap_or_else(SystemTime::now);
                self.upkeep.files_seen = watcher.is_some().then_some(seen);
                self.upkeep.watcher = watcher;
                self.upkeep.watch_fault = fault;
            }
        }
    }

    /// Something may be due.
    pub(crate) fn upkeep(&mut self, now: Time) {
        let looks = [&mut self.upkeep.measured_until, &mut self.upkeep.studied_until];
        let mut is_over = false;
        for until in looks {
            is_over |= until.take_if(|until| *until <= now).is_some();
        }
        if is_over {
            self.order_reports(now);
        }
    }

    /// A report of a worker's agent.
    pub(crate) fn on_agent_report(
        &mut self,
        worker: WorkerId,
        report: Box<AgentReport>,
        now: Time,
    ) -> Option<Event> {
        let (slot, generation) = self.find_worker(worker)?;
        let served = report.requests;
        if !report.quiet {
            self.note_active(now);
        }
        if let Some(process) = self.process_of(worker) {
            process.metrics.on_report(report, now);
        }
        // Without a limit their number is not needed: the supervisor, and its stored state, stay unchanged.
        self.spec().renewal.max_requests?;
        Some(Event::Requests { slot, generation, served })
    }

    /// A report of the file watcher.
    pub(crate) fn on_files(&mut self, news: News) -> Option<Event> {
        match news {
            News::Changed { paths, seen } => {
                self.upkeep.files_seen = Some(seen);
                self.files_changed(&paths)
            }
            News::Polls(why) => {
                log_line!("forkful: {}: {why}", self.spec().name);
                self.upkeep.watch_fault = Some(why);
                None
            }
            News::Failed(why) => {
                let why = format!("its files cannot be watched: {why}");
                log_line!("forkful: {}: {why}", self.spec().name);
                self.upkeep.watch_fault = Some(why);
                self.upkeep.watcher = None;
                None
            }
        }
    }

    /// Files of the app have changed.
    fn files_changed(&self, paths: &[PathBuf]) -> Option<Event> {
        self.spec().watch.as_ref()?;
        let why = changed_in_words(paths, &self.spec().launch.cwd);
        Some(Event::FilesChanged(why))
    }

    /// Since when changes of watched files were not handled: since a previous daemon.
    fn files_unseen(&self) -> Option<SystemTime> {
        self.upkeep.files_seen.filter(|_| self.upkeep.watcher.is_none())
    }

    fn watcher(&self, app: AppId, home: &Path, back: &mpsc::UnboundedSender<Back>) -> WatcherChange {
        let Some(mut watch) = self.spec().watch.clone() else { return WatcherChange::Replaced(None, None) };
        let pid_files = self.spec().pid_file.as_deref().map(crate::pid_files::pattern);
        watch.ignore.extend(pid_files.map(WatchIgnore::Regex));
        let earlier = self.upkeep.watcher.as_ref();
        if earlier.is_some_and(|watcher| watcher.is_for(&watch)) {
            return WatcherChange::Unchanged;
        }
        let mut logs = earlier.map(|watcher| watcher.logs().clone()).unwrap_or_default();
        logs.extend(self.places.values().flat_map(|place| place.all_log_paths()));
        let back = back.clone();
        // The engine is gone only when the daemon ends.
        let tell = move |news| {
            let _gone = back.send(Back::Files { app, news });
        };
        let (user, cwd) = (other_user(self.spec()), &self.spec().launch.cwd);
        let request = WatchRequest { watch, user, cwd, home, logs, since: self.files_unseen() };
        match Watcher::start(request, tell) {
            Ok(watcher) => WatcherChange::Replaced(Some(watcher), None),
            Err(error) => {
                let why = format!("its files cannot be watched: {error}");
                log_line!("forkful: {}: {why}", self.spec().name);
                WatcherChange::Replaced(None, Some(why))
            }
        }
    }
}

/// What happens to an app's watcher.
enum WatcherChange {
    Unchanged,
    /// Another watcher or none; and why there is none, if it could not be started.
    Replaced(Option<Watcher>, Option<String>),
}
