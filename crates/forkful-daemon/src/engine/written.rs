//! The written-down state: everything that another daemon needs to go on with the same workers. It is written into memory that the
//! keeper holds, at the end of each turn that changed it. `adoption` reads it.
//!
//! Each app is a piece of its own. A turn adds the apps that it has changed to what is there, so that it costs the same with one app
//! and with a thousand; now and then all is written as a whole. While a program of another version may go on from there, each turn
//! writes all of it, for earlier versions do not read what is added.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use forkful_api::saved::UnknownKey;
use forkful_cluster::WrittenPrimary;
use forkful_cluster::protocol::incoming::NodeVersion;
use forkful_core::Time;
use forkful_core::doctor::OpenTrial;
use forkful_core::primary_habits::Lack;
use forkful_core::slot::Generation;
use forkful_core::snapshot::{self, Fault};
use forkful_core::stalls::Ledger;
use forkful_core::supervisor::{AppSupervisor, JobId};
use forkful_keeper::areas::Found;
use forkful_keeper::keeper::TRIAL;
use forkful_os::tree::{Instance, Marks};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::app::{App, AppId, Place, Process};
use super::apply::WrittenPlan;
use super::apps::Apps;
use super::recalled::Recalled;
use crate::inherited::StateFile;

/// What another daemon needs.
#[derive(Debug)]
pub(crate) struct Written {
    pub(super) daemon: WrittenDaemon,
    pub(super) apps: Vec<WrittenApp<'static>>,
}

/// What belongs to no app.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct WrittenDaemon {
    /// What its workers are known by, and how many marks were given.
    pub(super) instance: String,
    pub(super) marks_given: u32,
    pub(super) last_app: u32,
    pub(super) next_pm_id: u32,
    pub(super) last_job: u64,
    /// The commands under way that nobody waits for.
    #[serde(default)]
    pub(super) unwatched: BTreeSet<JobId>,
    /// The saved state is being read, to be started.
    #[serde(default)]
    pub(super) resurrects: bool,
    /// Everything is being stopped.
    pub(super) is_closing: bool,
    /// Configurations that are being applied.
    #[serde(default)]
    pub(super) plans: Vec<WrittenPlan>,
    /// The saved state is this daemon's own.
    pub(super) owns_saved: bool,
    /// Entries of the saved state that are about to be started.
    pub(super) pending: Vec<Value>,
    /// Entries that cannot be started: name, value, why.
    pub(super) carried: Vec<(String, Value, String)>,
    /// How many follow.
    pub(super) apps: usize,
}

/// An app, whose supervisor and places are written from what is remembered of them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WrittenApp<'a, S = AppSupervisor, P = WrittenPlace> {
    pub(super) id: AppId,
    pub(super) supervisor: S,
    pub(super) primary: WrittenPrimary,
    pub(super) created_at_ms: u64,
    pub(super) workers_started: u32,
    /// Path and value of each.
    pub(super) unknown_keys: Vec<(Vec<String>, Value)>,
    pub(super) special_logs: BTreeSet<PathBuf>,
    /// What the daemon's log has said of its workers.
    #[serde(default)]
    pub(super) told_lacks: BTreeSet<Lack>,
    /// What its workers have counted themselves, see `forkful_core::app_metrics`.
    #[serde(default)]
    pub(super) counted: Cow<'a, str>,
    /// When and where its event loops stood still.
    #[serde(default)]
    pub(super) stalls: Cow<'a, Ledger>,
    /// What is due, and what was seen of its files.
    #[serde(default)]
    pub(super) upkeep: WrittenUpkeep,
    /// A change of `forkful doctor --fix` that nobody has decided about.
    #[serde(default)]
    pub(super) trial: Option<OpenTrial>,
    pub(super) places: Vec<P>,
}

/// What keeps an app in good shape: what would be missed while there is no daemon.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WrittenUpkeep {
    /// The next point of `cron_restart`, by the wall clock: for versions whose supervisors have no clock.
    pub(super) cron_next_ms: Option<i64>,
    /// Changes of watched files up to here have been followed, by the wall clock; `None` without a watch.
    pub(super) files_seen_ms: Option<u64>,
}

/// A slot's place.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WrittenPlace {
    pub(super) slot: u16,
    pub(super) pm_id: u32,
    pub(super) started_at_ms: Option<u64>,
    /// Why the last process ended, where its exit does not say it.
    #[serde(default)]
    pub(super) exit_cause: Option<String>,
    pub(super) processes: Vec<WrittenProcess>,
    /// Processes that have ended: if the keeper still has their output, it was not read to its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) left: Vec<(u32, Generation)>,
}

/// A process of a worker.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct WrittenProcess {
    pub(super) generation: Generation,
    pub(super) pid: u32,
    pub(super) start_time: u64,
    pub(super) worker: u32,
    /// The workers below it: processes that a wrapper has started, and that listen.
    pub(super) below: Vec<u32>,
    /// What it expects of a primary and does not get.
    #[serde(default)]
    pub(super) lacks: BTreeSet<Lack>,
    pub(super) mark: String,
    pub(super) cookie: Option<u64>,
    pub(super) has_stdin: bool,
    pub(super) spawned: Time,
    pub(super) started_at_ms: u64,
    pub(super) node_version: Option<NodeVersion>,
}

/// What a turn has changed; so many apps follow.
#[derive(Debug, Serialize, Deserialize)]
struct Change<'a> {
    /// What belongs to no app, where it has changed.
    daemon: Option<Cow<'a, WrittenDaemon>>,
    gone: Vec<AppId>,
    apps: usize,
}

impl Written {
    /// From a state and what was added to it.
    pub(crate) fn found(found: &Found) -> Result<Self, Fault> {
        let Self { mut daemon, apps } = Self::read(&found.state)?;
        let mut apps: BTreeMap<AppId, WrittenApp<'static>> =
            apps.into_iter().map(|app| (app.id, app)).collect();
        for addition in &found.additions {
            let (change, mut rest) = snapshot::read::<Change<'static>>(addition)?;
            for id in change.gone {
                apps.remove(&id);
            }
            for _ in 0..change.apps {
                let (app, behind) = snapshot::read::<WrittenApp<'static>>(rest)?;
                apps.insert(app.id, app);
                rest = behind;
            }
            if let Some(changed) = change.daemon {
                daemon = changed.into_owned();
            }
        }
        Ok(Self { daemon, apps: apps.into_values().collect() })
    }

    /// From a state as a whole.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, Fault> {
        let (daemon, mut rest) = snapshot::read::<WrittenDaemon>(bytes)?;
        let mut apps = Vec::with_capacity(daemon.apps);
        for _ in 0..daemon.apps {
            let (app, behind) = snapshot::read(rest)?;
            apps.push(app);
            rest = behind;
        }
        Ok(Self { daemon, apps })
    }

    /// The marks of the daemon that goes on; `None` when they make no sense.
    pub(crate) fn marks(&self) -> Option<Marks> {
        // One start may have been begun after the last time that anything was written down.
        let given = self.daemon.marks_given.saturating_add(STARTS_UNTOLD);
        Some(Marks::resume(Instance::parse(&self.daemon.instance)?, given))
    }
}

/// More starts than are begun in one turn.
const STARTS_UNTOLD: u32 = 1000;

/// For so long after somebody has asked for all of it, a program of another version may take it up: longer than its check and its
/// trial take.
const HANDED_OVER: Duration = Duration::from_secs(60);

/// Writes down what changes.
pub(super) struct Writing {
    file: StateFile,
    /// Where in the file each app is as it was written last.
    pieces: BTreeMap<AppId, Piece>,
    /// Those that have changed since.
    changed: BTreeSet<AppId>,
    daemon: WrittenDaemon,
    recalled: Recalled,
    /// Until then, everything is written as a whole.
    whole_until: Option<Instant>,
    /// It is told once that something cannot be written down.
    is_told: bool,
}

/// A part of the file.
#[derive(Debug, Clone, Copy)]
struct Piece {
    at: u64,
    bytes: usize,
}

/// Apps in words, one after the other.
#[derive(Default)]
struct InWords {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<(AppId, usize)>,
}

impl InWords {
    fn add(&mut self, id: AppId, app: &App, recalled: &mut Recalled) -> Result<(), Fault> {
        recalled.write(id, app, &mut self.bytes)?;
        self.ends.push((id, self.bytes.len()));
        Ok(())
    }

    /// The pieces that they are when they were written at an offset of the file.
    fn pieces(&self, at: u64) -> impl Iterator<Item = (AppId, Piece)> {
        let begins = std::iter::once(0).chain(self.ends.iter().map(|(_, end)| *end));
        let piece = move |(begin, (id, end)): (usize, &(AppId, usize))| {
            (*id, Piece { at: at + begin as u64, bytes: end - begin })
        };
        begins.zip(&self.ends).map(piece)
    }
}

impl Writing {
    pub(super) fn new(file: StateFile) -> Self {
        let whole_until = file.is_on_trial.then(|| Instant::now() + 2 * TRIAL);
        Self {
            file,
            pieces: BTreeMap::new(),
            changed: BTreeSet::new(),
            daemon: WrittenDaemon::default(),
            recalled: Recalled::default(),
            whole_until,
            is_told: false,
        }
    }

    /// All that was written down, or why something is missing. It stays readable for programs of other versions for a while.
    pub(super) fn whole(&mut self) -> Result<Vec<u8>, String> {
        self.whole_until = Some(Instant::now() + HANDED_OVER);
        if self.is_told {
            return Err("its apps cannot be written down, see daemon.log".to_owned());
        }
        self.write_whole(&InWords::default())
    }

    /// Writes down these apps as they are now, and the rest of the daemon.
    pub(super) fn write(&mut self, changed: &BTreeSet<AppId>, mut daemon: WrittenDaemon, apps: &Apps) {
        daemon.apps = apps.len();
        if changed.is_empty() && daemon == self.daemon {
            return;
        }
        // What could not be written the last time is tried again.
        self.changed.extend(changed);
        match self.write_changes(daemon, apps) {
            Ok(()) => {
                self.changed.clear();
                self.is_told = false;
            }
            Err(fault) => {
                // What is there may lack something.
                self.whole_until = Some(Instant::now() + HANDED_OVER);
                if !self.is_told {
                    self.is_told = true;
                    log_line!("forkful: if this daemon dies, its apps will be restarted: {fault}");
                }
            }
        }
    }

    fn write_changes(&mut self, daemon: WrittenDaemon, apps: &Apps) -> Result<(), String> {
        let (mut gone, mut new) = (Vec::new(), InWords::default());
        for id in &self.changed {
            self.pieces.remove(id);
            match apps.get(id) {
                Some(app) => new.add(*id, app, &mut self.recalled).map_err(in_words)?,
                None => {
                    self.recalled.forget(*id);
                    gone.push(*id);
                }
            }
        }
        let is_other_daemon = daemon != self.daemon;
        self.daemon = daemon;
        if self.whole_until.is_none_or(|until| until < Instant::now())
            && self.add(&new, gone, is_other_daemon)?
        {
            return Ok(());
        }
        self.write_whole(&new).map(drop)
    }

    /// Adds what has changed; `false` when everything has to be written instead.
    fn add(&mut self, new: &InWords, gone: Vec<AppId>, with_daemon: bool) -> Result<bool, String> {
        self.whole_until = None;
        let daemon = with_daemon.then_some(Cow::Borrowed(&self.daemon));
        let mut bytes = Vec::new();
        snapshot::write(&Change { daemon, gone, apps: new.ends.len() }, &mut bytes).map_err(in_words)?;
        let head = bytes.len() as u64;
        bytes.extend_from_slice(&new.bytes);
        let Some(at) = self.file.areas.add(&bytes).map_err(in_words)? else { return Ok(false) };
        self.pieces.extend(new.pieces(at + head));
        Ok(true)
    }

    /// Writes everything: apps that have not changed are copied from where they are in the file.
    fn write_whole(&mut self, new: &InWords) -> Result<Vec<u8>, String> {
        let (mut bytes, mut pieces) = (Vec::new(), BTreeMap::new());
        snapshot::write(&self.daemon, &mut bytes).map_err(in_words)?;
        for (id, piece) in &self.pieces {
            let begin = bytes.len();
            bytes.resize(begin + piece.bytes, 0);
            self.file.areas.read(piece.at, &mut bytes[begin..]).map_err(in_words)?;
            pieces.insert(*id, Piece { at: begin as u64, bytes: piece.bytes });
        }
        let begin = bytes.len() as u64;
        bytes.extend_from_slice(&new.bytes);
        let at = self.file.areas.write(&bytes).map_err(in_words)?;
        pieces.values_mut().for_each(|piece| piece.at += at);
        pieces.extend(new.pieces(at + begin));
        self.pieces = pieces;
        Ok(bytes)
    }
}

fn in_words(fault: impl Display) -> String {
    fault.to_string()
}

pub(super) fn written_app<S, P>(id: AppId, app: &App, supervisor: S, places: Vec<P>) -> WrittenApp<'_, S, P> {
    WrittenApp {
        id,
        supervisor,
        primary: app.primary.write_down(),
        created_at_ms: app.created_at_ms,
        workers_started: app.workers.started,
        unknown_keys: app.unknown_keys.iter().map(|key| (key.path.clone(), key.value.clone())).collect(),
        special_logs: app.special_logs.clone(),
        told_lacks: app.told.lacks.clone(),
        counted: Cow::Borrowed(app.metrics.own.written()),
        stalls: Cow::Borrowed(&app.stalls),
        upkeep: app.write_upkeep_down(),
        trial: app.upkeep.trial.clone(),
        places,
    }
}

pub(super) fn written_place(app: &App, slot: u16, place: &Place) -> WrittenPlace {
    let process = |(generation, process): (&Generation, &Process)| WrittenProcess {
        generation: *generation,
        pid: process.child.pid,
        start_time: process.child.start_time,
        worker: process.worker.0,
        below: app.workers.of((slot, *generation)).into_iter().map(|worker| worker.0).collect(),
        lacks: process.lacks.clone(),
        mark: process.mark.to_string(),
        cookie: process.kept.cookie,
        has_stdin: process.stdin.is_some(),
        spawned: process.spawned,
        started_at_ms: process.started_at_ms,
        node_version: process.node_version,
    };
    WrittenPlace {
        slot,
        pm_id: place.pm_id,
        started_at_ms: place.started_at_ms,
        exit_cause: place.exit_cause.clone(),
        processes: place.processes.iter().map(|(generation, one)| process((generation, one))).collect(),
        left: place.left.iter().map(|(worker, generation)| (worker.0, *generation)).collect(),
    }
}

/// The keys of an app that only another version knows.
pub(super) fn unknown_keys(written: Vec<(Vec<String>, Value)>) -> Vec<UnknownKey> {
    written.into_iter().map(|(path, value)| UnknownKey { path, value }).collect()
}
