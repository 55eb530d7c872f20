//! What clients ask for, turned into events of slots.

use std::collections::BTreeMap;
use std::rc::Rc;

use forkful_api::types::{
    ActionReply, ActionRequest, AppDefinition, AppList, ErrorCode, ErrorReply, StartRequest,
};
use forkful_cluster::{Primary, PrimaryConfig};
use forkful_core::slot::{Event, Outcome, Policy, Slot, Ticket, Verb as SlotVerb};
use forkful_core::spec::{AppSpec, INSTANCES_MAX, Mode};
use forkful_core::targets::Target;

use super::app::{App, AppId, Later, ListenFault, Place, ReloadOrder, log_files};
use super::jobs::{Job, JobId, Part};
use super::{Engine, Phase, TicketUse};
use crate::command::{Command, Reply, Verb};

/// What a list of targets came to: apps, each with the slots that are meant.
type Selection = BTreeMap<AppId, Vec<u16>>;

impl Engine {
    /// Takes one command; its answer comes now or later through its own channel.
    pub(crate) fn on_command(&mut self, command: Command) {
        match command {
            Command::Start { reply, .. }
            | Command::Action { verb: Verb::Restart | Verb::Reload | Verb::Scale, reply, .. }
                if self.phase != Phase::Serving =>
            {
                let hint = Some("try again when it has ended".to_owned());
                answer(reply, Err(refuse(ErrorCode::Conflict, "the daemon is ending", hint)));
            }
            Command::Start { request, reply } => self.start(request, reply),
            Command::Action { verb, request, reply } => self.action(verb, request, reply),
            Command::List { reply } => answer(reply, Ok(self.list())),
            Command::Describe { target, reply } => self.describe(&target, reply),
            Command::Logs { query, reply } => {
                let lines = self.logs_for(&query);
                answer(reply, lines);
            }
            Command::Kill { reply } => self.kill(Some(reply)),
        }
        self.finish_jobs();
    }

    fn start(&mut self, request: StartRequest, reply: Reply<ActionReply>) {
        let mut specs = Vec::with_capacity(request.apps.len());
        for definition in request.apps {
            match self.check_new(definition) {
                Ok(spec) => specs.push(spec),
                Err(refusal) => return answer(reply, Err(refusal)),
            }
        }
        if specs.is_empty() {
            return answer(reply, Err(refuse(ErrorCode::BadRequest, "no app to start", None)));
        }
        let (waiting, at_once) = if request.wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.new_job(waiting, |reply| reply);
        for spec in specs {
            self.create(spec, job);
        }
        self.answer_at_once(job, at_once);
    }

    /// Replies to a client that does not wait: which apps take part.
    fn answer_at_once(&self, job: JobId, reply: Option<Reply<ActionReply>>) {
        let (Some(reply), Some(job)) = (reply, self.jobs.get(&job)) else { return };
        let apps = job.parts.values().map(|part| Part::new(&part.name).into_outcome(Vec::new())).collect();
        answer(reply, Ok(ActionReply { apps }));
    }

    fn check_new(&self, definition: AppDefinition) -> Result<AppSpec, ErrorReply> {
        let name = definition.name.clone();
        if self.find(&name).is_some() {
            let hint = format!(
                "`forkful restart {name}` or `forkful reload {name}` for new code; another `--name` for a second app"
            );
            let error = format!("an app named `{name}` exists already");
            return Err(refuse(ErrorCode::Conflict, &error, Some(hint)));
        }
        into_spec(definition)
    }

    /// Makes an app and starts its workers.
    pub(crate) fn create(&mut self, spec: AppSpec, job: JobId) -> AppId {
        self.next_app += 1;
        let id = AppId(self.next_app);
        let token_base = u64::from(id.0) << forkful_cluster::primary::TOKEN_BITS;
        let config = PrimaryConfig { balance: spec.balance, token_base };
        let app = App {
            policy: Policy::of(&spec),
            primary: Primary::new(config, Rc::clone(&self.reactor), false),
            places: BTreeMap::new(),
            created_at_ms: super::clock::wall_ms(),
            workers_started: 0,
            reload: None,
            reloads: forkful_core::rollout::ReloadQueue::default(),
            later: BTreeMap::new(),
            spec: Rc::new(spec),
        };
        let instances = app.spec.instances;
        self.apps.insert(id, app);
        for number in 0..instances {
            self.add_place(id, number);
        }
        for number in 0..instances {
            self.ask(id, number, SlotVerb::Start, job);
        }
        id
    }

    fn add_place(&mut self, app: AppId, number: u16) {
        let pm_id = self.next_pm_id;
        self.next_pm_id += 1;
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let (out_file, error_file) = log_files(&entry.spec, &self.home.logs(), pm_id);
        let place = Place {
            pm_id,
            slot: Slot::default(),
            processes: BTreeMap::new(),
            deadline: None,
            last_exit: None,
            listen_fault: None,
            exit_tail: None,
            started_at_ms: None,
            cpu: super::app::CpuSample::default(),
            out_file,
            error_file,
            shrinking: Vec::new(),
        };
        entry.places.insert(number, place);
    }

    /// Asks a slot for something on behalf of a job.
    fn ask(&mut self, app: AppId, slot: u16, verb: SlotVerb, job: JobId) {
        let ticket = self.new_ticket(TicketUse::Job(job));
        self.expect_answer(job, app);
        self.feed(app, slot, Event::Command(verb, ticket));
    }

    pub(crate) fn new_ticket(&mut self, usage: TicketUse) -> Ticket {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.tickets.insert(ticket, usage);
        ticket
    }

    fn action(&mut self, verb: Verb, request: ActionRequest, reply: Reply<ActionReply>) {
        let selection = match self.select(&request.targets) {
            Ok(selection) => selection,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let mut specs = match self.new_specs(request.definitions, &selection) {
            Ok(specs) => specs,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        if let Err(refusal) = check_numbers(verb, request.instances, request.signal) {
            return answer(reply, Err(refusal));
        }
        let (waiting, at_once) = if request.wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.new_job(waiting, |reply| reply);
        for (app, slots) in selection {
            self.join(job, app);
            let spec = specs.remove(&app);
            match verb {
                Verb::Stop => self.ask_all(app, &slots, SlotVerb::Stop, job),
                Verb::Delete => self.ask_all(app, &slots, SlotVerb::Delete, job),
                Verb::Restart => self.restart(app, &slots, spec, job),
                Verb::Reload => self.order_reload(app, &slots, spec, job),
                Verb::Scale => self.scale(app, request.instances.unwrap_or(1), job),
                Verb::Signal => self.signal(app, &slots, request.signal.unwrap_or(15), job),
                Verb::Flush => self.flush(app, &slots, job),
                Verb::Reset => {
                    for slot in slots {
                        self.feed(app, slot, Event::Reset);
                    }
                }
            }
        }
        self.answer_at_once(job, at_once);
    }

    fn ask_all(&mut self, app: AppId, slots: &[u16], verb: SlotVerb, job: JobId) {
        if matches!(verb, SlotVerb::Stop | SlotVerb::Delete) {
            self.cancel_reloads(app, verb);
        }
        for slot in slots {
            self.ask(app, *slot, verb, job);
        }
    }

    fn restart(&mut self, app: AppId, slots: &[u16], spec: Option<Rc<AppSpec>>, job: JobId) {
        self.cancel_reloads(app, SlotVerb::Restart);
        if let Some(spec) = spec {
            let instances = spec.instances;
            self.adopt(app, spec);
            self.scale(app, instances, job);
        }
        let Some(entry) = self.apps.get(&app) else { return };
        let existing: Vec<u16> = slots.iter().copied().filter(|slot| entry.stays(*slot)).collect();
        self.ask_all(app, &existing, SlotVerb::Restart, job);
    }

    /// Gives an app another spec; running processes keep what they were started with.
    pub(crate) fn adopt(&mut self, app: AppId, spec: Rc<AppSpec>) {
        let now = self.clock.now();
        let Some(entry) = self.apps.get_mut(&app) else { return };
        entry.policy = Policy::of(&spec);
        entry.primary.set_balance(spec.balance, now);
        let folder = self.home.logs();
        for place in entry.places.values_mut() {
            (place.out_file, place.error_file) = log_files(&spec, &folder, place.pm_id);
        }
        entry.spec = spec;
    }

    fn scale(&mut self, app: AppId, instances: u16, job: JobId) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        let mut spec = AppSpec::clone(&entry.spec);
        spec.instances = instances;
        entry.spec = Rc::new(spec);
        let staying = |(_, place): &(&u16, &Place)| place.shrinking.is_empty();
        let present: Vec<u16> = entry.places.iter().filter(staying).map(|(slot, _)| *slot).collect();
        let taken: Vec<u16> = entry.places.keys().copied().collect();
        let drain_timeout = entry.spec.stop.drain_timeout;
        let clustered = entry.spec.mode == Mode::Cluster;
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
        for number in present.into_iter().rev().take(leave) {
            if clustered && self.begin_shrink(app, number, job) {
                self.later(app, drain_timeout, Later::Shrink(number));
            } else {
                self.ask(app, number, SlotVerb::Delete, job);
            }
        }
    }

    /// A worker that goes by a scale-down may finish what it has.
    fn begin_shrink(&mut self, app: AppId, slot: u16, job: JobId) -> bool {
        let now = self.clock.now();
        self.expect_answer(job, app);
        let Some(entry) = self.apps.get_mut(&app) else { return false };
        let Some(place) = entry.places.get_mut(&slot) else { return false };
        place.shrinking.push(job);
        match place.slot.current().and_then(|generation| place.processes.get(&generation)) {
            Some(process) => entry.primary.drain(process.worker, now),
            None => self.later(app, std::time::Duration::ZERO, Later::Shrink(slot)),
        }
        true
    }

    /// A slot that shrinks has drained, or had its time.
    pub(crate) fn shrink(&mut self, app: AppId, slot: u16) {
        let place = self.apps.get_mut(&app).and_then(|entry| entry.places.get_mut(&slot));
        for job in place.map(|place| std::mem::take(&mut place.shrinking)).unwrap_or_default() {
            let ticket = self.new_ticket(TicketUse::Job(job));
            self.feed(app, slot, Event::Command(SlotVerb::Delete, ticket));
        }
    }

    fn signal(&mut self, app: AppId, slots: &[u16], signal: i32, job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let mut notes = Vec::new();
        for slot in slots {
            let Some(place) = entry.places.get(slot) else { continue };
            match place.current() {
                Some(process) => {
                    if let Err(error) = process.child.signal(signal) {
                        notes.push(format!("worker {}: {error}", place.pm_id));
                    }
                }
                None => notes.push(format!("worker {} does not run", place.pm_id)),
            }
        }
        if let Some(part) = self.part(job, app) {
            for note in notes {
                part.note(note);
            }
        }
    }

    fn flush(&mut self, app: AppId, slots: &[u16], job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let mut paths: Vec<_> = slots
            .iter()
            .filter_map(|slot| entry.places.get(slot))
            .flat_map(|place| [place.out_file.clone(), place.error_file.clone()])
            .collect();
        paths.sort();
        paths.dedup();
        let done = self.logs.flush(paths);
        self.expect_answer(job, app);
        let back = self.back.clone();
        tokio::task::spawn_local(async move {
            let fault = match done.await {
                Ok(Ok(())) => None,
                Ok(Err(fault)) => Some(fault),
                Err(_) => Some("the log service has ended".to_owned()),
            };
            // The engine is gone only when the daemon ends.
            let _gone = back.send(super::Back::Flushed { job, app, fault });
        });
    }

    /// Stops everything, and then the daemon itself.
    pub(crate) fn kill(&mut self, reply: Option<Reply<ActionReply>>) {
        self.phase = Phase::Closing;
        let job = self.new_job(reply, |reply| reply);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.ends_daemon = true;
        }
        let apps: Vec<AppId> = self.apps.keys().copied().collect();
        for app in apps {
            self.join(job, app);
            let slots: Vec<u16> =
                self.apps.get(&app).map(|a| a.places.keys().copied().collect()).unwrap_or_default();
            self.ask_all(app, &slots, SlotVerb::Delete, job);
        }
    }

    fn new_job<T>(&mut self, reply: Option<T>, into: impl FnOnce(T) -> Reply<ActionReply>) -> JobId {
        self.next_job += 1;
        let id = JobId(self.next_job);
        let reply = reply.map(into);
        self.jobs.insert(id, Job { reply, open: 0, parts: BTreeMap::new(), ends_daemon: false });
        id
    }

    /// An app takes part in a job.
    pub(crate) fn join(&mut self, job: JobId, app: AppId) {
        let Some(entry) = self.apps.get(&app) else { return };
        if let Some(job) = self.jobs.get_mut(&job) {
            job.parts.entry(app).or_insert_with(|| Part::new(entry.spec.name.as_str()));
        }
    }

    /// A job owes one answer more.
    pub(crate) fn expect_answer(&mut self, job: JobId, app: AppId) {
        self.join(job, app);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.open += 1;
        }
    }

    pub(crate) fn part(&mut self, job: JobId, app: AppId) -> Option<&mut Part> {
        self.jobs.get_mut(&job).and_then(|job| job.parts.get_mut(&app))
    }

    pub(crate) fn note_outcome(
        &mut self,
        job: JobId,
        app: AppId,
        slot: u16,
        outcome: Outcome,
        fault: Option<ListenFault>,
    ) {
        let entry = self.apps.get(&app);
        let listens = entry.is_some_and(|entry| entry.spec.mode == Mode::Cluster);
        let place = entry.and_then(|entry| entry.places.get(&slot));
        let pm_id = place.map_or(0, |place| place.pm_id);
        if let Some(part) = self.part(job, app) {
            if !part.pm_ids.contains(&pm_id) {
                part.pm_ids.push(pm_id);
            }
            part.take(pm_id, outcome, fault, listens);
        }
        self.answered(job);
    }

    /// A job has got one of its answers.
    pub(crate) fn answered(&mut self, job: JobId) {
        if let Some(job) = self.jobs.get_mut(&job) {
            job.open = job.open.saturating_sub(1);
        }
    }

    /// Replies to every command that has all its answers.
    pub(crate) fn finish_jobs(&mut self) {
        let done: Vec<JobId> = self.jobs.iter().filter(|(_, job)| job.open == 0).map(|(id, _)| *id).collect();
        for id in done {
            let Some(job) = self.jobs.remove(&id) else { continue };
            if job.ends_daemon {
                self.phase = Phase::Ended;
            }
            let Some(reply) = job.reply else { continue };
            let parts: Vec<Part> = job.parts.into_values().collect();
            let tails: Vec<_> =
                parts.iter().map(|part| part.culprit().map(|pm_id| self.tail_of(pm_id))).collect();
            self.replies.push(tokio::task::spawn_local(async move {
                let mut apps = Vec::with_capacity(parts.len());
                for (part, tail) in parts.into_iter().zip(tails) {
                    let tail = match tail {
                        Some(tail) => tail.await.unwrap_or_default(),
                        None => Vec::new(),
                    };
                    apps.push(part.into_outcome(tail));
                }
                answer(reply, Ok(ActionReply { apps }));
            }));
        }
    }

    /// The last lines of stderr of the process that failed: the one that ended last, or the present one.
    fn tail_of(&mut self, pm_id: u32) -> tokio::sync::oneshot::Receiver<Vec<String>> {
        let mut places = self.apps.values_mut().flat_map(|entry| entry.places.values_mut());
        let ended = places.find(|place| place.pm_id == pm_id).and_then(|place| place.exit_tail.take());
        ended.unwrap_or_else(|| self.logs.stderr_tail(pm_id))
    }

    /// A deleted slot goes; with the last one the app.
    pub(crate) fn remove_place(&mut self, app: AppId, slot: u16) {
        let Some(entry) = self.apps.get_mut(&app) else { return };
        entry.forget_later(slot);
        let removed = entry.places.remove(&slot);
        let left = entry.places.values().filter(|place| place.shrinking.is_empty()).count();
        if let Some(place) = removed {
            self.logs.forget(place.pm_id);
            // Another command was faster: what they wanted holds.
            for job in place.shrinking {
                self.answered(job);
            }
        }
        self.on_slot_gone(app, slot);
        let Some(entry) = self.apps.get_mut(&app) else { return };
        if entry.places.is_empty() {
            self.cancel_reloads(app, SlotVerb::Delete);
            self.apps.remove(&app);
        } else {
            Rc::make_mut(&mut entry.spec).instances = left as u16;
        }
    }

    fn list(&mut self) -> AppList {
        let ids: Vec<AppId> = self.apps.keys().copied().collect();
        AppList { apps: ids.into_iter().filter_map(|id| self.view(id)).collect() }
    }

    fn describe(&mut self, target: &str, reply: Reply<AppList>) {
        let selection = match self.select(&[target.to_owned()]) {
            Ok(selection) => selection,
            Err(refusal) => return answer(reply, Err(refusal)),
        };
        let mut apps: Vec<_> = selection.keys().filter_map(|id| self.view(*id)).collect();
        let tails: Vec<Vec<_>> = apps
            .iter()
            .map(|app| app.workers.iter().map(|worker| self.logs.stderr_tail(worker.pm_id)).collect())
            .collect();
        tokio::task::spawn_local(async move {
            for (app, tails) in apps.iter_mut().zip(tails) {
                for (worker, tail) in app.workers.iter_mut().zip(tails) {
                    worker.stderr_tail = tail.await.unwrap_or_default();
                }
            }
            answer(reply, Ok(AppList { apps }));
        });
    }

    pub(crate) fn find(&self, name: &str) -> Option<AppId> {
        self.apps.iter().find(|(_, entry)| entry.spec.name.as_str() == name).map(|(id, _)| *id)
    }

    /// What targets mean; each must mean something.
    pub(crate) fn select(&self, targets: &[String]) -> Result<Selection, ErrorReply> {
        let mut selection = Selection::new();
        if targets.is_empty() {
            let hint = "name an app, an id, or `all`".to_owned();
            return Err(refuse(ErrorCode::BadRequest, "no target", Some(hint)));
        }
        for text in targets {
            let target = Target::parse(text)
                .map_err(|fault| refuse(ErrorCode::NoSuchTarget, &fault.to_string(), None))?;
            let before = selection.len();
            let mut found = false;
            for (id, entry) in &self.apps {
                let slots: Vec<u16> = match &target {
                    Target::All => entry.places.keys().copied().collect(),
                    Target::Name(name) if *name == entry.spec.name => entry.places.keys().copied().collect(),
                    Target::Name(_) => continue,
                    Target::Id(pm_id) => entry
                        .places
                        .iter()
                        .filter(|(_, p)| p.pm_id == *pm_id)
                        .map(|(slot, _)| *slot)
                        .collect(),
                };
                if !slots.is_empty() {
                    found = true;
                    let all = selection.entry(*id).or_default();
                    all.extend(slots);
                    all.sort_unstable();
                    all.dedup();
                }
            }
            if !found && before == selection.len() {
                return Err(self.no_such(text));
            }
        }
        Ok(selection)
    }

    fn no_such(&self, text: &str) -> ErrorReply {
        let names: Vec<String> = self.apps.values().map(|entry| format!("`{}`", entry.spec.name)).collect();
        let hint = if names.is_empty() {
            "no app is running; `forkful start app.js` starts one".to_owned()
        } else {
            format!("there is {}; `forkful list` shows them", names.join(", "))
        };
        let error =
            if text == "all" { "there is no app".to_owned() } else { format!("no app or worker `{text}`") };
        refuse(ErrorCode::NoSuchTarget, &error, Some(hint))
    }

    fn new_specs(
        &self,
        definitions: Vec<AppDefinition>,
        selection: &Selection,
    ) -> Result<BTreeMap<AppId, Rc<AppSpec>>, ErrorReply> {
        let mut specs = BTreeMap::new();
        for definition in definitions {
            let Some(id) = self.find(&definition.name).filter(|id| selection.contains_key(id)) else {
                let error = format!("`{}` is defined, but is not a target", definition.name);
                return Err(refuse(ErrorCode::BadRequest, &error, None));
            };
            specs.insert(id, Rc::new(into_spec(definition)?));
        }
        Ok(specs)
    }

    fn order_reload(&mut self, app: AppId, slots: &[u16], spec: Option<Rc<AppSpec>>, job: JobId) {
        let Some(entry) = self.apps.get(&app) else { return };
        let only = (slots.len() == 1 && entry.places.len() > 1).then(|| slots[0]);
        self.expect_answer(job, app);
        self.reload(app, ReloadOrder { job, spec, only });
    }
}

fn into_spec(definition: AppDefinition) -> Result<AppSpec, ErrorReply> {
    AppSpec::try_from(definition).map_err(|fault| refuse(ErrorCode::BadRequest, &fault.to_string(), None))
}

fn check_numbers(verb: Verb, instances: Option<u16>, signal: Option<i32>) -> Result<(), ErrorReply> {
    let fault = match verb {
        Verb::Scale if !instances.is_some_and(|n| (1..=INSTANCES_MAX).contains(&n)) => {
            format!("`scale` needs a number of workers from 1 to {INSTANCES_MAX}")
        }
        Verb::Signal if !signal.is_some_and(|n| (1..=64).contains(&n)) => {
            "`signal` needs a signal from 1 to 64".to_owned()
        }
        _ => return Ok(()),
    };
    Err(refuse(ErrorCode::BadRequest, &fault, None))
}

pub(crate) fn refuse(code: ErrorCode, error: &str, hint: Option<String>) -> ErrorReply {
    ErrorReply { code, error: error.to_owned(), hint }
}

/// A client that has gone needs no answer.
pub(crate) fn answer<T>(reply: Reply<T>, result: Result<T, ErrorReply>) {
    let _gone = reply.send(result);
}
