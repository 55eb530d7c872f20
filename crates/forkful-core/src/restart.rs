//! What follows an exit that nobody asked for: a restart (at once or later), a stop, or giving up.
//!
//! Two memories decide. The *row* counts restarts since the last stable life and sets the pause.
//! The *breaker* counts unstable exits over a sliding window and ends a crash loop. They are apart
//! because a loop of crashes every 2 s is stable by `min_uptime` and must still be slowed down.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::slot::{Exit, FailReason};
use crate::spec::{RestartDelay, RestartPolicy};

/// A life of this length ends a row: the next exit is news, not a loop. PM2 resets its backoff
/// after the same 30 s.
pub const STABLE_LIFE: Duration = Duration::from_secs(30);

/// A shorter life shortens the row by one for each of these: workers that crash every 10 s start at once or nearly so,
/// while those that crash every 2 s wait longer each time. With a life of half a minute alone, a worker that crashed
/// every 10 s ended at pauses as long as its life.
pub const FORGET_ONE_EVERY: Duration = Duration::from_secs(5);

/// Each pause in a row is this much longer than the one before.
pub const DELAY_GROWTH: f64 = 1.5;

/// Pauses vary by this share either way, so that workers that died together do not start together.
pub const DELAY_JITTER: f64 = 0.2;

/// No second restart in a row comes sooner, whatever is configured: a Node start costs some 40 ms
/// of CPU, and a loop without any pause would also flood the logs.
pub const DELAY_MIN: Duration = Duration::from_millis(10);

/// Unstable exits that a slot remembers. A `max_restarts` above it means never to give up.
pub const UNSTABLE_KEPT_MAX: usize = 4096;

/// Growth steps after which every sensible pause has reached its upper bound (1.5^64 is 1.9e11).
const GROWTH_STEPS_MAX: u32 = 64;

/// What a slot remembers about its starts and exits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Restarts of the slot while it was in use, asked for or not (PM2's `restart_time`).
    pub restarts: u32,
    /// Exits that nobody asked for and that the policy did not want; each led to a restart, or to giving up.
    pub crashes: u32,
    /// Automatic restarts since the last stable life, or since somebody asked for a start; shorter lives take some away.
    pub in_a_row: u32,
    /// When unstable exits happened, oldest first; only those inside the window.
    pub unstable: VecDeque<Time>,
    /// The generation of the next process.
    pub next_generation: u32,
}

/// How a life that ended is judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// From start to exit.
    pub uptime: Duration,
    /// Whether it counts as unstable whatever its length (never started, never became ready).
    pub botched: bool,
}

/// What follows an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The policy wants no restart.
    StayStopped,
    /// Restart after a pause; none is zero.
    Again {
        /// 1 for the first restart in a row.
        attempt: u32,
        delay: Duration,
    },
    GiveUp(FailReason),
}

impl Counters {
    /// Forgets failures, because somebody asked for a start.
    pub fn forgive(&mut self) {
        self.in_a_row = 0;
        self.unstable.clear();
    }

    /// Zeroes what users see (`reset`).
    pub fn reset(&mut self) {
        self.restarts = 0;
        self.crashes = 0;
        self.forgive();
    }

    /// Notes how a life ended, without deciding anything.
    pub fn note_life(&mut self, life: Life, now: Time, policy: &RestartPolicy) {
        while self.unstable.front().is_some_and(|&at| now.since(at) >= policy.window) {
            self.unstable.pop_front();
        }
        if life.botched || life.uptime < policy.min_uptime {
            if self.unstable.len() == UNSTABLE_KEPT_MAX {
                self.unstable.pop_front();
            }
            self.unstable.push_back(now);
        }
        if life.uptime >= STABLE_LIFE && !life.botched {
            self.in_a_row = 0;
        } else if !life.botched {
            let earned = life.uptime.as_secs() / FORGET_ONE_EVERY.as_secs();
            self.in_a_row = self.in_a_row.saturating_sub(earned as u32);
        }
    }
}

/// Whether the policy lets a worker that ended so rest. A botched life does not earn rest by its
/// exit code: the code is then the answer to our own signal, and many programs give 0.
pub fn stays_stopped(exit: &Exit, life: Life, policy: &RestartPolicy) -> bool {
    let wanted_code = match exit {
        Exit::Code(code) => !life.botched && policy.stop_exit_codes.contains(code),
        Exit::Signal(_) | Exit::SpawnFailed(_) => false,
    };
    !policy.autorestart || wanted_code
}

/// Whether a program that ended before it counted as serving has done its work, such as a migration: it ended with
/// code 0 in its first life after somebody asked for a start. A program that is being restarted after a failure has
/// not: its code 0 may be one more way of failing. A program that served is restarted whatever its code, because
/// workers of queues end with 0 to be started afresh.
pub fn is_finished(exit: &Exit, life: Life, counters: &Counters, policy: &RestartPolicy) -> bool {
    let is_first = counters.in_a_row == 0 && counters.unstable.is_empty();
    *exit == Exit::Code(0) && !life.botched && is_first && !policy.restart_finished
}

/// Whether a slot that rests after this exit has done its work for good, so that a later daemon does not start it either.
/// With an explicit `autorestart`, each daemon starts it again.
pub fn stays_finished(last_exit: Option<&Exit>, policy: &RestartPolicy) -> bool {
    last_exit == Some(&Exit::Code(0)) && policy.autorestart && !policy.restart_finished
}

/// Judges an exit that nobody asked for. `chance` is uniform in 0..1 and sets the jitter.
pub fn after_exit(
    counters: &mut Counters,
    exit: &Exit,
    life: Life,
    now: Time,
    policy: &RestartPolicy,
    chance: f64,
) -> Verdict {
    if stays_stopped(exit, life, policy) {
        return Verdict::StayStopped;
    }
    counters.note_life(life, now, policy);
    counters.crashes = counters.crashes.saturating_add(1);
    let count = counters.unstable.len();
    if count > 0 && count as u64 >= u64::from(policy.max_restarts) {
        return Verdict::GiveUp(FailReason::CrashLoop { count: count as u32, window: policy.window });
    }
    let delay = delay(policy.delay, counters.in_a_row, chance);
    counters.in_a_row = counters.in_a_row.saturating_add(1);
    Verdict::Again { attempt: counters.in_a_row, delay }
}

/// The pause before a restart that `earlier` restarts in a row precede.
pub fn delay(policy: RestartDelay, earlier: u32, chance: f64) -> Duration {
    match policy {
        RestartDelay::Fixed(delay) if earlier == 0 => delay,
        RestartDelay::Fixed(delay) => delay.max(DELAY_MIN),
        RestartDelay::Exponential { .. } if earlier == 0 => Duration::ZERO,
        RestartDelay::Exponential { initial, max } => {
            let steps = (earlier - 1).min(GROWTH_STEPS_MAX);
            let grown = initial.as_secs_f64() * DELAY_GROWTH.powi(steps as i32);
            let jittered = grown.min(max.as_secs_f64()) * (1.0 + DELAY_JITTER * (2.0 * chance - 1.0));
            let delay = Duration::try_from_secs_f64(jittered).unwrap_or(max);
            delay.min(max).max(DELAY_MIN)
        }
    }
}
