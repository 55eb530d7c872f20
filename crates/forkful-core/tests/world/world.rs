//! A simulated machine: a clock that jumps, processes that follow a plan, and a driver that does
//! with slots and rollouts what a daemon does. After each event the checks are run.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::rollout::{self, Admission, ReloadQueue, Rollout, Summary};
use forkful_core::slot::{
    Action, Event, Exit, Generation, Outcome, Policy, ReadySign, Report, Slot, SlotNumber, State, Ticket,
    Verb,
};

use crate::checks::{self, Monitor};

/// More events than any scenario of the tests needs; reaching it means that a loop does not end.
const EVENTS_MAX: usize = 200_000;

/// What a process does with its life.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) spawn_fails: bool,
    pub(crate) ready: Option<(u64, ReadySign)>,
    /// Milliseconds from its start to its hello.
    pub(crate) hello: Option<u64>,
    pub(crate) dies: Option<(u64, Exit)>,
    /// Milliseconds from the signal to its exit; `None` ignores the signal.
    pub(crate) obeys: Option<u64>,
    pub(crate) drains: Drains,
    /// Milliseconds from its start until it closes its channel by itself.
    pub(crate) disconnects: Option<u64>,
}

/// What a process does when it is disconnected.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Drains {
    Exits(u64),
    ReportsDrained(u64),
    Never,
}

impl Plan {
    /// A process as it should be.
    pub(crate) fn good() -> Self {
        Self {
            spawn_fails: false,
            ready: Some((100, ReadySign::Message)),
            hello: Some(40),
            dies: None,
            obeys: Some(10),
            drains: Drains::Exits(50),
            disconnects: None,
        }
    }
}

/// What a process will do next.
#[derive(Debug, Clone)]
enum Deed {
    FailSpawn,
    Ready(ReadySign),
    Greet,
    Die(Exit),
    Drained,
    Disconnect,
}

/// A living process.
#[derive(Debug)]
pub(crate) struct Process {
    plan: Plan,
    agenda: Vec<(Time, Deed)>,
    pub(crate) signalled: Option<Time>,
    pub(crate) killed: bool,
    pub(crate) traffic: bool,
}

/// The machine and its driver.
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) policy: Policy,
    pub(crate) slots: Vec<Slot>,
    pub(crate) gone: Vec<bool>,
    pub(crate) processes: BTreeMap<(usize, Generation), Process>,
    /// Every command that a slot was given, with its answer.
    pub(crate) ledger: BTreeMap<(Ticket, usize), Option<Outcome>>,
    pub(crate) summaries: Vec<Summary>,
    pub(crate) reloads_asked: usize,
    pub(crate) reloads_refused: usize,
    pub(crate) monitor: Monitor,
    plans: Vec<Plan>,
    plans_used: usize,
    wakes: Vec<Option<Time>>,
    tickets: u64,
    reloads: ReloadQueue<()>,
    rollout: Option<(Rollout, Option<Ticket>)>,
    events: usize,
}

impl World {
    pub(crate) fn new(slots: usize, policy: Policy, plans: Vec<Plan>) -> Self {
        Self {
            now: Time::default(),
            policy,
            slots: vec![Slot::default(); slots],
            gone: vec![false; slots],
            processes: BTreeMap::new(),
            ledger: BTreeMap::new(),
            summaries: Vec::new(),
            reloads_asked: 0,
            reloads_refused: 0,
            monitor: Monitor::new(slots),
            plans,
            plans_used: 0,
            wakes: vec![None; slots],
            tickets: 0,
            reloads: ReloadQueue::default(),
            rollout: None,
            events: 0,
        }
    }

    /// Processes born from now on follow these plans.
    pub(crate) fn change_plans(&mut self, plans: Vec<Plan>) {
        self.plans = plans;
    }

    /// Gives a slot a command; a slot that was deleted takes none.
    pub(crate) fn command(&mut self, slot: usize, verb: Verb) -> Option<Ticket> {
        if self.gone[slot] {
            return None;
        }
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.ledger.insert((ticket, slot), None);
        self.deliver(slot, &Event::Command(verb, ticket));
        Some(ticket)
    }

    /// Gives every slot a command, and ends reloads first if it leaves nothing to reload.
    pub(crate) fn command_all(&mut self, verb: Verb) -> Vec<Option<Ticket>> {
        if matches!(verb, Verb::Stop | Verb::Delete) {
            self.reloads_refused += self.reloads.clear().len();
            self.step_rollout(rollout::Event::Cancelled { by: verb });
        }
        (0..self.slots.len()).map(|slot| self.command(slot, verb)).collect()
    }

    /// The answer that a command got so far.
    pub(crate) fn answer(&self, ticket: Ticket, slot: usize) -> Option<&Outcome> {
        self.ledger.get(&(ticket, slot)).and_then(Option::as_ref)
    }

    pub(crate) fn reload(&mut self) {
        self.reloads_asked += 1;
        match self.reloads.ask(()) {
            Admission::Begin(()) => self.begin_rollout(),
            Admission::Behind(_) => {}
            Admission::Refused(()) => self.reloads_refused += 1,
        }
    }

    pub(crate) fn is_reloading(&self) -> bool {
        self.reloads.is_busy()
    }

    /// Kills a process from outside, if the slot has one that serves or starts.
    pub(crate) fn kill_from_outside(&mut self, slot: usize) {
        if let Some(generation) = self.slots[slot].current() {
            self.end(slot, generation, Exit::Signal(9));
        }
    }

    /// Lets time pass, with all that happens meanwhile.
    pub(crate) fn pass(&mut self, by: Duration) {
        let until = self.now + by;
        while let Some((at, next)) = self.next_happening().filter(|(at, _)| *at <= until) {
            self.now = self.now.max(at);
            match next {
                Happening::Wake(slot) => {
                    self.wakes[slot] = None;
                    self.deliver(slot, &Event::Deadline);
                }
                Happening::Deed(slot, generation, index) => self.perform_deed(slot, generation, index),
            }
        }
        self.now = until;
    }

    /// Feeds one event to a slot and does what it wants.
    pub(crate) fn deliver(&mut self, slot: usize, event: &Event) {
        self.events += 1;
        assert!(self.events < EVENTS_MAX, "the scenario does not come to an end");
        let before = self.slots[slot].clone();
        let chance = (self.events as f64 * 0.618_034).fract();
        let actions = self.slots[slot].apply(event.clone(), self.now, &self.policy, chance);
        let mut reactions = Vec::new();
        for action in &actions {
            self.perform(slot, action, &mut reactions);
        }
        checks::after_event(self, slot, &before, event, &actions);
        for reaction in reactions {
            self.step_rollout(reaction);
        }
    }

    fn perform(&mut self, slot: usize, action: &Action, reactions: &mut Vec<rollout::Event>) {
        let (now, kill_timeout) = (self.now, self.policy.stop.kill_timeout);
        match action {
            Action::Spawn(generation) => self.spawn(slot, *generation),
            Action::Signal(generation) => {
                let process = self.living(slot, *generation, action);
                assert!(process.signalled.replace(now).is_none(), "signalled twice");
                if let Some(ms) = process.plan.obeys {
                    process.agenda.push((now + Duration::from_millis(ms), Deed::Die(Exit::Code(0))));
                }
            }
            Action::Kill(generation) => {
                let process = self.living(slot, *generation, action);
                let signalled = process.signalled.expect("a kill follows a signal");
                assert!(now.since(signalled) >= kill_timeout, "killed before its time");
                assert!(!std::mem::replace(&mut process.killed, true), "killed twice");
                process.agenda.push((now + Duration::from_millis(1), Deed::Die(Exit::Signal(9))));
            }
            Action::OpenTraffic(generation) => {
                let process = self.living(slot, *generation, action);
                assert!(!std::mem::replace(&mut process.traffic, true), "opened twice");
            }
            Action::CloseTraffic(generation) => checks::close_traffic(self, slot, *generation),
            Action::Drain(generation) => {
                let process = self.living(slot, *generation, action);
                match process.plan.drains {
                    Drains::Exits(ms) => {
                        process.agenda.push((now + Duration::from_millis(ms), Deed::Die(Exit::Code(0))));
                    }
                    Drains::ReportsDrained(ms) => {
                        process.agenda.push((now + Duration::from_millis(ms), Deed::Drained));
                    }
                    Drains::Never => {}
                }
            }
            Action::Wake(at) => self.wakes[slot] = Some(*at),
            Action::Report(report) => self.note_report(slot, report, reactions),
            Action::Answer(ticket, outcome) => self.note_answer(slot, *ticket, outcome, reactions),
        }
    }

    fn spawn(&mut self, slot: usize, generation: Generation) {
        let plan = self.plans[self.plans_used % self.plans.len()].clone();
        self.plans_used += 1;
        let after = |ms: u64| self.now + Duration::from_millis(ms);
        let mut agenda = Vec::new();
        if plan.spawn_fails {
            agenda.push((self.now, Deed::FailSpawn));
        } else {
            agenda.extend(plan.ready.map(|(ms, sign)| (after(ms), Deed::Ready(sign))));
            agenda.extend(plan.hello.map(|ms| (after(ms), Deed::Greet)));
            agenda.extend(plan.disconnects.map(|ms| (after(ms), Deed::Disconnect)));
            agenda.extend(plan.dies.clone().map(|(ms, exit)| (after(ms), Deed::Die(exit))));
        }
        let process = Process { plan, agenda, signalled: None, killed: false, traffic: false };
        let reused = self.processes.insert((slot, generation), process);
        assert!(reused.is_none(), "generation {generation} of slot {slot} was used twice");
    }

    fn living(&mut self, slot: usize, generation: Generation, action: &Action) -> &mut Process {
        self.processes.get_mut(&(slot, generation)).unwrap_or_else(|| panic!("{action:?} on a dead process"))
    }

    fn note_report(&mut self, slot: usize, report: &Report, reactions: &mut Vec<rollout::Event>) {
        if let Report::Left { .. } = report
            && self.slots[slot].leaving.is_empty()
        {
            reactions.push(rollout::Event::OldLeft(SlotNumber(slot as u16)));
        }
    }

    fn note_answer(
        &mut self,
        slot: usize,
        ticket: Ticket,
        outcome: &Outcome,
        reactions: &mut Vec<rollout::Event>,
    ) {
        let entry = self.ledger.get_mut(&(ticket, slot)).expect("an answer without a command");
        assert_eq!(*entry, None, "answered twice");
        *entry = Some(outcome.clone());
        let number = SlotNumber(slot as u16);
        if *outcome == Outcome::Deleted {
            self.gone[slot] = true;
            reactions.push(rollout::Event::SlotGone(number));
        }
        if self.rollout.as_ref().is_some_and(|(_, expected)| *expected == Some(ticket)) {
            reactions.push(match outcome {
                Outcome::Failed(fault) => rollout::Event::SlotReplaceFailed(number, fault.clone()),
                Outcome::Online { .. }
                | Outcome::AlreadyOnline
                | Outcome::Finished(_)
                | Outcome::Replaced
                | Outcome::Stopped
                | Outcome::Deleted => {
                    let old_leaving = !self.slots[slot].leaving.is_empty();
                    rollout::Event::SlotReplaced { slot: number, old_leaving }
                }
            });
        }
    }

    fn begin_rollout(&mut self) {
        let living: Vec<_> = (0..self.slots.len()).filter(|&slot| !self.gone[slot]).collect();
        let (rollout, actions) = Rollout::new(living.into_iter().map(|slot| SlotNumber(slot as u16)));
        self.rollout = Some((rollout, None));
        self.act_on_rollout(actions);
    }

    fn step_rollout(&mut self, event: rollout::Event) {
        if let Some((rollout, ticket)) = self.rollout.take() {
            let (rollout, actions) = rollout.step(event);
            self.rollout = Some((rollout, ticket));
            self.act_on_rollout(actions);
        }
    }

    fn act_on_rollout(&mut self, actions: Vec<rollout::Action>) {
        for action in actions {
            match action {
                rollout::Action::Replace(SlotNumber(slot)) => {
                    // The ticket is known before the command is given, for the answer may come at once.
                    let ticket = Ticket(self.tickets + 1);
                    if let Some((_, expected)) = &mut self.rollout {
                        *expected = Some(ticket);
                    }
                    assert_eq!(self.command(usize::from(slot), Verb::Replace), Some(ticket));
                }
                rollout::Action::Done(summary) => {
                    self.summaries.push(summary);
                    self.rollout = None;
                    if self.reloads.finished().is_some() {
                        self.begin_rollout();
                    }
                }
            }
        }
    }

    fn perform_deed(&mut self, slot: usize, generation: Generation, index: usize) {
        let process = self.processes.get_mut(&(slot, generation)).expect("only the living do deeds");
        let (_, deed) = process.agenda.swap_remove(index);
        match deed {
            Deed::FailSpawn => {
                self.bury(slot, generation);
                self.deliver(slot, &Event::SpawnFailed(generation, "no such file".into()));
            }
            Deed::Ready(sign) => self.deliver(slot, &Event::Ready(generation, sign)),
            Deed::Greet => self.deliver(slot, &Event::Greeted(generation)),
            Deed::Disconnect => self.deliver(slot, &Event::Disconnected(generation)),
            Deed::Drained => self.deliver(slot, &Event::Drained(generation)),
            Deed::Die(exit) => self.end(slot, generation, exit),
        }
    }

    fn end(&mut self, slot: usize, generation: Generation, exit: Exit) {
        self.bury(slot, generation);
        self.deliver(slot, &Event::Exited(generation, exit));
    }

    fn bury(&mut self, slot: usize, generation: Generation) {
        let process = self.processes.remove(&(slot, generation)).expect("only the living die");
        self.monitor.note_death(slot, generation, &process, &self.slots[slot]);
    }

    fn next_happening(&self) -> Option<(Time, Happening)> {
        let wakes = self.wakes.iter().enumerate();
        let wakes = wakes.filter_map(|(slot, at)| at.map(|at| (at, Happening::Wake(slot))));
        let deeds = self.processes.iter().flat_map(|(&(slot, generation), process)| {
            let deeds = process.agenda.iter().enumerate();
            deeds.map(move |(index, (at, _))| (*at, Happening::Deed(slot, generation, index)))
        });
        // At the same time, deeds come before deadlines and then the other way round.
        if self.events.is_multiple_of(2) {
            wakes.chain(deeds).min_by_key(|(at, _)| *at)
        } else {
            deeds.chain(wakes).min_by_key(|(at, _)| *at)
        }
    }

    /// Slots with a serving process.
    pub(crate) fn serving(&self) -> usize {
        self.slots
            .iter()
            .filter(|slot| matches!(slot.state, State::Online(_) | State::Replacing { .. }))
            .count()
    }
}

/// What comes next on this machine.
enum Happening {
    Wake(usize),
    Deed(usize, Generation, usize),
}
