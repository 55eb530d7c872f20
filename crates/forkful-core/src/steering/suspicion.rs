//! Detects workers with a blocked event loop, by their queues and by probes.
//!
//! A queue alone proves nothing: a busy worker's queue is rarely empty. But a queue that got shorter was
//! accepted from. So a queue that was never seen empty or shorter leads to a probe, and only a probe that
//! stays unanswered *while another worker answers its probe* makes a worker suspect. Because of the last
//! condition a machine that is merely short of CPU does not make all workers suspect, and the last healthy
//! worker is never suspect: if no worker answers, the queues are left alone.

use std::time::Duration;

use crate::Time;

/// Consecutive samples with waiting connections, each at least as many as before, before a worker is probed.
/// One such sample is chance, two are a burst; at a tick of 1 to 5 ms, three are a delay that users could
/// notice.
pub const STUCK_SAMPLES: u8 = 3;

/// A probe is never late before this: a healthy event loop answers in 20 to 65 µs, and an event loop that
/// handles a large request or a garbage collection for a few milliseconds is not stuck.
pub const PROBE_PATIENCE: Duration = Duration::from_millis(6);

/// A probe is not late before it took this multiple of the other workers' median, so that a machine short of
/// CPU gets more time.
pub const PROBE_PATIENCE_FACTOR: u32 = 4;

/// The longest answer time that counts in that median. A longer answer comes from an event loop that was
/// itself stuck, and would excuse the others: two workers that block together could not be distinguished when
/// the first of them answers. So the limit is between 6 and 12 ms.
pub const PROBE_TIME_MAX: Duration = Duration::from_millis(3);

/// Actions of the watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action<Id> {
    /// Send a probe to this worker.
    Probe(Id),
    /// Remove this worker from the set that gets new connections, and rescue its queue.
    Suspect(Id),
    /// Rescue the connections that have reached this suspect's queue since.
    Rescue(Id),
    /// Add this worker to the set again.
    Trust(Id),
}

/// The watcher of an app's workers. `Id` names a worker, not a slot: a new process starts trusted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Suspicion<Id> {
    /// In the order of their ids, so that one is found among hundreds at once.
    workers: Vec<Watched<Id>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Watched<Id> {
    id: Id,
    state: State,
    /// When and how fast it answered its last probe.
    answer: Option<Answer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// No probe is under way; its queue held so many at the last sample.
    Trusted { stuck_samples: u8, waited: u32 },
    /// A probe is under way.
    Probed { sent: Time, purpose: Purpose },
    /// Out of the set; its probe is still under way.
    Suspect { sent: Time },
}

impl State {
    const TRUSTED: Self = Self::Trusted { stuck_samples: 0, waited: 0 };
}

/// Why a probe was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Its queue did not empty.
    Doubt,
    /// Another worker's probe is late, and this one is to show that the machine is not to blame.
    Witness,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Answer {
    at: Time,
    took: Duration,
}

impl<Id> Default for Suspicion<Id> {
    fn default() -> Self {
        Self { workers: Vec::new() }
    }
}

impl<Id: Copy + Ord> Suspicion<Id> {
    /// Watches a worker from now on; it is trusted.
    pub fn add(&mut self, id: Id) {
        if let Err(position) = self.place(id) {
            self.workers.insert(position, Watched { id, state: State::TRUSTED, answer: None });
        }
    }

    /// Forgets a worker.
    pub fn remove(&mut self, id: Id) {
        if let Some(position) = self.find(id) {
            self.workers.remove(position);
        }
    }

    /// The workers that may get new connections. Never empty while there are workers.
    pub fn trusted(&self) -> Vec<Id> {
        let all_suspect = !self.workers.iter().any(Watched::is_trusted);
        self.workers
            .iter()
            .filter(|worker| all_suspect || worker.is_trusted())
            .map(|worker| worker.id)
            .collect()
    }

    /// Whether a worker is out of the set.
    pub fn is_suspect(&self, id: Id) -> bool {
        self.find(id).is_some_and(|position| !self.workers[position].is_trusted())
    }

    /// Whether a look at the queues can lead to anything: there are others to compare with, and somebody has no probe under
    /// way. Otherwise only an answer can.
    pub fn needs_samples(&self) -> bool {
        let is_unasked = |worker: &Watched<Id>| matches!(worker.state, State::Trusted { .. });
        self.workers.len() > 1 && self.workers.iter().any(is_unasked)
    }

    /// A worker's queue held `waiting` connections just now.
    pub fn on_sample(&mut self, now: Time, id: Id, waiting: u32) -> Option<Action<Id>> {
        let position = self.find(id)?;
        let has_others = self.workers.len() > 1;
        let worker = &mut self.workers[position];
        match worker.state {
            State::Trusted { waited, .. } if waiting < waited || waiting == 0 || !has_others => {
                worker.state = State::Trusted { stuck_samples: 0, waited: waiting };
                None
            }
            State::Trusted { stuck_samples, .. } if stuck_samples + 1 < STUCK_SAMPLES => {
                worker.state = State::Trusted { stuck_samples: stuck_samples + 1, waited: waiting };
                None
            }
            State::Trusted { .. } => {
                worker.state = State::Probed { sent: now, purpose: Purpose::Doubt };
                Some(Action::Probe(id))
            }
            State::Probed { sent, purpose: Purpose::Witness } if waiting > 0 => {
                worker.state = State::Probed { sent, purpose: Purpose::Doubt };
                None
            }
            State::Probed { .. } => None,
            State::Suspect { .. } => {
                (waiting > 0 && self.others(position).any(Watched::is_trusted)).then_some(Action::Rescue(id))
            }
        }
    }

    /// A worker has answered its probe.
    pub fn on_answer(&mut self, now: Time, id: Id) -> Vec<Action<Id>> {
        let Some(position) = self.find(id) else { return Vec::new() };
        let worker = &mut self.workers[position];
        let mut actions = Vec::new();
        let sent = match worker.state {
            State::Trusted { .. } => return actions,
            State::Probed { sent, .. } => sent,
            State::Suspect { sent } => {
                actions.push(Action::Trust(id));
                sent
            }
        };
        worker.answer = Some(Answer { at: now, took: now.since(sent).min(PROBE_TIME_MAX) });
        worker.state = State::TRUSTED;
        actions.extend(self.on_time(now));
        actions
    }

    /// Time has passed: late probes make suspects, or call for witnesses.
    pub fn on_time(&mut self, now: Time) -> Vec<Action<Id>> {
        let mut actions = Vec::new();
        let mut witnesses_wanted = false;
        // Both are the same for all workers that are looked at here, so that many late ones cost no more than one each.
        let (mut answers, mut witnesses) = (None, None);
        for position in 0..self.workers.len() {
            let worker = self.workers[position];
            let State::Probed { sent, purpose: Purpose::Doubt } = worker.state else { continue };
            if now < sent + PROBE_PATIENCE
                || now < answers.get_or_insert_with(|| self.answers()).late_at(&worker, sent)
            {
                continue;
            }
            if witnesses.get_or_insert_with(|| self.witnesses()).answers_beside(position, sent) {
                self.workers[position].state = State::Suspect { sent };
                actions.push(Action::Suspect(worker.id));
                // A suspect is no witness.
                witnesses = None;
            } else {
                witnesses_wanted = true;
            }
        }
        if witnesses_wanted {
            actions.extend(self.call_witnesses(now));
        }
        actions
    }

    /// The machine is to blame for the late answer, not the worker, which had no core to run on: it is no
    /// suspect, and its patience begins anew.
    pub fn excuse(&mut self, now: Time, id: Id) {
        if let Some(position) = self.find(id)
            && let State::Suspect { .. } = self.workers[position].state
        {
            self.workers[position].state = State::Probed { sent: now, purpose: Purpose::Doubt };
        }
    }

    /// When [`Self::on_time`] may have something to decide. Times that have passed are left out:
    /// then an answer, not time, decides.
    pub fn next_check(&self, now: Time) -> Option<Time> {
        let answers = self.answers();
        let due = |worker: &Watched<Id>| match worker.state {
            State::Probed { sent, purpose: Purpose::Doubt } => Some(answers.late_at(worker, sent)),
            State::Probed { purpose: Purpose::Witness, .. }
            | State::Trusted { .. }
            | State::Suspect { .. } => None,
        };
        self.workers.iter().filter_map(due).filter(|&at| at > now).min()
    }

    fn find(&self, id: Id) -> Option<usize> {
        self.place(id).ok()
    }

    /// Where a worker is, or belongs.
    fn place(&self, id: Id) -> Result<usize, usize> {
        self.workers.binary_search_by_key(&id, |worker| worker.id)
    }

    /// What the last answers of all workers took.
    fn answers(&self) -> Answers {
        let mut took: Vec<Duration> =
            self.workers.iter().filter_map(|worker| worker.answer).map(|answer| answer.took).collect();
        took.sort_unstable();
        Answers { took }
    }

    /// The trusted workers that have answered last.
    fn witnesses(&self) -> Witnesses {
        let mut witnesses = Witnesses { last: None, before: None };
        for (position, worker) in self.workers.iter().enumerate() {
            let Some(answer) = worker.answer.filter(|_| worker.is_trusted()) else { continue };
            if witnesses.last.is_none_or(|(_, at)| answer.at > at) {
                witnesses = Witnesses { last: Some((position, answer.at)), before: witnesses.last };
            } else if witnesses.before.is_none_or(|(_, at)| answer.at > at) {
                witnesses.before = Some((position, answer.at));
            }
        }
        witnesses
    }

    fn others(&self, position: usize) -> impl Iterator<Item = &Watched<Id>> {
        self.workers.iter().enumerate().filter(move |(other, _)| *other != position).map(|(_, worker)| worker)
    }

    /// Probes every worker that has no probe under way.
    fn call_witnesses(&mut self, now: Time) -> Vec<Action<Id>> {
        let mut actions = Vec::new();
        for worker in &mut self.workers {
            match worker.state {
                State::Trusted { .. } => {
                    worker.state = State::Probed { sent: now, purpose: Purpose::Witness };
                    actions.push(Action::Probe(worker.id));
                }
                State::Probed { .. } | State::Suspect { .. } => {}
            }
        }
        actions
    }
}

/// What answers took, the shortest first.
struct Answers {
    took: Vec<Duration>,
}

impl Answers {
    /// When a probe that was sent to this worker is late: by the median of what the others' answers took.
    fn late_at<Id>(&self, worker: &Watched<Id>, sent: Time) -> Time {
        // Its own is left out.
        let own = worker.answer.and_then(|answer| self.took.binary_search(&answer.took).ok());
        let middle = (self.took.len() - usize::from(own.is_some())) / 2;
        let at = middle + usize::from(own.is_some_and(|own| own <= middle));
        let median = self.took.get(at).copied().unwrap_or_default();
        sent + PROBE_PATIENCE.max(median * PROBE_PATIENCE_FACTOR)
    }
}

/// The positions of the two trusted workers that have answered last, and when.
struct Witnesses {
    last: Option<(usize, Time)>,
    before: Option<(usize, Time)>,
}

impl Witnesses {
    /// Whether another worker's loop has turned since.
    fn answers_beside(&self, position: usize, since: Time) -> bool {
        let other = self.last.filter(|(last, _)| *last != position).or(self.before);
        other.is_some_and(|(_, at)| at >= since)
    }
}

impl<Id> Watched<Id> {
    fn is_trusted(&self) -> bool {
        match self.state {
            State::Trusted { .. } | State::Probed { .. } => true,
            State::Suspect { .. } => false,
        }
    }
}
