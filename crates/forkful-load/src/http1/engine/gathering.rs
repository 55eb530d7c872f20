//! Letting answers gather before they are read: a short pause before the next wait, in a closed loop whose target is
//! the limit.
//!
//! A generator that is faster than its target sleeps and is woken for each single answer. That costs the generator a
//! context switch for each, and it costs the target the waking: on a virtual machine, an interrupt to another core that
//! its process pays for. Answers that come during a pause wake nobody.
//!
//! What a pause may do to the numbers is bounded: it is no longer than a [`SHARE`]th of the mean response time and
//! never longer than [`PAUSE_MAX`], the system's delay in waking counted in; it is in the batch residency. A target
//! that is the limit has its queue full meanwhile, so its rate stays, and by Little's law the mean latency with it. That
//! it is the limit is not assumed but tried: both ways are taken in turns, and what answers more is done for most of the
//! time. Never in an open loop, nor with think time, nor where fewer than one answer would come in a pause.

use std::num::NonZeroU64;
use std::time::Duration;

use crate::clock::{NEVER, Nanos};
use crate::plan::{Load, Plan, Think};

/// A pause is at most this part of the mean response time: with 64 requests under way two or three answers gather.
const SHARE: u64 = 25;
/// The longest pause. The bound for what latencies may be off, 100 µs, holds for each answer, not for the mean alone.
const PAUSE_MAX: Nanos = 100_000;
/// Shorter ones gain nothing: the system takes as long to end them.
const PAUSE_MIN: Nanos = 20_000;
/// Answers for each wait from which on there is nothing to gain.
const ENOUGH_PER_WAIT: u64 = 4;
/// The better way is taken for so long, then the other is tried for [`TRIAL`].
const STRETCH: Nanos = 300_000_000;
const TRIAL: Nanos = 20_000_000;
/// After a change of ways nothing is counted for so long: what is under way was sent in the other one.
const SETTLING: Nanos = 4_000_000;
/// Weight of the newest of a way's rates. Trials are short, so several together decide.
const NEWEST: f64 = 0.25;

/// Whether a thread pauses, and for how long.
#[derive(Debug)]
pub(super) struct Gathering {
    /// Answers read so far.
    pub(super) answers: u64,
    /// Waits for events so far.
    waits: u64,
    way: Way,
    /// Answers per nanosecond, in each way.
    rates: [Option<f64>; 2],
    /// The current stretch or trial is counted since then, when these were `answers` and `waits`.
    counted_from: Nanos,
    counted: (u64, u64),
    settling: bool,
    next: Nanos,
    /// The current pause; 0: none.
    pause: Nanos,
    /// How much longer than asked for the system makes it.
    overshoot: Nanos,
}

/// The two ways to wait for answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Woken by the first.
    Prompt = 0,
    /// After a pause.
    Gathering = 1,
}

impl Gathering {
    /// Before the start, and where answers are never left to gather.
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
            // By default the system may end a sleep 50 µs late; where that cannot be changed, pauses get shorter.
            let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
            gathering.next = now + SETTLING;
        }
        gathering
    }

    /// The pause before the next wait, the delay of its end counted in.
    #[inline]
    pub(super) fn pause(&mut self, now: Nanos, under_way: u64) -> Option<Nanos> {
        self.waits += 1;
        if now >= self.next {
            self.change(now, under_way);
        }
        (self.pause > 0 && under_way >= SHARE).then_some(self.pause)
    }

    /// Sleeps for that long; what the system adds is taken off the next time.
    pub(super) fn sleep(&mut self, pause: Nanos, clock: impl Fn() -> Nanos) {
        let began = clock();
        let asked = pause.saturating_sub(self.overshoot);
        if asked > 0 {
            std::thread::sleep(Duration::from_nanos(asked));
        }
        self.slept(asked, clock().saturating_sub(began));
    }

    fn slept(&mut self, asked: Nanos, took: Nanos) {
        // A delay of milliseconds is another program's turn on this core, and no measure of the timer.
        let over = took.saturating_sub(asked).min(PAUSE_MAX);
        self.overshoot = (self.overshoot * 7 + over) / 8;
    }

    /// Ends what was counted, and goes over to the next.
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
            // A trial is over; so is one of a way that has turned out to be the better.
            Some(better) if better != self.way => better,
            _ => other,
        };
        self.pause = if self.way == Way::Gathering { pause } else { 0 };
        self.settling = true;
        self.next = now + SETTLING;
    }

    /// The way that answers more; none before both were tried.
    fn better(&self) -> Option<Way> {
        let [Some(prompt), Some(gathering)] = self.rates else { return None };
        Some(if gathering >= prompt { Way::Gathering } else { Way::Prompt })
    }

    /// A part of the mean response time, which is requests under way by rate; 0 where too little would gather.
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
