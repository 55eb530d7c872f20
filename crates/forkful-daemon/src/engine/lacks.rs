//! What workers expect of a primary written in JavaScript: emulated if possible, otherwise reported to the
//! user. The rules are in [`forkful_core::primary_habits`].

use std::collections::BTreeSet;
use std::path::PathBuf;

use forkful_api::types::Status;
use forkful_cluster::WorkerId;
use forkful_core::Time;
use forkful_core::primary_habits::{Lack, Log4jsStep, SCRIPT_BYTES_MAX, calls_cluster_fork};
use forkful_core::slot::Generation;
use forkful_core::spec::{AppSpec, Mode, Runtime};
use forkful_core::supervisor::SlotRecord;
use forkful_os::behalf;

use super::app::{App, Place, Process};
use super::apps::Apps;
use super::launch::{balance_note, other_user, script_of};
use super::view::status_of;
use crate::worker_message;

/// Maximum worker ids in a note.
const IDS_MAX: usize = 8;

/// The script to examine when a process is started: the first worker's, and never one of another user with
/// root's rights.
pub(super) fn script_to_look_into(spec: &AppSpec, slot: u16) -> Option<PathBuf> {
    let is_asked = slot == 0
        && spec.mode == Mode::Cluster
        && spec.launch.runtime == Runtime::Node
        && other_user(spec).is_none();
    script_of(spec).filter(|_| is_asked)
}

/// Whether a script has its own primary part; `false` if it cannot be read. May wait for the disk.
pub(super) fn has_own_primary(script: &std::path::Path) -> bool {
    behalf::read_whole(script, SCRIPT_BYTES_MAX).is_ok_and(|text| calls_cluster_fork(&text))
}

impl Apps {
    /// What does not work as all apps expect.
    pub(super) fn lack_notes(&self) -> impl Iterator<Item = String> + '_ {
        self.values()
            .flat_map(|entry| entry.notes().into_iter().map(|note| format!("{}: {note}", entry.spec().name)))
    }
}

impl App {
    /// An examined script has its own primary part.
    pub(super) fn note_own_primary(&mut self, slot: u16, generation: Generation) {
        if let Some(worker) = self.worker(slot, generation) {
            self.note_lack(worker, Lack::OwnPrimary);
        }
    }

    /// A worker expects something that does not exist. The daemon's log reports it once.
    pub(super) fn note_lack(&mut self, worker: WorkerId, lack: Lack) {
        let Some(process) = self.process_of(worker) else { return };
        process.lacks.insert(lack);
        if self.told.lacks.insert(lack) {
            log_line!("forkful: {}: {lack}", self.spec().name);
        }
    }

    /// log4js in a worker sends a line for another process; returns whether this is such a line.
    pub(super) fn on_log4js(&mut self, worker: WorkerId, line: &[u8], now: Time) -> bool {
        let Some((slot, _)) = self.find_worker(worker) else { return false };
        let Some((message, line)) = worker_message::log4js(line, slot) else { return false };
        let nothing = BTreeSet::new();
        let lacks = self.first_process().map_or(&nothing, |process| &process.lacks);
        let lack = match line.step(lacks) {
            Log4jsStep::Tell(lack) => lack,
            Log4jsStep::SendToFirst => {
                let writer = self.first_process().map(|process| process.worker);
                let sent =
                    writer.is_some_and(|writer| self.primary.send_message(writer, &message, now).is_ok());
                if sent {
                    return true;
                }
                Lack::Log4jsWriter
            }
        };
        self.note_lack(worker, lack);
        true
    }

    /// The process of slot 0, if there is one.
    fn first_process(&self) -> Option<&Process> {
        self.current(0).filter(|process| process.ended.is_none())
    }

    /// What does not work as the app expects, of its workers, of its chosen balance, of watching its files and of sending its metrics; and a change that nobody has decided about.
    pub(super) fn notes(&self) -> Vec<String> {
        let lacks = self.lacks();
        let lacks = lacks.iter().map(ToString::to_string);
        let watch = self.upkeep.watch_fault.clone();
        lacks
            .chain(self.closed_note())
            .chain(balance_note(self.spec()).map(str::to_owned))
            .chain(watch)
            .chain(self.otlp_notes())
            .chain(self.trial_note())
            .collect()
    }

    /// Workers that are online, and have closed all their servers.
    fn closed_note(&self) -> Option<String> {
        let is_closed = |of_slot: &(u16, &SlotRecord, &Place)| {
            let living = of_slot.2.current(of_slot.1).filter(|process| process.ended.is_none());
            living.is_some_and(|process| {
                status_of(of_slot.1, true) == Status::Online && self.primary.has_closed_all(process.worker)
            })
        };
        let closed: Vec<String> =
            self.slots().filter(is_closed).map(|(_, _, place)| place.pm_id.to_string()).collect();
        let ids = closed.iter().take(IDS_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if closed.len() > IDS_MAX { ", …" } else { "" };
        let (noun, verb) = if closed.len() == 1 { ("worker", "listens") } else { ("workers", "listen") };
        (!closed.is_empty())
            .then(|| format!("{noun} {ids}{more} no longer {verb}: the app has closed its servers"))
    }

    /// The unmet expectations of its current workers.
    pub(super) fn lacks(&self) -> BTreeSet<Lack> {
        let processes = self.shown();
        let living = processes.filter(|process| process.ended.is_none());
        living.flat_map(|process| process.lacks.iter().copied()).collect()
    }
}
