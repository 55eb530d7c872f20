//! Sockets that workers have opened themselves with `SO_REUSEPORT`. [`forkful_core::steering::own_sockets`]
//! decides what happens to them.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};

use forkful_core::Time;
use forkful_core::steering::own_sockets::{Action, Event, OwnSockets};
use forkful_dispatch::WorkerId;
use forkful_os::listener::{self, AdoptedGroup};
use forkful_os::reactor::{Interest, Reactor};

use super::{Primary, Token};

/// Maximum ports that an app's workers may share on their own; further ports are left to the workers.
const GROUPS_MAX: usize = 64;

/// The sockets of each port, by numbers that are not reused within the app.
#[derive(Debug, Default)]
pub(super) struct OwnGroups {
    groups: BTreeMap<usize, OwnGroup>,
    next: usize,
}

#[derive(Debug)]
struct OwnGroup {
    address: SocketAddr,
    sockets: AdoptedGroup,
    state: OwnSockets<WorkerId>,
    /// The reactor token of the first socket; those of the others follow.
    token: u64,
}

/// Sockets that did not come through the cluster protocol.
impl Primary {
    /// Adopts duplicates of sockets that a worker has opened itself. On an error the remaining ones belong
    /// only to the worker.
    pub fn adopt(&mut self, worker: WorkerId, sockets: Vec<OwnedFd>, now: Time) -> io::Result<()> {
        for socket in sockets {
            let address = listener::local_addr(socket.as_fd())?;
            let found = self.own.groups.iter().find(|(_, group)| group.address == address);
            let number = match found.map(|(number, _)| *number) {
                Some(number) => number,
                None if self.own.groups.len() >= GROUPS_MAX => continue,
                None => self.add_own_group(address)?,
            };
            if let Some(group) = self.own.groups.get_mut(&number) {
                group.take_in(worker, socket, &self.reactor, now)?;
            }
        }
        Ok(())
    }

    fn add_own_group(&mut self, address: SocketAddr) -> io::Result<usize> {
        let number = self.own.next;
        let token = Token::Own { group: number, place: 0 }.encode(self.config.token_base);
        let (sockets, state) = (AdoptedGroup::new()?, OwnSockets::default());
        self.own.next += 1;
        self.own.groups.insert(number, OwnGroup { address, sockets, state, token });
        Ok(number)
    }

    pub(super) fn own_leaves(&mut self, worker: WorkerId, now: Time) {
        self.tell_own(Event::Leaves(worker), now);
    }

    pub(super) fn own_ended(&mut self, worker: WorkerId, now: Time) {
        self.tell_own(Event::Ended(worker), now);
    }

    fn tell_own(&mut self, event: Event<WorkerId>, now: Time) {
        for group in self.own.groups.values_mut() {
            group.step(event, &self.reactor, now);
        }
        self.drop_empty_groups();
    }

    /// A port that no worker shares any more may never come again, such as a random one.
    fn drop_empty_groups(&mut self) {
        self.own.groups.retain(|_, group| !group.state.is_empty());
    }

    /// A connection waits after a pause.
    pub(super) fn on_own_ready(&mut self, group: usize, now: Time) {
        if let Some(group) = self.own.groups.get_mut(&group) {
            group.step(Event::Woken, &self.reactor, now);
        }
    }

    pub(super) fn next_own_look(&self) -> Option<Time> {
        self.own.groups.values().filter_map(|group| group.state.next_look()).min()
    }

    pub(super) fn look_at_own(&mut self, now: Time) {
        for group in self.own.groups.values_mut() {
            if group.state.next_look().is_some_and(|at| at <= now) {
                group.look(&self.reactor, now);
            }
        }
        self.drop_empty_groups();
    }

    /// No worker will be started: queued connections have no receiver.
    pub(super) fn give_up_own(&mut self) {
        for (_, group) in std::mem::take(&mut self.own.groups) {
            group.state.places().for_each(|place| group.forget(place, &self.reactor));
        }
    }
}

impl OwnGroup {
    fn take_in(&mut self, worker: WorkerId, socket: OwnedFd, reactor: &Reactor, now: Time) -> io::Result<()> {
        let place = self.sockets.add(socket)?;
        if let Some(socket) = self.sockets.socket(place) {
            reactor.add(socket, self.token + place as u64, Interest::READ_ONCE)?;
        }
        self.step(Event::Joined { place: place as u16, worker }, reactor, now);
        Ok(())
    }

    fn look(&mut self, reactor: &Reactor, now: Time) {
        for place in self.state.places().collect::<Vec<_>>() {
            let length = self.sockets.queue(usize::from(place)).unwrap_or(0);
            self.step(Event::Queue { place, length }, reactor, now);
        }
        self.step(Event::Looked, reactor, now);
    }

    fn step(&mut self, event: Event<WorkerId>, reactor: &Reactor, now: Time) {
        for action in self.state.step(event, now) {
            self.perform(action, reactor);
        }
    }

    fn perform(&mut self, action: Action, reactor: &Reactor) {
        match action {
            // On an error the distribution is unchanged: the worker still serves its socket.
            Action::Steer(places) => {
                let _as_before = self.sockets.steer(&places);
            }
            Action::Flush(place) => {
                let _as_before = self.sockets.flush(usize::from(place));
            }
            Action::Release(place) => {
                self.forget(place, reactor);
                self.sockets.remove(usize::from(place));
            }
            Action::Watch => {
                for place in self.state.places() {
                    if let Some(socket) = self.sockets.socket(usize::from(place)) {
                        let token = self.token + u64::from(place);
                        let _silent = reactor.modify(socket, token, Interest::READ_ONCE);
                    }
                }
            }
        }
    }

    /// The socket is still open in its owner, and would be reported for ever.
    fn forget(&self, place: u16, reactor: &Reactor) {
        if let Some(socket) = self.sockets.socket(usize::from(place)) {
            let _gone = reactor.remove(socket);
        }
    }
}
