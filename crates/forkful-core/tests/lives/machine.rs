//! One slot on a simulated machine: a clock that jumps, and processes that follow a plan.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::{Action, Event, Exit, Generation, Outcome, Policy, ReadySign, Slot, Ticket, Verb};

/// More events than any test needs; reaching it means that a loop does not end.
const EVENTS_MAX: usize = 200_000;

/// What a process does with its life.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) ready: Option<(u64, ReadySign)>,
    /// Milliseconds from its start to its hello.
    pub(crate) hello: Option<u64>,
    pub(crate) dies: Option<(u64, Exit)>,
    /// Milliseconds from the signal to its exit; `None` ignores the signal.
    pub(crate) obeys: Option<u64>,
}

impl Plan {
    /// A process as it should be.
    pub(crate) fn good() -> Self {
        Self { ready: Some((100, ReadySign::Message)), hello: Some(40), dies: None, obeys: Some(10) }
    }
}

/// What a process will do next.
#[derive(Debug, Clone)]
enum Deed {
    Ready(ReadySign),
    Greet,
    Die(Exit),
}

/// See the module's documentation.
pub(crate) struct Machine {
    pub(crate) now: Time,
    policy: Policy,
    pub(crate) slot: Slot,
    plan: Plan,
    /// What the living processes will do.
    agendas: BTreeMap<Generation, Vec<(Time, Deed)>>,
    wake: Option<Time>,
    /// Every command that the slot was given, with its answer.
    ledger: BTreeMap<Ticket, Option<Outcome>>,
    events: usize,
}

impl Machine {
    /// Each process follows the plan.
    pub(crate) fn new(policy: Policy, plan: Plan) -> Self {
        Self {
            now: Time::default(),
            policy,
            slot: Slot::default(),
            plan,
            agendas: BTreeMap::new(),
            wake: None,
            ledger: BTreeMap::new(),
            events: 0,
        }
    }

    pub(crate) fn command(&mut self, verb: Verb) -> Ticket {
        let ticket = Ticket(self.ledger.len() as u64 + 1);
        self.ledger.insert(ticket, None);
        self.deliver(Event::Command(verb, ticket));
        ticket
    }

    /// The answer that a command got so far.
    pub(crate) fn answer(&self, ticket: Ticket) -> Option<&Outcome> {
        self.ledger.get(&ticket).and_then(Option::as_ref)
    }

    /// Lets time pass, with all that happens meanwhile.
    pub(crate) fn pass(&mut self, by: Duration) {
        let until = self.now + by;
        loop {
            let deeds = self.agendas.iter().flat_map(|(generation, agenda)| {
                let deeds = agenda.iter().enumerate();
                deeds.map(move |(index, (at, _))| (*at, Some((*generation, index))))
            });
            let wakes = self.wake.map(|at| (at, None));
            let next = deeds.chain(wakes).min_by_key(|(at, _)| *at).filter(|(at, _)| *at <= until);
            let Some((at, deed)) = next else { break };
            self.now = self.now.max(at);
            match deed {
                Some((generation, index)) => self.perform_deed(generation, index),
                None => {
                    self.wake = None;
                    self.deliver(Event::Deadline);
                }
            }
        }
        self.now = until;
    }

    fn perform_deed(&mut self, generation: Generation, index: usize) {
        let (_, deed) = self.agendas.get_mut(&generation).expect("it lives").swap_remove(index);
        let event = match deed {
            Deed::Ready(sign) => Event::Ready(generation, sign),
            Deed::Greet => Event::Greeted(generation),
            Deed::Die(exit) => {
                self.agendas.remove(&generation);
                Event::Exited(generation, exit)
            }
        };
        self.deliver(event);
    }

    fn deliver(&mut self, event: Event) {
        self.events += 1;
        assert!(self.events < EVENTS_MAX, "the scenario does not come to an end");
        let chance = (self.events as f64 * 0.618_034).fract();
        for action in self.slot.apply(event, self.now, &self.policy, chance) {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        let after = |ms: u64| self.now + Duration::from_millis(ms);
        match action {
            Action::Spawn(generation) => {
                let plan = &self.plan;
                let deeds = [
                    plan.ready.map(|(ms, sign)| (after(ms), Deed::Ready(sign))),
                    plan.hello.map(|ms| (after(ms), Deed::Greet)),
                    plan.dies.clone().map(|(ms, exit)| (after(ms), Deed::Die(exit))),
                ];
                self.agendas.insert(generation, deeds.into_iter().flatten().collect());
            }
            Action::Signal(generation) => {
                if let Some(ms) = self.plan.obeys {
                    let death = (after(ms), Deed::Die(Exit::Code(0)));
                    self.agendas.get_mut(&generation).expect("it lives").push(death);
                }
            }
            Action::Kill(generation) => {
                let death = (after(1), Deed::Die(Exit::Signal(9)));
                self.agendas.get_mut(&generation).expect("it lives").push(death);
            }
            Action::Wake(at) => self.wake = Some(at),
            Action::Answer(ticket, outcome) => {
                self.ledger.insert(ticket, Some(outcome));
            }
            Action::OpenTraffic(_) | Action::CloseTraffic(_) | Action::Drain(_) | Action::Report(_) => {}
        }
    }
}
