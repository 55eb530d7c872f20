//! What is known of one worker.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::last_words::LastWords;
use forkful_core::steering::evenness::Connections;
use forkful_core::steering::slow_start::{FULL, Rise};
use serde::{Deserialize, Serialize};

use crate::channel::{Channel, HandleLine};
use crate::id::ListeningId;

/// A worker that has not answered for so long is passed over. Well above an idle worker's answer
/// (20 to 65 µs), well below what a client notices.
pub(crate) const LATE: Duration = Duration::from_millis(1);

/// A loop that ran for so long without answering is stuck, however seldom it ran.
const STUCK_RUN: Duration = Duration::from_millis(3);

/// A loop that stood still for so long is likely to do so again soon: a route that computes is seldom asked for once.
const STOOD_STILL: Duration = Duration::from_millis(50);

const DOUBTED_FOR: Duration = Duration::from_secs(1);

/// A proof is good for so long: less than a request takes to arrive behind its connection.
const PROOF_FRESH: Duration = Duration::from_micros(100);

/// First pause after a worker refused a connection (full, closing, out of descriptors); doubles up to 64 times.
const REFUSED_PAUSE: Duration = Duration::from_millis(5);

/// What the scheduler has done with a process since its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// Time on a core.
    pub ran: Duration,
    /// Time that it was ready to run and had no core.
    pub waited: Duration,
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Worker {
    pub(crate) channel: Channel,
    /// Counter of our own messages.
    pub(crate) seq: u64,
    /// Whether it may have connections.
    pub(crate) stage: Stage,
    /// Its slot in the app.
    pub(crate) slot: u16,
    /// The agent has said hello.
    pub(crate) agent: bool,
    /// It has listened on something.
    pub(crate) has_listened: bool,
    /// It has been told to end.
    pub(crate) stopping: bool,
    /// It is to end and has closed all its servers; its app may have more to say.
    pub(crate) last_words: Option<LastWords>,
    /// The addresses that it holds.
    pub(crate) holds: BTreeMap<ListeningId, Hold>,
    /// Connections that it was given and that are not known to be closed.
    pub(crate) connections: u32,
    /// When it was last given one, in connections of the app.
    pub(crate) last_assigned: u64,
    /// Whether its loop turns.
    pub(crate) evidence: Evidence,
    /// Connections that it refused.
    pub(crate) refused: Refusals,
    /// What its agent was asked about its connections.
    pub(crate) counting: Counting,
    /// Its share of the new connections, while it is not the full one.
    pub(crate) rise: Option<Rise>,
}

/// What is known of whether a worker's loop turns.
#[derive(Debug, Default)]
pub(crate) struct Evidence {
    /// When it last proved that its loop turns, if nothing was pushed since.
    pub(crate) proof: Option<Time>,
    /// When it last acknowledged a connection.
    pub(crate) acknowledged: Option<Time>,
    /// When it last answered after its loop had stood still.
    stood_still: Option<Time>,
    /// When it was last doubted, and what the scheduler had done with it until then.
    doubted: Option<(Time, Schedule)>,
}

/// Connections that a worker refused.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// It gets none until then.
    pub(crate) until: Option<Time>,
    /// How many in a row, for the growing pause.
    in_a_row: u32,
}

/// A worker's part in a look at the connections that stay, see `forkful_core::steering::evenness`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// It owes no answer.
    Unasked,
    Asked,
    /// It has answered the last question.
    Told(Connections),
}

/// How far a worker is between its start and its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Stage {
    /// The supervisor allows no new connections (yet, or for now).
    Closed,
    /// New connections may go to it.
    Open,
    /// It finishes what it has; its agent says when.
    Draining,
    /// It has been told to disconnect, or does so by itself: no new listens.
    Disconnecting,
}

/// A worker's hold on an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Hold {
    /// Its member of the group, when it was given a socket of its own.
    pub(crate) member: Option<usize>,
    /// It has reported `listening`.
    pub(crate) listening: bool,
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
            stopping: false,
            last_words: None,
            holds: BTreeMap::new(),
            connections: 0,
            last_assigned: 0,
            evidence: Evidence::default(),
            refused: Refusals::default(),
            counting: Counting::Unasked,
            rise: None,
        }
    }

    /// Whether it has shown on what it listens, and is not about to end.
    pub(crate) fn shows_where_it_listens(&self) -> bool {
        self.stage == Stage::Open && self.has_listened && !self.stopping
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// It has answered the line in flight.
    pub(crate) fn answered(&mut self, now: Time) -> Option<HandleLine> {
        let (line, sent) = self.channel.answered()?;
        if now.since(sent) >= STOOD_STILL {
            self.evidence.stood_still = Some(now);
        }
        Some(line)
    }

    /// Whether its loop has stood still lately, so that it comes after its equals. A connection can be taken back from it
    /// until it has acknowledged it; but a request that it has not read by then waits for the next one that blocks the loop.
    fn is_doubtful(&self, now: Time) -> bool {
        self.evidence.stood_still.is_some_and(|at| now.since(at) < DOUBTED_FOR)
    }

    /// Its open connections, counted in halves: a doubtful worker counts three halves more, and so comes after workers with one
    /// connection more.
    pub(crate) fn load(&self, now: Time) -> u32 {
        let doubts = if self.is_doubtful(now) { 3 } else { 0 };
        self.connections.saturating_mul(2).saturating_add(doubts)
    }

    /// Whether it has said that it listens on an address.
    pub(crate) fn listens_on(&self, listening: ListeningId) -> bool {
        self.holds.get(&listening).is_some_and(|hold| hold.listening)
    }

    /// On how many addresses it listens.
    pub(crate) fn listens(&self) -> usize {
        self.holds.values().filter(|hold| hold.listening).count()
    }

    /// The addresses that it listens on.
    pub(crate) fn listening_on(&self) -> impl Iterator<Item = ListeningId> {
        self.holds.iter().filter(|(_, hold)| hold.listening).map(|(listening, _)| *listening)
    }

    /// Whether new connections of an address may go to it at all.
    pub(crate) fn serves(&self, listening: ListeningId) -> bool {
        self.stage == Stage::Open && self.listens_on(listening)
    }

    /// The addresses whose new connections may go to it.
    pub(crate) fn serves_on(&self) -> impl Iterator<Item = ListeningId> {
        let is_open = self.stage == Stage::Open;
        self.listening_on().filter(move |_| is_open)
    }

    /// Whether nothing is under way with it, and nothing that it did lately still counts; what does not is forgotten.
    pub(crate) fn rests(&mut self, now: Time) -> bool {
        let Evidence { proof, acknowledged, stood_still, .. } = &mut self.evidence;
        proof.take_if(|at| !is_fresh(*at, now));
        acknowledged.take_if(|at| !is_fresh(*at, now));
        stood_still.take_if(|at| now.since(*at) >= DOUBTED_FOR);
        self.refused.until.take_if(|until| *until <= now);
        let recent = proof.or(*acknowledged).or(*stood_still).or(self.refused.until);
        recent.is_none() && self.last_words.is_none() && self.rise.is_none() && self.channel.rests()
    }

    /// Its share of the new connections, of [`FULL`].
    pub(crate) fn share(&self) -> u32 {
        self.rise.map_or(FULL, |rise| rise.share())
    }

    /// Whether the others come first, because it is new and has had its share. `assigned`: connections of the app so far.
    pub(crate) fn gives_way(&self, assigned: u64, serving: usize) -> bool {
        self.rise.is_some_and(|rise| rise.gives_way(assigned.saturating_sub(self.last_assigned), serving))
    }

    /// Whether it has just proved that its loop turns. `acknowledged`: to have acknowledged a connection is proof enough.
    pub(crate) fn is_proven(&self, acknowledged: bool, now: Time) -> bool {
        let is_fresh = |proof: Option<Time>| proof.is_some_and(|at| is_fresh(at, now));
        is_fresh(self.evidence.proof) || acknowledged && is_fresh(self.evidence.acknowledged)
    }

    /// Whether it has closed all that it ever listened on.
    pub(crate) fn has_closed_all(&self) -> bool {
        self.has_listened && self.holds.is_empty()
    }

    /// Whether an answer is overdue: it gets nothing until that comes.
    pub(crate) fn late(&self, now: Time) -> bool {
        self.channel.waiting_since().is_some_and(|since| now.since(since) >= LATE)
    }

    /// Whether a connection can be handed to it now or soon.
    pub(crate) fn responsive(&self, now: Time) -> bool {
        !self.late(now) && self.refused.until.is_none_or(|until| until <= now) && !self.channel.is_broken()
    }

    /// It took a connection, or refused one: after that it gets none for a while.
    pub(crate) fn took(&mut self, accepted: bool, now: Time) {
        if accepted {
            self.refused.in_a_row = 0;
        } else {
            self.refused.until = Some(now + REFUSED_PAUSE * 2_u32.pow(self.refused.in_a_row.min(6)));
            self.refused.in_a_row += 1;
        }
    }

    /// Notes what the scheduler has done with it until now.
    pub(crate) fn note_schedule(&mut self, schedule: Option<Schedule>, now: Time) {
        self.evidence.doubted = schedule.map(|schedule| (now, schedule));
    }

    /// Whether it has waited for a core most of the time since it was doubted, so that its silence says
    /// nothing about its loop.
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
