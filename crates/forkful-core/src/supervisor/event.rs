//! What happens to an app, and what its supervisor sees of other apps.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::autoscale::Signals;
use crate::slot::{self, Generation, Verb};
use crate::spec::{AppName, AppSpec};
use crate::upkeep::cron::WallClock;
use crate::upkeep::thrashing::Stall;

use super::{Adopted, ListenFault, Observation, Sockets, Warmed};

/// Names an app within a daemon. Numbers are not used again while late events of an earlier app can arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AppId(pub u32);

/// Names a command under way, so that its answers find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub u64);

/// What happens to an app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The app is new: its slots are made, and those that are meant are started.
    Create { first: FirstStates, job: JobId },
    /// Something happens to one slot or to its processes.
    Slot(u16, slot::Event),
    /// The program of a process runs from now on.
    Runs(u16, Generation),
    /// A worker's listen was refused.
    ListenRefused(u16, ListenFault),
    /// A worker listens on an address of the primary's.
    Listening {
        slot: u16,
        generation: Generation,
        /// Whether it lacks an address on which the process that it follows listens.
        lacks_address: bool,
    },
    /// A worker said `process.send('ready')`.
    SaidReady(u16, Generation),
    /// What was seen of a process's sockets, see [`Effect::LookAtSockets`](super::Effect::LookAtSockets).
    Sockets(u16, Generation, Sockets),
    /// What has become of a request, see [`Effect::WarmUp`](super::Effect::WarmUp).
    Warmed { slot: u16, generation: Generation, outcome: Warmed },
    /// Slots are restarted, the app with another definition if there is one. Of an app at rest they are started.
    Restart { slots: Vec<u16>, spec: Option<Rc<AppSpec>>, job: JobId },
    /// Slots are stopped, or deleted, as soon as none of the apps in `first` is being stopped any more.
    Stop { slots: Vec<u16>, verb: Verb, first: BTreeSet<AppId>, job: JobId },
    /// Workers are replaced, one after the other.
    Reload(ReloadOrder),
    /// The app gets this many workers. This number holds, even if a reload that is under way or waits has another one.
    Scale { instances: u16, job: JobId },
    /// The app gets as many workers as its definition in a file says; nothing to do when it has them.
    ScaleAsDefined { instances: u16, job: JobId },
    /// Other apps have changed their standing.
    OthersMoved,
    /// Time has passed. Harmless when it comes early or twice.
    Time,
    /// What was seen of the workers, see [`Effect::Observe`](super::Effect::Observe).
    Observed(Vec<Observation>),
    /// What was measured of the workers of an app whose number of workers follows the load.
    Load(Signals),
    /// A health check has an answer, or what was wrong.
    Health { slot: u16, generation: Generation, answer: Result<(), String> },
    /// A worker could not be asked, since its channel is busy.
    ChannelBusy { slot: u16, generation: Generation },
    /// A worker that was asked whether it is well owes an answer on its channel, since then.
    Owes { slot: u16, generation: Generation, since: Time },
    /// The event loops of these workers stand still, and the app's memory limit is used up, see
    /// [`Effect::Observe`](super::Effect::Observe).
    Stalled(Vec<(u16, Generation, Stall)>),
    /// The event loop of a worker has stood still, see [`Effect::LookWhetherStuck`](super::Effect::LookWhetherStuck).
    Silent {
        slot: u16,
        generation: Generation,
        /// For how long.
        silent: Duration,
        /// What the process was doing, in words.
        report: String,
    },
    /// A worker's agent has counted its requests.
    Requests { slot: u16, generation: Generation, served: u64 },
    /// Files of the app have changed, so that all workers that should run are to be replaced; the text says which.
    FilesChanged(String),
    /// Another daemon goes on with the app, and these processes of it are there. The effects of the last step that may not
    /// have been performed have been performed again.
    TakenOver(Vec<Adopted>),
}

/// A reload that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "WrittenOrder", into = "WrittenOrder")]
pub struct ReloadOrder {
    /// The command that it is for; none when a worker is renewed.
    pub job: Option<JobId>,
    /// What the app becomes; `None` keeps its definition.
    pub spec: Option<Rc<AppSpec>>,
    pub whom: Whom,
}

impl ReloadOrder {
    /// Whether nobody waits for it, and it keeps the app's definition.
    pub(super) fn is_automatic(&self) -> bool {
        self.job.is_none() && self.spec.is_none()
    }
}

/// Which slots a reload concerns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// All; those that are stopped are started.
    All,
    Slot(u16),
    /// Several, but not all.
    Slots(Vec<u16>),
    /// Those that should run.
    Wanted,
}

/// A [`ReloadOrder`] in the form that every version reads: those that do not know `only` reload all slots.
#[derive(Serialize, Deserialize)]
struct WrittenOrder {
    job: Option<JobId>,
    spec: Option<Rc<AppSpec>>,
    whom: WrittenWhom,
    /// With [`WrittenWhom::All`]: only these, unless there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    only: Vec<u16>,
}

#[derive(Serialize, Deserialize)]
enum WrittenWhom {
    All,
    Slot(u16),
    Wanted,
}

impl From<ReloadOrder> for WrittenOrder {
    fn from(ReloadOrder { job, spec, whom }: ReloadOrder) -> Self {
        let (whom, only) = match whom {
            Whom::All => (WrittenWhom::All, Vec::new()),
            Whom::Slot(slot) => (WrittenWhom::Slot(slot), Vec::new()),
            Whom::Slots(slots) => (WrittenWhom::All, slots),
            Whom::Wanted => (WrittenWhom::Wanted, Vec::new()),
        };
        Self { job, spec, whom, only }
    }
}

impl From<WrittenOrder> for ReloadOrder {
    fn from(WrittenOrder { job, spec, whom, only }: WrittenOrder) -> Self {
        let whom = match whom {
            WrittenWhom::All if !only.is_empty() => Whom::Slots(only),
            WrittenWhom::All => Whom::All,
            WrittenWhom::Slot(slot) => Whom::Slot(slot),
            WrittenWhom::Wanted => Whom::Wanted,
        };
        Self { job, spec, whom }
    }
}

/// Which slots of a new app are not started.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FirstStates {
    /// These are stopped and all others are started; `None` is what `autostart` says.
    pub stopped: Option<Vec<u16>>,
    /// The program of these has done its work under an earlier daemon.
    pub finished: Vec<u16>,
    /// These are stopped until a time of `cron_restart` comes.
    pub waits_for_cron: Vec<u16>,
}

/// What a supervisor knows besides its own app.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    pub now: Time,
    /// The clock of `cron_restart`.
    pub wall: &'a dyn WallClock,
    /// The apps that this one depends on or waits for.
    pub others: &'a [Standing],
    /// Commands whose client has gone without waiting for the answer.
    pub abandoned: &'a [JobId],
}

/// How far another app is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub id: AppId,
    pub name: AppName,
    pub readiness: Readiness,
    /// Its processes are being stopped, and none of them is to run on.
    pub is_ending: bool,
}

/// Whether an app is ready for those that depend on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Readiness {
    Ready,
    Coming,
    Failed,
}
