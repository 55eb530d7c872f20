//! Restores apps from a saved state: the thread that owns it reads it, other threads read `.env` files, and
//! only then are the apps created. Entries that cannot be started stay in the state unchanged.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use forkful_api::saved::{ResurrectRequest, SavedApp, UnknownKey};
use forkful_api::types::{ActionReply, AppDefinition, AppOutcome, ErrorCode, ErrorReply};
use forkful_core::doctor::OpenTrial;
use forkful_core::pages::Page;
use forkful_core::spec::AppSpec;
use forkful_core::spec::environment::{ENV_FILE_BYTES_MAX, is_for_other_users, parse_env_file};
use forkful_core::supervisor::FirstStates;
use forkful_core::words::shell_word;
use forkful_os::behalf;
use tokio::sync::{mpsc, oneshot};

use super::Back;
use super::apps::Apps;
use super::commands::answer;
use super::jobs::{JobId, Jobs};
use super::persistence::{Persistence, outcome};
use crate::command::Reply;
use crate::store::{Carried, Entry, Loaded, Source};

/// Time limit for reading the `.env` files of one app, in case a disk hangs.
const ENV_FILES_PATIENCE: Duration = Duration::from_secs(3);

/// A running `resurrect`.
#[derive(Debug)]
pub(crate) struct Resurrection {
    pub(super) request: ResurrectRequest,
    pub(super) job: JobId,
    /// A client that does not wait for the end.
    at_once: Option<Reply<ActionReply>>,
    pub(super) source: Source,
}

/// An app to be started when its `.env` files have been read.
#[derive(Debug)]
pub(crate) struct Candidate {
    app: SavedApp,
    unknown: Vec<UnknownKey>,
    files: EnvFiles,
}

/// The variables of an app's `.env` files.
#[derive(Debug, Default)]
struct EnvFiles {
    variables: BTreeMap<String, String>,
    notes: Vec<String>,
    /// Why the app is not started without them.
    fault: Option<String>,
}

impl Resurrection {
    /// If this daemon has written the newest state, the source is the previous state, because its own contains only
    /// existing apps.
    pub(super) fn new(
        request: ResurrectRequest,
        job: JobId,
        at_once: Option<Reply<ActionReply>>,
        persistence: &Persistence,
    ) -> Self {
        let source = match (request.saved, persistence.saving.is_own()) {
            (true, _) => Source::Dump,
            (false, true) => Source::Previous,
            (false, false) => Source::Newest,
        };
        Self { request, job, at_once, source }
    }

    /// Starts reading the saved state.
    pub(super) fn load(self, persistence: &Persistence, back: mpsc::UnboundedSender<Back>) {
        persistence.writer.errand(move |shelf| {
            let loaded = shelf.load(self.source);
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Loaded(self, loaded));
        });
    }

    /// Starts reading the `.env` files of the apps to be started.
    pub(super) fn read_env_files(
        self,
        wanted: Vec<(SavedApp, Vec<UnknownKey>)>,
        back: mpsc::UnboundedSender<Back>,
    ) {
        tokio::task::spawn_local(async move {
            let mut candidates = Vec::with_capacity(wanted.len());
            let reading: Vec<_> = wanted.iter().map(|(app, _)| read_aside(&app.definition)).collect();
            for ((app, unknown), reading) in wanted.into_iter().zip(reading) {
                candidates.push(Candidate { app, unknown, files: in_time(reading).await });
            }
            // The engine is gone only when the daemon ends.
            let _gone = back.send(Back::Revived(self, candidates));
        });
    }

    /// Answers the client, whether or not it waits for the end.
    pub(super) fn refuse(self, jobs: &mut Jobs, refusal: ErrorReply) {
        if let Some(reply) = jobs.give_up(self.job).or(self.at_once) {
            answer(reply, Err(refusal));
        }
    }

    /// Nothing is saved beyond this daemon's apps.
    pub(super) fn nothing_saved(self, apps: &Apps, jobs: &mut Jobs) {
        if apps.is_empty() || self.source != Source::Previous {
            let error = "there is nothing saved";
            let hint = Page::Saved.hint("`forkful start` starts an app, and what runs is saved by itself");
            return self.refuse(jobs, super::commands::refuse(ErrorCode::NoSuchTarget, error, Some(hint)));
        }
        let known = apps.values().map(|entry| exists_already(entry.spec().name.as_str())).collect();
        jobs.note_all_known(self.job, known);
        self.begun(jobs);
    }

    /// All startable apps are being started.
    pub(super) fn begun(self, jobs: &mut Jobs) {
        jobs.answer_at_once(self.job, self.at_once);
        jobs.answered(self.job);
    }
}

impl Candidate {
    pub(super) fn name(&self) -> &str {
        &self.app.definition.name
    }

    /// The new app, or the entry that stays saved because it cannot be started.
    pub(super) fn prepare(self, request: &ResurrectRequest) -> Result<Revived, Carried> {
        let Self { app, unknown, files } = self;
        let name = app.definition.name.clone();
        let value = app.entry(&unknown);
        let empty = BTreeMap::new();
        let before = request.env_of.get(&name).unwrap_or(&empty);
        let env = Values { before, caller: &request.env };
        let (spec, mut notes) = match spec_of(app.definition, files, &env) {
            Ok(made) => made,
            Err(fault) => return Err(Carried { name, value, fault }),
        };
        if !unknown.is_empty() {
            let keys: Vec<String> = unknown.iter().map(|key| key.path.join(".")).collect();
            let keys = keys.join(", ");
            notes.push(format!(
                "runs without settings that this version does not know, and that stay saved: {keys}"
            ));
        }
        let (finished, waits_for_cron) = (app.finished, app.waits_for_cron);
        let first = FirstStates { stopped: Some(app.stopped), finished, waits_for_cron };
        // The commands of the daemon before have no end here.
        let trial = app.trial.map(OpenTrial::taken_over);
        Ok(Revived { spec, first, unknown, trial, notes })
    }
}

/// An app to restore.
pub(super) struct Revived {
    pub(super) spec: AppSpec,
    pub(super) first: FirstStates,
    /// Keys that only another version knows.
    pub(super) unknown: Vec<UnknownKey>,
    /// A change of `forkful doctor --fix` that nobody has decided about.
    pub(super) trial: Option<OpenTrial>,
    /// The client's notes.
    pub(super) notes: Vec<String>,
}

impl Persistence {
    /// The state that was read belongs to this daemon from now on; returns the entries that could not be
    /// started before and are tried again.
    pub(super) fn take_up(&mut self, source: Source, loaded: &Loaded, state: &Path) -> Vec<Entry> {
        if source == Source::Newest {
            let is_whole = loaded.entries.iter().all(|entry| matches!(entry, Entry::App(..)));
            self.saving.take_up(is_whole && loaded.path.as_deref() == Some(state));
        }
        let named = |name: &str| {
            loaded.entries.iter().any(|entry| match entry {
                Entry::App(app, _) => app.definition.name == name,
                Entry::Unreadable(carried) => carried.name == name,
            })
        };
        let again = self.carried.iter().filter(|carried| !named(&carried.name)).cloned();
        again
            .map(|carried| match SavedApp::read(&carried.value) {
                Ok((app, unknown)) => Entry::App(app, unknown),
                Err(_) => Entry::Unreadable(carried),
            })
            .collect()
    }

    /// Sorts the entries: the apps to be started, and the client's notes about the others.
    pub(super) fn sort_entries(
        &mut self,
        entries: impl Iterator<Item = Entry>,
        apps: &Apps,
    ) -> (Vec<(SavedApp, Vec<UnknownKey>)>, Vec<AppOutcome>) {
        let (mut wanted, mut told) = (Vec::new(), Vec::new());
        for entry in entries {
            match entry {
                Entry::Unreadable(carried) => told.push(self.carry(carried, apps)),
                Entry::App(app, _) if apps.find(&app.definition.name).is_some() => {
                    told.push(exists_already(&app.definition.name));
                }
                Entry::App(app, unknown) => wanted.push((app, unknown)),
            }
        }
        self.pending.extend(wanted.iter().map(|(app, unknown)| app.entry(unknown)));
        self.note_change();
        (wanted, told)
    }

    /// These are about to be started, and no longer pending.
    pub(super) fn take_pending(&mut self, candidates: &[Candidate]) {
        let of_these = |value: &serde_json::Value| {
            let name = SavedApp::name_in(value);
            candidates.iter().any(|candidate| Some(candidate.name()) == name)
        };
        self.pending.retain(|value| !of_these(value));
    }

    /// An entry that cannot be started stays saved unchanged, unless an app with its name exists.
    pub(super) fn carry(&mut self, carried: Carried, apps: &Apps) -> AppOutcome {
        if apps.find(&carried.name).is_some() {
            return exists_already(&carried.name);
        }
        log_line!("forkful: {} is not started and stays saved: {}", carried.name, carried.fault);
        let mut told = outcome(&carried.name, Some(carried.fault.clone()), Vec::new());
        let hint =
            format!("it stays saved as it is; `forkful delete {}` forgets it", shell_word(&carried.name));
        (told.hint, told.see) = (Some(hint), Some(Page::Saved.url()));
        match self.carried.iter_mut().find(|known| known.name == carried.name) {
            Some(known) => *known = carried,
            None => self.carried.push(carried),
        }
        told
    }
}

/// The client's notes about broken files.
pub(super) fn broken_states(broken: Vec<String>) -> Vec<AppOutcome> {
    broken.into_iter().map(|broken| outcome("saved state", Some(broken), Vec::new())).collect()
}

pub(super) fn exists_already(name: &str) -> AppOutcome {
    AppOutcome { unchanged: true, ..outcome(name, None, Vec::new()) }
}

type Reading = oneshot::Receiver<EnvFiles>;

/// Reads the `.env` files of an app on a separate thread; `None` if it has none.
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
        // After the time limit the result is no longer wanted.
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

/// Reads the files as regular files of limited size, without waiting and without following links that the
/// app's user may have created. A missing file, or one that is not a `.env` file, is skipped and reported;
/// any other error prevents the app's start.
fn read_env_files(paths: &[PathBuf], user: Option<&behalf::Rights>) -> EnvFiles {
    let mut found = EnvFiles::default();
    for path in paths {
        let why = match read_env_file(path, user) {
            Ok(text) => match parse_env_file(&text) {
                Ok(variables) => {
                    found.variables.extend(variables);
                    continue;
                }
                Err(fault) => format!("line {}: {}", fault.line, fault.message),
            },
            Err(error) if error.kind() == io::ErrorKind::NotFound => error.to_string(),
            Err(error) => {
                let path = path.display();
                found.fault = Some(format!("its environment file {path} cannot be read: {error}"));
                return found;
            }
        };
        let path = path.display();
        found.notes.push(format!("{path} cannot be read, so its variables are missing: {why}"));
    }
    found
}

fn read_env_file(path: &Path, user: Option<&behalf::Rights>) -> io::Result<String> {
    let read = || behalf::read_whole(path, ENV_FILE_BYTES_MAX);
    let bytes = match (read(), user) {
        // A folder that root cannot access, such as one of FUSE.
        (Err(error), Some(user))
            if error.kind() == io::ErrorKind::PermissionDenied && !behalf::is_refusal(&error) =>
        {
            behalf::as_user(user, read)?
        }
        (read, _) => read?,
    };
    String::from_utf8(bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// The sources of values that were not saved.
struct Values<'a> {
    /// The app's values under the previous daemon.
    before: &'a BTreeMap<String, String>,
    /// The caller's values.
    caller: &'a BTreeMap<String, String>,
}

/// A spec from a saved definition: values that were not saved come from the `.env` files and from `env`.
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
    // As for a new app: the caller's environment may not be meant for another user.
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
