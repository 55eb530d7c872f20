//! What must hold after every event, and the data that a run keeps for the checks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::Generation;
use forkful_core::supervisor::AppId;

/// An invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Invariant {
    AnsweredOnce,
    OwedAndSettled,
    GenerationsEnd,
    StartedOnce,
    TrafficFollows,
    ReloadKeepsReady,
    StoppedLeavesNothing,
    WaitsForSomething,
    DeadlinesKept,
    RestartsSlowed,
    KilledInTime,
    LateChangesNothing,
    DependenciesFirst,
    RepliesHold,
    ComesBack,
    ReadAsWritten,
    CountersKept,
    NothingForgotten,
    AppliesWhole,
    StuckEnd,
    StopHeard,
    ClockKept,
    ScalesWithin,
    ScalesAtRest,
    FollowsLoad,
    LimitsKept,
    HealthTruly,
    GivenOnce,
    NoneDropped,
    CountersAgree,
    GivenToReady,
    ClientsStay,
    ReadyTruly,
    ListensTruly,
    ChannelKept,
    NoneWaits,
    NeverSpins,
    ComesToRest,
    NeverPanics,
}

impl Invariant {
    /// Its description.
    pub fn text(self) -> &'static str {
        match self {
            Self::AnsweredOnce => "every command is answered once",
            Self::OwedAndSettled => "a command gets as many answers of apps as it is owed, and no more",
            Self::GenerationsEnd => "a slot holds the processes whose end it was not told, and no others",
            Self::StartedOnce => "each generation is started once, in a slot that is there",
            Self::TrafficFollows => {
                "connections go to the worker that is online and confirmed, and to no other"
            }
            Self::ReloadKeepsReady => {
                "a rolling reload takes no ready worker away before its successor is ready"
            }
            Self::StoppedLeavesNothing => "after a stop was answered, nothing runs of what was stopped",
            Self::WaitsForSomething => "a command waits only while something is on its way that answers it",
            Self::DeadlinesKept => "no deadline of a slot passes unnoticed",
            Self::RestartsSlowed => {
                "a worker that ends again and again is not started twice in a row without a pause"
            }
            Self::KilledInTime => {
                "a process is killed when it has had its time after the stop signal, and once"
            }
            Self::LateChangesNothing => {
                "an event about a process that a slot does not hold, or an answer that it does not await, changes nothing"
            }
            Self::DependenciesFirst => {
                "an app starts when those that it depends on are ready, and stops before them"
            }
            Self::RepliesHold => "what a reply says is on disk, unless the reply tells that it is not",
            Self::ComesBack => "after a crash each app is back as it was saved",
            Self::ReadAsWritten => "a daemon reads what the one before has written",
            Self::CountersKept => {
                "counters of restarts and crashes go back to 0 only when somebody resets them"
            }
            Self::NothingForgotten => "what a daemon has saved stays on disk until another one takes it up",
            Self::AppliesWhole => "an apply makes all apps what the file says, or leaves them as they were",
            Self::StuckEnd => "a worker whose loop stands still for longer than its limit is killed",
            Self::StopHeard => "a worker whose app handles the stop signal gets it before it is disconnected",
            Self::ClockKept => "at each point of an app's cron pattern its workers are renewed, once",
            Self::ScalesWithin => "a number of workers that follows the load stays within its bounds",
            Self::ScalesAtRest => {
                "the load changes the number of workers only while all of them serve and no reload runs"
            }
            Self::FollowsLoad => "an app without load comes down to the least number of workers",
            Self::LimitsKept => "all processes of an app with a CPU limit run in the group that has it",
            Self::HealthTruly => "a health check asks one worker, and fails only where something is wrong",
            Self::GivenOnce => "no connection is given to two workers",
            Self::NoneDropped => {
                "no connection is dropped: it is served, closed by its client, or lost with the worker that had it"
            }
            Self::CountersAgree => "the counters say how many connections were handed over and lost",
            Self::GivenToReady => "no connection is given to a worker that is not ready, or is leaving",
            Self::ClientsStay => "sticky clients stay with their slots when the worker of another slot ends",
            Self::ReadyTruly => "a worker counts as ready when it has told so as its app wants it",
            Self::ListensTruly => "a worker counts as listening on what it listens on",
            Self::ChannelKept => {
                "one handle line at a time is unanswered in a channel, and no line is torn or follows the last"
            }
            Self::NoneWaits => {
                "no connection waits while a worker with room exists, nor a line while its channel has room"
            }
            Self::NeverSpins => "the daemon's loop rests when there is nothing to do",
            Self::ComesToRest => {
                "when nothing goes wrong any more, everything comes to rest in the state that was asked for"
            }
            Self::NeverPanics => "no input makes the daemon panic",
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

/// A violated invariant, with the observation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub invariant: Invariant,
    pub seen: String,
}

/// The data that the checks keep.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    /// The first violation.
    pub(crate) broken: Option<Broken>,
    /// Apps with events since the last check.
    pub(crate) touched: BTreeSet<AppId>,
    /// Apps whose primaries have had events since the last check.
    pub(crate) net_touched: BTreeSet<AppId>,
    /// Slots that must serve during a rolling reload.
    guarded: BTreeMap<AppId, BTreeSet<u16>>,
    /// The next generation that each slot may start.
    next_generation: BTreeMap<(AppId, u16), u32>,
    /// Restarts and crashes of each app's slots at the last check.
    counters: BTreeMap<AppId, Vec<(u32, u32)>>,
    /// A daemon has taken over from another.
    pub(crate) was_taken_over: bool,
    /// The current step is about the load of an app.
    pub(crate) is_of_load: bool,
    /// Effects are performed that may have been performed before.
    pub(crate) is_again: bool,
    /// Whether the app was in cluster mode before the current step.
    pub(crate) clusters: bool,
    /// The kill timeout, from the app's definition before the current step.
    pub(crate) kill_timeout: Duration,
    /// A worker that is about to be killed because its event loop is blocked.
    pub(crate) stuck: Option<(AppId, u16)>,
    /// Starts of a slot without a pause, since a client requested one or a process lived long enough.
    pub(crate) unpaused: BTreeMap<(AppId, u16), u32>,
    /// Until when the times of cron patterns were handled.
    pub(crate) renewed: BTreeMap<AppId, Time>,
    /// Workers that no command has concerned since their app was created without being started: a time of
    /// its cron pattern starts them.
    awaiting: BTreeSet<(AppId, u16)>,
    /// New apps whose start waits for their dependencies.
    pub(crate) waits_for_needed: BTreeSet<AppId>,
    /// Apps that are stopped when these no longer run.
    pub(crate) stops_after: BTreeMap<AppId, BTreeSet<AppId>>,
}

impl Watch {
    pub(crate) fn fail(&mut self, invariant: Invariant, seen: impl Into<String>) {
        if self.broken.is_none() {
            self.broken = Some(Broken { invariant, seen: seen.into() });
        }
    }

    /// A slot need not serve: its process has ended by itself, or because of a command.
    pub(crate) fn excuse(&mut self, app: AppId, slot: u16) {
        if let Some(guarded) = self.guarded.get_mut(&app) {
            guarded.remove(&slot);
        }
    }

    pub(crate) fn excuse_all(&mut self, app: AppId) {
        self.guarded.remove(&app);
    }

    /// From now on these slots must serve.
    pub(crate) fn guard(&mut self, app: AppId, slots: BTreeSet<u16>) {
        self.guarded.insert(app, slots);
    }

    pub(crate) fn guarded(&self, app: AppId) -> impl Iterator<Item = u16> + '_ {
        self.guarded.get(&app).into_iter().flatten().copied()
    }

    /// Records a start; returns whether the generation is new.
    pub(crate) fn is_new(&mut self, app: AppId, slot: u16, generation: Generation) -> bool {
        let next = self.next_generation.entry((app, slot)).or_default();
        let is_new = generation.0 >= *next;
        *next = generation.0 + 1;
        is_new
    }

    /// An ordered start was lost with the daemon: it may be ordered again.
    pub(crate) fn allow_again(&mut self, app: AppId, slot: u16, generation: Generation) {
        let next = self.next_generation.entry((app, slot)).or_default();
        *next = (*next).min(generation.0);
    }

    /// Records the counters of a slot; returns those at the last check.
    pub(crate) fn note_counters(&mut self, app: AppId, slot: u16, counters: (u32, u32)) -> (u32, u32) {
        let known = self.counters.entry(app).or_default();
        let at = usize::from(slot);
        if at >= known.len() {
            known.resize(at + 1, (0, 0));
        }
        std::mem::replace(&mut known[at], counters)
    }

    /// A worker does not run until a time of its app's cron pattern comes.
    pub(crate) fn await_hour(&mut self, app: AppId, slot: u16) {
        self.awaiting.insert((app, slot));
    }

    /// A command concerns these workers: they no longer wait for their hour.
    pub(crate) fn forget_hour(&mut self, app: AppId, slots: &[u16]) {
        for slot in slots {
            self.awaiting.remove(&(app, *slot));
        }
    }

    /// The workers of an app that wait for their hour, which has come.
    pub(crate) fn take_awaiting(&mut self, app: AppId) -> Vec<u16> {
        let slots: Vec<u16> =
            self.awaiting.range((app, 0)..=(app, u16::MAX)).map(|(_, slot)| *slot).collect();
        self.forget_hour(app, &slots);
        slots
    }

    /// Another command takes over an app: it no longer waits for other apps.
    pub(crate) fn forget_order(&mut self, app: AppId) {
        self.waits_for_needed.remove(&app);
        self.stops_after.remove(&app);
    }

    /// A slot is removed; a later slot with the same number starts from zero.
    pub(crate) fn forget_slot(&mut self, app: AppId, slot: u16) {
        self.next_generation.remove(&(app, slot));
        self.note_counters(app, slot, (0, 0));
        self.unpaused.remove(&(app, slot));
        self.awaiting.remove(&(app, slot));
        self.excuse(app, slot);
    }
}
