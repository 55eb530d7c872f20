//! The keeper's decisions, without system calls: a state, events, and the resulting actions.

use std::time::Duration;

use forkful_os::keeper::{End, Frame, Kind, Name, Text, Update};

use crate::table::Table;

/// After this number of deaths within [`DEATHS_WITHIN`], the next daemon is started when a client connects,
/// or after [`RETRY_PAUSE`].
pub const DEATHS_MAX: usize = 5;
/// See [`DEATHS_MAX`].
pub const DEATHS_WITHIN: Duration = Duration::from_secs(10);
/// After that, a daemon is started anyway: if the daemon hands connections over, apps do not serve without
/// it.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// The pause after a failed start, for example at a limit of processes: the cause is the system, not the daemon.
pub const START_PAUSE: Duration = Duration::from_secs(1);
/// Minimum time between two daemons that are started because a client has connected.
pub const VISIT_PAUSE: Duration = Duration::from_secs(2);

/// A daemon that leaves this number of consecutive checks unanswered counts as hung. Checks are counted, not
/// seconds: on a machine that was frozen or asleep the keeper was frozen too, and made no checks. Between two
/// checks only the time counts in which the daemon did not wait for a core: on an overloaded machine it is
/// slow, and the next daemon would be no faster.
pub const LOOKS: u32 = 2;
/// If a daemon of another program dies within this time, a daemon of the previous program replaces it; if it
/// lives and serves then, its program has passed the trial.
pub const TRIAL: Duration = Duration::from_secs(5);

const SIGKILL: i32 = 9;
/// The exit code after a panic that did not abort.
const PANICKED: i32 = 101;
/// The termination signals: SIGINT, SIGQUIT and SIGTERM.
const ENDS: [i32; 3] = [2, 3, 15];

/// Actions of the loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Reap this child.
    Reap(u32),
    /// Send [`Frame::Ended`] for this child.
    Answer(u32),
    /// Notify the service manager.
    Tell(Text),
    /// Let the service manager keep the socket at this place over a restart of this process.
    Store(u32),
    /// Forward this signal to the daemon.
    Signal(i32),
    /// The daemon hangs: kill it.
    Kill,
    /// End by this signal.
    End(i32),
    /// Become the daemon's program.
    Become,
}

/// What follows a daemon's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Start another daemon.
    Start,
    /// Continue without a daemon until a client connects.
    Without,
    /// End with its exit code.
    End,
}

/// A frame to send, and its descriptor.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing<'a, D> {
    pub frame: Frame,
    pub descriptor: Option<&'a D>,
}

/// The progress of the handover to the current daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It gets everything, beginning with a greeting.
    Greeting,
    /// Next it gets the descriptors from this place on.
    Handing(u32),
    /// It has everything.
    Serving,
    /// It ends on purpose; and whether it was told that everything was released.
    Leaving { told: bool },
    /// There is no daemon.
    Without,
}

/// A daemon of another program that replaces the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It was requested; the current daemon has this time to end.
    Ordered { by: Duration },
    /// Its first daemon has this time for its trial.
    Trial { until: Duration },
    /// The daemon serves, and has this time to answer a check: its event loop may have stopped since.
    Asked { until: Duration },
    /// It was given up.
    Undone,
    /// It is the program of all daemons from now on.
    Proved,
}

/// See the module's documentation. Times have an arbitrary start.
#[derive(Debug)]
pub struct Keeper<D> {
    pub table: Table<D>,
    phase: Phase,
    /// This process's id.
    own: u32,
    /// When the last daemons ended, in a ring.
    deaths: [Option<Duration>; DEATHS_MAX],
    /// Total number of ended daemons.
    died: usize,
    /// Number of daemons that ended by a fault since a daemon last served.
    died_in_a_row: u32,
    /// When the last start of a daemon failed; `None` if it succeeded.
    refused: Option<Duration>,
    last_end: End,
    /// A child has ended, and the daemon was not told yet.
    owes_child: bool,
    /// When a client last caused a daemon to be started.
    visited: Option<Duration>,
    /// The daemon has reported that it serves: from then on a signal does not kill it.
    serves: bool,
    /// A signal for it that arrived before that.
    signal: Option<i32>,
    /// A signal has requested the end, perhaps because a service is restarted.
    ends: bool,
    /// The daemons' program, if it is another than this process's.
    program: Option<D>,
    /// The progress of the last update.
    update: Option<Step>,
    watchdog: Watchdog,
}

/// Whether the daemon's event loop runs.
#[derive(Debug, Default)]
struct Watchdog {
    /// The interval of checks; `None`: no checks.
    every: Option<Duration>,
    /// When to check next.
    next: Duration,
    /// How long the daemon has left checks unanswered, without the time in which it waited for a core;
    /// `None`: it has answered all.
    stood: Option<Duration>,
    /// How long it had waited for a core at the last check.
    waited: Duration,
    /// A check that was not sent to the daemon yet.
    owes_look: bool,
}

impl<D> Keeper<D> {
    pub fn new(own: u32) -> Self {
        Self {
            watchdog: Watchdog::default(),
            table: Table::default(),
            phase: Phase::Without,
            own,
            deaths: [None; DEATHS_MAX],
            died: 0,
            died_in_a_row: 0,
            refused: None,
            last_end: End::Unknown,
            owes_child: false,
            visited: None,
            serves: false,
            signal: None,
            ends: false,
            program: None,
            update: None,
        }
    }

    /// A keeper that continues from a keeper of another program, while the daemon serves.
    pub fn resume(own: u32, table: Table<D>) -> Self {
        // A child may have ended meanwhile.
        Self { table, phase: Phase::Serving, serves: true, owes_child: true, ..Self::new(own) }
    }

    /// The program of new daemons, if it is another than this process's.
    pub fn program(&self) -> Option<&D> {
        self.program.as_ref()
    }

    /// From now on, a daemon whose event loop is blocked for this long is killed.
    pub fn watch(&mut self, patience: Duration) {
        self.watchdog.every = Some(patience / LOOKS);
    }

    /// Time until the daemon is checked; `None` without checks.
    pub fn looks_in(&self, now: Duration) -> Option<Duration> {
        let looks = self.watchdog.every.is_some() && self.serves && self.phase == Phase::Serving;
        looks.then(|| self.watchdog.next.saturating_sub(now))
    }

    /// Checks the daemon, if it is time. `waited` is how long it has waited for a core since its start.
    pub fn on_look(&mut self, now: Duration, waited: Duration) -> Action {
        if self.looks_in(now) != Some(Duration::ZERO) {
            return Action::Nothing;
        }
        let watchdog = &mut self.watchdog;
        let every = watchdog.every.unwrap_or_default();
        watchdog.next = now + every;
        let since_last = waited.saturating_sub(watchdog.waited);
        watchdog.waited = waited;
        if let Some(stood) = &mut watchdog.stood {
            *stood += every.saturating_sub(since_last);
            if *stood >= every * LOOKS {
                return Action::Kill;
            }
        } else {
            watchdog.stood = Some(Duration::ZERO);
        }
        watchdog.owes_look = true;
        Action::Nothing
    }

    /// A daemon was started.
    pub fn on_start(&mut self) {
        self.watchdog =
            Watchdog { every: self.watchdog.every, next: self.watchdog.next, ..Watchdog::default() };
        self.phase = Phase::Greeting;
        self.serves = false;
        self.refused = None;
        // It finds out itself which children have ended meanwhile.
        self.owes_child = false;
    }

    /// A frame of the daemon.
    pub fn on_frame(&mut self, frame: Frame, descriptor: Option<D>, now: Duration) -> Action {
        match frame {
            Frame::Keep { place, name } => {
                let Some(descriptor) = descriptor else { return Action::Nothing };
                self.table.keep(place, name, descriptor);
                if is_stored(name) { Action::Store(place) } else { Action::Nothing }
            }
            Frame::Drop { place } => {
                self.table.drop(place);
                Action::Nothing
            }
            Frame::Reap { pid } => Action::Reap(pid),
            Frame::Ask { pid } => Action::Answer(pid),
            Frame::Tell { text } => Action::Tell(text),
            Frame::Update => {
                if descriptor.is_some() {
                    (self.program, self.update) = (descriptor, Some(Step::Ordered { by: now + TRIAL }));
                }
                Action::Nothing
            }
            // If a new program's daemon gives up before it serves, nothing is released.
            Frame::Leave if !self.serves && matches!(self.update, Some(Step::Trial { .. })) => {
                Action::Signal(SIGKILL)
            }
            Frame::Leave => {
                // The home is this daemon's until it has ended: the lock names the keeper as its holder.
                self.table.close_all_but(Kind::Lock);
                self.phase = Phase::Leaving { told: false };
                Action::Nothing
            }
            Frame::Serves => {
                self.died_in_a_row = 0;
                self.serves = true;
                self.signal.take().map_or(Action::Nothing, Action::Signal)
            }
            Frame::Turns => {
                self.watchdog.stood = None;
                if let Some(Step::Asked { .. }) = self.update {
                    self.update = Some(Step::Proved);
                    return Action::Become;
                }
                Action::Nothing
            }
            // Only a keeper sends these.
            Frame::Hello { .. }
            | Frame::Kept { .. }
            | Frame::Done
            | Frame::Ended { .. }
            | Frame::Child
            | Frame::Look => Action::Nothing,
        }
    }

    /// What the service manager should keep of the previous keeper's descriptors.
    pub fn to_store(&self) -> impl Iterator<Item = &D> {
        self.table.all().filter(|(name, _)| is_stored(*name)).map(|(_, descriptor)| descriptor)
    }

    /// What the service manager should remove after this frame. Sockets that are closed because the service
    /// ends stay: the manager closes them itself unless it starts the service again.
    pub fn forgets(&self, frame: &Frame) -> Option<&D> {
        let Frame::Drop { place } = frame else { return None };
        let (name, descriptor) = self.table.at(*place)?;
        (is_stored(name) && !self.ends).then_some(descriptor)
    }

    /// A signal for the daemon has arrived. It gets the signal when it serves: before, a signal would kill
    /// it, and the next daemon would not know of it. A daemon that is being replaced leaves the signal to its
    /// successor. A signal that asks for the end goes to each next daemon too, until a daemon leaves: the daemon that got it may
    /// hang.
    pub fn on_signal(&mut self, signal: i32) -> Action {
        let makes_way = matches!(self.update, Some(Step::Ordered { .. }));
        self.ends |= ENDS.contains(&signal);
        match self.phase {
            Phase::Without if ENDS.contains(&signal) => Action::End(signal),
            _ if self.serves && !makes_way && self.phase != Phase::Without => {
                if ENDS.contains(&signal) {
                    self.signal = Some(signal);
                }
                Action::Signal(signal)
            }
            // What asks for the end is not forgotten for another signal.
            _ if ENDS.contains(&signal) || self.signal.is_none() => {
                self.signal = Some(signal);
                Action::Nothing
            }
            _ => Action::Nothing,
        }
    }

    /// A child has ended.
    pub fn on_child(&mut self) {
        self.owes_child = true;
    }

    /// The daemon has ended, or could not be started.
    pub fn on_end(&mut self, end: End, now: Duration) -> After {
        if matches!(self.phase, Phase::Leaving { .. }) {
            return After::End;
        }
        self.phase = Phase::Without;
        self.last_end = end;
        match self.update {
            Some(Step::Ordered { .. }) => {
                self.update = Some(Step::Trial { until: now + TRIAL });
                return After::Start;
            }
            Some(Step::Trial { .. } | Step::Asked { .. }) => {
                (self.program, self.update) = (None, Some(Step::Undone));
                self.died_in_a_row = 1;
                return After::Start;
            }
            Some(Step::Undone) => self.update = None,
            Some(Step::Proved) | None => {}
        }
        self.deaths[self.died % DEATHS_MAX] = Some(now);
        self.died += 1;
        self.died_in_a_row += u32::from(is_fault(end));
        let too_many = self.died >= DEATHS_MAX
            && self.first_of_last().is_some_and(|at| now.saturating_sub(at) < DEATHS_WITHIN);
        if !too_many {
            After::Start
        } else if self.keeps_nothing() {
            After::End
        } else {
            After::Without
        }
    }

    /// Whether the last start of a daemon failed.
    pub fn is_refused(&self) -> bool {
        self.refused.is_some()
    }

    /// A daemon could not be started. The written-down state is not to blame, so it is kept for the next daemon.
    pub fn on_refused(&mut self, now: Duration) -> After {
        self.phase = Phase::Without;
        if let Some(Step::Ordered { .. } | Step::Trial { .. } | Step::Asked { .. }) = self.update {
            (self.program, self.update) = (None, Some(Step::Undone));
            return After::Start;
        }
        self.refused = Some(now);
        if self.keeps_nothing() { After::End } else { After::Without }
    }

    /// Whether nothing is lost with the keeper: no app runs, and no client can connect.
    fn keeps_nothing(&self) -> bool {
        self.table.of_kind(Kind::Process).is_none() && self.table.of_kind(Kind::Api).is_none()
    }

    /// Time until [`Self::on_update_due`]; `None` if there is nothing to wait for.
    pub fn update_due_in(&self, now: Duration) -> Option<Duration> {
        match self.update? {
            Step::Ordered { by: due } | Step::Trial { until: due } | Step::Asked { until: due } => {
                Some(due.saturating_sub(now))
            }
            Step::Undone | Step::Proved => None,
        }
    }

    /// The time of an update's step is over. A daemon that serves gets a check. A daemon that has not ended in time, does
    /// not serve, or does not answer the check is killed; nothing is released.
    pub fn on_update_due(&mut self, now: Duration) -> Action {
        if self.update_due_in(now) != Some(Duration::ZERO) || matches!(self.phase, Phase::Leaving { .. }) {
            return Action::Nothing;
        }
        match &mut self.update {
            Some(Step::Trial { .. }) if self.serves => {
                self.update = Some(Step::Asked { until: now + TRIAL * 2 });
                self.watchdog.owes_look = true;
                Action::Nothing
            }
            Some(Step::Ordered { by: due } | Step::Trial { until: due } | Step::Asked { until: due }) => {
                *due = now + TRIAL;
                Action::Signal(SIGKILL)
            }
            Some(Step::Undone | Step::Proved) | None => Action::Nothing,
        }
    }

    /// A client waits at the API's socket while there is no daemon: whether to start one now.
    pub fn on_visit(&mut self, now: Duration) -> bool {
        let is_due = self.visited.is_none_or(|at| now.saturating_sub(at) >= VISIT_PAUSE);
        if is_due && self.phase == Phase::Without {
            self.visited = Some(now);
            return true;
        }
        false
    }

    /// Whether to wait for clients because there is no daemon. Returns the time until a client may cause the
    /// next start.
    pub fn waits_for_visits(&self, now: Duration) -> Option<Duration> {
        let since = self.visited.map(|at| now.saturating_sub(at));
        (self.phase == Phase::Without)
            .then(|| since.map_or(Duration::ZERO, |since| VISIT_PAUSE.saturating_sub(since)))
    }

    /// Time until a daemon is started without a client; `None` while there is one.
    pub fn retries_in(&self, now: Duration) -> Option<Duration> {
        let death = self.deaths[(self.died + DEATHS_MAX - 1) % DEATHS_MAX].map(|at| at + RETRY_PAUSE);
        let due = self.refused.map(|at| at + START_PAUSE).or(death)?;
        (self.phase == Phase::Without).then(|| due.saturating_sub(now))
    }

    /// The next frame to send; call [`Self::sent`] when it was sent.
    pub fn outgoing(&self) -> Option<Outgoing<'_, D>> {
        let plain = |frame| Some(Outgoing { frame, descriptor: None });
        match self.phase {
            Phase::Greeting => {
                let update = match self.update {
                    Some(Step::Trial { .. } | Step::Asked { .. }) => Update::Trial,
                    Some(Step::Undone) => Update::Undone,
                    Some(Step::Ordered { .. } | Step::Proved) | None => Update::None,
                };
                let (keeper, died) = (self.own, self.died_in_a_row);
                plain(Frame::Hello { keeper, died, last: self.last_end, update })
            }
            Phase::Handing(from) => match self.table.from(from) {
                Some((place, name, descriptor)) => {
                    Some(Outgoing { frame: Frame::Kept { place, name }, descriptor: Some(descriptor) })
                }
                None => plain(Frame::Done),
            },
            Phase::Serving if self.owes_child => plain(Frame::Child),
            Phase::Serving if self.watchdog.owes_look => plain(Frame::Look),
            Phase::Leaving { told: false } => plain(Frame::Done),
            Phase::Serving | Phase::Leaving { told: true } | Phase::Without => None,
        }
    }

    /// The frame from [`Self::outgoing`] was sent.
    pub fn sent(&mut self) {
        self.phase = match self.phase {
            Phase::Greeting => Phase::Handing(0),
            Phase::Handing(from) => match self.table.from(from) {
                Some((place, ..)) => Phase::Handing(place + 1),
                None => Phase::Serving,
            },
            Phase::Serving => {
                self.watchdog.owes_look &= self.owes_child;
                self.owes_child = false;
                Phase::Serving
            }
            Phase::Leaving { .. } => Phase::Leaving { told: true },
            Phase::Without => Phase::Without,
        };
    }

    /// Adds a descriptor to the table before the first daemon.
    pub fn begin_with(&mut self, place: u32, kind: Kind, descriptor: D) {
        self.table.keep(place, Name::only(kind), descriptor);
    }

    /// Adds the service manager's kept sockets to the table before the first daemon, from this place on.
    pub fn begin_with_stored(&mut self, from: u32, descriptors: impl IntoIterator<Item = D>) {
        for (descriptor, of) in descriptors.into_iter().zip(0..) {
            self.table.keep(from + of, Name { of, ..Name::only(Kind::Stored) }, descriptor);
        }
    }

    fn first_of_last(&self) -> Option<Duration> {
        self.deaths[self.died % DEATHS_MAX]
    }
}

/// Whether the state that a daemon took over may be the cause of its end: a signal or a panic, not an exit code of its own.
fn is_fault(end: End) -> bool {
    !matches!(end, End::Code(code) if code != PANICKED)
}

/// Whether the service manager keeps it too: the socket of an address in which connections wait if there is
/// no worker. The other sockets of the address each belong to one worker.
fn is_stored(name: Name) -> bool {
    name.kind == Kind::Listener && name.part == 0
}
