//! The supervisor of one app: every decision about the life of its workers.
//!
//! It owns the app's definition, its slots, the reload under way and those that wait, and what waits for other apps. A
//! driver feeds it an [`Event`] at a time and performs the [`Effect`]s in order. It reads no clock and knows no process:
//! the same events give the same effects.
//!
//! ```text
//! command, exit, deadline … ──▶ step ──▶ Spawn, Signal, OpenTraffic, Answered, Reloaded …
//!                                │
//!              slots (crate::slot) · reload (crate::rollout) · held (other apps)
//! ```
//!
//! Contracts, held by the property tests:
//! - for each [`Effect::Owed`] there is one answer: [`Effect::Settled`], or [`Effect::Answered`] of that job;
//! - [`Effect::Spawn`] is given for a slot that was added and not removed, and each generation once;
//! - after [`Effect::Removed`] there are no slots, and no command waits.

mod autoscaling;
mod commands;
mod effect;
mod event;
mod held;
mod neighbours;
mod readiness;
mod recall;
mod reload;
mod slot_map;
mod slots;
mod takeover;
mod upkeep;
mod warming;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::autoscale::Autoscaler;
use crate::random::Random;
use crate::rollout::ReloadQueue;
use crate::slot::{Exit, Generation, Outcome, Policy, Slot, State, Ticket};
use crate::spec::{AppName, AppSpec};
use crate::upkeep::cron::Cron;

pub use effect::{Answer, Asked, Effect, Note, Notice, ReloadFailure, ReloadResult};
pub use event::{AppId, Context, Event, FirstStates, JobId, Readiness, ReloadOrder, Standing, Whom};

pub use neighbours::{dependents_of, others_of, waiting_for_others};
pub use readiness::{Sockets, may_listen};
pub use recall::Recall;
pub use takeover::Adopted;
pub use upkeep::{Observation, SlotUpkeep};
pub use warming::Warmed;

use held::Held;
use readiness::Awaited;
use reload::Reload;
use slot_map::Slots;
use warming::Warming;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AppSupervisor {
    spec: Rc<AppSpec>,
    policy: Policy,
    slots: Slots,
    /// Commands that slots have not answered.
    asked: BTreeMap<Ticket, Asked>,
    last_ticket: u64,
    reload: Option<Reload>,
    orders: ReloadQueue<ReloadOrder>,
    held: Option<Held>,
    /// When memory, requests and ages are looked at next.
    next_look: Option<Time>,
    /// What is remembered to change the number of workers by the load.
    #[serde(default)]
    autoscaler: Autoscaler,
    /// The next time of `cron_restart`.
    #[serde(default)]
    cron: Option<Cron>,
    chance: Random,
}

/// A slot, and what is known of it beyond its state.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlotRecord {
    pub slot: Slot,
    /// Whether it should run, by the last command; what is saved.
    pub wanted: bool,
    /// It has no process, or its process has ended by itself, and the next time of `cron_restart` starts it unless a command
    /// comes first. Saved too.
    #[serde(default)]
    pub waits_for_cron: bool,
    /// How the process that ended last did so.
    pub last_exit: Option<Exit>,
    /// Why the last listen was refused.
    pub listen_fault: Option<ListenFault>,
    pub upkeep: SlotUpkeep,
    deadline: Option<Time>,
    /// The process that is to be started and whose program does not run yet.
    pending_start: Option<Generation>,
    /// The process whose readiness is, or was last, awaited.
    awaited: Option<Awaited>,
    /// The process that is sent requests before it counts as ready.
    #[serde(default)]
    warming: Option<Warming>,
    /// It has answered that it is deleted, and goes with the same event.
    is_gone: bool,
    /// Processes in fork mode that listen on sockets of the primary's, which a successor can be given too.
    #[serde(default)]
    shares: BTreeSet<Generation>,
}

/// A refused listen, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ListenFault {
    pub error: String,
    pub hint: Option<String>,
}

/// One event's worth of work.
struct Turn<'a> {
    app: &'a mut AppSupervisor,
    context: &'a Context<'a>,
    effects: &'a mut Vec<Effect>,
    /// What the event has led to, and that is handled after it.
    news: VecDeque<News>,
}

/// What slots tell the rest of the supervisor.
enum News {
    /// To the plan of the reload: what became of the slot that it has begun.
    ReloadAnswer(u16, Outcome),
    /// To the plan: the old process of a slot has exited.
    OldLeft(u16),
    /// To a slot: its process has nothing to finish.
    Drained(u16, Generation),
    Deleted(u16),
}

impl AppSupervisor {
    /// An app that has no slots yet; [`Event::Create`] makes them. `seed` is for jitter.
    pub fn new(mut spec: AppSpec, seed: u64) -> Self {
        spec.launch.pack();
        Self {
            policy: Policy::of(&spec),
            spec: Rc::new(spec),
            slots: Slots::default(),
            asked: BTreeMap::new(),
            last_ticket: 0,
            reload: None,
            orders: ReloadQueue::default(),
            held: None,
            next_look: None,
            autoscaler: Autoscaler::default(),
            cron: None,
            chance: Random::new(seed),
        }
    }

    /// Handles one event; what is to be done is appended to `effects`.
    pub fn step(&mut self, event: Event, context: &Context<'_>, effects: &mut Vec<Effect>) {
        let mut turn = Turn { app: self, context, effects, news: VecDeque::new() };
        turn.take(event);
        while let Some(news) = turn.news.pop_front() {
            match news {
                News::ReloadAnswer(slot, outcome) => turn.on_reload_answer(slot, outcome),
                News::OldLeft(slot) => turn.on_old_left(slot),
                News::Drained(slot, generation) => {
                    turn.feed(slot, crate::slot::Event::Drained(generation));
                }
                News::Deleted(slot) => turn.remove_slot(slot),
            }
        }
        self.slots.refresh();
    }

    pub fn spec(&self) -> &Rc<AppSpec> {
        &self.spec
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn slots(&self) -> &BTreeMap<u16, Box<SlotRecord>> {
        &self.slots
    }

    pub fn slot(&self, number: u16) -> Option<&SlotRecord> {
        self.slots.get(&number)
    }

    /// From now on, values of the environment that were inherited are saved too.
    pub fn keep_inherited(&mut self) {
        Rc::make_mut(&mut self.spec).launch.env_sources.keep_inherited = true;
    }

    /// The last change of the number of workers by the load, in words.
    pub fn last_scaling(&self) -> Option<&str> {
        self.spec.autoscale.and_then(|_| self.autoscaler.last())
    }

    /// The next time of `cron_restart`, in milliseconds since 1970.
    pub fn next_strike_ms(&self) -> Option<i64> {
        self.cron.as_ref().and_then(Cron::next_ms)
    }

    /// Continues with the time of `cron_restart` that was planned by a daemon whose supervisors had no clock (versions up to 13 of
    /// [`snapshot`](crate::snapshot)).
    pub fn resume_clock(&mut self, next_ms: i64, now: Time) {
        if let (None, Some(pattern)) = (&self.cron, &self.spec.renewal.cron) {
            self.cron = Some(Cron::resume(pattern, next_ms, now));
        }
    }

    /// Whether a reload is under way.
    pub fn is_reloading(&self) -> bool {
        self.reload.is_some()
    }

    /// Whether a reload is under way that somebody has asked for, or that brings another definition. Others, such as one for a changed file,
    /// keep no command from what it is to do.
    pub fn is_reloading_by_command(&self) -> bool {
        self.reload.as_ref().is_some_and(reload::Reload::is_by_command)
            || self.waiting_reloads().next().is_some()
    }

    /// Whether a reload is under way in which each new worker starts while the worker that it replaces still runs.
    pub fn is_rolling(&self) -> bool {
        self.reload.as_ref().is_some_and(|reload| reload.rolling)
    }

    /// The commands whose reloads wait for the one under way.
    pub fn waiting_reloads(&self) -> impl Iterator<Item = JobId> + '_ {
        self.orders.waiting().filter_map(|order| order.job)
    }

    /// Whether something waits for other apps.
    pub fn waits_for_others(&self) -> bool {
        self.held.is_some()
    }

    /// Whether it matters to this app how far others are.
    pub fn looks_at_others(&self) -> bool {
        self.held.is_some() || !self.spec.depends_on.is_empty()
    }

    /// Whether it matters to this app how far another one is.
    pub fn looks_at(&self, id: AppId, name: &AppName) -> bool {
        self.spec.depends_on.contains(name) || self.held.as_ref().is_some_and(|held| held.waits_for(id))
    }

    /// Whether this app runs and depends on the one of this name, so that it is stopped before it.
    pub fn runs_on(&self, name: &AppName) -> bool {
        self.spec.depends_on.contains(name) && !self.is_at_rest()
    }

    /// Whether no process is there and none is planned.
    pub fn is_at_rest(&self) -> bool {
        self.held.is_none() && self.runs_nothing()
    }

    /// Whether no process is there and none is planned, but for a start that waits for other apps.
    fn runs_nothing(&self) -> bool {
        self.slots.values().all(|record| record.slot.is_at_rest())
    }

    /// Whether a reload is a start that waits for other apps: nothing runs, and an app that this one depends on is on its way.
    pub fn starts_after_others(&self, others: &[Standing]) -> bool {
        self.runs_nothing() && self.needs_one_that_comes(others)
    }

    /// Whether one of the apps that this one depends on is on its way.
    fn needs_one_that_comes(&self, others: &[Standing]) -> bool {
        let is_needed = |other: &&Standing| self.spec.depends_on.contains(&other.name);
        others.iter().filter(is_needed).any(|other| other.readiness == Readiness::Coming)
    }

    /// Whether processes are there and none is to run on: all of them have been told to go.
    pub fn is_ending(&self) -> bool {
        !self.is_at_rest() && self.slots.values().all(|record| !record.wanted)
    }

    /// Which slots a later daemon starts, as it is saved. It numbers its slots without the gaps that deleted workers have
    /// left.
    pub fn saved_states(&self) -> FirstStates {
        let staying = self.slots.values().filter(|record| !record.slot.is_going());
        let numbered: Vec<(u16, &SlotRecord)> = (0..).zip(staying.map(|record| &**record)).collect();
        let slots = |meant: &dyn Fn(&SlotRecord) -> bool| {
            numbered.iter().filter(|(_, record)| meant(record)).map(|(position, _)| *position).collect()
        };
        let policy = &self.spec.restart;
        let is_stopped = |record: &SlotRecord| {
            !record.wanted || record.waits_for_cron || record.slot.has_asked_to_stop(policy)
        };
        FirstStates {
            stopped: Some(slots(&is_stopped)),
            finished: slots(&|record| !is_stopped(record) && record.slot.stays_finished(policy)),
            waits_for_cron: slots(&|record| record.waits_for_cron),
        }
    }

    /// Whether a slot exists and is to stay.
    pub fn stays(&self, slot: u16) -> bool {
        self.slots.get(&slot).is_some_and(|record| !record.slot.is_going() && !record.is_gone)
    }

    /// How many of the first `instances` workers a command has stopped, so that no change of their number starts them.
    pub fn stopped_workers(&self, instances: u16) -> usize {
        let staying = self.slots.iter().filter(|(slot, _)| self.stays(**slot));
        let is_stopped = |record: &SlotRecord| !record.wanted && !record.waits_for_cron;
        staying.take(usize::from(instances)).filter(|(_, record)| is_stopped(record)).count()
    }

    /// When [`Event::Time`] is wanted next.
    pub fn next_wake(&self) -> Option<Time> {
        let cron = self.cron.as_ref().map(Cron::next_look);
        [self.slots.next_wake(), self.next_look, cron].into_iter().flatten().min()
    }

    /// The slots for which something is due, by number.
    pub fn due_slots(&self, now: Time) -> Vec<u16> {
        self.slots.due(now)
    }

    /// Whether an event can do nothing but look at sockets, before it is fed. If no effects follow but further looks, it has changed
    /// nothing that another daemon has to know: that one looks by itself.
    pub fn only_looks(&self, event: &Event, now: Time) -> bool {
        match event {
            Event::Sockets(..) => true,
            Event::Time => {
                let cron = self.cron.as_ref().map(Cron::next_look);
                let has_others = [self.next_look, cron].into_iter().flatten().any(|at| at <= now);
                let looks = |slot: &u16| self.slots.get(slot).is_some_and(|record| record.only_looks(now));
                !has_others && self.due_slots(now).iter().all(looks)
            }
            _ => false,
        }
    }

    /// How often a slot was asked when it is due, in all: what tests of costs count.
    pub fn slots_asked(&self) -> u64 {
        self.slots.asked()
    }

    /// Processes that are about to be given up because their time to become ready is over, and of which nothing says
    /// why: they may lack an address on which the process that they follow listens.
    pub fn late_successors(&self, now: Time) -> Vec<(u16, Generation)> {
        if self.spec.readiness.wait_ready {
            return Vec::new();
        }
        let late = |slot: u16| {
            let record = self.slots.get(&slot).filter(|record| record.listen_fault.is_none())?;
            Some((slot, record.late_successor(now)?))
        };
        self.due_slots(now).into_iter().filter_map(late).collect()
    }

    /// Whether apps that depend on this one can start.
    pub fn readiness(&self) -> Readiness {
        if self.held.is_some() {
            return Readiness::Coming;
        }
        let (mut coming, mut ending, mut serves) = (false, false, false);
        // A worker of a scale-down finishes its requests; it says nothing about those that stay.
        for record in self.slots.values().filter(|record| !record.slot.is_going()) {
            match &record.slot.state {
                State::Online(_) | State::Replacing { .. } => serves = true,
                // A job that has done its work, such as a migration, is what others have waited for.
                State::Stopped { last_exit: Some(Exit::Code(0)) } if record.wanted => serves = true,
                // Somebody has stopped this one; others may serve.
                State::Stopped { .. } | State::Failed { .. } if !record.wanted => {}
                State::Stopping { .. } if !record.wanted => ending = true,
                State::Stopped { .. } | State::Failed { .. } => return Readiness::Failed,
                State::Starting { .. } | State::Stopping { .. } | State::Backoff { .. } => coming = true,
            }
        }
        match (coming, serves, ending) {
            (true, ..) | (false, false, true) => Readiness::Coming,
            (false, true, _) => Readiness::Ready,
            (false, false, false) => Readiness::Failed,
        }
    }
}

impl SlotRecord {
    /// When something of it is due.
    fn next_wake(&self) -> Option<Time> {
        let awaited = self.awaited.as_ref().and_then(Awaited::next_wake);
        [awaited, self.next_wake_but_looks()].into_iter().flatten().min()
    }

    /// The same without looks at sockets.
    fn next_wake_but_looks(&self) -> Option<Time> {
        let warming = self.warming.as_ref().map(Warming::next_wake);
        [self.deadline, self.upkeep.next_wake(), warming].into_iter().flatten().min()
    }

    /// Whether nothing but a look at sockets can be due.
    fn only_looks(&self, now: Time) -> bool {
        self.next_wake_but_looks().is_none_or(|at| at > now)
    }

    /// The process that is online.
    pub fn online(&self) -> Option<Generation> {
        match &self.slot.state {
            State::Online(running) | State::Replacing { old: running, .. } => Some(running.generation),
            State::Starting { .. }
            | State::Stopped { .. }
            | State::Stopping { .. }
            | State::Backoff { .. }
            | State::Failed { .. } => None,
        }
    }

    /// The process that serves while this one starts to follow it.
    pub fn followed_by(&self, successor: Generation) -> Option<Generation> {
        match &self.slot.state {
            State::Replacing { old, new, .. } if *new == successor => Some(old.generation),
            _ => None,
        }
    }

    /// Whether the process that is online, if there is one, listens on sockets that its successor can be given beside it.
    fn shares_its_sockets(&self) -> bool {
        self.online().is_none_or(|generation| self.shares.contains(&generation))
    }

    fn late_successor(&self, now: Time) -> Option<Generation> {
        match &self.slot.state {
            State::Replacing { new, ready_by, .. } if *ready_by <= now => Some(*new),
            _ => None,
        }
    }
}

impl Turn<'_> {
    fn take(&mut self, event: Event) {
        match event {
            Event::Create { first, job } => self.create(first, job),
            Event::Slot(slot, event) => self.feed(slot, event),
            Event::Runs(slot, generation) => self.runs(slot, generation),
            Event::ListenRefused(slot, fault) => self.note_listen_fault(slot, fault),
            Event::Listening { slot, generation, lacks_address } => {
                self.on_listening(slot, generation, lacks_address);
            }
            Event::SaidReady(slot, generation) => self.on_said_ready(slot, generation),
            Event::Sockets(slot, generation, seen) => self.on_sockets(slot, generation, seen),
            Event::Warmed { slot, generation, outcome } => self.on_warmed(slot, generation, outcome),
            Event::Restart { slots, spec, job } => self.restart(&slots, spec, job),
            Event::Stop { slots, verb, first, job } => self.stop(slots, verb, first, job),
            Event::Reload(order) => self.order_reload(order),
            Event::Scale { instances, job } => {
                self.keep_instances(instances);
                self.app.autoscaler.interrupt();
                self.scale(instances, Some(job));
            }
            Event::ScaleAsDefined { instances, job } => self.scale_as_defined(Some(instances), job),
            Event::OthersMoved => self.try_held(),
            Event::Time => self.on_time(),
            Event::Observed(observations) => self.observed(&observations),
            Event::Load(signals) => self.on_load(&signals),
            Event::Health { slot, generation, answer } => self.on_health(slot, generation, answer),
            Event::ChannelBusy { slot, generation } => self.channel_busy(slot, generation),
            Event::Owes { slot, generation, since } => self.note_owes(slot, generation, since),
            Event::Silent { slot, generation, silent, report } => {
                self.on_silence(slot, generation, silent, report);
            }
            Event::Stalled(stalls) => self.on_stalls(&stalls),
            Event::Requests { slot, generation, served } => self.note_requests(slot, generation, served),
            Event::FilesChanged(why) => self.on_files(&why),
            Event::TakenOver(there) => self.taken_over(&there),
        }
    }

    /// Does what is due.
    fn on_time(&mut self) {
        let now = self.context.now;
        let due = self.app.slots.due(now);
        self.look_at_warming(&due);
        let is_over = |slot: &u16| self.app.slots.get(slot)?.deadline.filter(|at| *at <= now);
        for slot in due.iter().copied().filter(|slot| is_over(slot).is_some()).collect::<Vec<_>>() {
            self.deadline(slot);
        }
        self.look_at_sockets(&due);
        self.upkeep(&due);
    }

    fn effect(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Has the client of a command told something.
    fn note(&mut self, job: JobId, note: Note) {
        self.effect(Effect::Note(job, note));
    }

    /// An answer that was owed to a command is given.
    fn settled(&mut self, job: JobId) {
        self.effect(Effect::Settled(job));
    }
}
