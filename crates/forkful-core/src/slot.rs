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

/// Commands that may wait for their answer at one slot; more are refused at once. Each client
/// waits for its own, so this is a bound on clients that insist on the same slot.
pub const WAITING_MAX: usize = 64;

/// How long the hello of a process that greets is waited for. Node.js takes 0.03 s to get there on an idle machine, and
/// seconds on one that is doing much else; without a hello the process counts as one that does not greet.
pub const GREETING_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a program that compiles the app before it runs it is waited for, unless it listens earlier. ts-node takes 2 to
/// 6 s with a small app.
pub const COMPILE_TIMEOUT: Duration = Duration::from_secs(10);

/// Which start of a slot a process belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Generation(pub u32);

/// The number of a slot in its app, 0 to n−1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SlotNumber(pub u16);

/// Names a command, so that its answer finds it. The driver chooses it; one ticket may go to
/// several slots, and each of them answers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Ticket(pub u64);

/// A slot: its state, its memory, the processes that are leaving it, and who waits for it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Slot {
    /// What the slot does now.
    pub state: State,
    pub counters: Counters,
    /// Processes that have lost the slot but not yet exited.
    pub leaving: Vec<Leaver>,
    /// The current process, when it has closed its channel though nobody told it to: it cannot serve any more.
    pub disconnected: Option<Leaver>,
    /// Commands without an answer so far.
    pub waiting: Vec<Waiting>,
}

/// What a slot does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// No process, and none wanted.
    Stopped {
        /// How the last process ended.
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
        /// Serves until the new one is ready, and on if that never is.
        old: Running,
        new: Generation,
        /// When the successor was started.
        new_started: Time,
        /// When waiting for the successor ends.
        ready_by: Time,
    },
    /// A process has been told to end.
    Stopping {
        generation: Generation,
        /// When it was started.
        started: Time,
        /// What follows its exit.
        why: StopReason,
        /// How far it has been pushed.
        push: Push,
    },
    /// No process until the pause is over.
    Backoff {
        /// 1 for the first restart in a row.
        attempt: u32,
        /// When the pause ends.
        start_at: Time,
        /// How the last process ended.
        last_exit: Exit,
    },
    /// Given up; only a command starts it again.
    Failed {
        reason: FailReason,
        /// How the last process ended.
        last_exit: Exit,
    },
}

/// A process that serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    pub generation: Generation,
    /// When it was started; uptime counts from here.
    pub started: Time,
    /// When it went online.
    pub since: Time,
    /// Whether it said that it is ready. False when it went online only because the bound passed:
    /// an app that never listens may be a queue worker. Traffic is open exactly when this is true.
    pub confirmed: bool,
}

/// How far a stopping process has been pushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Push {
    /// Has got the stop signal.
    Signalled {
        /// When SIGKILL follows.
        kill_at: Time,
    },
    /// Has got SIGKILL.
    Killed,
}

/// What follows the exit of a stopping process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    Stop,
    /// Nothing, and the slot goes away.
    Delete,
    Restart,
    /// The same as a crash: it was not ready in time.
    NotReady {
        /// How long it was given.
        waited: Duration,
    },
}

/// Why a slot was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FailReason {
    /// Too many unstable exits.
    CrashLoop {
        /// How many there were.
        count: u32,
        /// Within which time.
        window: Duration,
    },
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    Signal(i32),
    /// It never ran; the text says why.
    SpawnFailed(String),
}

/// A process that has lost the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leaver {
    pub generation: Generation,
    /// How far it has been pushed.
    pub state: leaving::State,
}

/// A command without an answer so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    pub ticket: Ticket,
    pub verb: Verb,
}

/// What somebody may ask of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verb {
    /// Have a process; nothing to do when there is one.
    Start,
    /// Have no process.
    Stop,
    /// Have a new process, the old one ending first.
    Restart,
    /// Have no process, and take no further command.
    Delete,
    /// The same, once the process has finished what it has: a scale-down.
    Retire,
    /// Have a new process, the old one serving until the new one is ready. A slot without a serving
    /// process starts one.
    Replace,
}

/// What happens to a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Somebody asks for something.
    Command(Verb, Ticket),
    /// The process could not be started; the text says why. Stands in place of its exit.
    SpawnFailed(Generation, String),
    /// The start of a process that had to wait begins only now, or not before this time: it has as long from there as it
    /// had from [`Action::Spawn`].
    Begun(Generation, Time),
    /// A process that can serve has something to do before it is ready: it is waited for until this time at least.
    Awaited(Generation, Time),
    /// A process says hello: the app's own code begins.
    Greeted(Generation),
    /// The process says that it can serve.
    Ready(Generation, ReadySign),
    /// A leaving process has nothing left to finish.
    Drained(Generation),
    /// A process has closed its channel.
    Disconnected(Generation),
    /// The process and its tree are gone.
    Exited(Generation, Exit),
    /// Time has passed. Harmless when it comes early or twice.
    Deadline,
    /// Zero the counters.
    Reset,
}

/// How a process said that it can serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReadySign {
    Listening,
    /// It sent `'ready'`; the only sign that counts with `wait_ready`.
    Message,
}

/// What a driver is to do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Start a process under this generation.
    Spawn(Generation),
    /// Send the first signal of the stop policy to its process tree.
    Signal(Generation),
    /// Send SIGKILL to its process tree.
    Kill(Generation),
    /// It may get new connections.
    OpenTraffic(Generation),
    /// It gets no new connections; its queue is to be emptied by others.
    CloseTraffic(Generation),
    /// Disconnect it, so that it ends when its last request is done.
    Drain(Generation),
    /// Send [`Event::Deadline`] at this time, in place of any earlier wish.
    Wake(Time),
    /// A report for clients that watch; there may be none.
    Report(Report),
    /// Answer a command.
    Answer(Ticket, Outcome),
}

/// The parts of an [`AppSpec`] that decide what a slot does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// What follows an exit.
    pub restart: RestartPolicy,
    /// When a worker counts as ready.
    pub readiness: Readiness,
    /// How a worker is asked to leave.
    pub stop: StopPolicy,
    /// Whether workers announce that they listen.
    pub mode: Mode,
    /// Whether a process says hello before it runs the app: Node.js with the agent.
    pub greets: bool,
    /// Whether the app is compiled before it runs, so that a process that lives has not proven anything yet.
    pub compiles: bool,
}

impl Policy {
    /// The policy of an app.
    pub fn of(spec: &AppSpec) -> Self {
        Self {
            restart: spec.restart.clone(),
            readiness: spec.readiness,
            stop: spec.stop,
            mode: spec.mode,
            greets: spec.agent && spec.launch.runtime == Runtime::Node,
            compiles: spec.launch.compiles_first(),
        }
    }

    /// Whether readiness is announced by the process, rather than seen from its staying alive.
    pub fn announces(&self) -> bool {
        self.mode == Mode::Cluster || self.readiness.wait_ready
    }

    /// How long a process has to stay alive, from its start, before it counts as serving though it announces nothing. One
    /// that greets has its time from its hello on, and this is the bound on waiting for that.
    pub fn quiet_start(&self) -> Duration {
        let alive = self.proving_time();
        if self.greets { alive + GREETING_TIMEOUT } else { alive }
    }

    /// How long a process has to stay alive from where its own code may have begun.
    pub(crate) fn proving_time(&self) -> Duration {
        let alive = self.restart.min_uptime;
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

/// One step of a slot. `chance` is uniform in 0..1.
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
    /// A slot whose program has done its work under an earlier daemon.
    pub fn finished() -> Self {
        Self { state: State::Stopped { last_exit: Some(Exit::Code(0)) }, ..Self::default() }
    }

    /// Whether its program has done its work for good, see [`restart::stays_finished`].
    pub fn stays_finished(&self, policy: &RestartPolicy) -> bool {
        match &self.state {
            State::Stopped { last_exit } => restart::stays_finished(last_exit.as_ref(), policy),
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

    /// The process that the user means by "the worker of this slot".
    pub fn current(&self) -> Option<Generation> {
        match &self.state {
            State::Starting { generation, .. } | State::Stopping { generation, .. } => Some(*generation),
            State::Online(running) | State::Replacing { old: running, .. } => Some(running.generation),
            State::Stopped { .. } | State::Backoff { .. } | State::Failed { .. } => None,
        }
    }

    /// Whether the slot goes away when its processes have.
    pub fn is_going(&self) -> bool {
        self.waiting.iter().any(|waiting| matches!(waiting.verb, Verb::Delete | Verb::Retire))
    }

    /// Every process that the slot holds: the current one, its successor, and those leaving.
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

    /// Exits in a row that nobody asked for and after which it was started again; 0 once a process has lived for
    /// [`STABLE_LIFE`](crate::restart::STABLE_LIFE), and when none is wanted.
    pub fn crashes_in_a_row(&self, now: Time) -> u32 {
        let is_settled = match &self.state {
            State::Online(running) | State::Replacing { old: running, .. } => {
                now.since(running.started) >= crate::restart::STABLE_LIFE
            }
            State::Stopped { .. } | State::Stopping { .. } => true,
            State::Starting { .. } | State::Backoff { .. } | State::Failed { .. } => false,
        };
        if is_settled { 0 } else { self.counters.in_a_row }
    }

    /// Whether nothing runs and nothing is planned.
    pub fn is_at_rest(&self) -> bool {
        matches!(self.state, State::Stopped { .. } | State::Failed { .. }) && self.leaving.is_empty()
    }
}

impl Default for State {
    fn default() -> Self {
        Self::Stopped { last_exit: None }
    }
}
