//! The machine of one slot: everything that may live in it, and what each event means.
//!
//! A driver owns one [`Slot`] per place of an app, feeds it [`Event`]s one at a time, and performs
//! the [`Action`]s in order, before it feeds the next. The machine knows processes only by their
//! [`Generation`]; the driver keeps the table from generation to pid.
//!
//! ```text
//!            Start                 Ready / bound passed
//! Stopped ──────────▶ Starting ──────────────────────▶ Online ◀──────────┐
//!    ▲                 ▲   │ exit                exit │  │  ▲ Replace      │ new one failed
//!    │ exit            │   ▼                          ▼  │  └──────▶ Replacing
//! Stopping ◀─ Stop ─── Backoff ◀──── crash ───────────┘  └─ Stop ─▶ Stopping
//!                          └──── too many ──▶ Failed
//! ```
//!
//! Contracts, each held by the property tests:
//! - every command is answered by exactly one [`Action::Answer`] with its [`Ticket`];
//! - every [`Action::Spawn`] is followed by exactly one exit event from the driver
//!   ([`Event::Exited`] or [`Event::SpawnFailed`]), and until then the slot keeps the process in its
//!   state or among [`Slot::leaving`];
//! - every [`Action::OpenTraffic`] is followed by one [`Action::CloseTraffic`] of that generation,
//!   at the latest when it exits;
//! - at most one process is current, two while replacing; all others are leaving;
//! - an event about a generation that the slot does not hold is dropped.

mod clock;
mod own_socket;
mod report;
mod states;
mod text;
mod turn;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::restart::{self, Counters};
use crate::spec::{AppSpec, Mode, Readiness, RestartPolicy, Runtime, StopPolicy};
use crate::{Time, leaving};
use turn::Turn;

pub use own_socket::OwnSocket;
pub use report::{Fault, Outcome, Report};

/// Maximum commands that may wait for their answer at one slot; more are refused immediately. Each client
/// waits for its own command, so this limits the clients that use the same slot at the same time.
pub const WAITING_MAX: usize = 64;

/// How long to wait for the hello of a process that sends one. Node.js needs 0.03 s on an idle machine, and
/// seconds on a busy one; without a hello the process counts as one that does not send it.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long to wait for a program that compiles the app before running it, unless it listens earlier. ts-node
/// takes 2 to 6 s for a small app.
pub const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

/// The longest time that a process which reports nothing has to stay alive to count as serving. A longer
/// `min_uptime` only says which exits are unstable: it would otherwise delay each start and reload.
pub const PROVING_MAX: Duration = Duration::from_secs(3);

/// Identifies a process by the number of its start in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u32);

/// The number of a slot in its app, 0 to n−1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotNumber(pub u16);

/// Identifies a command, to match its answer. The driver chooses it; one ticket may go to several slots, and
/// each of them answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// A slot: its state, its memory, its leaving processes, and the waiting commands.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slot {
    /// The current state.
    pub state: State,
    pub counters: Counters,
    /// Processes that are no longer current but have not exited yet.
    pub leaving: Vec<Leaver>,
    /// The current process, if it closed its channel by itself: it can no longer serve.
    pub disconnected: Option<Leaver>,
    /// Commands without an answer yet.
    pub waiting: Vec<Waiting>,
}

/// The states of a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// No process, and none wanted.
    Stopped {
        /// How the last process ended by itself; `None` if no process ran, or a command has stopped the slot.
        last_exit: Option<Exit>,
    },
    /// A process runs that is not ready yet.
    Starting {
        generation: Generation,
        /// When it was started.
        started: Time,
        /// When waiting for readiness ends.
        ready_by: Time,
    },
    Online(Running),
    /// A process serves while its successor starts.
    Replacing {
        /// It serves until the new process is ready, and continues if that never happens.
        old: Running,
        new: Generation,
        /// When the successor was started.
        new_started: Time,
        /// When waiting for the successor ends.
        ready_by: Time,
    },
    /// A process was asked to stop.
    Stopping {
        generation: Generation,
        /// When it was started.
        started: Time,
        /// What follows its exit.
        why: StopReason,
        /// How far the stop has progressed.
        push: Push,
    },
    /// No process runs until the delay has passed.
    Backoff {
        /// 1 for the first restart in a row.
        attempt: u32,
        /// When the delay ends.
        start_at: Time,
        /// How the last process ended.
        last_exit: Exit,
    },
    /// The slot was given up; only a command starts it again.
    Failed {
        reason: FailReason,
        /// How the last process ended.
        last_exit: Exit,
    },
}

/// A serving process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub generation: Generation,
    /// When it was started; uptime counts from here.
    pub started: Time,
    /// When it went online.
    pub since: Time,
    /// Whether it has confirmed that it is ready. False if it went online only because the time limit passed:
    /// an app that never listens may be a queue worker. Traffic is open exactly when this is true.
    pub confirmed: bool,
}

/// How far a stop has progressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Push {
    /// The stop signal was sent.
    Signalled {
        /// When SIGKILL follows.
        kill_at: Time,
    },
    /// SIGKILL was sent.
    Killed,
}

/// What follows the exit of a stopping process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    Stop,
    /// The slot is deleted.
    Delete,
    Restart,
    /// Like a crash: it was not ready in time.
    NotReady {
        /// How long the slot waited for it.
        waited: Duration,
    },
}

/// Why a slot was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailReason {
    /// Too many unstable exits.
    CrashLoop {
        /// Their number.
        count: u32,
        /// The time window.
        window: Duration,
    },
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// It exited with this code.
    Code(i32),
    Signal(i32),
    /// It could not be started; the text has the reason.
    SpawnFailed(String),
}

impl Exit {
    /// It ended, and how is not known: another process has reaped it. No process has this code, which fits in a byte, and
    /// every version reads it.
    pub const UNKNOWN: Self = Self::Code(-1);
}

/// A process that is no longer current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaver {
    pub generation: Generation,
    /// How far its stop has progressed.
    pub state: leaving::State,
}

/// A command without an answer yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub ticket: Ticket,
    pub verb: Verb,
}

/// The commands of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Have a process; no effect if there is one.
    Start,
    /// Have no process.
    Stop,
    /// Have a new process; the old one ends first.
    Restart,
    /// Have no process, and accept no further command.
    Delete,
    /// Like `Delete`, after the process has finished its work: a scale-down.
    Retire,
    /// Have a new process; the old one serves until the new one is ready. A slot without a serving process
    /// starts one.
    Replace,
}

/// Events of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A command.
    Command(Verb, Ticket),
    /// The process could not be started; the text has the reason. Replaces the event of its exit.
    SpawnFailed(Generation, String),
    /// The start of a delayed process begins now, or not before this time: it has the same time from there as
    /// from [`Action::Spawn`].
    Begun(Generation, Time),
    /// A process that can serve has something to do before it is ready: wait for it at least until this time.
    Awaited(Generation, Time),
    /// A process sent its hello: the app's own code begins.
    Greeted(Generation),
    /// The process reports that it can serve.
    Ready(Generation, ReadySign),
    /// A leaving process has finished its work.
    Drained(Generation),
    /// A process has closed its channel.
    Disconnected(Generation),
    /// The process and its tree are gone.
    Exited(Generation, Exit),
    /// Time has passed. Harmless if it comes early or twice.
    Deadline,
    /// Reset the counters to zero.
    Reset,
}

/// How a process reported that it can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadySign {
    Listening,
    /// It sent `'ready'`; with `wait_ready` only this counts.
    Message,
}

/// Actions for the driver, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start a process with this generation.
    Spawn(Generation),
    /// Send the first signal of the stop policy to its process tree.
    Signal(Generation),
    /// Send SIGKILL to its process tree.
    Kill(Generation),
    /// It may get new connections.
    OpenTraffic(Generation),
    /// It gets no new connections; others must empty its queue.
    CloseTraffic(Generation),
    /// Disconnect it, so that it exits when its last request is done.
    Drain(Generation),
    /// Send [`Event::Deadline`] at this time, replacing any earlier time.
    Wake(Time),
    /// A report for watching clients, if any.
    Report(Report),
    /// Answer a command.
    Answer(Ticket, Outcome),
}

/// The parts of an [`AppSpec`] that affect a slot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What follows an exit.
    pub restart: RestartPolicy,
    /// When a worker counts as ready.
    pub readiness: Readiness,
    /// How a worker is asked to leave.
    pub stop: StopPolicy,
    /// Whether workers report that they listen.
    pub mode: Mode,
    /// Whether a process sends a hello before it runs the app: Node.js with the agent.
    pub greets: bool,
    /// Whether the app is compiled before it runs; then a running process proves nothing yet.
    pub compiles: bool,
}

impl Policy {
    /// The policy of an app.
    pub fn of(spec: &AppSpec) -> Self {
        Self {
            restart: RestartPolicy { window: spec.unstable_window(), ..spec.restart.clone() },
            readiness: spec.readiness,
            stop: spec.stop,
            mode: spec.mode,
            greets: spec.agent && spec.launch.runtime == Runtime::Node,
            compiles: spec.launch.compiles_first(),
        }
    }

    /// Whether the process reports its readiness, instead of being ready after staying alive for some time.
    pub fn announces(&self) -> bool {
        self.mode == Mode::Cluster || self.readiness.wait_ready
    }

    /// How long a process that reports nothing has to stay alive, from its start, to count as serving. For a
    /// process that sends a hello, the time counts from its hello, and this limits the wait for that.
    pub fn quiet_start(&self) -> Duration {
        let alive = self.proving_time();
        if self.greets { alive + GREETING_TIMEOUT } else { alive }
    }

    /// How long a process has to stay alive from the possible start of its own code.
    pub(crate) fn proving_time(&self) -> Duration {
        let alive = self.restart.min_uptime.min(PROVING_MAX);
        if self.compiles { alive.max(COMPILE_TIMEOUT) } else { alive }
    }

    /// Whether this sign makes a worker ready.
    pub fn accepts(&self, sign: ReadySign) -> bool {
        match sign {
            ReadySign::Message => true,
            ReadySign::Listening => !self.readiness.wait_ready,
        }
    }
}

/// Handles one event of a slot. `chance` is uniform in 0..1.
#[must_use]
pub fn step(slot: Slot, event: Event, now: Time, policy: &Policy, chance: f64) -> (Slot, Vec<Action>) {
    let Slot { state, counters, leaving, disconnected, waiting } = slot;
    let mut turn =
        Turn { now, policy, chance, counters, leaving, disconnected, waiting, actions: Vec::new() };
    let state = turn.take(state, event);
    turn.answer_closed(&state);
    let Turn { counters, leaving, disconnected, waiting, mut actions, .. } = turn;
    let disconnected = disconnected.filter(|leaver| state.holds(leaver.generation));
    let slot = Slot { state, counters, leaving, disconnected, waiting };
    if let Some(at) = slot.next_deadline() {
        actions.push(Action::Wake(at));
    }
    (slot, actions)
}

impl Slot {
    /// A slot whose program had finished under an earlier daemon.
    pub fn finished() -> Self {
        Self { state: State::Stopped { last_exit: Some(Exit::Code(0)) }, ..Self::default() }
    }

    /// Whether its program has finished for good, see [`restart::stays_finished`].
    pub fn stays_finished(&self, policy: &RestartPolicy) -> bool {
        self.rests_after(|exit| restart::stays_finished(exit, policy))
    }

    /// Whether its program has asked to stay stopped, see [`restart::has_asked_to_stop`].
    pub fn has_asked_to_stop(&self, policy: &RestartPolicy) -> bool {
        self.rests_after(|exit| restart::has_asked_to_stop(exit, policy))
    }

    fn rests_after(&self, holds: impl FnOnce(Option<&Exit>) -> bool) -> bool {
        match &self.state {
            State::Stopped { last_exit } => holds(last_exit.as_ref()),
            State::Starting { .. }
            | State::Online(_)
            | State::Replacing { .. }
            | State::Stopping { .. }
            | State::Backoff { .. }
            | State::Failed { .. } => false,
        }
    }

    /// [`step`] in place.
    #[must_use]
    pub fn apply(&mut self, event: Event, now: Time, policy: &Policy, chance: f64) -> Vec<Action> {
        let (slot, actions) = step(std::mem::take(self), event, now, policy, chance);
        *self = slot;
        actions
    }

    /// The process that users call "the worker of this slot".
    pub fn current(&self) -> Option<Generation> {
        match &self.state {
            State::Starting { generation, .. } | State::Stopping { generation, .. } => Some(*generation),
            State::Online(running) | State::Replacing { old: running, .. } => Some(running.generation),
            State::Stopped { .. } | State::Backoff { .. } | State::Failed { .. } => None,
        }
    }

    /// Whether the slot is removed when its processes have exited.
    pub fn is_going(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting.verb, Verb::Delete | Verb::Retire))
    }

    /// Every process of the slot: the current one, its successor, and the leaving ones.
    pub fn generations(&self) -> impl Iterator<Item = Generation> + '_ {
        let successor = match &self.state {
            State::Replacing { new, .. } => Some(*new),
            State::Stopped { .. }
            | State::Starting { .. }
            | State::Online(_)
            | State::Stopping { .. }
            | State::Backoff { .. }
            | State::Failed { .. } => None,
        };
        let leaving = self.leaving.iter().map(|leaver| leaver.generation);
        self.current().into_iter().chain(successor).chain(leaving)
    }

    /// Whether this process is leaving because another process replaces it.
    pub fn is_leaving(&self, generation: Generation) -> bool {
        self.leaving.iter().any(|leaver| leaver.generation == generation)
    }

    /// Unexpected exits in a row; 0 after a process has lived for [`STABLE_LIFE`](crate::restart::STABLE_LIFE), and if no
    /// process is wanted.
    pub fn crashes_in_a_row(&self, now: Time) -> u32 {
        let is_settled = match &self.state {
            State::Online(running) | State::Replacing { old: running, .. } => {
                now.since(running.started) >= crate::restart::STABLE_LIFE
            }
            State::Stopped { .. } | State::Stopping { .. } => true,
            State::Starting { .. } | State::Backoff { .. } => false,
            // The counter has those after which it was restarted.
            State::Failed { .. } => return self.counters.in_a_row.saturating_add(1),
        };
        if is_settled { 0 } else { self.counters.in_a_row }
    }

    /// Whether no process runs. One may be planned: the slot waits to start it again.
    pub fn has_no_process(&self) -> bool {
        let is_waiting = matches!(self.state, State::Backoff { .. }) && self.leaving.is_empty();
        is_waiting || self.is_at_rest()
    }

    /// Whether no process runs and nothing is planned.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Stopped { .. } | State::Failed { .. }) && self.leaving.is_empty()
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Stopped { last_exit: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_waits_for_its_restart_has_no_process_and_is_not_at_rest() {
        let slot = |state| Slot { state, ..Slot::default() };
        let (now, generation) = (Time::default(), Generation(1));
        let waiting = slot(State::Backoff { attempt: 1, start_at: now, last_exit: Exit::Code(1) });
        let starting = slot(State::Starting { generation, started: now, ready_by: now });
        let facts = |slot: &Slot| (slot.has_no_process(), slot.is_at_rest());
        assert_eq!(facts(&waiting), (true, false));
        assert_eq!(facts(&Slot::default()), (true, true));
        assert_eq!(facts(&starting), (false, false));
    }
}
