//! Serializes apps repeatedly: parts that have not changed are copied from the last time (see [`Recall`]).

use std::collections::BTreeMap;

use forkful_core::snapshot::{self, Fault};
use forkful_core::supervisor::Recall;
use serde_json::value::{RawValue, to_raw_value};

use super::app::{App, AppId};
use super::written::{WrittenPlace, written_app, written_place};

/// Maximum apps whose parts are remembered; the app that was written least recently is dropped first.
const APPS_MAX: usize = 16;

/// What is remembered of the apps that were written last.
#[derive(Default)]
pub(super) struct Recalled {
    apps: BTreeMap<AppId, Parts>,
    turns: u64,
}

#[derive(Default)]
struct Parts {
    supervisor: Recall,
    places: BTreeMap<u16, (WrittenPlace, Box<RawValue>)>,
    /// When they were used last.
    turn: u64,
}

impl Recalled {
    /// Appends an app to bytes; with a fault nothing is appended.
    pub(super) fn write(&mut self, id: AppId, app: &App, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        self.turns += 1;
        if self.apps.len() >= APPS_MAX && !self.apps.contains_key(&id) {
            let oldest = self.apps.iter().min_by_key(|(_, parts)| parts.turn).map(|(id, _)| *id);
            oldest.and_then(|id| self.apps.remove(&id));
        }
        let Parts { supervisor, places, turn } = self.apps.entry(id).or_default();
        *turn = self.turns;
        places.retain(|slot, _| app.places.contains_key(slot));
        for (slot, place) in &app.places {
            let place = written_place(app, *slot, place);
            if places.get(slot).is_none_or(|(known, _)| *known != place) {
                let json = to_raw_value(&place).map_err(|_| Fault::Unwritable)?;
                places.insert(*slot, (place, json));
            }
        }
        let supervisor = supervisor.of(&app.supervisor).map_err(|_| Fault::Unwritable)?;
        let places = places.values().map(|(_, json)| json).collect();
        snapshot::write(&written_app(id, app, supervisor, places), bytes)
    }

    /// An app is gone.
    pub(super) fn forget(&mut self, id: AppId) {
        self.apps.remove(&id);
    }
}
