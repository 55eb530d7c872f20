//! Workers start, reply, give up connections and exit; a reload replaces them slot by slot.

use std::time::Duration;

use forkful_core::rollout::LEAVING_MAX;
use forkful_core::steering::evenness::Connections;
use forkful_dispatch::{Event, Grant, WorkerId};

use super::costs;
use super::worker::{Done, Worker};
use super::world::{Heard, Load, What, World};

/// The time over which a worker closes the connections that it must give up, for clients with four requests
/// per second.
const GIVEN_UP_OVER: Duration = Duration::from_millis(250);

/// A reload in progress.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reload {
    next: u16,
    slots: u16,
    leaving: usize,
    starts: bool,
}

impl World {
    pub(super) fn begin_reload(&mut self) {
        let slots = self.workers.values().map(|worker| worker.slot).max().map_or(0, |last| last + 1);
        self.reload = Some(Reload { next: 0, slots, leaving: 0, starts: false });
        self.go_on();
    }

    pub(super) fn is_reloaded(&self) -> bool {
        self.reload.is_none()
    }

    fn go_on(&mut self) {
        let Some(reload) = &mut self.reload else { return };
        if reload.next == reload.slots && reload.leaving == 0 && !reload.starts {
            self.reload = None;
        } else if reload.next < reload.slots && reload.leaving < LEAVING_MAX && !reload.starts {
            let slot = reload.next;
            (reload.next, reload.starts) = (slot + 1, true);
            self.at(self.now + costs::START, What::Started(slot));
        }
    }

    /// A new process listens, and the old process of its slot leaves.
    pub(super) fn started(&mut self, slot: u16) {
        self.clock = self.now;
        let old = self.workers.iter().find(|(_, worker)| worker.slot == slot).map(|(id, _)| *id);
        self.add_worker(slot);
        if let Some(old) = old {
            self.step(Event::Drain(WorkerId(old)));
        }
        if let Some(reload) = &mut self.reload {
            reload.starts = false;
            reload.leaving += usize::from(old.is_some());
        }
        self.daemon.busy += self.clock.since(self.now);
        self.set_alarm();
        self.go_on();
    }

    pub(super) fn add_worker(&mut self, slot: u16) {
        let number = self.next_worker;
        self.next_worker += 1;
        let id = WorkerId(number);
        self.dispatcher.attach(id, true);
        self.dispatcher.identify(id, slot);
        self.workers.insert(number, Worker::new(slot));
        self.step(Event::Greeted(id));
        let listening = self.address.id;
        let member = match self.dispatcher.grant(listening, usize::MAX) {
            Some(Grant::Own(member)) => Some(member),
            Some(Grant::New) => {
                self.dispatcher.add_member(listening);
                self.owners.push(None);
                Some(self.address.add_member())
            }
            Some(Grant::Push | Grant::Shared) | None => None,
        };
        self.step(Event::Held { worker: id, ack: 0, listening, member, reply: None });
        if let Some(member) = member {
            self.owners[member] = Some(number);
        }
        if let Some(worker) = self.workers.get_mut(&number) {
            worker.member = member;
        }
        self.step(Event::Listens { worker: id, listening });
        self.step(Event::Open(id));
    }

    pub(super) fn gone(&mut self, number: u32) {
        let Some(worker) = self.workers.remove(&number) else { return };
        if let Some(member) = worker.member {
            self.owners[member] = None;
        }
        self.step(Event::Gone { worker: WorkerId(number), may_have_served: false });
        if let Some(reload) = &mut self.reload {
            reload.leaving -= 1;
        }
        self.go_on();
    }

    pub(super) fn done(&mut self, number: u32, done: Done) {
        let id = WorkerId(number);
        match done {
            Done::ProbeAnswered => self.tell_daemon(Heard::Event(Event::HandleMissed(id))),
            Done::Took(pushed) => {
                self.tell_daemon(Heard::Took { worker: number, seq: pushed.seq });
                self.begins(number, pushed.connection.0);
            }
            Done::Accepted(connection) => self.begins(number, connection),
            Done::Answered(connection) => {
                let wait = self.now.since(self.asked[connection as usize]);
                self.waits.push(wait.as_micros() as u32);
                if self.load != Load::Kept {
                    self.ends(connection);
                }
            }
            Done::Counted { staying } => {
                let connections = Connections { staying, movable: staying };
                self.tell_daemon(Heard::Event(Event::Counted { worker: id, connections }));
            }
            Done::Moves(count) => {
                let count =
                    self.workers.get(&number).map_or(0, |worker| worker.kept.len().min(count as usize));
                for place in 0..count {
                    let after = GIVEN_UP_OVER * place as u32 / count as u32;
                    self.at(self.now + after, What::GivesUp(number));
                }
            }
            Done::Drains => {
                if let Some(worker) = self.workers.get_mut(&number) {
                    worker.drains = true;
                    worker.is_closed = true;
                }
                self.at(self.now + costs::GRACE, What::Leaves(number));
            }
            Done::Ends => self.tell_daemon(Heard::Gone(number)),
        }
    }

    /// A worker gets a connection with a request.
    fn begins(&mut self, number: u32, connection: u32) {
        if let Some(worker) = self.workers.get_mut(&number) {
            worker.requests.push_back(connection);
            if self.load == Load::Kept {
                worker.keeps(connection);
            }
        }
    }

    fn ends(&mut self, connection: u32) {
        if self.is_handed_over() {
            self.tell_daemon(Heard::Closed(u64::from(connection)));
        }
    }

    /// A kept connection ends, and its client reconnects.
    fn comes_back(&mut self, connection: u32) {
        self.ends(connection);
        let (from, to) = costs::COMES_BACK;
        let pause = self.dice.micros(from, to);
        self.new_connection(self.now + pause);
    }

    pub(super) fn gives_up(&mut self, number: u32) {
        let kept = self.workers.get_mut(&number).map(|worker| &mut worker.kept);
        if let Some(connection) = kept.and_then(Vec::pop) {
            self.comes_back(connection);
        }
    }

    pub(super) fn leaves(&mut self, number: u32) {
        let kept = self.workers.get_mut(&number).map(|worker| std::mem::take(&mut worker.kept));
        for connection in kept.into_iter().flatten() {
            self.comes_back(connection);
        }
        self.tell_daemon(Heard::Event(Event::Drained { worker: WorkerId(number), stops: false }));
    }
}
