//! The checks after each event and at the end.

use forkful_core::slot::{Event, Generation, ReadySign, State, Verb};
use forkful_core::supervisor::{AppId, Event as AppEvent, SlotRecord};

use crate::machine::{Phase, Pid, Whose};
use crate::script::Stray;
use crate::watch::Invariant;
use crate::world::World;

impl World {
    /// Checks all apps that have had an event.
    pub(crate) fn check(&mut self) {
        while let Some(app) = self.watch.touched.pop_first() {
            if let Err((invariant, seen)) = self.check_app(app) {
                self.watch.fail(invariant, seen);
            }
            self.check_counters(app);
        }
    }

    fn check_app(&self, app: AppId) -> Result<(), (Invariant, String)> {
        let Some(entry) = self.daemon.apps.get(&app) else {
            return match self.processes_of(app).next() {
                Some((slot, ..)) => {
                    Err((Invariant::GenerationsEnd, format!("app {} is gone, and worker {slot} runs", app.0)))
                }
                None => Ok(()),
            };
        };
        let name = &entry.supervisor.spec().name;
        if !entry.supervisor.slots().keys().eq(entry.places.iter()) {
            let numbers: Vec<u16> = entry.supervisor.slots().keys().copied().collect();
            let seen = format!("{name}: slots {numbers:?}, and {:?} were told", entry.places);
            return Err((Invariant::StartedOnce, seen));
        }
        let mut own = self.daemon.pids_of(app).peekable();
        for (number, record) in entry.supervisor.slots() {
            check_waiting(record).map_err(|seen| (Invariant::WaitsForSomething, seen))?;
            while own.next_if(|((_, slot, _), _)| slot < number).is_some() {}
            let of_slot = std::iter::from_fn(|| own.next_if(|((_, slot, _), _)| slot == number));
            self.check_processes(*number, record, of_slot)?;
        }
        let guarded = self.watch.guarded(app).find(|slot| {
            let own = self.processes_of(app).filter(|(own, _, _)| own == slot);
            !own.into_iter().any(|(_, _, process)| process.serves())
        });
        match guarded {
            Some(slot) => {
                let seen = format!("{name}: worker {slot} served, and does not any more");
                Err((Invariant::ReloadKeepsReady, seen))
            }
            None => Ok(()),
        }
    }

    fn check_counters(&mut self, app: AppId) {
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        for (slot, record) in entry.supervisor.slots() {
            let now = (record.slot.counters.restarts, record.slot.counters.crashes);
            let before = self.watch.note_counters(app, *slot, now);
            if now.0 < before.0 || now.1 < before.1 {
                let seen = format!("worker {slot}: {before:?} restarts and crashes became {now:?}");
                self.watch.fail(Invariant::CountersKept, seen);
            }
        }
    }

    /// A slot holds exactly the processes whose end it was not informed of, and traffic goes to the confirmed
    /// one.
    fn check_processes<'a>(
        &self,
        slot: u16,
        record: &SlotRecord,
        own: impl Iterator<Item = (&'a Whose, &'a Pid)>,
    ) -> Result<(), (Invariant, String)> {
        let confirmed = match &record.slot.state {
            State::Online(running) | State::Replacing { old: running, .. } if running.confirmed => {
                Some(running.generation)
            }
            State::Online(_)
            | State::Replacing { .. }
            | State::Stopped { .. }
            | State::Starting { .. }
            | State::Stopping { .. }
            | State::Backoff { .. }
            | State::Failed { .. } => None,
        };
        let mut known = 0;
        for ((_, _, generation), pid) in own {
            known += 1;
            let is_held = record.slot.generations().any(|held| held == *generation);
            let process = self.machine.processes.get(*pid);
            if !is_held || process.is_none() {
                let seen = format!("worker {slot}: generation {generation} is there, {:?}", record.slot);
                return Err((Invariant::GenerationsEnd, seen));
            }
            let has_traffic = process.is_some_and(|process| process.has_traffic);
            if has_traffic != (confirmed == Some(*generation)) {
                let seen = format!(
                    "worker {slot}: generation {generation}, connections go to it: {has_traffic}, {:?}",
                    record.slot.state
                );
                return Err((Invariant::TrafficFollows, seen));
            }
        }
        if record.slot.generations().count() != known {
            let seen = format!("worker {slot} has {known} processes: {:?}", record.slot);
            return Err((Invariant::GenerationsEnd, seen));
        }
        Ok(())
    }

    /// At the end, everything is at rest in the requested state.
    pub(crate) fn check_rest(&mut self, is_endless: bool) {
        if is_endless {
            return self.watch.fail(Invariant::ComesToRest, "things go on happening");
        }
        let open =
            |(_, request): &(usize, &crate::daemon::Request)| request.answers == 0 && !request.has_left;
        if let Some((number, _)) = self.clients.requests.iter().enumerate().find(open) {
            return self.watch.fail(Invariant::AnsweredOnce, format!("request {number} has no answer"));
        }
        if let Some(job) = self.daemon.jobs.ids().next() {
            return self.watch.fail(Invariant::AnsweredOnce, format!("command {} is never over", job.0));
        }
        let ended = self.machine.processes.values().find(|process| process.phase == Phase::Dead);
        if let Some(process) = ended {
            let seen = format!("{:?} has ended, and nobody was told", process.whose);
            self.watch.fail(Invariant::GenerationsEnd, seen);
        }
        let unrest = self.daemon.apps.values().find_map(|entry| {
            let supervisor = &entry.supervisor;
            let name = &supervisor.spec().name;
            if supervisor.is_reloading() || supervisor.waits_for_others() {
                return Some(format!("{name} still reloads, or waits for other apps"));
            }
            if supervisor.slots().len() != usize::from(supervisor.spec().instances) {
                let (has, wants) = (supervisor.slots().len(), supervisor.spec().instances);
                return Some(format!("{name} has {has} workers and should have {wants}"));
            }
            let unrest = supervisor.slots().iter().find(|(_, record)| !rests(record));
            unrest.map(|(number, record)| format!("{name} {number}: {record:?}"))
        });
        if let Some(seen) = unrest {
            self.watch.fail(Invariant::ComesToRest, seen);
        }
        self.check_waiting();
        self.check_stuck();
        self.check_load();
    }

    /// Feeds a slot an event about a process that it does not hold.
    pub(crate) fn stray(&mut self, number: u64, stray: Stray) {
        let Some((app, slot)) = self.nth_slot(number) else { return };
        let Some(entry) = self.daemon.apps.get(&app) else { return };
        let before = entry.supervisor.slots().clone();
        let record = &before[&slot];
        let mut generation = Generation((number >> 8) as u32 % (record.slot.counters.next_generation + 1));
        if record.slot.generations().any(|held| held == generation) {
            generation = Generation(u32::MAX);
        }
        let of_slot = |event| AppEvent::Slot(slot, event);
        let event = match stray {
            Stray::Ready => of_slot(Event::Ready(generation, ReadySign::Message)),
            Stray::Exited => of_slot(Event::Exited(generation, forkful_core::slot::Exit::Code(0))),
            Stray::Drained => of_slot(Event::Drained(generation)),
            Stray::Disconnected => of_slot(Event::Disconnected(generation)),
            Stray::Greeted => of_slot(Event::Greeted(generation)),
            Stray::Unhealthy => {
                let online = record.online().filter(|online| !record.upkeep.is_asked(*online));
                let answer = Err("late".to_owned());
                AppEvent::Health { slot, generation: online.unwrap_or(generation), answer }
            }
        };
        let told = format!("{event:?}");
        self.supervise(app, event);
        let after = self.daemon.apps.get(&app).map(|entry| entry.supervisor.slots());
        if after != Some(&before) {
            let seen = format!("worker {slot}: {told} about {:?}", before[&slot]);
            self.watch.fail(Invariant::LateChangesNothing, seen);
        }
    }

    /// Feeds a supervisor a deadline although nothing is due.
    pub(crate) fn early_deadline(&mut self, number: u64) {
        if let Some((app, _)) = self.nth_slot(number) {
            self.supervise(app, AppEvent::Time);
        }
    }

    /// The slot with this number, modulo the number of slots.
    fn nth_slot(&self, number: u64) -> Option<(AppId, u16)> {
        let slots = || {
            let of = |(id, entry): (&AppId, &crate::daemon::App)| {
                let id = *id;
                entry.places.iter().map(move |slot| (id, *slot)).collect::<Vec<_>>()
            };
            self.daemon.apps.iter().flat_map(of)
        };
        let count = slots().count() as u64;
        if count == 0 { None } else { slots().nth((number % count) as usize) }
    }
}

/// A job that waits at a slot will be answered by something in progress.
fn check_waiting(record: &SlotRecord) -> Result<(), String> {
    let slot = &record.slot;
    for waiting in &slot.waiting {
        let comes = match waiting.verb {
            Verb::Start | Verb::Restart | Verb::Replace => {
                matches!(
                    slot.state,
                    State::Starting { .. } | State::Replacing { .. } | State::Stopping { .. }
                )
            }
            Verb::Stop | Verb::Delete | Verb::Retire => {
                matches!(slot.state, State::Stopping { .. }) || !slot.leaving.is_empty()
            }
        };
        if !comes {
            return Err(format!("{waiting:?} waits for nothing: {slot:?}"));
        }
    }
    Ok(())
}

/// Whether a slot is in its requested state, or was given up.
fn rests(record: &SlotRecord) -> bool {
    if !record.slot.leaving.is_empty() || !record.slot.waiting.is_empty() {
        return false;
    }
    match &record.slot.state {
        State::Online(_) => record.wanted,
        // Its program has ended for good, or its dependencies have failed.
        State::Stopped { .. } | State::Failed { .. } => true,
        State::Starting { .. } | State::Replacing { .. } | State::Stopping { .. } | State::Backoff { .. } => {
            false
        }
    }
}
