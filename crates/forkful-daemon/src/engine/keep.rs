//! Commands about the saved state: save, restore, delete.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use forkful_api::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest, SavedApp};
use forkful_api::types::{ActionReply, ErrorCode, UpdateReply, UpdateRequest};
use forkful_core::pages::Page;
use forkful_core::supervisor::JobId;
use forkful_core::update::Trial;
use forkful_keeper::keeper::TRIAL;
use forkful_os::keeper::Kept;
use forkful_os::process;

use tokio::sync::oneshot;

use super::adoption::{Inheritance, Owners, Taken, end_strays};
use super::commands::{answer, refuse};
use super::persistence::Persistence;
use super::resurrect::{Candidate, Resurrection, Revived, broken_states, exists_already};
use super::written::{Written, WrittenDaemon};
use super::{Engine, Phase, Started, update};
use crate::command::{Keep, Reply};
use crate::inherited::StateFile;
use crate::service_environment;
use crate::store::Loaded;

impl Engine {
    pub(super) fn keep(&mut self, keep: Keep) {
        match keep {
            Keep::Save { request, reply } => self.save(&request, reply),
            Keep::Resurrect { request, reply } => self.resurrect(request, reply),
            Keep::Update { request, reply } => self.update(&request, reply),
            Keep::MakeWay { program, reply } => self.make_way(program, reply),
            Keep::Rewrite => self.rewrite_home(),
            Keep::Clear { reply } => match &self.persistence {
                Some(persistence) => persistence.clear(reply),
                None => answer(reply, Ok(ClearReply { removed: Vec::new() })),
            },
        }
    }

    /// The desired state differs from the saved one.
    pub(super) fn note_change(&mut self) {
        if let Some(persistence) = &mut self.persistence {
            persistence.note_change();
        }
    }

    /// Stores what another daemon has to know, if there is a keeper.
    pub(super) fn write_down(&mut self) {
        let Some(persistence) = &mut self.persistence else { return };
        let (marks, jobs, phase) = (self.starts.marks(), &self.jobs, self.life.phase);
        let plans = &self.plans;
        persistence.write_down(&mut self.apps, |apps| {
            let (last_app, next_pm_id) = apps.numbers();
            WrittenDaemon {
                instance: marks.instance().to_string(),
                marks_given: marks.given(),
                last_app,
                next_pm_id,
                last_job: jobs.newest(),
                unwatched: jobs.unwatched(),
                is_closing: matches!(phase, Phase::Closing | Phase::Ended),
                plans: plans.write_down(),
                ..WrittenDaemon::default()
            }
        });
        self.options.keeping.let_go();
    }

    /// The complete stored state, if a program of another version may take it over now.
    fn hand_over_state(&mut self) -> Result<Vec<u8>, String> {
        match self.life.phase {
            Phase::Serving => {}
            Phase::MakingWay => return Err("another update is under way".to_owned()),
            Phase::Closing | Phase::Ended => return Err("the daemon is ending".to_owned()),
        }
        if let Some(seconds) = self.trial_left() {
            return Err(format!("an update is being tried out: try again in {seconds} s"));
        }
        if !self.options.keeping.is_on() {
            return Err("this daemon has no keeper that could put another one in its place".to_owned());
        }
        if self.plans.is_busy() {
            return Err("a configuration is being applied".to_owned());
        }
        let persistence = self.persistence.as_mut();
        persistence.ok_or("the foreground keeps no state".to_owned()).and_then(Persistence::written)
    }

    /// The seconds until this daemon's trial is over.
    fn trial_left(&self) -> Option<u64> {
        let (trial, keeper) = (self.life.trial?, self.options.keeping.keeper()?);
        let follows = process::runs_program(keeper, &process::own_program().ok()?) == Some(true);
        trial.seconds_left(self.clock.now(), follows)
    }

    /// Lets the program of another version read the stored state.
    fn update(&mut self, request: &UpdateRequest, reply: Reply<UpdateReply>) {
        let state = match self.hand_over_state() {
            Ok(state) => state,
            Err(why) => return answer(reply, Err(update::refusal(&why))),
        };
        update::check(request, &state, reply, &mut self.starts, self.inbox.back.clone());
    }

    /// The program can continue from there: it replaces this daemon.
    fn make_way(&mut self, program: OwnedFd, reply: Reply<UpdateReply>) {
        self.write_down();
        let keeper = self.options.keeping.keeper();
        let refused = match (self.hand_over_state(), keeper) {
            (Ok(_), Some(keeper)) => {
                let trial_ms = TRIAL.as_millis() as u64;
                answer(reply, Ok(UpdateReply { keeper, trial_ms }));
                self.life.phase = Phase::MakingWay;
                let now = self.clock.now();
                self.life.successor = Some((program, now + update::HANDOVER_MAX));
                return self.apps.accept_no_more(now);
            }
            (Err(why), _) => why,
            (_, None) => "the keeper has ended".to_owned(),
        };
        answer(reply, Err(update::refusal(&refused)));
    }

    /// The program that replaces this daemon, if any. Waiting clients are told to look there.
    pub(crate) fn successor(&mut self) -> Option<OwnedFd> {
        if self.life.phase != Phase::MakingWay {
            return None;
        }
        self.jobs.leave_to_successor();
        self.life.successor.take().map(|(program, _)| program)
    }

    /// Output of apps is read no more; the answer comes when what was read is in the files.
    pub(crate) fn rest_logs(&self) -> oneshot::Receiver<()> {
        self.logs.rest()
    }

    /// From now on, what another daemon has to know is stored.
    pub(crate) fn write_to(&mut self, file: StateFile) {
        self.life.trial = file.is_on_trial.then(|| Trial::begin(self.clock.now(), TRIAL));
        if let Some(persistence) = &mut self.persistence {
            persistence.write_to(file);
        }
    }

    /// Continues with the workers of the previous daemon.
    pub(crate) fn take_up(&mut self, written: Written, kept: Vec<Kept>) {
        let Written { daemon, apps } = written;
        self.apps.resume_numbers((daemon.last_app, daemon.next_pm_id));
        if let Some(persistence) = &mut self.persistence {
            persistence.resume(&daemon);
        }
        self.jobs.resume_after(daemon.last_job, daemon.unwatched);
        let mut owners = Owners {
            apps: &mut self.apps,
            processes: &mut self.processes,
            starts: &mut self.starts,
            logs: &self.logs,
            options: &self.options,
            reactor: self.wake.reactor(),
            now: self.clock.now(),
        };
        let (mut inheritance, mut taken) = (Inheritance::new(kept), Taken::default());
        for app in apps {
            owners.take_up(app, &mut inheritance, &mut taken);
        }
        // Descriptors that were not taken are closed.
        drop(inheritance);
        self.processes.reap_orphans(|pid| self.starts.is_being_started(pid));
        let now = self.clock.now();
        let ids: Vec<_> = self.apps.keys().copied().collect();
        for id in ids {
            if let Some(entry) = self.apps.get_mut(id) {
                entry.begin_upkeep(id, self.options.home.path(), now, &self.inbox.back);
            }
        }
        let (events, lost) = (std::mem::take(&mut taken.events), std::mem::take(&mut taken.lost));
        log_line!("forkful: goes on with {} processes of {} apps", taken.pids.len(), self.apps.len());
        end_strays(self.starts.marks().instance(), taken);
        for (app, event) in events {
            self.supervise(app, event);
        }
        if !lost.is_empty() {
            drop(self.start_now(lost));
        }
        if daemon.is_closing {
            self.kill(None);
        } else {
            self.plans.resume(daemon.plans, &self.inbox.back);
            self.go_on_resurrecting(daemon.resurrects);
        }
        self.settle();
    }

    /// An ending daemon saves nothing more: what ran then should run again.
    pub(super) fn save_changes(&mut self) {
        if let Some(persistence) = &mut self.persistence
            && self.life.phase == Phase::Serving
        {
            persistence.save_changes(&self.options.home, &self.apps);
        }
    }

    /// Notes for the user about the saved state, the keeper, log files, and unmet expectations of apps, for every list.
    pub(super) fn notes(&mut self) -> Vec<String> {
        let saved = self.persistence.as_ref().map(|persistence| persistence.notes(&mut self.apps));
        let faults = self.apps.log_faults(&self.logs);
        let keeper = self.processes.keeper_note();
        let notes = saved.unwrap_or_default().into_iter().chain(keeper).chain(faults);
        notes.chain(self.apps.lack_notes()).chain(self.apps.shared_log_notes()).collect()
    }

    fn save(&mut self, request: &SaveRequest, reply: Reply<SaveReply>) {
        if self.apps.is_empty() && !request.force {
            let hint = Some(Page::Saved.hint("`--force` saves that there is none"));
            return answer(reply, Err(refuse(ErrorCode::Conflict, "there is no app to save", hint)));
        }
        if request.with_env {
            for app in self.apps.values_mut() {
                app.supervisor.keep_inherited();
            }
            self.note_change();
            self.save_changes();
        }
        match &self.persistence {
            Some(persistence) => persistence.save_dump(&self.apps, reply),
            None => {
                let error = "cannot save: the foreground keeps no state";
                answer(reply, Err(refuse(ErrorCode::Internal, error, None)));
            }
        }
    }

    /// The home was created again: all its contents are written again.
    fn rewrite_home(&mut self) {
        if let Some(persistence) = &mut self.persistence {
            persistence.rewrite(&self.apps);
        }
        self.starts.listen(&self.options.home, self.wake.reactor(), &self.options.keeping);
        // No client waits for it.
        drop(self.logs.reopen());
    }

    /// Starts the saved apps, without a client. Values that were not saved are taken from the home's file
    /// `environment`, otherwise from this process's environment.
    pub(crate) fn resurrect_now(&mut self) -> Started {
        let (reply, started) = tokio::sync::oneshot::channel();
        let request = self.own_request();
        self.resurrect(request, reply);
        self.settle();
        started
    }

    /// The request without a client.
    fn own_request(&self) -> ResurrectRequest {
        let texts = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let mut env: BTreeMap<String, String> = std::env::vars_os().filter_map(texts).collect();
        match service_environment::read(&self.options.home.environment()) {
            Ok(variables) => env.extend(variables),
            Err(fault) => log_line!("forkful: {fault}; apps start without its values"),
        }
        ResurrectRequest { saved: false, env, wait: true, ..ResurrectRequest::default() }
    }

    /// Starts the apps that the previous daemon was about to start: those that it had read from the saved
    /// state, or all of them if it had not read it.
    fn go_on_resurrecting(&mut self, is_unread: bool) {
        let Some(persistence) = &self.persistence else { return };
        let pending: Vec<_> =
            persistence.pending.iter().filter_map(|value| SavedApp::read(value).ok()).collect();
        if !pending.is_empty() {
            let job = self.jobs.begin(None);
            self.jobs.expect(job);
            let resurrection = Resurrection::new(self.own_request(), job, None, persistence);
            resurrection.read_env_files(pending, self.inbox.back.clone());
        }
        if is_unread {
            drop(self.resurrect_now());
        }
    }

    /// `resurrect`: starts saved apps that do not exist, each worker in its saved state.
    pub(crate) fn resurrect(&mut self, request: ResurrectRequest, reply: Reply<ActionReply>) {
        let Some(persistence) = &mut self.persistence else {
            let error = "the foreground keeps no state";
            return answer(reply, Err(refuse(ErrorCode::Conflict, error, None)));
        };
        persistence.loading += 1;
        let (waiting, at_once) = if request.wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.jobs.begin(waiting);
        self.jobs.expect(job);
        Resurrection::new(request, job, at_once, persistence).load(persistence, self.inbox.back.clone());
    }

    /// A saved state has been read.
    pub(super) fn on_loaded(&mut self, resurrection: Resurrection, loaded: Result<Loaded, String>) {
        if let Some(persistence) = &mut self.persistence {
            persistence.loading = persistence.loading.saturating_sub(1);
        }
        let loaded = match loaded {
            Ok(_) if self.life.phase != Phase::Serving => {
                let error = refuse(ErrorCode::Conflict, "the daemon is ending", None);
                return resurrection.refuse(&mut self.jobs, error);
            }
            Ok(loaded) => loaded,
            Err(fault) => {
                let error = format!("the saved state cannot be read: {fault}");
                let hint = Page::Saved.hint("nothing was changed: try again when it can be read");
                let error = refuse(ErrorCode::Internal, &error, Some(hint));
                return resurrection.refuse(&mut self.jobs, error);
            }
        };
        for broken in &loaded.broken {
            log_line!("forkful: {broken}");
        }
        let Some(persistence) = &mut self.persistence else { return };
        let retried = persistence.take_up(resurrection.source, &loaded, &self.options.home.state());
        if loaded.path.is_none() && retried.is_empty() && loaded.broken.is_empty() {
            return resurrection.nothing_saved(&self.apps, &mut self.jobs);
        }
        let mut told = broken_states(loaded.broken);
        let entries = loaded.entries.into_iter().chain(retried);
        let (wanted, others) = persistence.sort_entries(entries, &self.apps);
        told.extend(others);
        self.jobs.note_all_known(resurrection.job, told);
        resurrection.read_env_files(wanted, self.inbox.back.clone());
    }

    /// The `.env` files have been read: the apps are created.
    pub(super) fn on_revived(&mut self, resurrection: Resurrection, candidates: Vec<Candidate>) {
        // Otherwise they stay pending: a daemon that goes on in this one's place starts them.
        if self.life.phase == Phase::Serving {
            if let Some(persistence) = &mut self.persistence {
                persistence.take_pending(&candidates);
            }
            for candidate in candidates {
                self.revive(candidate, &resurrection.request, resurrection.job);
            }
            self.note_change();
        }
        resurrection.begun(&mut self.jobs);
    }

    fn revive(&mut self, candidate: Candidate, request: &ResurrectRequest, job: JobId) {
        let name = candidate.name().to_owned();
        if self.apps.find(&name).is_some() {
            // Another request was faster.
            return self.jobs.note_all_known(job, vec![exists_already(&name)]);
        }
        match candidate.prepare(request) {
            Ok(Revived { spec, first, unknown, trial, notes }) => {
                let id = self.create(spec, job, first);
                if let Some(entry) = self.apps.get_mut(id) {
                    (entry.unknown_keys, entry.upkeep.trial) = (unknown, trial);
                }
                if let Some(persistence) = &mut self.persistence {
                    persistence.carried.retain(|carried| carried.name != name);
                }
                self.jobs.note(job, id, notes);
            }
            Err(carried) => {
                let Some(persistence) = &mut self.persistence else { return };
                let told = persistence.carry(carried, &self.apps);
                self.jobs.note_all_known(job, vec![told]);
            }
        }
    }
}
