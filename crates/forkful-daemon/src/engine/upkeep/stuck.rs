//! Workers with a blocked event loop, detected with the same probe as steering: a line that every Node
//! answers from JavaScript. A worker is killed only if the user has set a limit, and never without a report
//! of what the process was doing.

use std::fmt::Write as _;
use std::time::Duration;

use forkful_core::Time;
use forkful_core::slot::Generation;
use forkful_core::supervisor::Event;
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
        let since = self.primary.ask_whether_it_turns(worker, now)?;
        let process = self.process_of(worker)?;
        if process.doubt.is_none_or(|doubt| doubt.since != since) {
            let used = procinfo::cpu_time(process.child.pid).unwrap_or_default();
            process.doubt = Some(Doubt { since, asked: now, used });
        }
        Some(Event::Owes { slot, generation, since })
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
