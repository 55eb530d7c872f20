//! Saves the desired state. `resurrect` restores it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Duration;

use forkful_api::saved::{ClearReply, SaveReply, SavedApp, SavedName, SavedState};
use forkful_api::types::{AppDefinition, AppOutcome, ErrorCode};
use forkful_core::saving::{Saving, may_reply};
use forkful_core::spec::AppSpec;
use forkful_core::spec::environment::looks_app_specific;
use forkful_core::supervisor::FirstStates;
use forkful_core::targets::as_typed;
use forkful_core::words::shell_word;
use serde_json::Value;
use tokio::sync::watch;

use super::app::App;
use super::apps::Apps;
use super::commands::{answer, refuse};
use super::written::{Writing, WrittenDaemon};
use crate::Home;
use crate::command::Reply;
use crate::inherited::StateFile;
use crate::store::{Carried, STATE_BYTES_MAX, Saved, Writer};

/// How long a reply waits for the state to reach the disk; after that it reports that it is not saved.
const SAVE_PATIENCE: Duration = Duration::from_secs(2);

/// The saved state of one daemon: the writer, and the parts of the state other than the existing apps.
pub(crate) struct Persistence {
    pub(crate) writer: Writer,
    /// When the state is saved, and which replies wait for it.
    pub(super) saving: Saving,
    /// Entries that this version cannot start: they stay in every state until they are deleted by name.
    pub(super) carried: Vec<Carried>,
    /// Entries that are about to be started: a crash in the meantime does not lose them.
    pub(super) pending: Vec<Value>,
    /// Number of running reads of the saved state, for starting its apps.
    pub(super) loading: usize,
    /// The apps' unix sockets, as recorded for the next daemon.
    noted_sockets: BTreeSet<PathBuf>,
    /// Some app has a socket that is not recorded yet.
    has_new_sockets: bool,
    /// The state for the next daemon, with a keeper.
    writing: Option<Writing>,
}

impl Persistence {
    /// For a daemon of this home.
    pub(crate) fn start(home: &Home) -> std::io::Result<Self> {
        Ok(Self {
            writer: Writer::start(home.clone())?,
            saving: Saving::default(),
            carried: Vec::new(),
            pending: Vec::new(),
            loading: 0,
            noted_sockets: BTreeSet::new(),
            has_new_sockets: false,
            writing: None,
        })
    }

    /// From now on, what another daemon has to know is stored.
    pub(super) fn write_to(&mut self, file: StateFile) {
        self.writing = Some(Writing::new(file));
    }

    /// Stores the changes.
    pub(super) fn write_down(&mut self, apps: &mut Apps, daemon: impl FnOnce(&Apps) -> WrittenDaemon) {
        let changed = apps.take_unwritten();
        let Some(writing) = &mut self.writing else { return };
        let carried = self
            .carried
            .iter()
            .map(|carried| (carried.name.clone(), carried.value.clone(), carried.fault.clone()));
        let daemon = WrittenDaemon {
            owns_saved: self.saving.is_own(),
            resurrects: self.loading > 0,
            pending: self.pending.clone(),
            carried: carried.collect(),
            ..daemon(apps)
        };
        writing.write(&changed, daemon, apps);
    }

    /// The complete stored state, or why another daemon could not continue from there.
    pub(super) fn written(&mut self) -> Result<Vec<u8>, String> {
        self.writing.as_mut().map_or(Err("nothing is written down".to_owned()), Writing::whole)
    }

    /// Continues with the saved state of the previous daemon.
    pub(super) fn resume(&mut self, written: &WrittenDaemon) {
        if written.owns_saved {
            self.saving.take_up(true);
        }
        self.pending.clone_from(&written.pending);
        let carried = |(name, value, fault): &(String, Value, String)| Carried {
            name: name.clone(),
            value: value.clone(),
            fault: fault.clone(),
        };
        self.carried = written.carried.iter().map(carried).collect();
        self.note_change();
    }

    /// The desired state differs from the saved one.
    pub(crate) fn note_change(&mut self) {
        self.saving.note_change();
    }

    /// Hands the state to the writer if it has changed.
    pub(crate) fn save_changes(&mut self, home: &Home, apps: &Apps) {
        if self.has_new_sockets {
            self.write_sockets(home, apps);
        }
        if let Some(save) = self.saving.begin() {
            let text = self.state_text(apps);
            let number = self.writer.write(text, save.keep);
            debug_assert_eq!(number, save.number, "the writer counts the same states");
        }
    }

    /// For a reply: whether the current state reaches the disk.
    pub(crate) fn ticket(&self) -> Option<SaveTicket> {
        self.saving.ticket().map(|number| SaveTicket { number, saved: self.writer.saved() })
    }

    /// Notes for the user about the saved state, for every list.
    pub(crate) fn notes(&self, apps: &mut Apps) -> Vec<String> {
        let carried = self.carried.iter().map(|carried| {
            let name = &carried.name;
            let word = shell_word(name);
            format!("{name} does not run: {}; it stays saved until `forkful delete {word}`", carried.fault)
        });
        let missing = apps.values_to_show().filter_map(|app| {
            let App { supervisor, upkeep, .. } = app;
            let (name, names) = (&supervisor.spec().name, upkeep.missing.of(supervisor.spec())?);
            Some(format!(
                "{name} runs without {names}, whose values were not saved: `forkful restart {} --update-env` \
                 from a shell that has them",
                shell_word(name.as_str())
            ))
        });
        let fault = self.writer.fault().map(|fault| format!("the state cannot be saved: {fault}"));
        carried.chain(missing).chain(fault).collect()
    }

    /// The state to save, or why it cannot be saved.
    fn state_text(&self, apps: &Apps) -> Result<String, String> {
        let carried = self.carried.iter().map(|carried| &carried.value);
        let others = self.pending.iter().chain(carried).cloned();
        let apps = apps.values().map(saved_entry).chain(others);
        let text = SavedState::text(env!("CARGO_PKG_VERSION"), super::clock::wall_ms(), apps.clone());
        check_size(text.len(), apps, STATE_BYTES_MAX).map(|()| text)
    }

    /// `save`: writes the state to a separate file.
    pub(crate) fn save_dump(&self, apps: &Apps, reply: Reply<SaveReply>) {
        let fail = |fault: String| Err(refuse(ErrorCode::Internal, &format!("cannot save: {fault}"), None));
        let names: Vec<SavedName> = apps.values().map(|app| saved_name(app.spec())).collect();
        let text = match self.state_text(apps) {
            Ok(text) => text,
            Err(fault) => return answer(reply, fail(fault)),
        };
        self.writer.errand(move |shelf| {
            let written = shelf.save_dump(&text);
            answer(
                reply,
                match written {
                    Ok(path) => Ok(SaveReply { path: path.display().to_string(), apps: names }),
                    Err(error) => fail(error.to_string()),
                },
            );
        });
    }

    /// An app may listen on another unix socket. The record of all sockets is written with the next changes.
    pub(super) fn note_sockets<'a>(&mut self, mut files: impl Iterator<Item = &'a Path>) {
        self.has_new_sockets |= files.any(|file| !self.noted_sockets.contains(file));
    }

    /// Writes the record of the apps' unix sockets.
    fn write_sockets(&mut self, home: &Home, apps: &Apps) {
        let files = apps.values().flat_map(|entry| entry.primary.socket_files());
        self.noted_sockets = files.map(Path::to_owned).collect();
        self.has_new_sockets = false;
        let (home, noted) = (home.clone(), self.noted_sockets.clone());
        self.writer.errand(move |_| crate::left_behind::note_sockets(&home, &noted));
    }

    /// The home was created again: all its contents are written again.
    pub(crate) fn rewrite(&mut self, apps: &Apps) {
        self.noted_sockets.clear();
        apps.values().for_each(|entry| self.note_sockets(entry.primary.socket_files()));
        self.note_change();
    }

    /// `cleardump`: deletes the saved state, except for the running apps.
    pub(crate) fn clear(&self, reply: Reply<ClearReply>) {
        self.writer.errand(move |shelf| {
            let cleared = shelf.clear();
            answer(
                reply,
                match cleared {
                    Ok(paths) => Ok(ClearReply {
                        removed: paths.iter().map(|path| path.display().to_string()).collect(),
                    }),
                    Err(error) => Err(refuse(ErrorCode::Internal, &error.to_string(), None)),
                },
            );
        });
    }

    /// Removes the names from `targets` that are saved but cannot be started, and returns them.
    pub(crate) fn take_carried(&self, targets: &mut Vec<String>, apps: &Apps) -> Vec<String> {
        let is_app = |name: &str| apps.find(name).is_some();
        let takes_all = targets.iter().any(|target| target == "all");
        let named =
            |name: &str| takes_all || targets.iter().any(|target| as_typed(target) == name && !is_app(name));
        let forgotten: Vec<String> =
            self.carried.iter().map(|carried| carried.name.clone()).filter(|name| named(name)).collect();
        if forgotten.is_empty() {
            return Vec::new();
        }
        let there_are_apps = !apps.is_empty();
        let is_forgotten = |target: &str| forgotten.iter().any(|name| as_typed(target) == name);
        targets.retain(|target| !is_forgotten(target) && (target != "all" || there_are_apps));
        forgotten
    }

    /// Deletes the entries of apps that are saved but cannot be started.
    pub(crate) fn forget_carried(&mut self, names: &[String]) -> Vec<AppOutcome> {
        if names.is_empty() {
            return Vec::new();
        }
        self.carried.retain(|carried| !names.contains(&carried.name));
        self.note_change();
        names
            .iter()
            .map(|name| outcome(name, None, vec!["it did not run; its saved entry is forgotten".to_owned()]))
            .collect()
    }
}

/// Lets a reply wait until the state behind it is saved.
pub(crate) struct SaveTicket {
    number: u64,
    saved: watch::Receiver<Saved>,
}

impl SaveTicket {
    /// Why the state is not on disk, if it is not.
    pub(crate) async fn fault(mut self) -> Option<String> {
        let number = self.number;
        let told = tokio::time::timeout(
            SAVE_PATIENCE,
            self.saved.wait_for(|saved| may_reply(Some(number), saved.number)),
        )
        .await;
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

/// Shell variables that an app had, probably needs, and does not have now.
#[derive(Default)]
pub(super) struct Missing {
    /// The definition for which this was found out: `list` asks for each app.
    of: Weak<AppSpec>,
    names: Option<String>,
}

impl Missing {
    fn of(&mut self, spec: &Rc<AppSpec>) -> Option<&str> {
        if self.of.as_ptr() != Rc::as_ptr(spec) {
            *self = Self { of: Rc::downgrade(spec), names: missing_variables(spec) };
        }
        self.names.as_deref()
    }
}

fn missing_variables(spec: &AppSpec) -> Option<String> {
    let launch = &spec.launch;
    // Both lists of names are sorted, so one pass over both finds the missing names.
    let mut kept = launch.env.keys().peekable();
    let is_missing = |name: &&String| {
        while kept.next_if(|kept| kept < name).is_some() {}
        kept.peek() != Some(name) && looks_app_specific(name)
    };
    let names: Vec<&str> =
        launch.env_sources.inherited.iter().filter(is_missing).map(String::as_str).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// A state that could not be read again is not written.
fn check_size(length: usize, apps: impl Iterator<Item = Value>, bytes_max: u64) -> Result<(), String> {
    if length as u64 <= bytes_max {
        return Ok(());
    }
    let sizes = apps.map(|entry| (entry.to_string().len(), SavedApp::name_in(&entry).map(str::to_owned)));
    let (bytes, name) = sizes.max_by_key(|(bytes, _)| *bytes).unwrap_or_default();
    Err(format!(
        "it has {length} bytes, and the most is {bytes_max}; the largest app is `{}` with {bytes} bytes, \
         see its environment and arguments",
        name.as_deref().unwrap_or("without a name")
    ))
}

fn saved_entry(app: &App) -> Value {
    let mut definition = AppDefinition::from(app.spec());
    let sources = &app.spec().launch.env_sources;
    definition.env.retain(|name, _| sources.may_be_kept(name));
    let FirstStates { stopped, finished, waits_for_cron } = app.supervisor.saved_states();
    let stopped = stopped.unwrap_or_default();
    let trial = app.upkeep.trial.clone();
    SavedApp { definition, stopped, finished, waits_for_cron, trial }.entry(&app.unknown_keys)
}

fn saved_name(spec: &AppSpec) -> SavedName {
    let sources = &spec.launch.env_sources;
    let left_out = sources.inherited.iter().filter(|name| !sources.may_be_kept(name)).cloned().collect();
    SavedName { name: spec.name.to_string(), left_out }
}

pub(super) fn outcome(name: &str, error: Option<String>, notes: Vec<String>) -> AppOutcome {
    AppOutcome { name: name.to_owned(), ok: error.is_none(), error, notes, ..AppOutcome::default() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_state_that_is_too_large_names_its_largest_app() {
        let entry =
            |name: &str, bytes: usize| json!({"definition": {"name": name, "env": {"A": "x".repeat(bytes)}}});
        let apps = [entry("small", 10), entry("large", 500), entry("medium", 100)];
        let apps = apps.iter().cloned();
        let length = SavedState::text("", 0, apps.clone()).len();
        assert_eq!(check_size(length, apps.clone(), length as u64), Ok(()));
        let fault = check_size(length, apps, 700).unwrap_err();
        assert!(fault.contains("the most is 700; the largest app is `large` with 5"), "{fault}");
    }
}
