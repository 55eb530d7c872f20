//! The slots of an app by their numbers, and when each of them is due. After an event only those slots are asked that it
//! may have changed, so that it costs the same with one slot and with five hundred.

use std::collections::BTreeMap;
use std::ops::Deref;

use serde::{Deserialize, Deserializer, Serialize};

use super::SlotRecord;
use crate::Time;
use crate::wakes::Wakes;

/// See the module's documentation. Everybody may read the slots as a map; they change through the functions here.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Slots {
    /// Each on its own: most apps have one, and a node of a map has room for eleven values.
    all: BTreeMap<u16, Box<SlotRecord>>,
    /// Follows from the slots.
    #[serde(skip)]
    wakes: Wakes<u16>,
}

impl PartialEq for Slots {
    fn eq(&self, other: &Self) -> bool {
        self.all == other.all
    }
}

impl<'de> Deserialize<'de> for Slots {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut slots = Self { all: BTreeMap::deserialize(deserializer)?, wakes: Wakes::default() };
        slots.all.keys().for_each(|slot| slots.wakes.note_change(*slot));
        slots.refresh();
        Ok(slots)
    }
}

impl Deref for Slots {
    type Target = BTreeMap<u16, Box<SlotRecord>>;

    fn deref(&self) -> &Self::Target {
        &self.all
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as the functions of a map")]
impl Slots {
    pub(super) fn get(&self, slot: &u16) -> Option<&SlotRecord> {
        self.all.get(slot).map(|record| &**record)
    }

    /// A slot to be changed, after which it may be due at another time.
    pub(super) fn get_mut(&mut self, slot: &u16) -> Option<&mut SlotRecord> {
        self.wakes.note_change(*slot);
        self.all.get_mut(slot).map(|record| &mut **record)
    }

    /// The same of all slots.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut SlotRecord> {
        let Self { all, wakes } = self;
        all.iter_mut().map(|(slot, record)| {
            wakes.note_change(*slot);
            &mut **record
        })
    }

    pub(super) fn insert(&mut self, slot: u16, record: SlotRecord) {
        self.wakes.note_change(slot);
        self.all.insert(slot, Box::new(record));
    }

    pub(super) fn remove(&mut self, slot: &u16) -> Option<SlotRecord> {
        self.wakes.note_change(*slot);
        self.all.remove(slot).map(|record| *record)
    }

    /// Asks the slots that may have changed when they are due.
    pub(super) fn refresh(&mut self) {
        let Self { all, wakes } = self;
        wakes.refresh(|slot| all.get(&slot)?.next_wake());
    }

    /// When the first slot is due, as of the last refresh.
    pub(super) fn next_wake(&self) -> Option<Time> {
        self.wakes.first()
    }

    /// The slots that are due, by number, as of the last refresh.
    pub(super) fn due(&self, now: Time) -> Vec<u16> {
        let mut due = self.wakes.due(now);
        due.sort_unstable();
        due
    }

    /// How often a slot was asked, in all.
    pub(super) fn asked(&self) -> u64 {
        self.wakes.asked()
    }
}
