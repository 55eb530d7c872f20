//! Workers with a blocked event loop, detected with the same probe as steering: a line that every Node
//! answers from JavaScript. A worker is killed only if the user has set a limit, and never without a report
//! of what the process was doing.

use std::fmt::Write as _;
use std::time::Duration;

use forkful_cluster::WorkerId;
use forkful_core::Time;
use forkful_core::slot::Generation;
use forkful_core::supervisor::Event;
use forkful_core::upkeep::thrashing::{self, Stall};
use forkful_os::cgroup::AppGroup;
use forkful_os::procinfo;

use super::super::app::{App, Doubt};

/// A process that ran for at least this share of the time was busy.
const BUSY_SHARE: f64 = 0.5;

impl App {
    /// Probes a worker's event loop; returns since when an answer has been due.
    pub(super) fn ask_whether_it_turns(
        &mut self,
        slot: u16,
        generation: Generation,
        now: Time,
    ) -> Option<Event> {
        let worker = self.worker(slot, generation)?;
        let Doubt { since, .. } = self.doubt_of(worker, now)?;
        Some(Event::Owes { slot, generation, since })
    }

    /// Probes a worker's event loop; what is known of it if it owes an answer.
    fn doubt_of(&mut self, worker: WorkerId, now: Time) -> Option<Doubt> {
        let since = self.primary.ask_whether_it_turns(worker, now)?;
        let process = self.process_of(worker)?;
        let pid = process.child.pid;
        let first = || Doubt {
            since,
            asked: now,
            used: procinfo::cpu_time(pid).unwrap_or_default(),
            major_faults: procinfo::major_faults(pid).unwrap_or_default(),
        };
        Some(*process.doubt.insert(process.doubt.filter(|doubt| doubt.since == since).unwrap_or_else(first)))
    }

    /// Its workers that owe an answer while its memory limit is used up.
    pub(in crate::engine) fn stalled_workers(&mut self, now: Time) -> Option<Event> {
        let used = self.group.as_ref().and_then(AppGroup::charged_memory);
        let (limit_bytes, used_bytes) = self.spec().limits.memory_bytes.zip(used)?;
        if !thrashing::is_used_up(used_bytes, limit_bytes) {
            return None;
        }
        let online = self.slots().filter_map(|(slot, record, place)| {
            let process = place.processes.get(&record.online()?).filter(|process| process.ended.is_none())?;
            // What does not speak Node's protocol would owe an answer for ever.
            self.primary.has_agent(process.worker).then_some((
                slot,
                record.online()?,
                process.worker,
                process.child.pid,
            ))
        });
        let online: Vec<_> = online.collect();
        let stall_of = |(slot, generation, worker, pid)| {
            let doubt = self.doubt_of(worker, now)?;
            let stall = Stall {
                silent: now.since(doubt.since),
                major_faults: procinfo::major_faults(pid)
                    .unwrap_or_default()
                    .saturating_sub(doubt.major_faults),
                counted_for: now.since(doubt.asked),
                own_bytes: procinfo::resident_bytes(pid).unwrap_or_default(),
                used_bytes,
                limit_bytes,
            };
            Some((slot, generation, stall))
        };
        let stalls: Vec<_> = online.into_iter().filter_map(stall_of).collect();
        (!stalls.is_empty()).then_some(Event::Stalled(stalls))
    }

    /// A worker without an answer has reached its limit: the supervisor is told how long it has been silent.
    pub(in crate::engine) fn look_whether_stuck(
        &self,
        slot: u16,
        generation: Generation,
        now: Time,
    ) -> Option<Event> {
        let process = self.process(slot, generation).filter(|process| process.ended.is_none())?;
        let doubt = process.doubt?;
        let (worker, pid) = (process.worker, process.child.pid);
        let silent = self.primary.owes_since(worker).map(|since| now.since(since)).unwrap_or_default();
        let ran = procinfo::cpu_time(pid).unwrap_or_default().saturating_sub(doubt.used);
        let mut report = report(silent, ran, now.since(doubt.asked), procinfo::waits_in(pid).as_deref());
        let pm_id = self.places.get(&slot).map(|place| place.pm_id);
        if let Some(place) = pm_id.and_then(|pm_id| self.last_stood_in(pm_id)) {
            write!(report, "; the last time that it stood still it was in {place}")
                .expect("a String takes everything");
        }
        Some(Event::Silent { slot, generation, silent, report })
    }
}

/// What the process was doing, in words.
fn report(silent: Duration, ran: Duration, of: Duration, waits_in: Option<&str>) -> String {
    let share = ran.as_secs_f64() / of.as_secs_f64().max(0.001);
    let doing = if share >= BUSY_SHARE {
        format!(
            "it ran {:.0} % of the time, so it was busy in JavaScript or native code",
            share.min(1.0) * 100.0
        )
    } else {
        let place = waits_in.map_or_else(String::new, |place| format!(" ({place})"));
        format!(
            "it ran only {:.0} % of the time, so it waited in the kernel{place} or for a core",
            share * 100.0
        )
    };
    format!("its event loop did not turn for {:.1} s; {doing}", silent.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_tells_busy_from_waiting() {
        let second = Duration::from_secs(1);
        let busy = report(second * 3, second * 2, second * 2, Some("0"));
        assert_eq!(
            busy,
            "its event loop did not turn for 3.0 s; it ran 100 % of the time, so it was busy in JavaScript or native code"
        );
        let waits = report(second * 3, Duration::ZERO, second * 2, Some("futex_wait_queue"));
        assert!(waits.contains("waited in the kernel (futex_wait_queue)"), "{waits}");
    }
}
