//! The way back from a saved state: it is read by the thread that owns it, `.env` files by threads of their own, and
//! only then are the apps made. What cannot be started stays in the state as it is.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

use forkful_api::saved::{ResurrectRequest, SavedApp, UnknownKey};
use forkful_api::types::{ActionReply, AppDefinition, AppOutcome, ErrorCode, ErrorReply};
use forkful_core::spec::AppSpec;
use forkful_core::spec::environment::{ENV_FILE_BYTES_MAX, is_for_other_users, parse_env_file};
use forkful_core::supervisor::FirstStates;
use forkful_os::behalf;
use tokio::sync::oneshot;

use super::commands::{answer, refuse};
use super::jobs::JobId;
use super::persistence::outcome;
use super::{Back, Engine, Phase};
use crate::command::Reply;
use crate::store::{Carried, Entry, Loaded, Source};

/// How long the `.env` files of one app may take, on a disk that hangs.
const ENV_FILES_PATIENCE: Duration = Duration::from_secs(3);

/// A `resurrect` on its way.
#[derive(Debug)]
pub(crate) struct Resurrection {
    request: ResurrectRequest,
    job: JobId,
    /// Who wants to know only what was begun.
    at_once: Option<Reply<ActionReply>>,
    source: Source,
}

/// An app that is to be started, when its `.env` files have been read.
#[derive(Debug)]
pub(crate) struct Candidate {
    app: SavedApp,
    unknown: Vec<UnknownKey>,
    files: EnvFiles,
}

/// What the `.env` files of an app hold.
#[derive(Debug, Default)]
struct EnvFiles {
    variables: BTreeMap<String, String>,
    notes: Vec<String>,
    /// Why the app is not started without them.
    fault: Option<String>,
}

impl Engine {
    /// `resurrect`: starts what was saved and does not exist, each worker in the state that it had.
    pub(crate) fn resurrect(&mut self, request: ResurrectRequest, reply: Reply<ActionReply>) {
        let Some(persistence) = &self.persistence else {
            let error = "the foreground keeps no state";
            return answer(reply, Err(refuse(ErrorCode::Conflict, error, None)));
        };
        let source = match (request.saved, persistence.is_own) {
            (true, _) => Source::Dump,
            // A state that this daemon has written says what exists anyway.
            (false, true) => Source::Previous,
            (false, false) => Source::Newest,
        };
        let (waiting, at_once) = if request.wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.new_job(waiting, |reply| reply);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.open += 1;
        }
        let resurrection = Resurrection { request, job, at_once, source };
        let back = self.back.clone();
        if let Some(persistence) = &self.persistence {
            persistence.writer.errand(move |shelf| {
                let loaded = shelf.load(source);
                // The engine is gone only when the daemon ends.
                let _gone = back.send(Back::Loaded(resurrection, loaded));
            });
        }
    }

    /// A saved state has been read.
    pub(crate) fn on_loaded(&mut self, resurrection: Resurrection, loaded: Result<Loaded, String>) {
        let loaded = match loaded {
            Ok(_) if self.phase != Phase::Serving => {
                let error = refuse(ErrorCode::Conflict, "the daemon is ending", None);
                return self.give_up(resurrection, error);
            }
            Ok(loaded) => loaded,
            Err(fault) => {
                let error = format!("the saved state cannot be read: {fault}");
                let hint = "nothing was changed: try again when it can be read".to_owned();
                return self.give_up(resurrection, refuse(ErrorCode::Internal, &error, Some(hint)));
            }
        };
        for broken in &loaded.broken {
            log_line!("forkful: {broken}");
        }
        let retried = self.take_up(&resurrection, &loaded);
        if loaded.path.is_none() && retried.is_empty() && loaded.broken.is_empty() {
            return self.nothing_saved(resurrection);
        }
        let mut outcomes: Vec<AppOutcome> = loaded
            .broken
            .into_iter()
            .map(|broken| outcome("saved state", Some(broken), Vec::new()))
            .collect();
        let mut wanted = Vec::new();
        for entry in loaded.entries.into_iter().chain(retried) {
            match entry {
                Entry::Unreadable(carried) => outcomes.extend(self.carry(carried)),
                Entry::App(app, _) if self.find(&app.definition.name).is_some() => {
                    outcomes.push(exists_already(&app.definition.name));
                }
                Entry::App(app, unknown) => wanted.push((app, unknown)),
            }
        }
        if let (Some(job), Some(persistence)) = (self.jobs.get_mut(&resurrection.job), &mut self.persistence)
        {
            job.known.extend(outcomes);
            persistence.pending.extend(wanted.iter().map(|(app, unknown)| app.entry(unknown)));
        }
        self.note_change();
        let back = self.back.clone();
        tokio::task::spawn_local(async move {
            let mut candidates = Vec::with_capacity(wanted.len());
            let reading: Vec<_> = wanted.iter().map(|(app, _)| read_aside(&app.definition)).collect();
            for ((app, unknown), reading) in wanted.into_iter().zip(reading) {
                candidates.push(Candidate { app, unknown, files: in_time(reading).await });
            }
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Revived(resurrection, candidates));
        });
    }

    /// What was found belongs to this daemon from now on; yields what could not be started before and is tried
    /// again.
    fn take_up(&mut self, resurrection: &Resurrection, loaded: &Loaded) -> Vec<Entry> {
        let state = self.home.state();
        let Some(persistence) = &mut self.persistence else { return Vec::new() };
        if resurrection.source == Source::Newest {
            persistence.is_own = true;
            let is_whole = loaded.entries.iter().all(|entry| matches!(entry, Entry::App(..)));
            if is_whole && loaded.path.as_ref() == Some(&state) {
                persistence.is_of_before = false;
            }
        }
        let named = |name: &str| {
            loaded.entries.iter().any(|entry| match entry {
                Entry::App(app, _) => app.definition.name == name,
                Entry::Unreadable(carried) => carried.name == name,
            })
        };
        let again = persistence.carried.iter().filter(|carried| !named(&carried.name)).cloned();
        again
            .map(|carried| match SavedApp::read(&carried.value) {
                Ok((app, unknown)) => Entry::App(app, unknown),
                Err(_) => Entry::Unreadable(carried),
            })
            .collect()
    }

    /// The `.env` files have been read: the apps are made.
    pub(crate) fn on_revived(&mut self, resurrection: Resurrection, candidates: Vec<Candidate>) {
        let Resurrection { request, job, at_once, .. } = resurrection;
        if let Some(persistence) = &mut self.persistence {
            let of_these = |value: &serde_json::Value| {
                let name = SavedApp::name_in(value);
                candidates.iter().any(|candidate| Some(candidate.app.definition.name.as_str()) == name)
            };
            persistence.pending.retain(|value| !of_these(value));
        }
        if self.phase == Phase::Serving {
            for candidate in candidates {
                self.revive(candidate, &request, job);
            }
            self.note_change();
        }
        self.answer_at_once(job, at_once);
        self.answered(job);
    }

    fn revive(&mut self, candidate: Candidate, request: &ResurrectRequest, job: JobId) {
        let Candidate { app, unknown, files } = candidate;
        let name = app.definition.name.clone();
        if self.find(&name).is_some() {
            // Somebody was faster.
            return self.note_all_known(job, vec![exists_already(&name)]);
        }
        let value = app.entry(&unknown);
        let empty = BTreeMap::new();
        let before = request.env_of.get(&name).unwrap_or(&empty);
        let env = Values { before, caller: &request.env };
        match spec_of(app.definition, files, &env) {
            Ok((spec, mut notes)) => {
                if !unknown.is_empty() {
                    let keys: Vec<String> = unknown.iter().map(|key| key.path.join(".")).collect();
                    let keys = keys.join(", ");
                    notes.push(format!(
                        "runs without settings that this version does not know, and that stay saved: {keys}"
                    ));
                }
                let id = self.create_with(
                    spec,
                    job,
                    FirstStates { stopped: Some(app.stopped), finished: app.finished },
                );
                if let Some(entry) = self.apps.get_mut(&id) {
                    entry.unknown_keys = unknown;
                }
                if let Some(persistence) = &mut self.persistence {
                    persistence.carried.retain(|carried| carried.name != name);
                }
                if let Some(part) = self.part(job, id) {
                    notes.into_iter().for_each(|note| part.note(note));
                }
            }
            Err(fault) => {
                let told = self.carry(Carried { name, value, fault });
                self.note_all_known(job, told.into_iter().collect());
            }
        }
    }

    /// An entry that cannot be started stays saved as it is, unless an app of its name exists.
    fn carry(&mut self, carried: Carried) -> Option<AppOutcome> {
        let exists = self.find(&carried.name).is_some();
        let persistence = self.persistence.as_mut()?;
        if exists {
            return Some(exists_already(&carried.name));
        }
        log_line!("forkful: {} is not started and stays saved: {}", carried.name, carried.fault);
        let mut told = outcome(&carried.name, Some(carried.fault.clone()), Vec::new());
        told.hint = Some(format!("it stays saved as it is; `forkful delete {}` forgets it", carried.name));
        match persistence.carried.iter_mut().find(|known| known.name == carried.name) {
            Some(known) => *known = carried,
            None => persistence.carried.push(carried),
        }
        Some(told)
    }

    /// Nothing is saved beyond what this daemon has.
    fn nothing_saved(&mut self, resurrection: Resurrection) {
        if self.apps.is_empty() || resurrection.source != Source::Previous {
            let error = "there is nothing saved";
            let hint = "`forkful start` starts an app, and what runs is saved by itself".to_owned();
            let refusal = refuse(ErrorCode::NoSuchTarget, error, Some(hint));
            return self.give_up(resurrection, refusal);
        }
        let Resurrection { job, at_once, .. } = resurrection;
        let known: Vec<AppOutcome> =
            self.apps.values().map(|entry| exists_already(entry.spec().name.as_str())).collect();
        self.note_all_known(job, known);
        self.answer_at_once(job, at_once);
        self.answered(job);
    }

    fn give_up(&mut self, resurrection: Resurrection, refusal: ErrorReply) {
        let waiting = self.jobs.remove(&resurrection.job).and_then(|job| job.reply);
        if let Some(reply) = waiting.or(resurrection.at_once) {
            answer(reply, Err(refusal));
        }
    }
}

fn exists_already(name: &str) -> AppOutcome {
    AppOutcome { unchanged: true, ..outcome(name, None, Vec::new()) }
}

type Reading = oneshot::Receiver<EnvFiles>;

/// Has the `.env` files of an app read by a thread of its own; `None` when it has none.
fn read_aside(definition: &AppDefinition) -> Option<io::Result<Reading>> {
    let paths = definition.env_sources.files.clone();
    if paths.is_empty() {
        return None;
    }
    let rights = definition.run_as.as_ref().map(|user| behalf::Rights {
        uid: user.uid,
        gid: user.gid,
        groups: user.groups.clone(),
    });
    let (tell, told) = oneshot::channel();
    let thread = thread::Builder::new().name("env files".to_owned()).spawn(move || {
        // Who has waited long enough does not want to know any more.
        let _gone = tell.send(read_env_files(&paths, rights.as_ref()));
    });
    Some(thread.map(|_detached| told))
}

async fn in_time(reading: Option<io::Result<Reading>>) -> EnvFiles {
    let fault = match reading {
        None => return EnvFiles::default(),
        Some(Err(error)) => format!("its `.env` files cannot be read: {error}"),
        Some(Ok(told)) => match tokio::time::timeout(ENV_FILES_PATIENCE, told).await {
            Ok(Ok(files)) => return files,
            Ok(Err(_)) => "its `.env` files could not be read".to_owned(),
            Err(_) => format!("its `.env` files were not read within {} s", ENV_FILES_PATIENCE.as_secs()),
        },
    };
    EnvFiles { fault: Some(fault), ..EnvFiles::default() }
}

/// Reads the files as regular files of a bounded size, without waiting and without links that the app's user may have
/// placed. A file that is gone or is no `.env` file is left out and told; anything else keeps the app from starting.
fn read_env_files(paths: &[String], user: Option<&behalf::Rights>) -> EnvFiles {
    let mut found = EnvFiles::default();
    for path in paths {
        let why = match read_env_file(Path::new(path), user) {
            Ok(text) => match parse_env_file(&text) {
                Ok(variables) => {
                    found.variables.extend(variables);
                    continue;
                }
                Err(fault) => format!("line {}: {}", fault.line, fault.message),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => error.to_string(),
            Err(error) => {
                found.fault = Some(format!("its environment file {path} cannot be read: {error}"));
                return found;
            }
        };
        found.notes.push(format!("{path} cannot be read, so its variables are missing: {why}"));
    }
    found
}

fn read_env_file(path: &Path, user: Option<&behalf::Rights>) -> io::Result<String> {
    let read = || behalf::read_whole(path, ENV_FILE_BYTES_MAX);
    let bytes = match (read(), user) {
        // A folder that is closed to root, as those of FUSE are.
        (Err(error), Some(user))
            if error.kind() == io::ErrorKind::PermissionDenied && !behalf::is_refusal(&error) =>
        {
            behalf::as_user(user, read)?
        }
        (read, _) => read?,
    };
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Where values come from that were not saved.
struct Values<'a> {
    /// What the app had under the daemon before.
    before: &'a BTreeMap<String, String>,
    /// What the caller has.
    caller: &'a BTreeMap<String, String>,
}

/// A spec from what was saved: values that were not come from the `.env` files and from `env`.
fn spec_of(
    mut definition: AppDefinition,
    files: EnvFiles,
    env: &Values<'_>,
) -> Result<(AppSpec, Vec<String>), String> {
    let EnvFiles { variables: mut from_files, mut notes, fault } = files;
    if let Some(fault) = fault {
        return Err(fault);
    }
    definition.env_sources.from_files.retain(|name| from_files.contains_key(name));
    for variable in &definition.env_sources.from_files {
        if let Some(value) = from_files.remove(variable) {
            definition.env.insert(variable.clone(), value);
        }
    }
    let mut missing = Vec::new();
    // As for a new app: what is in the caller's environment may not be meant for another user.
    let withholds = definition.is_of_another_user(forkful_os::identity::euid());
    let from_caller = |name: &String| env.caller.get(name).filter(|_| !withholds || is_for_other_users(name));
    for variable in &definition.env_sources.inherited {
        if definition.env.contains_key(variable) {
            continue;
        }
        match env.before.get(variable).or_else(|| from_caller(variable)) {
            Some(value) => drop(definition.env.insert(variable.clone(), value.clone())),
            None => missing.push(variable.clone()),
        }
    }
    if !missing.is_empty() {
        notes.push(format!("starts without values that were not saved: {}", missing.join(", ")));
    }
    let spec = AppSpec::try_from(definition).map_err(|fault| fault.to_string())?;
    Ok((spec, notes))
}
