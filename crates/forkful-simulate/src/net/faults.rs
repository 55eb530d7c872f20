//! Faults around connections.

use std::fmt;
use std::time::Duration;

use forkful_core::Time;

use super::channel::{Item, Said};
use super::{Manner, worker_of};
use crate::machine::Pid;
use crate::queue::Happening;
use crate::world::World;

/// A fault; the number selects a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// A worker's event loop is blocked for this time.
    Block(u64, Duration),
    /// A worker refuses connections, or cannot receive descriptors, for this time.
    Manner(u64, Manner, Duration),
    /// This many messages are sent to a worker.
    Chatter(u64, u32),
    /// A worker sends this many messages at once.
    Flood(u64, u32),
    /// A worker violates the protocol.
    Nonsense(u64),
    /// The daemon has no free descriptors for this time.
    NoDescriptors(Duration),
    /// Too many descriptors are in flight for this time.
    HandlesFull(Duration),
    /// The kernel refuses changes of steering and watches for this time.
    KernelRefuses(Duration),
    /// Lines are accepted in two parts for this time.
    Tears(Duration),
    /// The kernel's reports of closed connections are lost for this time.
    ClosesLost(Duration),
}

/// Until when faults last.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    pub(super) no_descriptors: Time,
    pub(super) handles_full: Time,
    pub(super) kernel_refuses: Time,
    pub(super) tears: Time,
}

impl World {
    /// Whether a fault that lasts until then is active.
    pub(super) fn goes_wrong(&self, until: Time) -> bool {
        self.now < until && !self.calm
    }

    pub(crate) fn trouble(&mut self, trouble: Trouble) {
        let faults = &mut self.net.faults;
        match trouble {
            Trouble::NoDescriptors(span) => faults.no_descriptors = self.now + span,
            Trouble::HandlesFull(span) => faults.handles_full = self.now + span,
            Trouble::KernelRefuses(span) => faults.kernel_refuses = self.now + span,
            Trouble::Tears(span) => faults.tears = self.now + span,
            Trouble::ClosesLost(span) => {
                self.count_closes(false);
                self.after(span, Happening::CountCloses);
            }
            Trouble::Block(number, span) => {
                if let Some(pid) = self.machine.nth_living(number)
                    && let Some(worker) = self.net.workers.get_mut(pid)
                {
                    worker.busy_until = worker.busy_until.max(self.now + span);
                }
            }
            Trouble::Manner(number, manner, span) => {
                if let Some(pid) = self.machine.nth_living(number)
                    && let Some(worker) = self.net.workers.get_mut(pid)
                {
                    worker.manner = manner;
                    worker.manner_until = self.now + span;
                }
            }
            Trouble::Chatter(number, lines) => {
                if let Some(pid) = self.machine.nth_living(number) {
                    (0..lines).for_each(|_| self.chat(pid));
                }
            }
            Trouble::Flood(number, lines) => {
                if let Some(pid) = self.machine.nth_living(number) {
                    self.flood(pid, lines);
                }
            }
            Trouble::Nonsense(number) => {
                if let Some(pid) = self.machine.nth_living(number) {
                    self.talk_nonsense(pid);
                }
            }
        }
    }

    fn chat(&mut self, pid: Pid) {
        if let Some(worker) = self.net.workers.get(pid) {
            let app = worker.app;
            self.send(app, pid, Item::Chatter);
            self.perform_dispatch(app);
        }
    }

    fn flood(&mut self, pid: Pid, lines: u32) {
        for _ in 0..lines {
            self.say(pid, Said::Chatter);
        }
    }

    fn talk_nonsense(&mut self, pid: Pid) {
        let Some(app) = self.net.workers.get(pid).map(|worker| worker.app) else { return };
        let Some(primary) = self.net.primaries.get_mut(&app) else { return };
        if let Some(state) = primary.dispatcher.channel_mut(worker_of(pid)) {
            state.break_off();
            self.excuse(pid);
            // The daemon reads it, and writes a reply.
            self.flush(app, pid);
            self.perform_dispatch(app);
        }
    }

    /// Tells all primaries whether closes of connections are reported.
    pub(crate) fn count_closes(&mut self, counts: bool) {
        for primary in self.net.primaries.values_mut() {
            primary.dispatcher.count_closes(counts);
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |span: &Duration| span.as_millis();
        match self {
            Self::Block(_, span) => write!(f, "a worker's loop stands still for {} ms", ms(span)),
            Self::Manner(_, Manner::Refuses, span) => {
                write!(f, "a worker refuses connections for {} ms", ms(span))
            }
            Self::Manner(_, _, span) => write!(f, "a worker loses descriptors for {} ms", ms(span)),
            Self::Chatter(_, lines) => write!(f, "a worker is sent {lines} messages"),
            Self::Flood(_, lines) => write!(f, "a worker says {lines} things at once"),
            Self::Nonsense(_) => f.write_str("a worker does not follow the protocol"),
            Self::NoDescriptors(span) => write!(f, "the daemon has no descriptor for {} ms", ms(span)),
            Self::HandlesFull(span) => write!(f, "too many descriptors are on their way for {} ms", ms(span)),
            Self::KernelRefuses(span) => {
                write!(f, "the kernel takes no steering and no watch for {} ms", ms(span))
            }
            Self::Tears(span) => write!(f, "lines are taken in two parts for {} ms", ms(span)),
            Self::ClosesLost(span) => write!(f, "reports of closed connections are lost for {} ms", ms(span)),
        }
    }
}
