//! The daemon's reactor and timer for primaries.

use forkful_core::supervisor::AppId;
use forkful_dispatch::{Channel, Chore, Event, ListeningId};

use super::primary::Primary;
use super::worker_of;
use crate::machine::Pid;
use crate::plant::Plant;
use crate::queue::Happening;
use crate::watch::Invariant;
use crate::world::World;

impl World {
    /// Performs due chores of primaries. Returns whether there were any.
    pub(crate) fn on_net_wake(&mut self) -> bool {
        if self.net.timer.is_none_or(|at| at > self.now) {
            return false;
        }
        self.net.timer = None;
        let is_due = |primary: &Primary| primary.wake.is_some_and(|at| at <= self.now);
        let due: Vec<AppId> =
            self.net.primaries.iter().filter(|(_, primary)| is_due(primary)).map(|(app, _)| *app).collect();
        for app in due {
            for chore in Chore::ALL {
                self.dispatch(app, Event::Due(chore));
            }
            let next = self.net.primaries.get(&app).and_then(|primary| primary.dispatcher.next_wake());
            if next.is_some_and(|at| at <= self.now) {
                self.watch.fail(Invariant::NeverSpins, "a primary wants to be woken in the past, for ever");
            }
        }
        true
    }

    /// Reports the length of the daemon's own queue, if it matters.
    fn tell_waiting(&mut self, app: AppId, listening: ListeningId, member: usize) {
        let Some(primary) = self.net.primaries.get(&app) else { return };
        if member == 0
            && primary.dispatcher.asks_for_waiting(listening)
            && let Some(address) = primary.addresses.get(&listening)
        {
            let length = address.queues[0].len() as u32;
            self.dispatch(app, Event::Queue { listening, member, length });
        }
    }

    /// The reactor reports ready descriptors.
    pub(crate) fn ring(&mut self, app: AppId) -> bool {
        let Some(primary) = self.net.primaries.get_mut(&app) else { return false };
        primary.rings = false;
        let sockets = primary.addresses.iter().flat_map(|(listening, address)| {
            let listening = *listening;
            address.ready().map(move |member| (listening, member))
        });
        let sockets: Vec<_> = sockets.collect();
        let writable: Vec<Pid> = self.watched_writable(app).collect();
        for (listening, member) in &sockets {
            let primary = self.net.primaries.get_mut(&app);
            let address = primary.and_then(|primary| primary.addresses.get_mut(listening));
            if address.is_some_and(|address| address.tell(*member)) {
                self.tell_waiting(app, *listening, *member);
                self.dispatch(app, Event::MemberReady { listening: *listening, member: *member });
            }
        }
        for pid in &writable {
            if self.plants(Plant::MissedRoom) {
                if let Some(worker) = self.net.workers.get_mut(*pid) {
                    worker.is_unwatched = true;
                }
                continue;
            }
            self.flush(app, *pid);
            self.perform_dispatch(app);
        }
        !sockets.is_empty() || !writable.is_empty()
    }

    /// Channels that have room again, and for which lines wait.
    pub(super) fn writable(&self, app: AppId) -> impl Iterator<Item = Pid> + '_ {
        let primary = self.net.primaries.get(&app).into_iter();
        primary.flat_map(move |primary| {
            primary.workers.iter().copied().filter(move |pid| {
                let worker = &self.net.workers[pid];
                let wants = primary.dispatcher.channel(worker_of(*pid)).is_some_and(Channel::wants_write);
                let has_room = worker.channel.has_room() || worker.has_closed || worker.channel.torn;
                wants && has_room
            })
        })
    }

    /// Those that the reactor reports.
    fn watched_writable(&self, app: AppId) -> impl Iterator<Item = Pid> + '_ {
        self.writable(app).filter(|pid| !self.net.workers[pid].is_unwatched)
    }

    /// Handles the events of primaries since the last call. Returns whether there were any.
    pub(crate) fn follow_net(&mut self) -> bool {
        let mut any = false;
        while let Some(app) = self.net.touched.pop_first() {
            any = true;
            self.drop_broken(app);
            let was_spared = std::mem::replace(&mut self.kept.is_spared, true);
            while let Some(told) = self.net.primaries.get_mut(&app).and_then(|p| p.told.pop_front()) {
                self.on_told(app, told);
            }
            self.kept.is_spared = was_spared;
            self.watch.net_touched.insert(app);
            let Some(primary) = self.net.primaries.get_mut(&app) else { continue };
            primary.wake = primary.dispatcher.next_wake();
            let rings = primary.rings || primary.is_ready() || self.watched_writable(app).next().is_some();
            let Some(primary) = self.net.primaries.get_mut(&app) else { continue };
            if !std::mem::replace(&mut primary.rings, rings) && rings {
                // Usually the daemon has nothing else to do.
                let late = !self.calm && self.dice.percent(3);
                let after = if late { self.dice.millis(1, 30) } else { self.dice.micros(5, 60) };
                self.after(after, Happening::Ring(app));
            }
        }
        any
    }

    /// Sets the timer to the first time that a primary needs.
    pub(crate) fn set_net_timer(&mut self) {
        let wake = self.net.primaries.values().filter_map(|primary| primary.wake).min();
        if wake != self.net.timer {
            self.net.timer = wake;
            if let Some(at) = wake {
                self.at(at.max(self.now), Happening::NetWake);
            }
        }
    }
}
