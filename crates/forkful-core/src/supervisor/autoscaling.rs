//! The number of workers follows the load, by the rule of [`crate::autoscale`]: never while anything else is under way, and
//! workers that go finish what they have begun, as at a scale-down by hand.

use super::{Effect, Notice, SlotRecord, Turn};
use crate::autoscale::{Decision, Signals};
use crate::slot::State;

impl Turn<'_> {
    /// Something was measured of the workers.
    pub(super) fn on_load(&mut self, signals: &Signals) {
        let Some(bounds) = self.app.spec.autoscale else { return };
        let now = self.context.now;
        if !self.is_steady(signals) {
            return self.app.autoscaler.interrupt();
        }
        let from = self.app.slots.len() as u16;
        match self.app.autoscaler.step(bounds, signals, now) {
            None => {}
            Some(Decision::Scale { to, why }) => {
                self.effect(Effect::Notice(None, Notice::Scaled { from, to, why }));
                self.scale(to, None);
            }
            Some(Decision::Hold { why, .. }) => {
                self.effect(Effect::Notice(None, Notice::NotScaled { workers: from, why }));
            }
        }
    }

    /// Whether every worker serves and was measured, and nothing changes them.
    fn is_steady(&self, signals: &Signals) -> bool {
        let app = &*self.app;
        let serves = |slot: u16, record: &SlotRecord| match &record.slot.state {
            State::Online(running) if record.wanted && record.slot.leaving.is_empty() => {
                app.stays(slot).then_some((slot, running.generation))
            }
            _ => None,
        };
        let serving = app.slots.iter().map(|(slot, record)| serves(*slot, record));
        let measured = signals.workers.iter().map(|worker| Some((worker.slot, worker.generation)));
        app.reload.is_none() && app.held.is_none() && serving.eq(measured)
    }
}
