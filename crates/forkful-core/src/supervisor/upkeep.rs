//! What renews workers that run: limits of memory, requests and age, failed health checks, a loop that stands still, the
//! clock and changed files. A renewal is a reload of one slot or of the app, so that nothing is lost, and a fresh worker
//! that fails leaves the old one.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Effect, Notice, ReloadOrder, SlotRecord, Turn, Whom};
use crate::Time;
use crate::slot::{Generation, State};
use crate::spec::{AppSpec, HealthCheck};
use crate::upkeep::cron::Cron;
use crate::upkeep::health::{Health, Verdict};
use crate::upkeep::renewal::{self, Cause, LOOK_EVERY, MemorySample, Observed, OwnMemory, Pause};
use crate::upkeep::thrashing::Stall;

/// A worker whose channel is busy is asked again after this.
const ASK_AGAIN: Duration = Duration::from_millis(20);
/// A worker is taken for stuck a moment later than its limit, so that a loop that turns just then is not.
const STUCK_MARGIN: Duration = Duration::from_millis(5);

/// Why workers are renewed at a time of `cron_restart`.
const STRUCK: &str = "its hour has come (`cron_restart`)";

/// What is kept of a slot for this.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlotUpkeep {
    current: Option<Current>,
    pause: Pause,
    /// Why the slot's worker was replaced the last time, in words.
    pub renewed: Option<String>,
}

/// The process that serves in a slot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Current {
    generation: Generation,
    /// When it was started.
    started: Time,
    /// Its own random number: limits vary by it.
    share: f64,
    health: Option<Health>,
    question: Option<Question>,
    /// Requests that it has answered or is answering, when its agent counts them.
    requests: Option<u64>,
    /// Its memory at the last look.
    memory: Option<MemorySample>,
    /// What it had of its own at the first look, where a plan limits that.
    #[serde(default)]
    first_own: Option<u64>,
    /// It owes an answer: when it is looked at whether it still does.
    stuck_look: Option<Time>,
    /// The loop was found stuck, and the process is being killed for it.
    is_stuck: bool,
}

/// A health check that was begun and has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Question {
    asked: Time,
    /// When to try again to ask, while the worker's channel is busy.
    again: Option<Time>,
}

/// What a driver has seen of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Observation {
    pub slot: u16,
    pub generation: Generation,
    /// Resident bytes of its process tree.
    pub memory_bytes: u64,
    /// What only it has, and what the app's memory plan allows.
    pub own: Option<OwnMemory>,
}

impl SlotUpkeep {
    /// What was wrong with the last health check.
    pub fn health_fault(&self) -> Option<&str> {
        self.current.as_ref()?.health.as_ref()?.last_fault()
    }

    /// When something is due.
    pub(super) fn next_wake(&self) -> Option<Time> {
        let current = self.current.as_ref()?;
        let question = match current.question {
            Some(question) => question.again,
            None => current.health.as_ref().and_then(Health::next_question),
        };
        question.into_iter().chain(current.stuck_look).min()
    }

    /// Whether a process has been asked for its health, and its answer is awaited.
    pub fn is_asked(&self, generation: Generation) -> bool {
        let current = self.current.as_ref().filter(|current| current.generation == generation);
        current.is_some_and(|current| current.question.is_some_and(|question| question.again.is_none()))
    }

    fn of(&mut self, generation: Generation) -> Option<&mut Current> {
        self.current.as_mut().filter(|current| current.generation == generation)
    }
}

impl Turn<'_> {
    /// The app is new or has another definition: what is looked after follows.
    pub(super) fn begin_upkeep(&mut self) {
        self.app.next_look = has_limits(&self.app.spec).then(|| next_look(self.context.now));
        self.follow_clock();
        let slots: Vec<u16> = self.app.slots.keys().copied().collect();
        for slot in slots {
            if let Some(record) = self.app.slots.get_mut(&slot) {
                record.upkeep.current = None;
            }
            self.note_current(slot);
        }
    }

    /// Notes which process serves in a slot.
    pub(super) fn note_current(&mut self, slot: u16) {
        let (app, now) = (&mut *self.app, self.context.now);
        let check = app.spec.health.as_ref();
        let Some(record) = app.slots.get_mut(&slot) else { return };
        let serves = match &record.slot.state {
            State::Online(running) | State::Replacing { old: running, .. }
                if check.is_some() || app.next_look.is_some() =>
            {
                Some(running)
            }
            _ => None,
        };
        let known = record.upkeep.current.as_ref().map(|current| current.generation);
        if serves.map(|running| running.generation) == known {
            return;
        }
        let chance = &mut app.chance;
        record.upkeep.current = serves.map(|running| Current {
            generation: running.generation,
            started: running.started,
            share: chance.unit(),
            health: check.map(|check| Health::new(check, now)),
            question: None,
            requests: None,
            memory: None,
            first_own: None,
            stuck_look: None,
            is_stuck: false,
        });
    }

    /// Does what is due for the app and its slots.
    pub(super) fn upkeep(&mut self, slots: &[u16]) {
        let now = self.context.now;
        if self.app.next_look.is_some_and(|at| at <= now) {
            self.app.next_look = Some(next_look(now));
            if self.app.spec.limits_workers_memory() || has_memory_limit(&self.app.spec) {
                self.effect(Effect::Observe);
            } else {
                self.look_at_workers(&[]);
            }
        }
        self.ask_for_health(slots);
        self.look_for_stuck(slots);
        self.look_at_clock();
    }

    /// The driver has looked at the memory of the workers.
    pub(super) fn observed(&mut self, observations: &[Observation]) {
        self.look_at_workers(observations);
        let limit = self.app.spec.renewal.max_memory_bytes;
        for seen in observations {
            if let Some(own) = seen.own {
                self.note_memory(own.limit, seen, own.bytes);
            } else if let Some(limit) = limit {
                self.note_memory(limit, seen, seen.memory_bytes);
            }
        }
    }

    /// The worker that needs it most is renewed, the others have their turn later.
    fn look_at_workers(&mut self, observations: &[Observation]) {
        let now = self.context.now;
        if self.app.reload.is_some() {
            return;
        }
        let renewal = &self.app.spec.renewal;
        // A worker that a command is about to stop is not renewed: that would start it again.
        let wanted = self.app.slots.iter().filter(|(_, record)| record.wanted);
        let due = wanted.filter_map(|(slot, record)| {
            let current = record.upkeep.current.as_ref().filter(|_| record.upkeep.pause.is_over(now))?;
            let whose = (*slot, current.generation);
            let seen = observations.iter().find(|seen| (seen.slot, seen.generation) == whose);
            let observed = Observed {
                age: now.since(current.started),
                memory_bytes: seen.map(|seen| seen.memory_bytes),
                own_memory: seen.and_then(|seen| seen.own),
                requests: current.requests,
            };
            let cause = renewal::due(renewal, current.share, &observed)?;
            Some((*slot, cause, observed.age, cause.too_soon(current.first_own)))
        });
        if let Some((slot, cause, age, too_soon)) = due.reduce(more_urgent) {
            if let Some(record) = self.app.slots.get_mut(&slot) {
                record.upkeep.pause.on_renewal(now, age, too_soon);
            }
            self.renew_slot(slot, cause.to_string());
        }
    }

    /// Notes how much memory a worker has, and looks again sooner when it may soon have too much.
    fn note_memory(&mut self, limit: u64, seen: &Observation, bytes: u64) {
        let now = self.context.now;
        let record = self.app.slots.get_mut(&seen.slot);
        let Some(current) = record.and_then(|record| record.upkeep.of(seen.generation)) else { return };
        let sample = MemorySample { at: now, bytes };
        let before = current.memory.unwrap_or(MemorySample { at: current.started, bytes: 0 });
        current.memory = Some(sample);
        current.first_own = current.first_own.or(seen.own.map(|own| own.bytes));
        let again = now + renewal::look_again_after(limit, before, sample);
        self.app.next_look = self.app.next_look.map(|next| next.min(again));
    }

    /// A worker's agent has counted its requests.
    pub(super) fn note_requests(&mut self, slot: u16, generation: Generation, requests: u64) {
        let record = self.app.slots.get_mut(&slot);
        if let Some(current) = record.and_then(|record| record.upkeep.of(generation)) {
            current.requests = Some(requests);
        }
    }

    /// Has the workers asked whose time has come.
    fn ask_for_health(&mut self, slots: &[u16]) {
        let now = self.context.now;
        for slot in slots {
            let Some(record) = self.app.slots.get_mut(slot) else { continue };
            let Some(current) = &mut record.upkeep.current else { continue };
            let again = current.question.is_some_and(|question| question.again.is_some_and(|at| at <= now));
            if again || current.health.as_mut().is_some_and(|health| health.ask(now)) {
                let asked = current.question.take().map_or(now, |question| question.asked);
                current.question = Some(Question { asked, again: None });
                let generation = current.generation;
                self.effect(Effect::AskHealth(*slot, generation));
            }
        }
    }

    /// A worker cannot be asked now: it owes an answer on its channel, which a loop that turns gives in no time.
    pub(super) fn channel_busy(&mut self, slot: u16, generation: Generation) {
        let now = self.context.now;
        let Some(timeout) = self.app.spec.health.as_ref().map(|check| check.timeout) else { return };
        let record = self.app.slots.get_mut(&slot);
        let current = record.and_then(|record| record.upkeep.of(generation));
        let Some(question) = current.and_then(|current| current.question.as_mut()) else { return };
        let waited = now.since(question.asked);
        if waited < timeout {
            question.again = Some(now + ASK_AGAIN);
        } else {
            let why = format!("its event loop has not turned for {} ms", waited.as_millis());
            self.on_health(slot, generation, Err(why));
        }
    }

    /// A health check has an answer, or what was wrong. An answer that is not awaited says nothing: its question was about
    /// another definition of the app, or it has been answered.
    pub(super) fn on_health(&mut self, slot: u16, generation: Generation, answer: Result<(), String>) {
        let now = self.context.now;
        let Some(check) = self.app.spec.health.clone() else { return };
        let is_reloading = self.app.is_reloading();
        let Some(record) = self.app.slots.get_mut(&slot) else { return };
        let may_renew = record.wanted && record.upkeep.pause.is_over(now) && !is_reloading;
        let is_asked = record.upkeep.is_asked(generation);
        let Some(current) = record.upkeep.of(generation).filter(|_| is_asked) else { return };
        current.question = None;
        let Some(health) = &mut current.health else { return };
        match health.on_answer(&check, now, answer) {
            Verdict::Healthy => {}
            Verdict::Failing { failures } => {
                let fault = health.last_fault().unwrap_or_default().to_owned();
                let most = check.failures_max;
                self.effect(Effect::Notice(Some(slot), Notice::HealthCheckFailed { failures, most, fault }));
            }
            Verdict::Unhealthy { failures, fault } if may_renew => {
                record.upkeep.pause.on_failure(now);
                self.renew_slot(slot, format!("{failures} health checks in a row failed: {fault}"));
            }
            Verdict::Unhealthy { .. } => {}
        }
    }

    /// A worker owes an answer; it is looked at again when its limit is over.
    pub(super) fn note_owes(&mut self, slot: u16, generation: Generation, since: Time) {
        let limit = self.app.spec.health.as_ref().and_then(|check| check.stuck_limit);
        let record = self.app.slots.get_mut(&slot);
        if let Some(limit) = limit
            && let Some(current) = record.and_then(|record| record.upkeep.of(generation))
        {
            current.stuck_look = Some((since + limit).max(self.context.now) + STUCK_MARGIN);
        }
    }

    /// Has the workers looked at that owed an answer, and whose limit is over.
    fn look_for_stuck(&mut self, slots: &[u16]) {
        let now = self.context.now;
        for slot in slots {
            let Some(record) = self.app.slots.get_mut(slot) else { continue };
            let Some(current) = &mut record.upkeep.current else { continue };
            if current.stuck_look.take_if(|at| *at <= now).is_some() {
                let generation = current.generation;
                self.effect(Effect::LookWhetherStuck(*slot, generation));
            }
        }
    }

    /// The event loop of a worker has stood still. If it did so for longer than the app's limit, the worker is killed.
    pub(super) fn on_silence(&mut self, slot: u16, generation: Generation, silent: Duration, report: String) {
        let limit = self.app.spec.health.as_ref().and_then(|check: &HealthCheck| check.stuck_limit);
        if limit.is_none_or(|limit| silent < limit) {
            return;
        }
        self.kill_stuck(slot, generation, report);
    }

    /// The event loops of workers stand still, and the app's memory limit is used up. Of those that cannot go on, the largest
    /// is killed: the kernel may not do so for minutes. What it had may be enough for the others, so that the next one is
    /// killed only if it still stands still when the one before is gone.
    pub(super) fn on_stalls(&mut self, stalls: &[(u16, Generation, Stall)]) {
        let mut current = self.app.slots.values().filter_map(|record| record.upkeep.current.as_ref());
        if current.any(|current| current.is_stuck) {
            return;
        }
        let thrashing = stalls.iter().filter(|(.., stall)| stall.is_thrashing());
        if let Some((slot, generation, stall)) = thrashing.max_by_key(|(.., stall)| stall.own_bytes) {
            self.kill_stuck(*slot, *generation, stall.to_string());
        }
    }

    fn kill_stuck(&mut self, slot: u16, generation: Generation, report: String) {
        let Some(record) = self.app.slots.get_mut(&slot) else { return };
        let Some(current) = record.upkeep.of(generation).filter(|current| !current.is_stuck) else { return };
        current.is_stuck = true;
        record.upkeep.renewed = Some(report.clone());
        self.effect(Effect::Notice(Some(slot), Notice::KilledWhileStuck(report)));
        self.effect(Effect::Kill(slot, generation));
    }

    /// Replaces the worker of one slot.
    fn renew_slot(&mut self, slot: u16, why: String) {
        if let Some(record) = self.app.slots.get_mut(&slot) {
            record.upkeep.renewed = Some(why.clone());
        }
        self.effect(Effect::Notice(Some(slot), Notice::Renewed(why)));
        self.order_reload(ReloadOrder { job: None, spec: None, whom: Whom::Slot(slot) });
    }

    /// Files of the app have changed.
    pub(super) fn on_files(&mut self, why: &str) {
        self.renew_all(why);
    }

    /// The clock follows the definition.
    pub(super) fn follow_clock(&mut self) {
        let (now, wall) = (self.context.now, self.context.wall);
        let before = self.app.cron.take();
        self.app.cron = self.app.spec.renewal.cron.as_ref().map(|pattern| {
            let same = before.filter(|before| before.is_of(pattern));
            same.unwrap_or_else(|| Cron::new(pattern, now, wall))
        });
    }

    /// At a time of `cron_restart` all workers are replaced, and those are started that wait for it.
    fn look_at_clock(&mut self) {
        let (now, wall) = (self.context.now, self.context.wall);
        if !self.app.cron.as_mut().is_some_and(|cron| cron.strikes(now, wall)) {
            return;
        }
        let waiting = self.app.slots.iter().filter(|(_, record)| record.waits_for_cron);
        let waiting: Vec<u16> = waiting.map(|(slot, _)| *slot).collect();
        waiting.into_iter().for_each(|slot| self.note_wanted(slot, true));
        self.renew_all(STRUCK);
    }

    /// Replaces all workers, one after the other, but for those that somebody has stopped, and those whose start waits for other
    /// apps: it will run the changed files.
    fn renew_all(&mut self, why: &str) {
        let wanted = self.app.slots.iter().filter(|(_, record)| record.wanted).map(|(slot, _)| *slot);
        let meant: Vec<u16> = wanted.filter(|slot| !self.waits_to_start(*slot)).collect();
        for slot in &meant {
            if let Some(record) = self.app.slots.get_mut(slot) {
                record.upkeep.renewed = Some(why.to_owned());
            }
        }
        if !meant.is_empty() {
            self.effect(Effect::Notice(None, Notice::Renewed(why.to_owned())));
            self.order_reload(ReloadOrder { job: None, spec: None, whom: Whom::Wanted });
        }
    }
}

impl SlotRecord {
    /// A fresh worker was given up: the next renewal waits.
    pub(super) fn note_failed_renewal(&mut self, now: Time) {
        self.upkeep.pause.on_failure(now);
    }

    /// Another definition or a command may have mended what was wrong: renewals need not wait.
    pub(super) fn forget_failed_renewals(&mut self) {
        self.upkeep.pause = Pause::default();
    }
}

/// A worker that is due: its slot, why, its age, and the age below which the next one waits.
type Due = (u16, Cause, Duration, Duration);

/// The one of two that is to be renewed; of equal ones the first.
fn more_urgent(one: Due, other: Due) -> Due {
    if other.1.urgency() > one.1.urgency() { other } else { one }
}

/// Whether all processes of the app together have a limit of memory.
fn has_memory_limit(spec: &AppSpec) -> bool {
    spec.limits.memory_bytes.is_some()
}

/// Whether workers have to be looked at from time to time.
fn has_limits(spec: &AppSpec) -> bool {
    let renewal = &spec.renewal;
    let memory = spec.limits_workers_memory() || has_memory_limit(spec);
    memory || renewal.max_requests.is_some() || renewal.max_age.is_some()
}

/// All apps are looked at in the same moment, so that one reading of `/proc` serves all.
fn next_look(now: Time) -> Time {
    Time::default() + Duration::from_secs(now.since_start().as_secs()) + LOOK_EVERY
}
