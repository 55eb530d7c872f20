//! The state of one worker.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::last_words::LastWords;
use forkful_core::steering::evenness::Connections;
use forkful_core::steering::slow_start::{FULL, Rise};
use serde::{Deserialize, Serialize};

use crate::channel::{Channel, HandleLine};
use crate::id::ListeningId;

/// A worker that has not replied for this long is skipped. Well above an idle worker's reply time (20 to 65
/// µs), well below what a client notices.
pub(crate) const LATE: Duration = Duration::from_millis(1);

/// An event loop that ran for this long without a reply is stuck, even if it rarely got a core.
const STUCK_RUN: Duration = Duration::from_millis(3);

/// An event loop that was blocked for this long is likely to block again soon: a computing route is seldom
/// requested only once.
const STOOD_STILL: Duration = Duration::from_millis(50);

const DOUBTED_FOR: Duration = Duration::from_secs(1);

/// How long a proof is valid: less than a request takes to arrive after its connection.
const PROOF_FRESH: Duration = Duration::from_micros(100);

/// First pause after a worker refused a connection (full, closing, no descriptors); doubles up to 64 times.
const REFUSED_PAUSE: Duration = Duration::from_millis(5);

/// The handler of a stop may leave its servers open for so long before its worker is disconnected: less than the default
/// `kill_timeout`.
const HANDLER_TIME: Duration = Duration::from_secs(2);

/// Scheduling statistics of a process since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Time on a core.
    pub ran: Duration,
    /// Time it was ready to run but had no core.
    pub waited: Duration,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) channel: Channel,
    /// Sequence number of our own messages.
    pub(crate) seq: u64,
    /// Whether it may get connections.
    pub(crate) stage: Stage,
    /// Its slot in the app.
    pub(crate) slot: u16,
    /// The agent has said hello.
    pub(crate) agent: bool,
    /// It has listened on an address before.
    pub(crate) has_listened: bool,
    pub(crate) farewell: Farewell,
    /// The addresses that it holds.
    pub(crate) holds: BTreeMap<ListeningId, Hold>,
    /// Connections it was given that are not known to be closed.
    pub(crate) connections: u32,
    /// Its last assignment, as the app's connection count at that time.
    pub(crate) last_assigned: u64,
    /// Whether its event loop is responsive.
    pub(crate) evidence: Evidence,
    /// Connections that it refused.
    pub(crate) refused: Refusals,
    /// What its agent was asked about its connections.
    pub(crate) counting: Counting,
    /// Its share of new connections, while it is below the full share.
    pub(crate) rise: Option<Rise>,
}

/// How far a worker is on its way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Farewell {
    /// It was told to stop.
    pub(crate) stopping: bool,
    /// It has finished its connections, and its app handles its stop.
    pub(crate) drained: bool,
    /// It must stop, and has closed all its servers or has finished its connections; its app may have more to say.
    pub(crate) last_words: Option<LastWords>,
}

impl Farewell {
    /// It must stop, and nobody needs its servers any more.
    fn begin_last_words(&mut self, at: Time) {
        if self.last_words.is_none_or(|words| words.since > at) {
            self.last_words = Some(LastWords::from(at));
        }
    }
}

impl Worker {
    /// Has it disconnected soon if it must stop and has closed all its servers (see [`forkful_core::last_words`]). One that has finished its connections may
    /// not close them: the handler of its stop gets some time.
    pub(crate) fn await_last_words(&mut self, now: Time) {
        if !self.farewell.stopping {
            return;
        }
        if self.has_closed_all() {
            self.farewell.begin_last_words(now);
        } else if self.farewell.drained {
            self.farewell.begin_last_words(now + HANDLER_TIME);
        }
    }
}

/// The evidence of whether a worker's event loop is responsive.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// When it last proved that its event loop is responsive, if nothing was pushed since.
    pub(crate) proof: Option<Time>,
    /// When it last acknowledged a connection.
    pub(crate) acknowledged: Option<Time>,
    /// When it last replied after its event loop had been blocked.
    stood_still: Option<Time>,
    /// When it was last suspected, and its scheduling statistics at that time.
    doubted: Option<(Time, Schedule)>,
}

/// Connections that a worker refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// It gets no connections until then.
    pub(crate) until: Option<Time>,
    /// Consecutive refusals, for the growing pause.
    in_a_row: u32,
}

/// A worker's state in a check of kept connections, see `forkful_core::steering::evenness`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// It owes no reply.
    Unasked,
    Asked,
    /// It has replied to the last question.
    Told(Connections),
}

/// A worker's stage between start and exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The supervisor allows no new connections (yet, or currently).
    Closed,
    /// New connections may go to it.
    Open,
    /// It finishes its connections; its agent reports when it has.
    Draining,
    /// It was told to disconnect, or disconnects by itself: no new listens.
    Disconnecting,
}

/// A worker's hold on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Hold {
    /// Its member of the group, if it was given its own socket.
    pub(crate) member: Option<usize>,
    /// It has reported `listening`.
    pub(crate) listening: bool,
    /// The `seq` of its query, until then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) asked: Option<u64>,
    /// The reply to that query was the previous daemon's, and may be lost.
    #[serde(skip)]
    pub(crate) is_doubtful: bool,
}

impl Worker {
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            channel,
            seq: 0,
            stage: Stage::Closed,
            slot: 0,
            agent: false,
            has_listened: false,
            farewell: Farewell::default(),
            holds: BTreeMap::new(),
            connections: 0,
            last_assigned: 0,
            evidence: Evidence::default(),
            refused: Refusals::default(),
            counting: Counting::Unasked,
            rise: None,
        }
    }

    /// Whether it has reported its addresses, and is not about to stop.
    pub(crate) fn shows_where_it_listens(&self) -> bool {
        self.stage == Stage::Open && self.has_listened && !self.farewell.stopping
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// It has replied to the line in flight.
    pub(crate) fn answered(&mut self, now: Time) -> Option<HandleLine> {
        let (line, sent) = self.channel.answered()?;
        if now.since(sent) >= STOOD_STILL {
            self.evidence.stood_still = Some(now);
        }
        Some(line)
    }

    /// Whether its event loop was blocked recently, so that it comes after equal workers. A connection can be
    /// taken back until the worker acknowledges it; after that, an unread request waits for the next one that
    /// blocks the loop.
    fn is_doubtful(&self, now: Time) -> bool {
        self.evidence.stood_still.is_some_and(|at| now.since(at) < DOUBTED_FOR)
    }

    /// Its open connections, counted in halves. A doubtful worker counts three halves more, and so comes
    /// after workers with one connection more.
    pub(crate) fn load(&self, now: Time) -> u32 {
        let doubts = if self.is_doubtful(now) { 3 } else { 0 };
        self.connections.saturating_mul(2).saturating_add(doubts)
    }

    /// Whether it has reported that it listens on an address.
    pub(crate) fn listens_on(&self, listening: ListeningId) -> bool {
        self.holds.get(&listening).is_some_and(|hold| hold.listening)
    }

    /// The number of addresses it listens on.
    pub(crate) fn listens(&self) -> usize {
        self.holds.values().filter(|hold| hold.listening).count()
    }

    /// The addresses that it listens on.
    pub(crate) fn listening_on(&self) -> impl Iterator<Item = ListeningId> {
        self.holds.iter().filter(|(_, hold)| hold.listening).map(|(listening, _)| *listening)
    }

    /// Whether it may get new connections of an address.
    pub(crate) fn serves(&self, listening: ListeningId) -> bool {
        self.stage == Stage::Open && self.listens_on(listening)
    }

    /// The addresses of which it may get new connections.
    pub(crate) fn serves_on(&self) -> impl Iterator<Item = ListeningId> {
        let is_open = self.stage == Stage::Open;
        self.listening_on().filter(move |_| is_open)
    }

    /// Whether nothing is in flight with it, and none of its recent events still matters; the others are
    /// cleared.
    pub(crate) fn rests(&mut self, now: Time) -> bool {
        let Evidence { proof, acknowledged, stood_still, .. } = &mut self.evidence;
        proof.take_if(|at| !is_fresh(*at, now));
        acknowledged.take_if(|at| !is_fresh(*at, now));
        stood_still.take_if(|at| now.since(*at) >= DOUBTED_FOR);
        self.refused.until.take_if(|until| *until <= now);
        let recent = proof.or(*acknowledged).or(*stood_still).or(self.refused.until);
        recent.is_none() && self.farewell.last_words.is_none() && self.rise.is_none() && self.channel.rests()
    }

    /// Its share of new connections, relative to [`FULL`].
    pub(crate) fn share(&self) -> u32 {
        self.rise.map_or(FULL, |rise| rise.share())
    }

    /// Whether other workers come first, because it is new and has had its share. `assigned`: connections of
    /// the app so far.
    pub(crate) fn gives_way(&self, assigned: u64, serving: usize) -> bool {
        self.rise.is_some_and(|rise| rise.gives_way(assigned.saturating_sub(self.last_assigned), serving))
    }

    /// Whether it has just proved that its event loop is responsive. `acknowledged`: an acknowledged
    /// connection is proof enough.
    pub(crate) fn is_proven(&self, acknowledged: bool, now: Time) -> bool {
        let is_fresh = |proof: Option<Time>| proof.is_some_and(|at| is_fresh(at, now));
        is_fresh(self.evidence.proof) || acknowledged && is_fresh(self.evidence.acknowledged)
    }

    /// Whether it has closed all addresses that it ever listened on.
    pub(crate) fn has_closed_all(&self) -> bool {
        self.has_listened && self.holds.is_empty()
    }

    /// Whether a reply is overdue: it gets nothing until the reply arrives.
    pub(crate) fn late(&self, now: Time) -> bool {
        self.channel.waiting_since().is_some_and(|since| now.since(since) >= LATE)
    }

    /// Whether it can get a connection now or soon.
    pub(crate) fn responsive(&self, now: Time) -> bool {
        !self.late(now)
            && self.refused.until.is_none_or(|until| until <= now)
            && !self.channel.is_broken()
            && !self.channel.is_muted()
    }

    /// It accepted or refused a connection: a refusal starts a pause.
    pub(crate) fn took(&mut self, accepted: bool, now: Time) {
        if accepted {
            self.refused.in_a_row = 0;
        } else {
            self.refused.until = Some(now + REFUSED_PAUSE * 2_u32.pow(self.refused.in_a_row.min(6)));
            self.refused.in_a_row += 1;
        }
    }

    /// Records its scheduling statistics up to now.
    pub(crate) fn note_schedule(&mut self, schedule: Option<Schedule>, now: Time) {
        self.evidence.doubted = schedule.map(|schedule| (now, schedule));
    }

    /// Whether it has waited for a core most of the time since it was suspected, so that its silence says
    /// nothing about its event loop.
    pub(crate) fn starved(&mut self, schedule: Option<Schedule>, now: Time) -> bool {
        let Some((since, before)) = self.evidence.doubted else { return false };
        self.note_schedule(schedule, now);
        let Some(after) = schedule else { return false };
        let ran = after.ran.saturating_sub(before.ran);
        let waited = after.waited.saturating_sub(before.waited);
        ran < STUCK_RUN && waited * 2 >= now.since(since)
    }
}

fn is_fresh(proof: Time, now: Time) -> bool {
    now.since(proof) <= PROOF_FRESH
}
