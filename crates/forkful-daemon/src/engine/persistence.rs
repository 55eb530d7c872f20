//! What should run, as it is saved, and the way back from a saved state.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use forkful_api::saved::{
    ClearReply, ResurrectRequest, SAVED_FORMAT, SaveReply, SaveRequest, SavedApp, SavedName, SavedState,
};
use forkful_api::types::{ActionReply, AppDefinition, AppOutcome, ErrorCode, ErrorReply};
use forkful_core::spec::AppSpec;
use forkful_core::spec::environment::parse_env_file;
use tokio::sync::watch;

use super::app::App;
use super::commands::{answer, refuse};
use super::{Engine, Phase};
use crate::command::Reply;
use crate::store::{Saved, Writer, file};

/// How long a reply waits for the state to be on disk; then it tells that it is not.
const SAVE_PATIENCE: Duration = Duration::from_secs(2);

/// The saved state of one daemon: the writer, and whether there is anything new for it.
pub(crate) struct Persistence {
    writer: Writer,
    is_changed: bool,
    /// The state of the daemon before has been taken up, or set aside.
    is_begun: bool,
}

impl Persistence {
    /// For a daemon of this home.
    pub(crate) fn start(home: &crate::Home) -> std::io::Result<Self> {
        Ok(Self { writer: Writer::start(home.state())?, is_changed: false, is_begun: false })
    }
}

/// A reply's way to learn whether the state behind it is safe.
pub(crate) struct SaveTicket {
    number: u64,
    saved: watch::Receiver<Saved>,
}

impl SaveTicket {
    /// Why the state is not on disk, if it is not.
    pub(crate) async fn fault(mut self) -> Option<String> {
        let number = self.number;
        let told =
            tokio::time::timeout(SAVE_PATIENCE, self.saved.wait_for(|saved| saved.number >= number)).await;
        match told {
            Ok(Ok(saved)) => {
                saved.fault.clone().map(|fault| format!("the state could not be saved: {fault}"))
            }
            // The writer ends only with the daemon, after its last state.
            Ok(Err(_)) => None,
            Err(_) => Some("the state is not saved yet: the disk is slow".to_owned()),
        }
    }
}

impl Engine {
    /// What should run is not any more what was saved.
    pub(crate) fn note_change(&mut self) {
        if let Some(persistence) = &mut self.persistence {
            persistence.is_changed = true;
        }
    }

    /// Hands the state to the writer if there is something new. A daemon that ends saves nothing more:
    /// what ran then is what should run again.
    pub(crate) fn save_changes(&mut self) {
        let is_due = self.persistence.as_ref().is_some_and(|persistence| persistence.is_changed);
        if !is_due || self.phase != Phase::Serving {
            return;
        }
        let text = self.state_text();
        let previous = self.home.previous_state();
        let state = self.home.state();
        if let Some(persistence) = &mut self.persistence {
            if !std::mem::replace(&mut persistence.is_begun, true) {
                keep_previous(&state, &previous);
            }
            persistence.is_changed = false;
            persistence.writer.write(text);
        }
    }

    /// For a reply: whether the state as it is now gets to disk.
    pub(crate) fn save_ticket(&self) -> Option<SaveTicket> {
        let persistence = self.persistence.as_ref()?;
        let number = persistence.writer.newest();
        (number > 0).then(|| SaveTicket { number, saved: persistence.writer.saved() })
    }

    fn state_text(&self) -> String {
        let apps = self.apps.values().filter_map(|app| serde_json::to_value(saved_app(app)).ok()).collect();
        let state = SavedState {
            format: SAVED_FORMAT,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            saved_at_ms: super::clock::wall_ms(),
            apps,
        };
        serde_json::to_string(&state).expect("texts, numbers and maps with text keys are always JSON")
    }

    /// `save`: the same to a file of its own.
    pub(crate) fn save(&mut self, request: &SaveRequest, reply: Reply<SaveReply>) {
        if self.apps.is_empty() && !request.force {
            let hint = Some("`--force` saves that there is none".to_owned());
            return answer(reply, Err(refuse(ErrorCode::Conflict, "there is no app to save", hint)));
        }
        if request.with_env {
            for app in self.apps.values_mut() {
                Rc::make_mut(&mut app.spec).launch.env_sources.keep_inherited = true;
            }
            self.note_change();
            self.save_changes();
        }
        let text = self.state_text();
        let apps: Vec<SavedName> = self.apps.values().map(|app| saved_name(&app.spec)).collect();
        let path = self.home.dump();
        tokio::task::spawn_local(async move {
            let shown = path.display().to_string();
            let written = tokio::task::spawn_blocking(move || file::write_whole(&path, &text)).await;
            let fault = match written {
                Ok(Ok(())) => None,
                Ok(Err(error)) => Some(error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            answer(
                reply,
                match fault {
                    None => Ok(SaveReply { path: shown, apps }),
                    Some(fault) => Err(refuse(ErrorCode::Internal, &format!("cannot save: {fault}"), None)),
                },
            );
        });
    }

    /// `cleardump`: forgets what was saved, but for what runs now.
    pub(crate) fn clear_saved(&mut self) -> Result<ClearReply, ErrorReply> {
        let mut removed = Vec::new();
        for path in [self.home.dump(), self.home.previous_state()] {
            match fs_err::remove_file(&path) {
                Ok(()) => removed.push(path.display().to_string()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(refuse(ErrorCode::Internal, &error.to_string(), None)),
            }
        }
        Ok(ClearReply { removed })
    }

    /// `resurrect`: starts what was saved and does not exist, each worker in the state that it had.
    pub(crate) fn resurrect(&mut self, request: &ResurrectRequest, reply: Reply<ActionReply>) {
        let (found, mut outcomes) = self.saved_apps(request.saved);
        let Some(found) = found else {
            let error = "there is nothing saved";
            let hint = "`forkful start` starts an app, and what runs is saved by itself".to_owned();
            return answer(reply, Err(refuse(ErrorCode::NoSuchTarget, error, Some(hint))));
        };
        let mut wanted = Vec::new();
        for app in found {
            if self.find(&app.definition.name).is_some() {
                let note = "exists already: left as it is".to_owned();
                outcomes.push(outcome(&app.definition.name, None, vec![note]));
                continue;
            }
            let env_of = request.env_of.get(&app.definition.name);
            match revive(app.definition, &[env_of.unwrap_or(&BTreeMap::new()), &request.env]) {
                Ok((spec, notes)) => wanted.push((spec, app.stopped, notes)),
                Err((name, fault)) => outcomes.push(outcome(&name, Some(fault), Vec::new())),
            }
        }
        if let Some(persistence) = &mut self.persistence {
            persistence.is_begun = true;
        }
        if wanted.is_empty() {
            return answer(reply, Ok(ActionReply { apps: outcomes }));
        }
        self.start_saved(wanted, outcomes, request.wait, reply);
        self.note_change();
    }

    fn start_saved(
        &mut self,
        wanted: Vec<(AppSpec, Vec<u16>, Vec<String>)>,
        outcomes: Vec<AppOutcome>,
        wait: bool,
        reply: Reply<ActionReply>,
    ) {
        let (waiting, at_once) = if wait { (Some(reply), None) } else { (None, Some(reply)) };
        let job = self.new_job(waiting, |reply| reply);
        if let Some(job) = self.jobs.get_mut(&job) {
            job.known.clone_from(&outcomes);
        }
        for (spec, stopped, notes) in wanted {
            let app = self.create_with(spec, job, Some(&stopped));
            if let Some(part) = self.part(job, app) {
                notes.into_iter().for_each(|note| part.note(note));
            }
        }
        self.answer_at_once(job, at_once);
    }

    /// The apps of the newest state that can be read, and what is to be told of those that cannot.
    fn saved_apps(&self, from_dump: bool) -> (Option<Vec<SavedApp>>, Vec<AppOutcome>) {
        let is_begun = self.persistence.as_ref().is_some_and(|persistence| persistence.is_begun);
        let dump = self.home.dump();
        // A state that this daemon has written says what exists anyway.
        let own = if is_begun { self.home.previous_state() } else { self.home.state() };
        let paths: Vec<PathBuf> =
            if from_dump { vec![dump] } else { vec![own, self.home.previous_state(), dump] };
        let mut outcomes = Vec::new();
        for path in paths {
            let state = match file::read(&path) {
                Ok(Some(state)) if !state.apps.is_empty() => state,
                Ok(_) => continue,
                Err(error) => {
                    let aside = file::set_aside(&path);
                    let kept = aside
                        .map_or_else(String::new, |aside| format!("; it is kept as {}", aside.display()));
                    outcomes.push(outcome("saved state", Some(format!("{error}{kept}")), Vec::new()));
                    continue;
                }
            };
            let mut apps = Vec::with_capacity(state.apps.len());
            for value in state.apps {
                let name = value["definition"]["name"].as_str().unwrap_or("an app").to_owned();
                match serde_json::from_value::<SavedApp>(value) {
                    Ok(app) => apps.push(app),
                    Err(error) => {
                        let fault = format!("cannot be read from {}: {error}", path.display());
                        outcomes.push(outcome(&name, Some(fault), Vec::new()));
                    }
                }
            }
            return (Some(apps), outcomes);
        }
        (if outcomes.is_empty() { None } else { Some(Vec::new()) }, outcomes)
    }
}

/// The state of a daemon that ended, if this one has not taken it up, is not overwritten.
fn keep_previous(state: &Path, previous: &Path) {
    if matches!(file::read(state), Ok(Some(found)) if found.apps.is_empty()) {
        return;
    }
    match fs_err::rename(state, previous) {
        Ok(()) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => log_line!("forkful: the state of the daemon before is not kept: {error}"),
    }
}

fn saved_app(app: &App) -> SavedApp {
    let mut definition = AppDefinition::from(&*app.spec);
    let sources = &app.spec.launch.env_sources;
    definition.env.retain(|name, _| sources.may_be_kept(name));
    // The next daemon numbers its slots without the gaps that deleted workers have left.
    let staying = app.places.values().filter(|place| place.shrinking.is_empty());
    let stopped = (0..).zip(staying).filter(|(_, place)| !place.wanted).map(|(position, _)| position);
    SavedApp { definition, stopped: stopped.collect() }
}

fn saved_name(spec: &AppSpec) -> SavedName {
    let sources = &spec.launch.env_sources;
    let left_out = sources.inherited.iter().filter(|name| !sources.may_be_kept(name)).cloned().collect();
    SavedName { name: spec.name.to_string(), left_out }
}

/// A spec from what was saved: values that were not come from the `.env` files and from `env`.
fn revive(
    mut definition: AppDefinition,
    env: &[&BTreeMap<String, String>],
) -> Result<(AppSpec, Vec<String>), (String, String)> {
    let name = definition.name.clone();
    let mut notes = Vec::new();
    let mut from_files = BTreeMap::new();
    for path in &definition.env_sources.files {
        match fs_err::read_to_string(path).map_err(|error| error.to_string()).and_then(|text| {
            parse_env_file(&text).map_err(|fault| format!("line {}: {}", fault.line, fault.message))
        }) {
            Ok(variables) => from_files.extend(variables),
            Err(error) => notes.push(format!("{path} cannot be read, so its variables are missing: {error}")),
        }
    }
    definition.env_sources.from_files.retain(|name| from_files.contains_key(name));
    for variable in &definition.env_sources.from_files {
        if let Some(value) = from_files.remove(variable) {
            definition.env.insert(variable.clone(), value);
        }
    }
    let mut missing = Vec::new();
    for variable in &definition.env_sources.inherited {
        if definition.env.contains_key(variable) {
            continue;
        }
        match env.iter().find_map(|env| env.get(variable)) {
            Some(value) => drop(definition.env.insert(variable.clone(), value.clone())),
            None => missing.push(variable.clone()),
        }
    }
    if !missing.is_empty() {
        notes.push(format!("starts without values that were not saved: {}", missing.join(", ")));
    }
    let spec = AppSpec::try_from(definition).map_err(|fault| (name, fault.to_string()))?;
    Ok((spec, notes))
}

fn outcome(name: &str, error: Option<String>, notes: Vec<String>) -> AppOutcome {
    AppOutcome {
        finished: false,
        name: name.to_owned(),
        ok: error.is_none(),
        pm_ids: Vec::new(),
        error,
        hint: None,
        notes,
        stderr_tail: Vec::new(),
    }
}
