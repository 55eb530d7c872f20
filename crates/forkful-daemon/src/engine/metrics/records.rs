//! What is recorded of an app's slots.

use std::collections::BTreeMap;

use forkful_core::metrics::history::Recorder;
use forkful_core::metrics::{Head, Sample, Totals};

use super::super::app::AppId;
use super::super::clock::wall_ms;
use crate::history::{Area, History, Reader};

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Records {
    /// Where; nothing is recorded without it.
    place: Option<(AppId, History)>,
    slots: BTreeMap<u16, Box<Slot>>,
    /// It was told that something cannot be written.
    is_told: bool,
}

struct Slot {
    area: Area,
    recorder: Recorder,
}

impl Records {
    pub(super) fn new(app: AppId, history: History) -> Self {
        Self { place: Some((app, history)), ..Self::default() }
    }

    /// What a daemon before has written down of a slot.
    pub(super) fn resume(&mut self, slot: u16) -> Option<Head> {
        let (app, history) = self.place.as_ref()?;
        let (area, head) = history.area(*app, slot)?;
        let ticks = head.as_ref().map_or_else(Default::default, |head| head.ticks);
        self.slots.insert(slot, Box::new(Slot { area, recorder: Recorder::resume(ticks) }));
        head
    }

    /// Records what is known of a slot now.
    pub(super) fn record(&mut self, slot: u16, sample: &Sample, totals: Totals, reloads: [u64; 2]) {
        if !self.slots.contains_key(&slot) {
            self.resume(slot);
        }
        let Some((app, history)) = &self.place else { return };
        let Some(of_slot) = self.slots.get_mut(&slot) else { return history.tell_full() };
        let Slot { area, recorder } = &mut **of_slot;
        let mut written = Ok(());
        for write in recorder.record(wall_ms() / 1000, sample) {
            written = written.and(history.write(*area, write.offset, &write.bytes));
        }
        let head = Head { app: app.0, slot, ticks: recorder.ticks(), reloads, totals };
        if let Err(error) = written.and(history.write_head(*area, &head)) {
            self.tell(&error.to_string());
        }
    }

    /// Writes down what a slot has counted, if it has counted anything: of processes that end at once, nothing else is recorded.
    pub(super) fn write_totals(&mut self, slot: u16, totals: Totals, reloads: [u64; 2]) {
        if !self.slots.contains_key(&slot) && totals.sum().values.iter().any(|(_, value)| value > 0.0) {
            self.resume(slot);
        }
        let Some(((app, history), of_slot)) = self.place.as_ref().zip(self.slots.get(&slot)) else { return };
        let head = Head { app: app.0, slot, ticks: of_slot.recorder.ticks(), reloads, totals };
        if let Err(error) = history.write_head(of_slot.area, &head) {
            self.tell(&error.to_string());
        }
    }

    pub(super) fn area(&self, slot: u16) -> Option<Area> {
        self.slots.get(&slot).map(|of_slot| of_slot.area)
    }

    pub(super) fn reader(&self) -> Option<Reader> {
        self.place.as_ref().and_then(|(_, history)| history.reader())
    }

    fn tell(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_told, true) {
            log_line!("forkful: what is measured is not recorded: {why}");
        }
    }
}
