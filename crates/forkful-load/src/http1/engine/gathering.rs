//! Pauses briefly before the next wait so that several answers gather and are read together. Used in a closed
//! loop whose target is the bottleneck.
//!
//! A generator that is faster than its target sleeps and wakes up for every single answer. That costs the
//! generator a context switch, and it costs the target the wake-up: on a virtual machine, an interrupt to
//! another core, charged to the target's process. Answers that arrive during a pause wake nobody.
//!
//! The effect of a pause on the results is bounded: a pause is at most 1/[`SHARE`] of the mean response time
//! and at most [`PAUSE_MAX`], including the system's wake-up delay. The report's residency includes it. A
//! target that is the bottleneck still has requests in its queue, so its rate stays the same and, by Little's
//! law, the mean latency too. The engine does not assume that the target is the bottleneck but tests it: it
//! alternates between both ways of waiting and uses the one with the higher rate for most of the time. Never
//! used in an open loop, with think time, or when fewer than one answer would arrive in a pause.

use std::time::Duration;

use crate::clock::{NEVER, Nanos};
use crate::plan::{Load, Plan, Think};

/// A pause is at most this fraction of the mean response time: with 64 requests under way, two or three
/// answers gather.
const SHARE: u64 = 25;
/// The longest pause. The limit for the error of latencies, 100 µs, holds for each answer, not only for the
/// mean.
const PAUSE_MAX: Nanos = 100_000;
/// Shorter pauses gain nothing: the system needs as long to end them.
const PAUSE_MIN: Nanos = 20_000;
/// From this many answers per wait on, a pause gains nothing.
const ENOUGH_PER_WAIT: u64 = 4;
/// The better way is used for this long, then the other is tried for [`TRIAL`].
const STRETCH: Nanos = 300_000_000;
const TRIAL: Nanos = 20_000_000;
/// After a switch, nothing is counted for this long: the requests under way were sent in the other way.
const SETTLING: Nanos = 4_000_000;
/// Weight of the newest rate in the mean. Trials are short, so several decide together.
const NEWEST: f64 = 0.25;

/// Whether a thread pauses, and for how long.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Answers read in total.
    pub(super) answers: u64,
    /// Waits for events in total.
    waits: u64,
    way: Way,
    /// Answers per nanosecond for each way.
    rates: [Option<f64>; 2],
    /// Start of the current period, with the values of `answers` and `waits` at that time.
    counted_from: Nanos,
    counted: (u64, u64),
    settling: bool,
    next: Nanos,
    /// The current pause; 0: no pause.
    pause: Nanos,
    /// How much longer than requested the system sleeps.
    overshoot: Nanos,
}

/// The two ways to wait for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Wake up for the first answer.
    Prompt = 0,
    /// Wake up after a pause.
    Gathering = 1,
}

impl Gathering {
    /// Used before the start, and where answers are never gathered.
    pub(super) fn never() -> Self {
        Self {
            answers: 0,
            waits: 0,
            way: Way::Prompt,
            rates: [None; 2],
            counted_from: NEVER,
            counted: (0, 0),
            settling: true,
            next: NEVER,
            pause: 0,
            overshoot: 0,
        }
    }

    pub(super) fn begin(now: Nanos, plan: &Plan) -> Self {
        let mut gathering = Self::never();
        if plan.gathering && plan.load == (Load::Closed { think: Think::None }) {
            // By default the system may end a sleep 50 µs late. If this cannot be changed, pauses get
            // shorter.
            forkful_os::clock::sleep_precisely();
            gathering.next = now + SETTLING;
        }
        gathering
    }

    /// The pause before the next wait, including the delay of its wake-up.
    #[inline]
    pub(super) fn pause(&mut self, now: Nanos, under_way: u64) -> Option<Nanos> {
        self.waits += 1;
        if now >= self.next {
            self.change(now, under_way);
        }
        (self.pause > 0 && under_way >= SHARE).then_some(self.pause)
    }

    /// Sleeps for the pause; the next pause is shortened by what the system added.
    pub(super) fn sleep(&mut self, pause: Nanos, clock: impl Fn() -> Nanos) {
        let began = clock();
        let asked = pause.saturating_sub(self.overshoot);
        if asked > 0 {
            std::thread::sleep(Duration::from_nanos(asked));
        }
        self.slept(asked, clock().saturating_sub(began));
    }

    fn slept(&mut self, asked: Nanos, took: Nanos) {
        // A delay of milliseconds means that another program ran on this core; it does not measure the timer.
        let over = took.saturating_sub(asked).min(PAUSE_MAX);
        self.overshoot = (self.overshoot * 7 + over) / 8;
    }

    /// Ends the current period and starts the next.
    fn change(&mut self, now: Nanos, under_way: u64) {
        if self.settling {
            self.settling = false;
            self.counted_from = now;
            self.counted = (self.answers, self.waits);
            self.next = now + if Some(self.way) == self.better() { STRETCH } else { TRIAL };
            return;
        }
        let (answers, waits) = (self.answers - self.counted.0, self.waits - self.counted.1);
        let rate = answers as f64 / now.saturating_sub(self.counted_from).max(1) as f64;
        let known = &mut self.rates[self.way as usize];
        *known = Some(known.map_or(rate, |known| known + (rate - known) * NEWEST));
        let other = match self.way {
            Way::Prompt if answers >= waits * ENOUGH_PER_WAIT => Way::Prompt,
            Way::Prompt => Way::Gathering,
            Way::Gathering => Way::Prompt,
        };
        let pause = self.pause_for(under_way);
        self.way = match self.better() {
            _ if pause == 0 => Way::Prompt,
            // A trial ended, or the other way has proved better.
            Some(better) if better != self.way => better,
            _ => other,
        };
        self.pause = if self.way == Way::Gathering { pause } else { 0 };
        self.settling = true;
        self.next = now + SETTLING;
    }

    /// The way with the higher rate; `None` before both were tried.
    fn better(&self) -> Option<Way> {
        let [Some(prompt), Some(gathering)] = self.rates else { return None };
        Some(if gathering >= prompt { Way::Gathering } else { Way::Prompt })
    }

    /// A fraction of the mean response time (requests under way divided by rate); 0 if too few answers would
    /// gather.
    fn pause_for(&self, under_way: u64) -> Nanos {
        let rate = self.rates.iter().flatten().fold(0.0, |most: f64, rate| most.max(*rate));
        if rate <= 0.0 {
            return 0;
        }
        let response = under_way as f64 / rate;
        let pause = ((response / SHARE as f64) as Nanos).min(PAUSE_MAX);
        if pause >= PAUSE_MIN && pause as f64 * rate >= 1.0 { pause } else { 0 }
    }
}

#[cfg(test)]
#[path = "gathering/tests.rs"]
mod tests;
