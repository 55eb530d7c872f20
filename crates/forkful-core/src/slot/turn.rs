//! Shared by the states of a slot while an event is handled: the arguments, the slot's memory, and the
//! actions so far.

use super::{
    Action, Event, Exit, Fault, Generation, Leaver, Outcome, Policy, Push, ReadySign, Report, Running, State,
    StopReason, Ticket, Verb, WAITING_MAX, Waiting, states,
};
use crate::restart::{self, Counters, Life, Verdict};
use crate::spec::Mode;
use crate::{Time, leaving};

/// The handling of one event of a slot.
pub(super) struct Turn<'a> {
    pub(super) now: Time,
    pub(super) policy: &'a Policy,
    pub(super) chance: f64,
    pub(super) counters: Counters,
    pub(super) leaving: Vec<Leaver>,
    pub(super) disconnected: Option<Leaver>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) actions: Vec<Action>,
}

/// The events that depend on the state.
pub(super) enum Input {
    Command(Verb),
    Ready(Generation, ReadySign),
    Exited(Generation, Exit),
    Deadline,
}

impl Turn<'_> {
    /// Handles an event: first leaving processes, counters and refusals, then the state's part.
    pub(super) fn take(&mut self, mut state: State, event: Event) -> State {
        let input = match event {
            Event::Command(verb, ticket) => {
                if let Some(fault) = self.refusal(verb) {
                    self.act(Action::Answer(ticket, Outcome::Failed(fault)));
                    return state;
                }
                self.admit(verb, ticket);
                Input::Command(verb)
            }
            Event::Exited(generation, exit) => Input::Exited(generation, exit),
            Event::SpawnFailed(generation, why) => Input::Exited(generation, Exit::SpawnFailed(why)),
            Event::Ready(generation, sign) => Input::Ready(generation, sign),
            Event::Deadline => {
                self.step_leaving(leaving::Event::Deadline, None);
                self.push_disconnected();
                Input::Deadline
            }
            Event::Begun(generation, at) => {
                state.begin(generation, at);
                return state;
            }
            Event::Awaited(generation, until) => {
                state.wait_until(generation, until);
                return state;
            }
            Event::Greeted(generation) => {
                state.greet(generation, self.now, self.policy);
                return state;
            }
            Event::Disconnected(generation) => {
                self.note_disconnected(generation, &state);
                return state;
            }
            Event::Drained(generation) => {
                let event = match self.policy.mode {
                    Mode::Fork => leaving::Event::Drained,
                    // What the app still does after its last response has the same time as with a disconnect.
                    Mode::Cluster => leaving::Event::Disconnected,
                };
                self.step_leaving(event, Some(generation));
                return state;
            }
            Event::Reset => {
                self.counters.reset();
                return state;
            }
        };
        match input {
            Input::Exited(generation, exit) if self.is_leaving(generation) => {
                self.step_leaving(leaving::Event::Exited, Some(generation));
                self.report(Report::Left { generation, exit });
                state
            }
            Input::Command(_) | Input::Ready(..) | Input::Exited(..) | Input::Deadline => {
                states::take(state, input, self)
            }
        }
    }

    /// Answers the commands that wait for the slot to be empty, when it is.
    pub(super) fn answer_closed(&mut self, state: &State) {
        let occupied_by_the_stopped = matches!(state, State::Stopping { .. }) || !self.leaving.is_empty();
        if !occupied_by_the_stopped {
            self.answer(|verb| match verb {
                Verb::Stop => Some(Outcome::Stopped),
                Verb::Delete | Verb::Retire => Some(Outcome::Deleted),
                Verb::Start | Verb::Restart | Verb::Replace => None,
            });
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.actions.push(action);
    }

    pub(super) fn report(&mut self, report: Report) {
        self.act(Action::Report(report));
    }

    /// Why a command is refused.
    fn refusal(&self, verb: Verb) -> Option<Fault> {
        let is_deletion = |verb| matches!(verb, Verb::Delete | Verb::Retire);
        let deleting = self.waiting.iter().any(|waiting| is_deletion(waiting.verb));
        match verb {
            Verb::Start | Verb::Restart | Verb::Replace if deleting => Some(Fault::Deleting),
            Verb::Start | Verb::Restart | Verb::Replace | Verb::Stop | Verb::Delete | Verb::Retire => {
                (self.waiting.len() >= WAITING_MAX).then_some(Fault::TooManyWaiting)
            }
        }
    }

    /// Adds a command to the waiting ones, and first answers those that it overrides.
    fn admit(&mut self, verb: Verb, ticket: Ticket) {
        match verb {
            Verb::Stop | Verb::Delete | Verb::Retire => {
                self.answer(|waiting| match waiting {
                    Verb::Start | Verb::Restart | Verb::Replace => {
                        Some(Outcome::Failed(Fault::Cancelled { by: verb }))
                    }
                    Verb::Stop | Verb::Delete | Verb::Retire => None,
                });
                if verb != Verb::Retire {
                    self.step_leaving(leaving::Event::Hurry, None);
                }
            }
            Verb::Start | Verb::Restart | Verb::Replace => {}
        }
        self.waiting.push(Waiting { ticket, verb });
    }

    /// Answers every waiting command for which `outcome` returns an answer.
    pub(super) fn answer(&mut self, outcome: impl Fn(Verb) -> Option<Outcome>) {
        let actions = &mut self.actions;
        self.waiting.retain(|waiting| match outcome(waiting.verb) {
            Some(outcome) => {
                actions.push(Action::Answer(waiting.ticket, outcome));
                false
            }
            None => true,
        });
    }

    /// Answers the command of this event, which was added last.
    pub(super) fn answer_newest(&mut self, outcome: Outcome) {
        if let Some(newest) = self.waiting.pop() {
            self.act(Action::Answer(newest.ticket, outcome));
        }
    }

    fn is_leaving(&self, generation: Generation) -> bool {
        self.leaving.iter().any(|leaver| leaver.generation == generation)
    }

    /// Steps one leaving process, or all.
    fn step_leaving(&mut self, event: leaving::Event, only: Option<Generation>) {
        let (now, policy) = (self.now, &self.policy.stop);
        let actions = &mut self.actions;
        self.leaving.retain_mut(|leaver| {
            if only.is_some_and(|generation| generation != leaver.generation) {
                return true;
            }
            let (state, action) = leaving::step(leaver.state, event, now, policy);
            actions.extend(action.into_iter().flat_map(|action| leaving_action(leaver.generation, action)));
            state.is_some_and(|state| {
                leaver.state = state;
                true
            })
        });
    }

    /// A process has closed its channel. In fork mode a process serves without it.
    fn note_disconnected(&mut self, generation: Generation, state: &State) {
        if self.policy.mode == Mode::Fork {
            return;
        }
        self.step_leaving(leaving::Event::Disconnected, Some(generation));
        if state.holds(generation) && self.disconnected.is_none() {
            let state = leaving::abandon(self.now, &self.policy.stop);
            self.disconnected = Some(Leaver { generation, state });
        }
    }

    /// Stops a process that can no longer serve but still runs, because it prevents its slot from serving.
    fn push_disconnected(&mut self) {
        let Some(Leaver { generation, state }) = self.disconnected else { return };
        let (state, action) = leaving::step(state, leaving::Event::Deadline, self.now, &self.policy.stop);
        self.actions.extend(action.into_iter().flat_map(|action| leaving_action(generation, action)));
        self.disconnected = state.map(|state| Leaver { generation, state });
    }

    /// How far this process was already stopped because it had closed its channel.
    fn pushed(&self, generation: Generation) -> Option<leaving::State> {
        self.disconnected.filter(|leaver| leaver.generation == generation).map(|leaver| leaver.state)
    }

    /// Starts a process.
    pub(super) fn spawn(&mut self) -> State {
        let generation = self.next_process();
        let bound = if self.policy.announces() {
            self.policy.readiness.start_timeout()
        } else {
            self.policy.quiet_start()
        };
        State::Starting { generation, started: self.now, ready_by: self.now + bound }
    }

    /// Starts a process on a command; previous failures are forgotten.
    pub(super) fn spawn_as_asked(&mut self) -> State {
        self.counters.forgive();
        self.spawn()
    }

    /// Starts a process in a slot that was in use before.
    pub(super) fn respawn(&mut self) -> State {
        self.counters.restarts = self.counters.restarts.saturating_add(1);
        self.spawn()
    }

    /// Uses the next generation and starts its process.
    pub(super) fn next_process(&mut self) -> Generation {
        let generation = Generation(self.counters.next_generation);
        self.counters.next_generation = self.counters.next_generation.wrapping_add(1);
        self.act(Action::Spawn(generation));
        generation
    }

    /// Puts a process online and answers the commands that wait for that.
    pub(super) fn online(&mut self, generation: Generation, started: Time, confirmed: bool) -> State {
        if confirmed {
            self.act(Action::OpenTraffic(generation));
        }
        self.report(Report::Online { generation, confirmed });
        State::Online(Running { generation, started, since: self.now, confirmed })
    }

    /// Sends the stop signal to the current process.
    pub(super) fn stop(&mut self, generation: Generation, started: Time, why: StopReason) -> State {
        let push = match self.pushed(generation) {
            Some(leaving::State::Signalled { kill_at }) => Push::Signalled { kill_at },
            Some(leaving::State::Killed) => Push::Killed,
            Some(leaving::State::Draining { .. }) | None => {
                self.act(Action::Signal(generation));
                Push::Signalled { kill_at: self.now + self.policy.stop.kill_timeout }
            }
        };
        State::Stopping { generation, started, why, push }
    }

    /// Closes the traffic of a serving process and sends it the stop signal.
    pub(super) fn stop_running(&mut self, running: Running, why: StopReason) -> State {
        self.close_traffic(running);
        self.stop(running.generation, running.started, why)
    }

    pub(super) fn close_traffic(&mut self, running: Running) {
        if running.confirmed {
            self.act(Action::CloseTraffic(running.generation));
        }
    }

    /// Moves a process that served to the leaving processes.
    pub(super) fn retire(&mut self, running: Running) {
        self.close_traffic(running);
        let generation = running.generation;
        if let Some(state) = self.pushed(generation) {
            self.leaving.push(Leaver { generation, state });
            self.step_leaving(leaving::Event::Disconnected, Some(generation));
        } else {
            let (state, action) = leaving::retire(self.now, &self.policy.stop);
            self.leave(generation, state, action);
        }
    }

    /// Moves a process that never served to the leaving processes.
    pub(super) fn dismiss(&mut self, generation: Generation) {
        let (state, action) = leaving::dismiss(self.now, &self.policy.stop);
        self.leave(generation, state, action);
    }

    fn leave(&mut self, generation: Generation, state: leaving::State, action: leaving::Action) {
        self.actions.extend(leaving_action(generation, action));
        self.leaving.push(Leaver { generation, state });
    }

    /// Stops the slot. Commands that wait for that are answered when the leaving processes are gone too.
    pub(super) fn rest(&mut self, last_exit: Option<Exit>) -> State {
        self.report(Report::Stopped);
        State::Stopped { last_exit }
    }

    /// Reports an unexpected exit of the current process, and decides what follows.
    pub(super) fn crash(&mut self, exit: Exit, life: Life) -> State {
        let policy = &self.policy.restart;
        match restart::after_exit(&mut self.counters, &exit, life, self.now, policy, self.chance) {
            Verdict::StayStopped => self.rest(Some(exit)),
            Verdict::GiveUp(reason) => {
                self.report(Report::GaveUp { reason, exit: exit.clone() });
                State::Failed { reason, last_exit: exit }
            }
            Verdict::Again { attempt, delay } => {
                self.report(Report::RestartScheduled { attempt, delay, exit: exit.clone() });
                if delay.is_zero() {
                    self.respawn()
                } else {
                    State::Backoff { attempt, start_at: self.now + delay, last_exit: exit }
                }
            }
        }
    }

    /// How to judge the life that ends now.
    pub(super) fn life(&self, started: Time, exit: &Exit) -> Life {
        let botched = match exit {
            Exit::SpawnFailed(_) => true,
            Exit::Code(_) | Exit::Signal(_) => false,
        };
        Life { uptime: self.now.since(started), botched }
    }

    pub(super) fn report_exit(&mut self, generation: Generation, started: Time, exit: &Exit) {
        self.report_end(generation, started, exit, false);
    }

    /// The same; `asked` is whether a command has ended it.
    pub(super) fn report_end(&mut self, generation: Generation, started: Time, exit: &Exit, asked: bool) {
        let uptime = self.now.since(started);
        self.report(Report::Exited { generation, exit: exit.clone(), uptime, asked });
    }

    /// Answers all commands that wait for a serving process: there will be none.
    pub(super) fn answer_failed(&mut self, fault: &Fault) {
        self.answer(|verb| match verb {
            Verb::Start | Verb::Restart | Verb::Replace => Some(Outcome::Failed(fault.clone())),
            Verb::Stop | Verb::Delete | Verb::Retire => None,
        });
    }
}

/// Converts a leaving process's action to an action of the slot.
fn leaving_action(generation: Generation, action: leaving::Action) -> impl Iterator<Item = Action> {
    let (action, report) = match action {
        leaving::Action::Drain => (Some(Action::Drain(generation)), None),
        leaving::Action::Signal => (Some(Action::Signal(generation)), None),
        leaving::Action::Kill => {
            (Some(Action::Kill(generation)), Some(Action::Report(Report::Killed(generation))))
        }
        leaving::Action::Gone => (None, None),
    };
    action.into_iter().chain(report)
}
