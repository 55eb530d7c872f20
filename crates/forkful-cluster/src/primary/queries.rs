//! The addresses on which workers listen: answers queries and binds addresses.

use std::io;

use forkful_core::Time;
use forkful_core::supervisor::Sockets;
use forkful_dispatch::{Event, Grant, ListeningId, ReplyId, WorkerId};
use forkful_os::procinfo::open_files_limit;
use serde_json::value::RawValue;

use super::listening::{self, ListenKey, Listening};
use super::{EINVAL, Primary, PrimaryEvent};
use crate::channel::{Channel, Reply, worker_key};
use crate::protocol::incoming::Query;
use crate::protocol::outgoing::{self, ReplyHead};

/// Maximum listenings of an app, for apps that listen in a loop.
const LISTENINGS_MAX: usize = 1024;
/// An app's sockets are limited to this fraction of the daemon's descriptors: each worker has its own socket
/// for each address, and no app may use the descriptors that others need.
const SOCKETS_PART: usize = 4;

/// Linux errnos in replies.
const EMFILE: i32 = 24;
const EADDRINUSE: i32 = 98;

/// The maximum number of sockets of an app.
fn sockets_max() -> usize {
    let limit = open_files_limit().current.and_then(|limit| usize::try_from(limit).ok());
    limit.map_or(usize::MAX, |limit| limit / SOCKETS_PART)
}

impl Primary {
    pub(super) fn on_query(&mut self, id: WorkerId, query: &Query, ack: u64, now: Time) {
        // A daemon that takes over may read what the previous one has answered.
        if !self.dispatcher.may_ask(id) || self.dispatcher.was_asked(id, ack) {
            return;
        }
        self.channels.get_mut(&id).into_iter().for_each(Channel::save_first);
        let answered = self.find_or_bind(id, query, now).and_then(|listening| {
            let answered = self.answer_query(id, listening, ack, now);
            if answered.is_err() {
                self.step(Event::NotHeld(listening), now);
            }
            answered
        });
        if let Err(error) = answered {
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

    pub(super) fn refuse_query(
        &mut self,
        id: WorkerId,
        ack: u64,
        errno: i32,
        data: Option<&RawValue>,
        now: Time,
    ) {
        let Some(seq) = self.dispatcher.next_seq(id) else { return };
        let key = worker_key(ListeningId(usize::MAX));
        self.send(id, outgoing::reply_error(ReplyHead { key: &key, ack, data, seq }, errno), now);
    }

    /// The listening for a query.
    fn find_or_bind(&mut self, id: WorkerId, query: &Query, now: Time) -> io::Result<ListeningId> {
        let key = ListenKey::of(query);
        let is_lost = |id: &ListeningId| self.listenings.get(id).is_some_and(Listening::has_lost_its_file);
        let found = match self.by_key.get(&key).copied() {
            // The process has removed the file of an earlier one, as servers do that find a file left over. Clients reach
            // only a new one.
            Some(found) if self.config.lends && is_lost(&found) => {
                let new = self.bind(id, key, query, now)?;
                self.step(Event::Lost(found), now);
                new
            }
            Some(found) if self.dispatcher.holds(id, found) || self.is_kept_from(id, found, query) => {
                return Err(io::Error::from_raw_os_error(EADDRINUSE));
            }
            Some(found) => found,
            None => self.bind(id, key, query, now)?,
        };
        if let Some(listening) = self.listenings.get_mut(&found).filter(|listening| listening.data.is_none())
        {
            listening.data.clone_from(&query.data);
        }
        Ok(found)
    }

    /// Whether an address belongs exclusively to another process.
    fn is_kept_from(&self, id: WorkerId, listening: ListeningId, query: &Query) -> bool {
        let is_of_others = || self.dispatcher.is_of_others(id, listening);
        if query.reuses_port() {
            false
        } else if query.exclusive {
            is_of_others()
        } else {
            self.config.lends && (is_of_others() || self.is_of_relative(id, listening))
        }
    }

    /// Whether another process below the same worker's process holds an address.
    fn is_of_relative(&self, id: WorkerId, listening: ListeningId) -> bool {
        let leader = |id: &WorkerId| self.channels.get(id).and_then(|channel| channel.leader).unwrap_or(*id);
        let relatives = self.channels.keys().filter(|other| leader(other) == leader(&id));
        relatives.into_iter().any(|other| self.dispatcher.holds(*other, listening))
    }

    fn bind(&mut self, id: WorkerId, key: ListenKey, query: &Query, now: Time) -> io::Result<ListeningId> {
        if self.listenings.len() >= LISTENINGS_MAX {
            return Err(io::Error::from_raw_os_error(EMFILE));
        }
        let mut listening = match Listening::bind(query, &self.config) {
            Err(error) if error.raw_os_error() == Some(EADDRINUSE) => {
                // The previous daemon has read the same query, and died between its bind and its state.
                if self.dispatcher.is_settling(id) {
                    listening::remove_left_over(query, &self.config);
                }
                self.give_way(query, now);
                Listening::bind(query, &self.config)?
            }
            bound => bound?,
        };
        let id = self.dispatcher.add_listening(listening.as_new(), now);
        listening.keep(0, id, &self.config);
        self.has_changed = true;
        self.listenings.insert(id, listening);
        self.by_key.insert(key, id);
        Ok(id)
    }

    /// Releases what the app has closed of a port: it stays bound for a while, in case that the app listens on it again.
    fn give_way(&mut self, query: &Query, now: Time) {
        let Some(port) = listening::port_of(query) else { return };
        let of_port = self.listenings.iter().filter(|(_, listening)| listening.port() == Some(port));
        let of_port: Vec<ListeningId> = of_port.map(|(id, _)| *id).collect();
        for id in of_port {
            if self.dispatcher.may_give_way(id, now) {
                // The keeper has its sockets for a moment longer.
                self.listenings.get(&id).into_iter().for_each(Listening::end);
                self.step(Event::GiveWay(id), now);
            }
        }
    }

    fn answer_query(&mut self, id: WorkerId, held: ListeningId, ack: u64, now: Time) -> io::Result<()> {
        let grant = self.dispatcher.grant(held, sockets_max());
        let grant = grant.ok_or_else(|| io::Error::from_raw_os_error(EMFILE))?;
        let member = match grant {
            Grant::Push | Grant::Shared => 0,
            Grant::Own(member) => member,
            Grant::New => self.add_member(held)?,
        };
        let reply = self.answer(id, (held, (grant != Grant::Push).then_some(member)), ack, now)?;
        let own = matches!(grant, Grant::Own(_) | Grant::New).then_some(member);
        self.step(Event::Held { worker: id, ack, listening: held, member: own, reply }, now);
        Ok(())
    }

    /// Answers a query. Returns the reply that must be queued if the worker gets a socket.
    fn answer(
        &mut self,
        id: WorkerId,
        (held, member): (ListeningId, Option<usize>),
        ack: u64,
        now: Time,
    ) -> io::Result<Option<ReplyId>> {
        let Some(listening) = self.listenings.get(&held) else { return Ok(None) };
        let Some(seq) = self.dispatcher.next_seq(id) else { return Ok(None) };
        let key = worker_key(held);
        let head = ReplyHead { key: &key, ack, data: listening.data.as_deref(), seq };
        let Some(member) = member else {
            let line = outgoing::reply_push(head, listening.local_address());
            self.send(id, line, now);
            return Ok(None);
        };
        let line = outgoing::reply_handle(head, outgoing::handle_kind(listening.key.kind()));
        let handle = listening.socket(member).try_clone_to_owned()?;
        let reply = ReplyId(self.next_reply);
        self.next_reply += 1;
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.keep_reply(reply, Reply { line, handle });
        }
        Ok(Some(reply))
    }

    /// Answers a query that the previous daemon has answered, see
    /// [`Action::AnswerAgain`](forkful_dispatch::Action::AnswerAgain).
    pub(super) fn answer_again(
        &mut self,
        id: WorkerId,
        held: (ListeningId, Option<usize>),
        ack: u64,
        now: Time,
    ) {
        match self.answer(id, held, ack, now) {
            Ok(Some(reply)) => self.feed(Event::Pass { worker: id, reply }, now),
            Ok(None) => {}
            Err(error) => self.refuse_query(id, ack, error.raw_os_error().unwrap_or(EINVAL), None, now),
        }
    }

    /// Adds a socket to a group.
    fn add_member(&mut self, id: ListeningId) -> io::Result<usize> {
        let Some(listening) = self.listenings.get_mut(&id) else { return Ok(0) };
        let member = listening.add_member()?;
        listening.keep(member, id, &self.config);
        self.has_changed = true;
        self.dispatcher.add_member(id);
        Ok(member)
    }

    pub(super) fn on_listening(&mut self, id: WorkerId, query: &Query, now: Time) {
        let is_meant = |listening: &ListeningId| {
            self.listenings.get(listening).is_some_and(|listening| listening.is_reported_as(query))
        };
        let meant = self.dispatcher.unreported(id).find(is_meant);
        if let Some(listening) = meant {
            self.events.push_back(PrimaryEvent::Listening(id));
            self.step(Event::Listens { worker: id, listening }, now);
        }
    }

    /// Addresses, for people, on which `old` listens and its successor does not (yet); see
    /// [`Dispatcher::missing_of`](forkful_dispatch::Dispatcher::missing_of).
    pub fn missing_of(&self, new: &[WorkerId], old: &[WorkerId]) -> Vec<&str> {
        self.named(self.dispatcher.missing_of(new, old).into_iter())
    }

    /// Facts about a process's sockets, see
    /// [`Dispatcher::sockets_of`](forkful_dispatch::Dispatcher::sockets_of).
    pub fn sockets_of(&self, new: &[WorkerId], old: &[WorkerId]) -> Sockets {
        self.dispatcher.sockets_of(new, old)
    }

    /// The addresses on which a worker listens, for people.
    pub fn listening_on(&self, id: WorkerId) -> Vec<&str> {
        self.named(self.dispatcher.listening_on(id))
    }

    fn named(&self, listenings: impl Iterator<Item = ListeningId>) -> Vec<&str> {
        listenings.filter_map(|id| Some(self.listenings.get(&id)?.address.as_str())).collect()
    }

    /// The worker was told to stop.
    pub fn stopping(&mut self, id: WorkerId, now: Time) {
        self.own_leaves(id, now);
        self.step(Event::Stopping(id), now);
    }

    /// Whether the worker has listened before, and now listens on no address.
    pub fn has_closed_all(&self, id: WorkerId) -> bool {
        self.dispatcher.has_closed_all(id)
    }
}
