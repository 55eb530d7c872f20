//! Serializes a supervisor repeatedly: parts that have not changed since the last time are copied. An app of five hundred
//! workers changes in a few of its slots at a time, and its definition, with the whole environment, seldom changes.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::{Serialize, Serializer};
use serde_json::value::{RawValue, to_raw_value};

use super::{
    AppSupervisor, Asked, Held, Policy, Random, Reload, ReloadOrder, ReloadQueue, SlotRecord, Ticket,
};
use crate::Time;
use crate::autoscale::Autoscaler;
use crate::spec::AppSpec;
use crate::upkeep::cron::Cron;

/// A value, and what it is as JSON.
type Remembered<T> = (T, Box<RawValue>);

/// What a supervisor was the last time, in parts.
#[derive(Debug, Default)]
pub struct Recall {
    spec: Option<Remembered<Rc<AppSpec>>>,
    slots: BTreeMap<u16, Remembered<SlotRecord>>,
}

impl Recall {
    /// The supervisor as its `Serialize` gives it. Only `serde_json` can write it.
    pub fn of<'a>(
        &'a mut self,
        supervisor: &'a AppSupervisor,
    ) -> serde_json::Result<impl Serialize + std::fmt::Debug + 'a> {
        // Without `..`: a new field does not compile before it is here.
        let AppSupervisor {
            spec,
            policy,
            slots,
            asked,
            last_ticket,
            reload,
            orders,
            held,
            next_look,
            autoscaler,
            cron,
            chance,
        } = supervisor;
        if self.spec.as_ref().is_none_or(|(known, _)| !Rc::ptr_eq(known, spec)) {
            self.spec = Some((Rc::clone(spec), to_raw_value(spec)?));
        }
        self.slots.retain(|slot, _| slots.contains_key(slot));
        for (slot, record) in slots.iter() {
            if self.slots.get(slot).is_none_or(|(known, _)| *known != **record) {
                self.slots.insert(*slot, ((**record).clone(), to_raw_value(record)?));
            }
        }
        let spec = self.spec.as_ref().map(|(_, json)| &**json);
        let slots = Slots(&self.slots);
        Ok(Copied {
            spec,
            policy,
            slots,
            asked,
            last_ticket,
            reload,
            orders,
            held,
            next_look,
            autoscaler,
            cron,
            chance,
        })
    }
}

/// The fields of an [`AppSupervisor`], some of them as JSON.
#[derive(Debug, Serialize)]
struct Copied<'a> {
    spec: Option<&'a RawValue>,
    policy: &'a Policy,
    slots: Slots<'a>,
    asked: &'a BTreeMap<Ticket, Asked>,
    last_ticket: &'a u64,
    reload: &'a Option<Reload>,
    orders: &'a ReloadQueue<ReloadOrder>,
    held: &'a Option<Held>,
    next_look: &'a Option<Time>,
    autoscaler: &'a Autoscaler,
    cron: &'a Option<Cron>,
    chance: &'a Random,
}

#[derive(Debug)]
struct Slots<'a>(&'a BTreeMap<u16, Remembered<SlotRecord>>);

impl Serialize for Slots<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(slot, (_, json))| (slot, json)))
    }
}
