//! Handles messages of workers in the daemon: answers queries, binds addresses, and informs the supervisor.

use forkful_core::Time;
use forkful_core::slot;
use forkful_core::spec::Balance;
use forkful_core::steering::evenness::Connections;
use forkful_core::supervisor::{AppId, Event, ListenFault, Sockets};
use forkful_dispatch::{Event as Input, Grant, ListeningId, ReplyId};

use super::address::Address;
use super::channel::{Item, Said};
use super::primary::Told;
use super::{Port, worker_of};
use crate::machine::Pid;
use crate::plant::Plant;
use crate::world::World;

/// Lines read from a worker in one turn.
const LINES_PER_TURN: usize = 4;
/// Maximum sockets of an app.
const SOCKETS_MAX: usize = 40;

impl World {
    /// The daemon reads a worker's channel. Returns whether there was one.
    pub(crate) fn hear(&mut self, pid: Pid) -> bool {
        let Some(worker) = self.net.workers.get_mut(pid) else { return false };
        worker.will_be_heard = false;
        let app = worker.app;
        if self.hear_some(app, pid) {
            self.plan_hearing(pid, std::time::Duration::ZERO);
        }
        true
    }

    /// Reads all of a worker's messages before it is removed.
    pub(super) fn hear_all(&mut self, app: AppId, pid: Pid) {
        while self.hear_some(app, pid) {}
    }

    /// Reads a turn's worth of a worker's messages. Returns whether there may be more.
    fn hear_some(&mut self, app: AppId, pid: Pid) -> bool {
        let Some(primary) = self.net.primaries.get_mut(&app) else { return false };
        let Some(worker) = self.net.workers.get_mut(pid) else { return false };
        if !primary.workers.contains(&pid) {
            return false;
        }
        let (said, more) = worker.channel.hear(LINES_PER_TURN);
        let is_over = worker.has_closed && worker.channel.said.is_empty();
        if more && let Some(state) = primary.dispatcher.channel_mut(worker_of(pid)) {
            state.crowd(self.now);
        }
        for said in said {
            self.trace(|| format!("    process {} says {said:?}", pid.0));
            self.on_said(app, pid, said);
            self.perform_dispatch(app);
        }
        // There is room for the worker's waiting messages.
        self.wake_loop(pid);
        if is_over && let Some(primary) = self.net.primaries.get_mut(&app) {
            if primary.workers.contains(&pid) {
                primary.told.push_back(Told::Disconnected(pid));
                self.cut_off(app, pid, true);
            }
            return false;
        }
        more
    }

    fn on_said(&mut self, app: AppId, pid: Pid, said: Said) {
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        let worker = worker_of(pid);
        let input = match said {
            Said::Hello => {
                if !primary.dispatcher.has_agent(worker) {
                    primary.told.push_back(Told::Greeted(pid));
                }
                Input::Greeted(worker)
            }
            Said::Query(port) => return self.on_query(app, pid, port),
            Said::Listening(port) => {
                let is_meant =
                    |id: &ListeningId| primary.addresses.get(id).is_some_and(|address| address.port == port);
                let meant = primary.dispatcher.unreported(worker).find(is_meant);
                let Some(listening) = meant else { return };
                primary.told.push_back(Told::Listening(pid));
                Input::Listens { worker, listening }
            }
            Said::Ready => return primary.told.push_back(Told::Ready(pid)),
            Said::Closed(listening) => Input::Closed { worker, listening },
            Said::Leaves => Input::Leaves { worker, ack: 1 },
            Said::HandleTaken => Input::HandleTaken(worker),
            Said::HandleMissed => Input::HandleMissed(worker),
            Said::Answered { seq, accepted } => Input::Answered { worker, seq, accepted },
            Said::Echoed => Input::Echoed(worker),
            Said::Counted(staying) => {
                Input::Counted { worker, connections: Connections { staying, movable: staying } }
            }
            Said::Drained { stops } => {
                let stops = stops && !self.plants(Plant::HandlerForgotten);
                let Some(primary) = self.net.primaries.get_mut(&app) else { return };
                primary.told.extend(stops.then_some(Told::Drained(pid)));
                Input::Drained { worker, stops }
            }
            Said::Served(served) => return primary.told.push_back(Told::Served(pid, served)),
            Said::Chatter => return primary.dispatcher.spoke(worker, self.now),
        };
        self.dispatch(app, input);
    }

    fn on_query(&mut self, app: AppId, pid: Pid, port: Port) {
        let worker = worker_of(pid);
        let Some(primary) = self.net.primaries.get(&app) else { return };
        if !primary.dispatcher.may_ask(worker) {
            return;
        }
        let is_held = |listening: ListeningId| primary.dispatcher.holds(worker, listening);
        let listening = match primary.listening_of(port) {
            Some(listening) => Some(listening).filter(|listening| !is_held(*listening)),
            None => self.bind(app, port),
        };
        let granted = listening.is_some_and(|listening| {
            let granted = self.answer_query(app, pid, listening, port);
            if !granted {
                self.dispatch(app, Input::NotHeld(listening));
            }
            granted
        });
        if !granted {
            self.send(app, pid, Item::Refused(port));
            if let Some(primary) = self.net.primaries.get_mut(&app) {
                primary.told.push_back(Told::ListenFailed(pid, port));
            }
        }
    }

    /// Binds an address, unless another app or program uses it.
    fn bind(&mut self, app: AppId, port: Port) -> Option<ListeningId> {
        let is_taken = self.net.primaries.values().any(|primary| primary.by_port.contains_key(&port));
        if port == Port::Taken || is_taken || self.goes_wrong(self.net.faults.no_descriptors) {
            return None;
        }
        let balance = self.daemon.apps.get(&app)?.supervisor.spec().balance;
        let primary = self.net.primaries.get_mut(&app)?;
        let address = Address::new(port, !port.is_unix() && balance != Balance::Shared);
        let listening = primary.dispatcher.add_listening(address.as_new(), self.now);
        primary.addresses.insert(listening, address);
        primary.by_port.insert(port, listening);
        Some(listening)
    }

    fn answer_query(&mut self, app: AppId, pid: Pid, listening: ListeningId, port: Port) -> bool {
        let has_none = self.goes_wrong(self.net.faults.no_descriptors);
        let Some(primary) = self.net.primaries.get_mut(&app) else { return false };
        let worker = worker_of(pid);
        let Some(grant) = primary.dispatcher.grant(listening, SOCKETS_MAX) else { return false };
        let member = match grant {
            Grant::Push => {
                self.send(app, pid, Item::Pushes(listening, port));
                self.dispatch(app, Input::Held { worker, ack: 0, listening, member: None, reply: None });
                return true;
            }
            Grant::Shared => 0,
            Grant::Own(member) => member,
            Grant::New if has_none => return false,
            Grant::New => {
                let Some(address) = primary.addresses.get_mut(&listening) else { return false };
                let member = address.add_member();
                primary.dispatcher.add_member(listening);
                member
            }
        };
        let reply = ReplyId(primary.next_reply);
        primary.next_reply += 1;
        if let Some(state) = self.net.workers.get_mut(pid) {
            state.channel.replies.insert(reply, (listening, member, port));
        }
        let own = (grant != Grant::Shared).then_some(member);
        self.dispatch(app, Input::Held { worker, ack: 0, listening, member: own, reply: Some(reply) });
        true
    }

    /// Since when a worker owes a reply.
    pub(crate) fn owes_since(&self, pid: Pid) -> Option<Time> {
        let app = self.net.workers.get(pid)?.app;
        self.net.primaries.get(&app)?.dispatcher.owes_since(worker_of(pid))
    }

    /// Facts about the sockets that a process shares.
    pub(crate) fn shared_sockets(&self, app: AppId, pid: Pid, old: Option<Pid>) -> Sockets {
        let primary = self.net.primaries.get(&app);
        primary.map_or_else(Sockets::default, |primary| {
            primary.dispatcher.sockets_of(&[worker_of(pid)], old.map(worker_of).as_slice())
        })
    }

    /// Informs the supervisor of what a primary has noticed.
    pub(super) fn on_told(&mut self, app: AppId, told: Told) {
        let whose = |world: &Self, pid: Pid| world.machine.processes.get(pid).map(|process| process.whose);
        match told {
            Told::Greeted(pid) => {
                if let Some((_, slot, generation)) = whose(self, pid) {
                    self.feed(app, slot, slot::Event::Greeted(generation));
                }
            }
            Told::Listening(pid) => {
                let Some((_, slot, generation)) = whose(self, pid) else { return };
                let lacks_address = self.sockets_seen(app, slot, generation, pid).lacks_address;
                self.supervise(app, Event::Listening { slot, generation, lacks_address });
            }
            Told::Ready(pid) => {
                if let Some((_, slot, generation)) = whose(self, pid) {
                    self.supervise(app, Event::SaidReady(slot, generation));
                }
            }
            Told::Served(pid, served) => {
                if let Some((_, slot, generation)) = whose(self, pid) {
                    self.supervise(app, Event::Requests { slot, generation, served });
                }
            }
            Told::ListenFailed(pid, port) => {
                if let Some((_, slot, _)) = whose(self, pid) {
                    let fault = ListenFault { error: format!("{port:?} is taken"), hint: None };
                    self.supervise(app, Event::ListenRefused(slot, fault));
                }
            }
            Told::Disconnected(pid) => {
                if let Some((_, slot, generation)) = whose(self, pid) {
                    self.watch.excuse(app, slot);
                    self.feed(app, slot, slot::Event::Disconnected(generation));
                }
            }
            Told::Drained(pid) => {
                if let Some((_, slot, generation)) = whose(self, pid) {
                    self.feed(app, slot, slot::Event::Drained(generation));
                }
            }
        }
    }
}
