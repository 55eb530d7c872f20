//! Planted faults, to show that the invariants detect them: mistakes that a driver could make.

/// A mistake of the driver.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plant {
    LostAnswer,
    AnsweredTwice,
    DoubleSpawn,
    LostExit,
    ExitToldEarly,
    ForgottenDeadline,
    LostKill,
    ReadyTooEarly,
    TrafficStaysOpen,
    NeedsIgnored,
    AnsweredBeforeSaved,
    LostChange,
    UnwrittenEffects,
    UnwrittenField,
    UnwrittenCounter,
    UnseenExit,
    NobodyAdopted,
    NumbersAgain,
    RescueDropped,
    GivenTwice,
    MissedRoom,
    LeavingGetsMore,
    StuckForgotten,
    NotTakenBack,
    PreviousOverwritten,
    HourMissed,
    GroupForgotten,
    AskedBefore,
    UnwrittenWait,
    UnwrittenSteps,
    AppliesAtOnce,
    FailureIgnored,
    LoadForgotten,
    ScalingUnsaved,
    OldLeavesFirst,
    HandlerForgotten,
    SlotsUntold,
}

impl Plant {
    /// All of them: name and description.
    pub const ALL: [(Self, &'static str, &'static str); 37] = [
        (Self::LostAnswer, "lost-answer", "the answer of a slot to a command is dropped"),
        (Self::AnsweredTwice, "answered-twice", "an answer is counted twice"),
        (Self::DoubleSpawn, "double-spawn", "a process is started twice under one generation"),
        (Self::LostExit, "lost-exit", "the end of a process is not told to its slot"),
        (
            Self::ExitToldEarly,
            "exit-told-early",
            "a process that has got a signal is told to be gone at once",
        ),
        (Self::ForgottenDeadline, "forgotten-deadline", "the timer is not set to a deadline"),
        (Self::LostKill, "lost-kill", "SIGKILL is not sent"),
        (Self::ReadyTooEarly, "ready-too-early", "a new process is told to be ready when it is started"),
        (Self::TrafficStaysOpen, "traffic-stays-open", "connections still go to a worker that leaves"),
        (Self::NeedsIgnored, "needs-ignored", "an app is told that those that it depends on are ready"),
        (Self::AnsweredBeforeSaved, "answered-before-saved", "a reply does not wait for the disk"),
        (Self::LostChange, "lost-change", "a change is not noted for the next save"),
        (
            Self::UnwrittenEffects,
            "unwritten-effects",
            "a state is written before its effects are performed, and they are not",
        ),
        (Self::UnwrittenField, "unwritten-field", "the deadlines of slots are not written"),
        (Self::UnwrittenCounter, "unwritten-counter", "how often workers were restarted is not written"),
        (Self::UnseenExit, "unseen-exit", "the end of a process is lost while no daemon is there"),
        (Self::NobodyAdopted, "nobody-adopted", "a daemon that takes over does not know the workers"),
        (Self::NumbersAgain, "numbers-again", "a daemon that takes over counts its commands from 1 again"),
        (
            Self::RescueDropped,
            "rescue-dropped",
            "a connection is lost that was taken out of a worker's queue",
        ),
        (
            Self::GivenTwice,
            "given-twice",
            "a connection that a worker may still read, or has served, goes to another",
        ),
        (Self::MissedRoom, "missed-room", "nobody is told that a full channel has room again"),
        (
            Self::LeavingGetsMore,
            "leaving-gets-more",
            "the kernel is not told that a worker gets no more connections",
        ),
        (Self::StuckForgotten, "stuck-forgotten", "nobody looks whether a worker still owes its answer"),
        (Self::NotTakenBack, "not-taken-back", "a step of an apply that has failed is not taken back"),
        (
            Self::PreviousOverwritten,
            "previous-overwritten",
            "the first state of a daemon replaces that of the daemon before",
        ),
        (
            Self::HourMissed,
            "hour-missed",
            "an hour that a cron pattern names passes, and no worker is renewed",
        ),
        (
            Self::GroupForgotten,
            "group-forgotten",
            "a process is started outside the group that has its limits",
        ),
        (
            Self::AskedBefore,
            "asked-before",
            "a probe is sent before the connection of a health check, which then finds the channel busy",
        ),
        (Self::UnwrittenWait, "unwritten-wait", "that workers wait for their hour is not written"),
        (Self::UnwrittenSteps, "unwritten-steps", "the steps that an apply has done are not written"),
        (
            Self::AppliesAtOnce,
            "applies-at-once",
            "a second apply changes apps while the first apply still changes them",
        ),
        (Self::FailureIgnored, "failure-ignored", "a step of an apply that has failed counts as done"),
        (Self::LoadForgotten, "load-forgotten", "the load of apps is not measured any more"),
        (
            Self::ScalingUnsaved,
            "scaling-unsaved",
            "that the load has changed the number of workers is not noted for the next save",
        ),
        (
            Self::OldLeavesFirst,
            "old-leaves-first",
            "a reload stops the old worker when it starts the new one",
        ),
        (
            Self::HandlerForgotten,
            "handler-forgotten",
            "the daemon is not told that a worker's app handles the stop signal",
        ),
        (Self::SlotsUntold, "slots-untold", "the dispatcher is not told how many slots the app has"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(plant, ..)| *plant == self).map_or("", |(_, name, _)| name)
    }

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, own, _)| *own == name).map(|(plant, ..)| *plant)
    }
}
