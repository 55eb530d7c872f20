//! One slot's share: its events, its answers, its coming and going.

use std::rc::Rc;
use std::time::Duration;

use super::{Answer, Asked, Effect, JobId, ListenFault, News, SlotRecord, Turn};
use crate::Time;
use crate::slot::{Action, Event, Exit, Generation, Outcome, Report, Slot, State, Ticket, Verb};
use crate::spec::Mode;

/// The time to become ready does not run while the process is still being started. When the deadline comes before the
/// program runs, it is moved by this much.
const START_LOOK: Duration = Duration::from_millis(10);

impl Turn<'_> {
    /// Feeds an event to a slot and takes what follows.
    pub(super) fn feed(&mut self, number: u16, event: Event) {
        let app = &mut *self.app;
        let Some(record) = app.slots.get_mut(&number) else { return };
        let is_over = |slot: &Slot, policy| slot.stays_finished(policy) || slot.has_asked_to_stop(policy);
        let was_over = is_over(&record.slot, &app.policy.restart);
        let was_stopped = matches!(record.slot.state, State::Stopped { .. });
        let failed_soon = failed_soon(&record.slot, &event, self.context.now, app.policy.restart.min_uptime);
        if let Event::Exited(generation, _) | Event::SpawnFailed(generation, _) = &event {
            record.pending_start = record.pending_start.filter(|pending| pending != generation);
            record.shares.remove(generation);
            record.forget_warming(*generation);
        }
        let actions = record.slot.apply(event, self.context.now, &app.policy, app.chance.unit());
        record.deadline = record.slot.next_deadline();
        let waits = !was_stopped && app.spec.starts_by_cron() && record.has_ended_by_itself();
        let waits_anew = waits && !std::mem::replace(&mut record.waits_for_cron, waits);
        if waits_anew || is_over(&record.slot, &app.policy.restart) != was_over {
            self.effect(Effect::Changed);
        }
        for action in actions {
            self.take_action(number, action);
        }
        self.note_current(number);
        if let Some(exit) = failed_soon {
            self.on_successor_failed(number, exit);
        }
    }

    /// The deadline of a slot has come.
    pub(super) fn deadline(&mut self, number: u16) {
        let now = self.context.now;
        let pending = self.app.slots.get(&number).and_then(|record| record.pending_start);
        if let Some(generation) = pending {
            // A process that was not started yet is not late.
            self.feed(number, Event::Begun(generation, now + START_LOOK));
        }
        let deadline = self.app.slots.get(&number).and_then(|record| record.deadline);
        if deadline.is_some_and(|at| at <= now) {
            self.feed(number, Event::Deadline);
        }
    }

    fn take_action(&mut self, slot: u16, action: Action) {
        let effect = match action {
            Action::Spawn(generation) => {
                if let Some(record) = self.app.slots.get_mut(&slot) {
                    record.pending_start = Some(generation);
                }
                Effect::Spawn(slot, generation)
            }
            Action::Signal(generation) => Effect::Signal(slot, generation),
            Action::Kill(generation) => Effect::Kill(slot, generation),
            Action::OpenTraffic(generation) => Effect::OpenTraffic(slot, generation),
            Action::CloseTraffic(generation) => Effect::CloseTraffic(slot, generation),
            Action::Drain(generation) if !self.can_drain(slot, generation) => {
                // Only a process that listens through the primary can be told to finish.
                return self.news.push_back(News::Drained(slot, generation));
            }
            Action::Drain(generation) => Effect::Drain {
                slot,
                generation,
                job: self.app.reload.as_ref().and_then(|reload| reload.job),
            },
            // The deadline is read from the slot after each event.
            Action::Wake(_) => return,
            Action::Report(report) => {
                self.take_report(slot, &report);
                Effect::Report(slot, report)
            }
            Action::Answer(ticket, outcome) => return self.answer(slot, ticket, outcome),
        };
        self.effect(effect);
    }

    fn can_drain(&self, slot: u16, generation: Generation) -> bool {
        let shares = |record: &SlotRecord| record.shares.contains(&generation);
        self.app.spec.mode == Mode::Cluster || self.app.slots.get(&slot).is_some_and(shares)
    }

    fn take_report(&mut self, number: u16, report: &Report) {
        let is_renewal = self.app.reload.as_ref().is_some_and(|reload| !reload.is_by_command());
        let Some(record) = self.app.slots.get_mut(&number) else { return };
        match report {
            // A successor that was given up says nothing about the process that serves on.
            Report::Exited { generation, exit, .. } if record.online().is_none_or(|of| of == *generation) => {
                record.last_exit = Some(exit.clone());
            }
            Report::ReplaceFailed { fault, .. } if is_renewal && !fault.is_by_command() => {
                record.note_failed_renewal(self.context.now);
            }
            // The user has brought a worker that works.
            Report::Replaced { .. } if !is_renewal => record.forget_failed_renewals(),
            Report::Left { .. } if record.slot.leaving.is_empty() => {
                self.news.push_back(News::OldLeft(number));
            }
            Report::Exited { .. }
            | Report::ReplaceFailed { .. }
            | Report::Online { .. }
            | Report::StartFailed { .. }
            | Report::Replaced { .. }
            | Report::Stopped
            | Report::RestartScheduled { .. }
            | Report::GaveUp { .. }
            | Report::Killed(_)
            | Report::Left { .. } => {}
        }
    }

    fn answer(&mut self, slot: u16, ticket: Ticket, outcome: Outcome) {
        let Some(asked) = self.app.asked.remove(&ticket) else { return };
        let listen_fault = self.app.slots.get(&slot).and_then(|record| record.listen_fault.clone());
        if asked == Asked::Reload {
            self.note_reload_fault(listen_fault.clone());
            self.news.push_back(News::ReloadAnswer(slot, outcome.clone()));
        }
        if outcome == Outcome::Deleted {
            if let Some(record) = self.app.slots.get_mut(&slot) {
                record.is_gone = true;
            }
            self.news.push_back(News::Deleted(slot));
        }
        self.effect(Effect::Answered(Answer { slot, asked, outcome, listen_fault }));
    }

    /// Gives a slot a command.
    pub(super) fn command(&mut self, slot: u16, verb: Verb, asked: Asked) {
        self.app.last_ticket += 1;
        let ticket = Ticket(self.app.last_ticket);
        self.app.asked.insert(ticket, asked);
        self.feed(slot, Event::Command(verb, ticket));
    }

    /// The same on behalf of a job.
    pub(super) fn ask(&mut self, slot: u16, verb: Verb, job: JobId) {
        self.effect(Effect::Owed(job));
        self.order(slot, verb, Asked::Job(job, verb));
    }

    /// The same, and the slot is to run or not from now on.
    pub(super) fn order(&mut self, slot: u16, verb: Verb, asked: Asked) {
        self.note_wanted(slot, matches!(verb, Verb::Start | Verb::Restart | Verb::Replace));
        self.command(slot, verb, asked);
    }

    /// The same on behalf of a job, or of autoscaling.
    pub(super) fn ask_for(&mut self, slot: u16, verb: Verb, job: Option<JobId>) {
        match job {
            Some(job) => self.ask(slot, verb, job),
            None => self.order(slot, verb, Asked::Load(verb)),
        }
    }

    /// Notes whether a slot should run, by the last command that it got. It no longer waits for its time.
    pub(super) fn note_wanted(&mut self, slot: u16, wanted: bool) {
        let Some(record) = self.app.slots.get_mut(&slot) else { return };
        let waited = std::mem::take(&mut record.waits_for_cron);
        if std::mem::replace(&mut record.wanted, wanted) != wanted || waited {
            self.effect(Effect::Changed);
        }
    }

    /// A slot waits for a time of `cron_restart` again: the command that was to stop it was not carried out.
    pub(super) fn wait_for_cron(&mut self, slot: u16) {
        if let Some(record) = self.app.slots.get_mut(&slot).filter(|record| !record.wanted) {
            record.waits_for_cron = true;
            self.effect(Effect::Changed);
        }
    }

    /// A process's own program runs.
    pub(super) fn runs(&mut self, slot: u16, generation: Generation) {
        if let Some(record) = self.app.slots.get_mut(&slot) {
            record.listen_fault = None;
            record.pending_start = record.pending_start.filter(|pending| *pending != generation);
        }
        self.feed(slot, Event::Begun(generation, self.context.now));
        self.await_readiness(slot, generation);
    }

    pub(super) fn note_listen_fault(&mut self, slot: u16, fault: ListenFault) {
        if let Some(record) = self.app.slots.get_mut(&slot) {
            record.listen_fault = Some(fault);
        }
    }

    pub(super) fn add_slot(&mut self, number: u16, record: SlotRecord) {
        self.app.slots.insert(number, record);
        self.effect(Effect::SlotAdded(number));
    }

    /// A deleted slot goes; with the last one the app.
    pub(super) fn remove_slot(&mut self, number: u16) {
        let Some(record) = self.app.slots.remove(&number) else { return };
        self.effect(Effect::Changed);
        self.effect(Effect::SlotRemoved(number, Box::new(record)));
        if self.app.slots.is_empty() {
            // Before the plan is told: this may end a reload, which must not add workers to a deleted app.
            self.cancel_reloads(Verb::Delete);
        }
        self.on_slot_gone(number);
        if self.app.slots.is_empty() {
            self.release_held(Verb::Delete);
            self.effect(Effect::Removed);
        } else {
            let staying = self.app.slots.values().filter(|record| !record.slot.is_going()).count();
            Rc::make_mut(&mut self.app.spec).instances = staying as u16;
        }
    }
}

/// How a serving process has ended that had served for less than `min_uptime`, unless somebody has ended it.
fn failed_soon(slot: &Slot, event: &Event, now: Time, min_uptime: Duration) -> Option<Exit> {
    let (State::Online(running), Event::Exited(generation, exit)) = (&slot.state, event) else { return None };
    let by_itself = match exit {
        Exit::Code(code) => *code != 0,
        Exit::Signal(signal) => !ENDED_BY_OTHERS.contains(signal),
        Exit::SpawnFailed(_) => false,
    };
    let is_soon = running.generation == *generation && now.since(running.since) < min_uptime;
    (is_soon && by_itself).then(|| exit.clone())
}

/// SIGINT, SIGKILL and SIGTERM.
const ENDED_BY_OTHERS: [i32; 3] = [2, 9, 15];

impl SlotRecord {
    /// Whether nobody has stopped it, and nothing starts it again.
    fn has_ended_by_itself(&self) -> bool {
        self.wanted && matches!(self.slot.state, State::Stopped { .. })
    }

    /// A slot whose program has done its work under an earlier daemon.
    pub(super) fn finished() -> Self {
        Self { slot: Slot::finished(), last_exit: Some(Exit::Code(0)), wanted: true, ..Self::default() }
    }
}
