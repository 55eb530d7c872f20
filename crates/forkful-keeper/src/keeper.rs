//! What the keeper does, without system calls: a state, what happens, and what follows from it.

use std::time::Duration;

use forkful_os::keeper::{End, Frame, Kind, Name, Text, Update};

use crate::table::Table;

/// When this number of daemons has ended within [`DEATHS_WITHIN`], the next daemon is started when a client connects, or after
/// [`RETRY_PAUSE`].
pub const DEATHS_MAX: usize = 5;
/// See [`DEATHS_MAX`].
pub const DEATHS_WITHIN: Duration = Duration::from_secs(10);
/// After that, one is started anyway: where the daemon hands connections over, apps do not serve without it.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Between two daemons that are started because a client has come.
pub const VISIT_PAUSE: Duration = Duration::from_secs(2);

/// A daemon that leaves this number of looks in a row unanswered is taken for one that hangs. Looks are counted, not seconds: a
/// machine that was frozen or asleep has frozen the keeper, too, and the keeper has not looked meanwhile. What counts of the
/// time between two looks is that in which the daemon did not wait for a core: on a machine that has none for it, it is slow,
/// and the next daemon would be no faster.
pub const LOOKS: u32 = 2;
/// A daemon of another program that dies within this time gives way to one of the program before; one that lives and serves
/// then has proved its program.
pub const TRIAL: Duration = Duration::from_secs(5);

const SIGKILL: i32 = 9;
/// The signals that ask for the end: SIGINT, SIGQUIT and SIGTERM.
const ENDS: [i32; 3] = [2, 3, 15];

/// What the loop is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Nothing,
    /// Reap this child.
    Reap(u32),
    /// Send [`Frame::Ended`] about this child.
    Answer(u32),
    /// Tell the service manager.
    Tell(Text),
    /// Have the service manager keep the socket at this place over a restart of this process.
    Store(u32),
    /// Pass this signal on to the daemon.
    Signal(i32),
    /// The daemon hangs: kill it.
    Kill,
    /// End, by this signal.
    End(i32),
    /// Become the program of the daemon.
    Become,
}

/// What follows the end of a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum After {
    /// Start another one.
    Start,
    /// Go on without one, until a client comes.
    Without,
    /// End as it did.
    End,
}

/// A frame that is to be sent, and its descriptor.
#[derive(Debug, PartialEq, Eq)]
pub struct Outgoing<'a, D> {
    pub frame: Frame,
    pub descriptor: Option<&'a D>,
}

/// How far it is with the daemon that there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// It gets everything: first of all a greeting.
    Greeting,
    /// Then what is at this place or a later one.
    Handing(u32),
    /// It has everything.
    Serving,
    /// It ends on purpose; whether it was told that everything was let go of.
    Leaving { told: bool },
    /// There is none.
    Without,
}

/// A daemon of another program in the place of the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// It is to be; the daemon that there is has this time to end.
    Ordered { by: Duration },
    /// Its first daemon has this time to prove it.
    Trial { until: Duration },
    /// It was given up.
    Undone,
    /// It is the program of all daemons from now on.
    Proved,
}

/// See the module's documentation. Time is from any beginning.
#[derive(Debug)]
pub struct Keeper<D> {
    pub table: Table<D>,
    phase: Phase,
    /// This process's number.
    own: u32,
    /// When the last daemons ended, in a ring.
    deaths: [Option<Duration>; DEATHS_MAX],
    /// How many ended in all.
    died: usize,
    /// How many ended since one served.
    died_in_a_row: u32,
    last_end: End,
    /// A child has ended, which the daemon was not told.
    owes_child: bool,
    /// When a client last had a daemon started.
    visited: Option<Duration>,
    /// The daemon has said that it serves: a signal does not kill it any more.
    serves: bool,
    /// A signal for it that came before that.
    signal: Option<i32>,
    /// A signal has asked for the end: of a service that is restarted, perhaps.
    ends: bool,
    /// The program of daemons, if it is another one than this process's.
    program: Option<D>,
    /// How far the last update is.
    update: Option<Step>,
    watchdog: Watchdog,
}

/// Whether the daemon's loop turns.
#[derive(Debug, Default)]
struct Watchdog {
    /// Between two looks; `None`: nobody looks.
    every: Option<Duration>,
    /// When to look next.
    next: Duration,
    /// For how long the daemon has left looks unanswered, without the time in which it waited for a core; `None`: it has
    /// answered all of them.
    stood: Option<Duration>,
    /// For how long it had waited for a core at the last look.
    waited: Duration,
    /// A look that the daemon was not sent.
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

    /// One that goes on in the place of a keeper of another program, beside the daemon that serves.
    pub fn resume(own: u32, table: Table<D>) -> Self {
        // Somebody may have ended meanwhile.
        Self { table, phase: Phase::Serving, serves: true, owes_child: true, ..Self::new(own) }
    }

    /// The program to start daemons of, if it is another one than this process's.
    pub fn program(&self) -> Option<&D> {
        self.program.as_ref()
    }

    /// From now on, a daemon whose loop does not turn for so long is killed.
    pub fn watch(&mut self, patience: Duration) {
        self.watchdog.every = Some(patience / LOOKS);
    }

    /// How long until the daemon is looked at; `None` while nobody looks.
    pub fn looks_in(&self, now: Duration) -> Option<Duration> {
        let looks = self.watchdog.every.is_some() && self.serves && self.phase == Phase::Serving;
        looks.then(|| self.watchdog.next.saturating_sub(now))
    }

    /// Looks at the daemon, if it is time. `waited` is for how long it has waited for a core since it was started.
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
        // Whatever ended meanwhile, it finds out.
        self.owes_child = false;
    }

    /// The daemon says something.
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
            // A new program whose daemon gives up before it serves takes nothing with it.
            Frame::Leave if !self.serves && matches!(self.update, Some(Step::Trial { .. })) => {
                Action::Signal(SIGKILL)
            }
            Frame::Leave => {
                self.table.clear();
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
                Action::Nothing
            }
            // Only a keeper says these.
            Frame::Hello { .. }
            | Frame::Kept { .. }
            | Frame::Done
            | Frame::Ended { .. }
            | Frame::Child
            | Frame::Look => Action::Nothing,
        }
    }

    /// What the service manager is to keep of what a keeper before this one has held.
    pub fn to_store(&self) -> impl Iterator<Item = &D> {
        self.table.all().filter(|(name, _)| is_stored(*name)).map(|(_, descriptor)| descriptor)
    }

    /// What the service manager is to forget when the daemon says this. Sockets that are closed because the service ends stay: the
    /// manager closes them itself unless it starts the service again.
    pub fn forgets(&self, frame: &Frame) -> Option<&D> {
        let Frame::Drop { place } = frame else { return None };
        let (name, descriptor) = self.table.at(*place)?;
        (is_stored(name) && !self.ends).then_some(descriptor)
    }

    /// A signal for the daemon has come. It gets it once it serves: before, a signal would kill it, and the next daemon would
    /// know of nothing. One that makes way for another leaves it to that one.
    pub fn on_signal(&mut self, signal: i32) -> Action {
        let makes_way = matches!(self.update, Some(Step::Ordered { .. }));
        self.ends |= ENDS.contains(&signal);
        match self.phase {
            Phase::Without => Action::End(signal),
            _ if self.serves && !makes_way => Action::Signal(signal),
            _ => {
                self.signal = Some(signal);
                Action::Nothing
            }
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
            Some(Step::Trial { .. }) => {
                (self.program, self.update) = (None, Some(Step::Undone));
                self.died_in_a_row = 1;
                return After::Start;
            }
            Some(Step::Undone) => self.update = None,
            Some(Step::Proved) | None => {}
        }
        self.deaths[self.died % DEATHS_MAX] = Some(now);
        self.died += 1;
        self.died_in_a_row += 1;
        let too_many = self.died >= DEATHS_MAX
            && self.first_of_last().is_some_and(|at| now.saturating_sub(at) < DEATHS_WITHIN);
        if !too_many {
            After::Start
        } else if self.table.of_kind(Kind::Process).is_none() && self.table.of_kind(Kind::Api).is_none() {
            // There is nothing to keep, and nobody can come.
            After::End
        } else {
            After::Without
        }
    }

    /// How long until [`Self::on_update_due`]; `None` while there is nothing to wait for.
    pub fn update_due_in(&self, now: Duration) -> Option<Duration> {
        match self.update? {
            Step::Ordered { by: due } | Step::Trial { until: due } => Some(due.saturating_sub(now)),
            Step::Undone | Step::Proved => None,
        }
    }

    /// The time of an update's step is over. A daemon that has not ended by then, or does not serve, is killed, which takes
    /// nothing with it.
    pub fn on_update_due(&mut self, now: Duration) -> Action {
        if self.update_due_in(now) != Some(Duration::ZERO) || matches!(self.phase, Phase::Leaving { .. }) {
            return Action::Nothing;
        }
        match &mut self.update {
            Some(Step::Trial { .. }) if self.serves => {
                self.update = Some(Step::Proved);
                Action::Become
            }
            Some(Step::Ordered { by: due } | Step::Trial { until: due }) => {
                *due = now + TRIAL;
                Action::Signal(SIGKILL)
            }
            Some(Step::Undone | Step::Proved) | None => Action::Nothing,
        }
    }

    /// A client waits at the API's socket while there is no daemon: whether one is to be started now.
    pub fn on_visit(&mut self, now: Duration) -> bool {
        let is_due = self.visited.is_none_or(|at| now.saturating_sub(at) >= VISIT_PAUSE);
        if is_due && self.phase == Phase::Without {
            self.visited = Some(now);
            return true;
        }
        false
    }

    /// Whether clients are waited for: there is no daemon. Says how long until one may have the next one started.
    pub fn waits_for_visits(&self, now: Duration) -> Option<Duration> {
        let since = self.visited.map(|at| now.saturating_sub(at));
        (self.phase == Phase::Without)
            .then(|| since.map_or(Duration::ZERO, |since| VISIT_PAUSE.saturating_sub(since)))
    }

    /// How long until a daemon is started though nobody has come; `None` while there is one.
    pub fn retries_in(&self, now: Duration) -> Option<Duration> {
        let last = self.deaths[(self.died + DEATHS_MAX - 1) % DEATHS_MAX]?;
        (self.phase == Phase::Without).then(|| (last + RETRY_PAUSE).saturating_sub(now))
    }

    /// What is to be sent next; [`Self::sent`] follows when it was.
    pub fn outgoing(&self) -> Option<Outgoing<'_, D>> {
        let plain = |frame| Some(Outgoing { frame, descriptor: None });
        match self.phase {
            Phase::Greeting => {
                let update = match self.update {
                    Some(Step::Trial { .. }) => Update::Trial,
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

    /// What [`Self::outgoing`] gave was sent.
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

    /// Puts something into the table before the first daemon.
    pub fn begin_with(&mut self, place: u32, kind: Kind, descriptor: D) {
        self.table.keep(place, Name::only(kind), descriptor);
    }

    /// Puts what the service manager has kept into the table, before the first daemon, from this place on.
    pub fn begin_with_stored(&mut self, from: u32, descriptors: impl IntoIterator<Item = D>) {
        for (descriptor, of) in descriptors.into_iter().zip(0..) {
            self.table.keep(from + of, Name { of, ..Name::only(Kind::Stored) }, descriptor);
        }
    }

    fn first_of_last(&self) -> Option<Duration> {
        self.deaths[self.died % DEATHS_MAX]
    }
}

/// Whether the service manager keeps it, too: the socket of an address that connections wait in when no worker is there. The other
/// sockets of the address are one worker's each.
fn is_stored(name: Name) -> bool {
    name.kind == Kind::Listener && name.part == 0
}
