//! What the keeper does, without system calls: a state, what happens, and what follows from it.

use std::time::Duration;

use forkful_os::keeper::{End, Frame, Kind, Name, Text, Update};

use crate::table::Table;

/// So many daemons that end within [`DEATHS_WITHIN`] are enough: the next one is started when a client comes, or after
/// [`RETRY_PAUSE`].
pub const DEATHS_MAX: usize = 5;
/// See [`DEATHS_MAX`].
pub const DEATHS_WITHIN: Duration = Duration::from_secs(10);
/// After that, one is started anyway: where the daemon hands connections over, apps do not serve without it.
pub const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Between two daemons that are started because a client has come.
pub const VISIT_PAUSE: Duration = Duration::from_secs(2);

/// A daemon that does not answer so many looks in a row hangs. Looks are counted, and not time: while everything was frozen,
/// with the keeper, there were none.
pub const LOOKS: u32 = 2;
/// A daemon of another program that dies within this time gives way to one of the program before; one that lives and serves
/// then has proved its program.
pub const TRIAL: Duration = Duration::from_secs(5);

const SIGKILL: i32 = 9;

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
    /// Looks without an answer.
    unanswered: u32,
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

    /// Looks at the daemon, if it is time.
    pub fn on_look(&mut self, now: Duration) -> Action {
        if self.looks_in(now) != Some(Duration::ZERO) {
            return Action::Nothing;
        }
        let watchdog = &mut self.watchdog;
        watchdog.next = now + watchdog.every.unwrap_or_default();
        if watchdog.unanswered >= LOOKS {
            return Action::Kill;
        }
        watchdog.unanswered += 1;
        watchdog.owes_look = true;
        Action::Nothing
    }

    /// A daemon was started.
    pub fn on_start(&mut self) {
        (self.watchdog.unanswered, self.watchdog.owes_look) = (0, false);
        self.phase = Phase::Greeting;
        self.serves = false;
        // Whatever ended meanwhile, it finds out.
        self.owes_child = false;
    }

    /// The daemon says something.
    pub fn on_frame(&mut self, frame: Frame, descriptor: Option<D>, now: Duration) -> Action {
        match frame {
            Frame::Keep { place, name } => {
                if let Some(descriptor) = descriptor {
                    self.table.keep(place, name, descriptor);
                }
                Action::Nothing
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
                self.watchdog.unanswered = 0;
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

    /// A signal for the daemon has come. It gets it once it serves: before, a signal would kill it, and the next daemon would
    /// know of nothing. One that makes way for another leaves it to that one.
    pub fn on_signal(&mut self, signal: i32) -> Action {
        let makes_way = matches!(self.update, Some(Step::Ordered { .. }));
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

    fn first_of_last(&self) -> Option<Duration> {
        self.deaths[self.died % DEATHS_MAX]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn name(kind: Kind, of: u32) -> Name {
        Name { kind, app: 1, of, part: 0 }
    }

    /// What a daemon gets that starts now.
    fn handed(keeper: &mut Keeper<u32>) -> Vec<(Frame, Option<u32>)> {
        keeper.on_start();
        let mut frames = Vec::new();
        while let Some(outgoing) = keeper.outgoing() {
            frames.push((outgoing.frame, outgoing.descriptor.copied()));
            keeper.sent();
        }
        frames
    }

    #[test]
    fn a_daemon_gets_what_those_before_it_have_had_kept() {
        let mut keeper = Keeper::new(7);
        keeper.begin_with(0, Kind::State, 100);
        let first = handed(&mut keeper);
        let state = Frame::Kept { place: 0, name: Name::only(Kind::State) };
        let hello = |died, last| Frame::Hello { keeper: 7, died, last, update: Update::None };
        assert_eq!(first, [(hello(0, End::Unknown), None), (state, Some(100)), (Frame::Done, None)]);
        for (place, descriptor) in [(1, 11), (2, 12), (5, 15), (2, 22)] {
            keeper.on_frame(
                Frame::Keep { place, name: name(Kind::Channel, place) },
                Some(descriptor),
                SECOND,
            );
        }
        keeper.on_frame(Frame::Drop { place: 1 }, None, SECOND);
        assert_eq!(keeper.on_end(End::Signal(9), SECOND), After::Start);
        let kept = |place| Frame::Kept { place, name: name(Kind::Channel, place) };
        let second = handed(&mut keeper);
        let expected = [
            (hello(1, End::Signal(9)), None),
            (state, Some(100)),
            (kept(2), Some(22)),
            (kept(5), Some(15)),
            (Frame::Done, None),
        ];
        assert_eq!(second, expected);
    }

    #[test]
    fn what_is_dropped_while_it_is_handed_over_is_not_handed_over() {
        let mut keeper = Keeper::new(7);
        for place in 0..3 {
            keeper.begin_with(place, Kind::Channel, place);
        }
        keeper.on_start();
        keeper.sent();
        keeper.on_frame(Frame::Drop { place: 0 }, None, SECOND);
        keeper.on_frame(Frame::Drop { place: 2 }, None, SECOND);
        assert_eq!(keeper.outgoing().and_then(|outgoing| outgoing.descriptor.copied()), Some(1));
        keeper.sent();
        assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Done));
    }

    #[test]
    fn a_daemon_that_leaves_is_not_started_again_and_nothing_is_held_after_it() {
        let mut keeper = Keeper::new(7);
        keeper.begin_with(0, Kind::State, 1);
        handed(&mut keeper);
        assert_eq!(keeper.on_frame(Frame::Leave, None, SECOND), Action::Nothing);
        assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Done));
        keeper.sent();
        assert_eq!(keeper.outgoing(), None);
        assert!(keeper.table.from(0).is_none());
        assert_eq!(keeper.on_end(End::Code(3), SECOND), After::End);
    }

    #[test]
    fn five_ends_in_ten_seconds_are_enough_until_a_client_comes() {
        let mut keeper = Keeper::new(7);
        keeper.begin_with(0, Kind::Process, 1);
        for second in [0, 3, 6, 9, 12, 15, 18, 21] {
            assert_eq!(keeper.on_end(End::Signal(11), SECOND * second), After::Start, "{second}");
        }
        // Ten seconds are over since the fourth before them.
        assert_eq!(keeper.on_end(End::Signal(11), SECOND * 22), After::Start);
        assert_eq!(keeper.on_end(End::Signal(11), SECOND * 23), After::Without);
        assert_eq!(keeper.waits_for_visits(SECOND * 26), Some(Duration::ZERO));
        assert!(keeper.on_visit(SECOND * 26));
        handed(&mut keeper);
        assert_eq!(keeper.retries_in(SECOND * 26), None);
        assert_eq!(keeper.waits_for_visits(SECOND * 26), None);
        assert_eq!(keeper.on_end(End::Code(1), SECOND * 27), After::Without);
        assert_eq!(keeper.retries_in(SECOND * 28), Some(SECOND * 9));
        assert_eq!(keeper.retries_in(SECOND * 40), Some(Duration::ZERO));
        assert!(!keeper.on_visit(SECOND * 27), "not again so soon");
        assert_eq!(keeper.waits_for_visits(SECOND * 27), Some(SECOND));
        assert!(keeper.on_visit(SECOND * 28));
    }

    #[test]
    fn a_signal_reaches_a_daemon_that_serves_and_ends_a_keeper_without_one() {
        let mut keeper: Keeper<u32> = Keeper::new(7);
        keeper.begin_with(0, Kind::Process, 1);
        handed(&mut keeper);
        assert_eq!(keeper.on_signal(15), Action::Nothing);
        assert_eq!(keeper.on_frame(Frame::Serves, None, SECOND), Action::Signal(15));
        assert_eq!(keeper.on_frame(Frame::Serves, None, SECOND), Action::Nothing, "once");
        assert_eq!(keeper.on_signal(2), Action::Signal(2));
        for _ in 0..5 {
            keeper.on_end(End::Signal(9), SECOND);
        }
        assert_eq!(keeper.on_signal(15), Action::End(15));
    }

    #[test]
    fn with_nothing_to_keep_it_ends_with_its_last_daemon() {
        let mut keeper: Keeper<u32> = Keeper::new(7);
        keeper.begin_with(0, Kind::State, 1);
        let ends: Vec<After> = (0..5).map(|_| keeper.on_end(End::Signal(6), SECOND)).collect();
        assert_eq!(ends[..4], [After::Start; 4]);
        assert_eq!(ends[4], After::End);
    }

    #[test]
    fn a_daemon_that_serves_is_told_of_children_and_those_before_it_are_forgotten() {
        let mut keeper: Keeper<u32> = Keeper::new(7);
        keeper.on_end(End::Signal(9), SECOND);
        keeper.on_child();
        let frames = handed(&mut keeper);
        assert!(frames.iter().all(|(frame, _)| *frame != Frame::Child), "it looks itself");
        keeper.on_frame(Frame::Serves, None, SECOND);
        keeper.on_child();
        keeper.on_child();
        assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(Frame::Child));
        keeper.sent();
        assert_eq!(keeper.outgoing(), None);
        keeper.on_end(End::Signal(9), SECOND);
        assert_eq!(
            handed(&mut keeper)[0].0,
            Frame::Hello { keeper: 7, died: 1, last: End::Signal(9), update: Update::None }
        );
    }

    #[test]
    fn a_daemon_that_answers_no_look_is_killed_and_one_that_answers_is_not() {
        let mut keeper: Keeper<u32> = Keeper::new(7);
        keeper.watch(SECOND * 10);
        handed(&mut keeper);
        assert_eq!(keeper.looks_in(SECOND), None, "it does not serve yet");
        keeper.on_frame(Frame::Serves, None, SECOND);
        for round in 1..=5 {
            let now = SECOND * 10 * round;
            assert_eq!(keeper.looks_in(now), Some(Duration::ZERO));
            assert_eq!(keeper.on_look(now), Action::Nothing);
            keeper.on_child();
            for frame in [Frame::Child, Frame::Look] {
                assert_eq!(keeper.outgoing().map(|outgoing| outgoing.frame), Some(frame));
                keeper.sent();
            }
            assert_eq!(keeper.outgoing(), None);
            assert_eq!(keeper.looks_in(now + SECOND), Some(SECOND * 4));
            assert_eq!(keeper.on_look(now + SECOND), Action::Nothing, "it is not time");
            keeper.on_frame(Frame::Turns, None, SECOND);
        }
        assert_eq!(keeper.on_look(SECOND * 100), Action::Nothing);
        assert_eq!(keeper.on_look(SECOND * 900), Action::Nothing, "all was frozen for a while");
        assert_eq!(keeper.on_look(SECOND * 904), Action::Nothing);
        assert_eq!(keeper.on_look(SECOND * 905), Action::Kill);
        assert_eq!(keeper.on_end(End::Signal(9), SECOND * 905), After::Start);
        handed(&mut keeper);
        keeper.on_frame(Frame::Serves, None, SECOND);
        assert_eq!(keeper.on_look(SECOND * 910), Action::Nothing, "the next one begins anew");
    }
}
