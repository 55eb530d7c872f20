//! What renews and kills workers in the simulated world: their memory, their requests, loops that stand still.

use std::time::Duration;

use forkful_core::slot::{Exit, Generation};
use forkful_core::supervisor::{AppId, Event, Observation, SlotRecord};
use forkful_dispatch::Event as Input;

use crate::definition::name;
use crate::machine::Deed;
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

impl World {
    /// The memory of an app's workers is looked at.
    pub(crate) fn observe(&mut self, app: AppId) {
        let calm = self.calm;
        let now = self.now;
        let seen = self.processes_of(app).map(|(slot, generation, process)| {
            let (base, per_second) = process.plan.memory;
            let grown = if calm { 0 } else { per_second * now.since(process.began).as_secs() };
            Observation { slot, generation, memory_bytes: base + grown }
        });
        let seen = seen.collect();
        self.daemon.told.push_back((app, Event::Observed(seen)));
    }

    /// Whether a worker owes an answer is asked with each health check.
    pub(crate) fn ask_whether_it_turns(&mut self, app: AppId, slot: u16, generation: Generation) {
        let check = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.spec().health.clone());
        let pid = self.daemon.pids.get(&(app, slot, generation)).copied();
        if let Some(pid) = pid
            && check.is_some_and(|check| check.stuck_limit.is_some())
        {
            self.dispatch_for(pid, Input::Ask);
            if let Some(since) = self.owes_since(pid) {
                self.daemon.told.push_back((app, Event::Owes { slot, generation, since }));
            }
        }
    }

    /// The time of a worker that owes an answer is over.
    pub(crate) fn look_whether_stuck(&mut self, app: AppId, slot: u16, generation: Generation) {
        let pid = self.daemon.pids.get(&(app, slot, generation)).copied();
        if let Some(pid) = pid
            && self.plant != Some(Plant::StuckForgotten)
        {
            let silent = self.owes_since(pid).map(|since| self.now.since(since)).unwrap_or_default();
            let report = "it hangs".to_owned();
            self.daemon.told.push_back((app, Event::Silent { slot, generation, silent, report }));
        }
    }

    /// Files of an app have changed.
    pub(crate) fn touch_files(&mut self, app: usize) {
        let Some(id) = self.daemon.find(&name(app)) else { return };
        if self.daemon.apps[&id].supervisor.spec().watch.is_some() {
            self.watch.forget_order(id);
            self.supervise(id, Event::Renew { why: "app.js changed".to_owned() });
        }
    }

    /// Nothing goes wrong any more: what hangs goes on, or is killed by somebody else, or by the daemon.
    pub(crate) fn release_hung(&mut self) {
        let hung = self.machine.processes.iter().filter(|(_, process)| process.hangs);
        for pid in hung.map(|(pid, _)| *pid).collect::<Vec<_>>() {
            let app = self.machine.processes[&pid].whose.0;
            let check = self.daemon.apps.get(&app).and_then(|entry| entry.supervisor.spec().health.as_ref());
            if check.is_some_and(|check| check.stuck_limit.is_some()) {
                continue;
            }
            if self.dice.percent(50) {
                self.after(Duration::ZERO, Happening::Deed(pid, Deed::Die(Exit::Signal(9))));
            } else {
                self.go_on(pid);
            }
        }
    }

    /// At the end no worker serves whose loop has stood still for longer than its limit.
    pub(crate) fn check_stuck(&mut self) {
        let stuck = self.daemon.apps.iter().find_map(|(app, entry)| {
            let check = entry.supervisor.spec().health.as_ref()?;
            check.stuck_limit?;
            let hangs = self.processes_of(*app).find(|(slot, generation, process)| {
                let online = entry.supervisor.slot(*slot).and_then(SlotRecord::online);
                let pid = self.daemon.pids.get(&(*app, *slot, *generation));
                process.hangs && online == Some(*generation) && pid.is_some_and(|pid| self.has_channel(*pid))
            });
            hangs.map(|(slot, ..)| format!("{} {slot}: its loop stands still", entry.supervisor.spec().name))
        });
        if let Some(seen) = stuck {
            self.watch.fail(Invariant::StuckEnd, seen);
        }
    }

    /// Whether some worker is being replaced: ages go on counting when nothing goes wrong any more.
    pub(crate) fn renews(&self) -> bool {
        self.daemon.apps.values().any(|entry| {
            let supervisor = &entry.supervisor;
            let leave = supervisor.slots().values().any(|record| !record.slot.leaving.is_empty());
            leave || supervisor.is_reloading()
        })
    }
}
