//! What workers listen on: queries answered, addresses bound, held and given up.

use std::io;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::last_words::LastWords;
use forkful_core::steering::address::{LastHolder, is_given_up};
use forkful_os::procinfo::open_files_limit;
use serde_json::value::RawValue;

use super::listening::{self, ListenKey, Listening, Source};
use super::worker::{Hold, Stage, Worker, WorkerId};
use super::{EINVAL, Primary, PrimaryEvent};
use crate::channel::{listening_of, worker_key};
use crate::protocol::incoming::Query;
use crate::protocol::outgoing::{self, ReplyHead};

/// An address that no worker holds any more stays bound this long after a close by the app.
const CLOSED_GRACE: Duration = Duration::from_secs(1);
/// The same after an exit: the next worker may need a while before it listens again.
pub(super) const EXITED_GRACE: Duration = Duration::from_secs(30);
/// Listenings of one app; a bound against an app that listens in a loop.
const LISTENINGS_MAX: usize = 1024;
/// The sockets of one app are at most this part of the descriptors that the daemon may have: each worker has a socket of
/// its own for each address, and no app must use up what the others need.
const SOCKETS_PART: usize = 4;

/// Linux errnos that go into replies.
const EMFILE: i32 = 24;
const EADDRINUSE: i32 = 98;

/// How many sockets one app may have.
fn sockets_max() -> usize {
    let limit = open_files_limit().soft.and_then(|limit| usize::try_from(limit).ok());
    limit.map_or(usize::MAX, |limit| limit / SOCKETS_PART)
}

impl Primary {
    pub(super) fn on_query(&mut self, id: WorkerId, query: &Query, ack: u64, now: Time) {
        if self.workers.get(&id).is_none_or(|worker| worker.stage == Stage::Disconnecting) {
            return;
        }
        let answered = self
            .find_or_bind(id, query, now)
            .and_then(|(index, member)| self.answer_query(id, index, member, ack, now).map(|()| index));
        match answered {
            Ok(index) => self.refresh(index, now),
            Err(error) => {
                let errno = error.raw_os_error().unwrap_or(EINVAL);
                self.refuse_query(id, ack, errno, query.data.as_deref(), now);
                self.events.push_back(PrimaryEvent::ListenFailed {
                    worker: id,
                    address: listening::describe_query(query),
                    errno,
                    port: listening::port_of(query),
                });
            }
        }
    }

    pub(super) fn refuse_query(
        &mut self,
        id: WorkerId,
        ack: u64,
        errno: i32,
        data: Option<&RawValue>,
        now: Time,
    ) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let seq = worker.next_seq();
        let key = worker_key(usize::MAX);
        worker.channel.send(outgoing::reply_error(ReplyHead { key: &key, ack, data, seq }, errno), now);
        self.watch_write(id);
    }

    /// The listening that a query means, and the worker's own socket in it.
    fn find_or_bind(&mut self, id: WorkerId, query: &Query, now: Time) -> io::Result<(usize, usize)> {
        let key = ListenKey::of(query);
        let index = match self.by_key.get(&key).copied() {
            // By the same worker.
            Some(index) if self.workers.get(&id).is_some_and(|w| w.holds.contains_key(&index)) => {
                return Err(io::Error::from_raw_os_error(EADDRINUSE));
            }
            Some(index) => index,
            None => self.bind(key, query, now)?,
        };
        let listening = self.listenings.get_mut(&index).expect("found or inserted above");
        if listening.data.is_none() {
            listening.data.clone_from(&query.data);
        }
        if listening.push_only() {
            return Ok((index, 0));
        }
        if self.listenings.values().map(|listening| listening.members.len()).sum::<usize>() >= sockets_max() {
            self.drop_if_new(index);
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let listening = self.listenings.get_mut(&index).expect("found or inserted above");
        match listening.take_member(id) {
            Ok(member) => Ok((index, member)),
            Err(error) => {
                self.drop_if_new(index);
                Err(error)
            }
        }
    }

    fn bind(&mut self, key: ListenKey, query: &Query, now: Time) -> io::Result<usize> {
        if self.listenings.len() >= LISTENINGS_MAX {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let listening = Listening::bind(query, &self.config, now)?;
        let index = self.next_listening;
        self.next_listening += 1;
        self.listenings.insert(index, listening);
        self.by_key.insert(key, index);
        Ok(index)
    }

    fn answer_query(
        &mut self,
        id: WorkerId,
        index: usize,
        member: usize,
        ack: u64,
        now: Time,
    ) -> io::Result<()> {
        let Some(listening) = self.listenings.get_mut(&index) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(&id) else { return Ok(()) };
        let key = worker_key(index);
        let seq = worker.next_seq();
        let head = ReplyHead { key: &key, ack, data: listening.data.as_deref(), seq };
        let own = matches!(listening.source, Source::Group(_)) && !listening.push_only();
        let hold = Hold { member: own.then_some(member), listening: false };
        if listening.push_only() {
            let line = outgoing::reply_push(head, listening.local_address());
            worker.channel.send(line, now);
        } else {
            let line = outgoing::reply_handle(head, outgoing::handle_kind(listening.key.kind()));
            match listening.socket(member).try_clone_to_owned() {
                Ok(handle) => worker.channel.send_reply(line, handle, worker.holds.len() + 1, now),
                Err(error) => {
                    listening.members[member].owner = None;
                    self.drop_if_new(index);
                    return Err(error);
                }
            }
        }
        listening.unheld_until = None;
        worker.holds.insert(index, hold);
        let holders = self.workers.values().filter(|worker| worker.holds.contains_key(&index)).count();
        if let Some(listening) = self.listenings.get_mut(&index) {
            listening.shared_once |= holders > 1;
        }
        Ok(())
    }

    /// An address that was bound for a query that then failed is free again at once.
    fn drop_if_new(&mut self, index: usize) {
        let held = self.workers.values().any(|worker| worker.holds.contains_key(&index));
        if !held && self.listenings.get(&index).is_some_and(|listening| listening.unheld_until.is_none()) {
            self.remove_listening(index);
        }
    }

    pub(super) fn on_listening(&mut self, id: WorkerId, query: &Query, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let meant = worker.holds.iter().find(|(index, hold)| {
            !hold.listening
                && self.listenings.get(index).is_some_and(|listening| listening.is_reported_as(query))
        });
        let Some(index) = meant.map(|(index, _)| *index) else { return };
        if let Some(hold) = worker.holds.get_mut(&index) {
            hold.listening = true;
        }
        worker.has_listened = true;
        self.events.push_back(PrimaryEvent::Listening(id));
        self.begin_looks(now);
        self.refresh(index, now);
        self.dispatch_all(now);
    }

    /// What `old` listens on and its successor does not (yet), for people. Nothing when the successor listens on as many
    /// addresses, for then it has moved. What `old` has to itself, while others of the app serve, is not expected of
    /// another process: a port or a path may be made of a process's number.
    pub fn missing_of(&self, new: WorkerId, old: WorkerId) -> Vec<&str> {
        let listens =
            |worker: &Worker, index: &usize| worker.holds.get(index).is_some_and(|hold| hold.listening);
        let (Some(new), Some(of_old)) = (self.workers.get(&new), self.workers.get(&old)) else {
            return Vec::new();
        };
        let count = |worker: &Worker| worker.holds.values().filter(|hold| hold.listening).count();
        if count(new) >= count(of_old) {
            return Vec::new();
        }
        let serving = self.workers.iter().filter(|(id, worker)| **id != old && worker.stage == Stage::Open);
        let others: Vec<&Worker> =
            serving.map(|(_, worker)| worker).filter(|worker| !worker.holds.is_empty()).collect();
        let is_missing = |index: &&usize| {
            let shared = others.is_empty() || others.iter().any(|other| listens(other, index));
            listens(of_old, index) && shared && !listens(new, index)
        };
        let missing = of_old.holds.keys().filter(is_missing);
        missing.filter_map(|index| Some(self.listenings.get(index)?.address.as_str())).collect()
    }

    /// What a worker listens on, for people.
    pub fn listening_on(&self, id: WorkerId) -> Vec<&str> {
        let holds = self.workers.get(&id).into_iter().flat_map(|worker| &worker.holds);
        let listening = holds.filter(|(_, hold)| hold.listening);
        listening.filter_map(|(index, _)| Some(self.listenings.get(index)?.address.as_str())).collect()
    }

    pub(super) fn on_close(&mut self, id: WorkerId, key: &str, now: Time) {
        let Some(worker) = self.workers.get(&id) else { return };
        if let Some(index) = listening_of(key).filter(|index| worker.holds.contains_key(index)) {
            let grace = if worker.stage >= Stage::Draining { EXITED_GRACE } else { CLOSED_GRACE };
            self.release(id, index, grace, now);
            self.refresh(index, now);
            self.dispatch_all(now);
            self.await_last_words(id, now);
        }
    }

    /// The worker has been told to end.
    pub fn stopping(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id) {
            worker.stopping = true;
            self.await_last_words(id, now);
        }
    }

    /// A worker that is to end and has closed all its servers is let go soon (see [`forkful_core::last_words`]).
    fn await_last_words(&mut self, id: WorkerId, now: Time) {
        if let Some(worker) = self.workers.get_mut(&id)
            && worker.stopping
            && worker.has_closed_all()
        {
            worker.last_words.get_or_insert_with(|| LastWords::from(now));
        }
    }

    /// Disconnects the workers whose apps have said what they had to say.
    pub(super) fn disconnect_silent(&mut self, now: Time) {
        let ended = |worker: &Worker| worker.last_words.is_some_and(|words| words.end() <= now);
        let silent = self.workers.iter().filter(|(_, worker)| ended(worker));
        for id in silent.map(|(id, _)| *id).collect::<Vec<_>>() {
            let Some(worker) = self.workers.get_mut(&id) else { continue };
            worker.last_words = None;
            // It may listen again.
            if worker.has_closed_all() {
                self.disconnect(id, now);
            }
        }
    }

    /// Whether the worker has listened, and listens on nothing any more.
    pub fn has_closed_all(&self, id: WorkerId) -> bool {
        self.workers.get(&id).is_some_and(Worker::has_closed_all)
    }

    /// A worker lets go of a listening.
    pub(super) fn release(&mut self, id: WorkerId, index: usize, grace: Duration, now: Time) {
        let Some(worker) = self.workers.get_mut(&id) else { return };
        let Some(hold) = worker.holds.remove(&index) else { return };
        let still_held = self.workers.values().any(|worker| worker.holds.contains_key(&index));
        let Some(listening) = self.listenings.get_mut(&index) else { return };
        listening.suspicion.remove(id);
        if let Some(member) = hold.member
            && listening.members[member].owner == Some(id)
        {
            listening.members[member].owner = None;
        }
        if !still_held {
            listening.unheld_until = Some(now + grace);
        }
    }

    /// Gives up what only leaving workers listen on now that this one leaves, too, and nobody will again. Their agents
    /// close it, because a socket refuses clients only when its last holder has closed it.
    pub(super) fn give_up_left(&mut self, id: WorkerId, now: Time) -> Vec<String> {
        let Some(leaver) = self.workers.get(&id) else { return Vec::new() };
        let stays = |worker: &&Worker| worker.stage <= Stage::Open;
        let staying = || self.workers.values().filter(stays);
        let count = |worker: &Worker| worker.holds.values().filter(|hold| hold.listening).count();
        let serving = || staying().filter(|worker| worker.stage == Stage::Open && count(worker) > 0);
        let last = LastHolder {
            listens_on: count(leaver),
            successor_listens_on: serving().filter(|w| w.slot == leaver.slot).map(count).max(),
            others_serve: serving().next().is_some(),
        };
        if !is_given_up(last) {
            return Vec::new();
        }
        let is_left = |index: &usize| !staying().any(|worker| worker.holds.contains_key(index));
        let left: Vec<usize> = leaver.holds.keys().copied().filter(is_left).collect();
        // One that never was more than one worker's own, as a path made of a process id, is nothing to tell of.
        let is_alone = staying().count() == 1;
        let told = |listening: &Listening| listening.shared_once || is_alone;
        let told: Vec<bool> = left.iter().map(|index| self.listenings.get(index).is_some_and(told)).collect();
        let given_up = left.into_iter().zip(told).map(|(index, told)| (self.give_up(index, now), told));
        given_up.filter_map(|(address, told)| address.filter(|_| told)).collect()
    }

    fn give_up(&mut self, index: usize, now: Time) -> Option<String> {
        let listening = self.listenings.get(&index)?;
        let address = listening.address.clone();
        let closes = match (listening.file(), listening.local_address()) {
            (Some(path), _) => Some(path.to_string_lossy().into_owned()),
            (None, Some(address)) if listening.is_tcp() => Some(address.port().to_string()),
            (None, _) => None,
        };
        let holders = self.workers.iter().filter(|(_, worker)| {
            worker.agent && worker.stage == Stage::Draining && worker.holds.contains_key(&index)
        });
        for id in holders.map(|(id, _)| *id).collect::<Vec<_>>() {
            let line = outgoing::agent_drain(super::IDLE_GRACE_MS, closes.as_slice());
            self.with_channel(id, |channel| channel.send(line, now));
        }
        self.remove_listening(index);
        Some(address)
    }

    /// Gives up addresses that nobody holds any more, while others of the app work.
    pub(super) fn drop_unheld(&mut self, now: Time) {
        let due: Vec<usize> = self
            .listenings
            .iter()
            .filter(|(_, listening)| listening.unheld_until.is_some_and(|until| until <= now))
            .map(|(index, _)| *index)
            .collect();
        let works = self.workers.values().any(|worker| worker.stage == Stage::Open);
        for index in due {
            if works {
                self.remove_listening(index);
            } else if let Some(listening) = self.listenings.get_mut(&index) {
                listening.unheld_until = Some(now + EXITED_GRACE);
            }
        }
    }

    pub(super) fn remove_listening(&mut self, index: usize) {
        if let Some(listening) = self.listenings.remove(&index) {
            self.by_key.remove(&listening.key);
            self.forget_connections_of(index);
            for (member, state) in listening.members.iter().enumerate() {
                if state.interest.is_some() {
                    let _gone = self.reactor.remove(listening.socket(member));
                }
            }
        }
    }
}
