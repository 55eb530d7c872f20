//! What follows an unexpected exit: a restart (at once or later), a stop, or giving up.
//!
//! Two counts decide. The *row* counts consecutive restarts since the last stable life and determines the
//! pause. The *breaker* counts unstable exits in a sliding window and ends a crash loop. They are separate
//! because a crash every 2 s is stable by `min_uptime` but must still be slowed down.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Time;
use crate::slot::{Exit, FailReason};
use crate::spec::{RestartDelay, RestartPolicy};

/// A life of this length ends a row: the next exit does not count as a loop. PM2 resets its backoff after the
/// same 30 s.
pub const STABLE_LIFE: Duration = Duration::from_secs(30);

/// A shorter life reduces the row by one for each of these: workers that crash every 10 s restart almost
/// immediately, while those that crash every 2 s wait longer each time. With only the limit of 30 s, a worker
/// that crashed every 10 s would end up with pauses as long as its life.
pub const FORGET_ONE_EVERY: Duration = Duration::from_secs(5);

/// The factor between consecutive pauses.
pub const DELAY_GROWTH: f64 = 1.5;

/// Pauses vary by this share in both directions, so that workers that died together do not start together.
pub const DELAY_JITTER: f64 = 0.2;

/// The minimum pause of consecutive restarts, for any configuration: starting Node costs about 40 ms of CPU,
/// and a loop without a pause would flood the logs.
pub const DELAY_MIN: Duration = Duration::from_millis(10);

/// Unstable exits that a slot remembers. A larger `max_restarts` means never giving up.
pub const UNSTABLE_KEPT_MAX: usize = 4096;

/// Growth steps after which every reasonable pause has reached its maximum (1.5^64 is 1.9e11).
const GROWTH_STEPS_MAX: u32 = 64;

/// A slot's history of starts and exits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Counters {
    /// Restarts of the slot while it was in use, requested or not (PM2's `restart_time`).
    pub restarts: u32,
    /// Unexpected exits that the policy does not accept; each led to a restart or to giving up.
    pub crashes: u32,
    /// Consecutive automatic restarts since the last stable life or the last requested start; shorter lives
    /// reduce it.
    pub in_a_row: u32,
    /// Times of unstable exits, oldest first, within the window.
    pub unstable: VecDeque<Time>,
    /// The generation of the next process.
    pub next_generation: u32,
}

/// A life that ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Life {
    /// From start to exit.
    pub uptime: Duration,
    /// Whether it counts as unstable for any length (never started, never became ready).
    pub botched: bool,
}

/// What follows an exit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The policy wants no restart.
    StayStopped,
    /// Restart after a pause; `None` is immediately.
    Again {
        /// 1 for the first consecutive restart.
        attempt: u32,
        delay: Duration,
    },
    GiveUp(FailReason),
}

impl Counters {
    /// Clears failures, because a start was requested.
    pub fn forgive(&mut self) {
        self.in_a_row = 0;
        self.unstable.clear();
    }

    /// Resets the visible counters (`reset`).
    pub fn reset(&mut self) {
        self.restarts = 0;
        self.crashes = 0;
        self.forgive();
    }

    /// Records how a life ended, without deciding anything.
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

/// Whether the policy leaves a worker with this exit stopped. A botched life does not count by its exit code:
/// the code then answers our own signal, and many programs exit with 0.
pub fn stays_stopped(exit: &Exit, life: Life, policy: &RestartPolicy) -> bool {
    let wanted_code = match exit {
        Exit::Code(code) => !life.botched && policy.stop_exit_codes.contains(code),
        Exit::Signal(_) | Exit::SpawnFailed(_) => false,
    };
    !policy.autorestart || wanted_code
}

/// Whether a program that ended before it counted as serving has done its work, such as a migration: it
/// exited with code 0 in its first life after a requested start. A program that is restarted after a failure
/// has not: its code 0 may be another way of failing. A program that served is restarted for any code,
/// because queue workers exit with 0 to be started again.
pub fn is_finished(exit: &Exit, life: Life, counters: &Counters, policy: &RestartPolicy) -> bool {
    let is_first = counters.in_a_row == 0 && counters.unstable.is_empty();
    *exit == Exit::Code(0) && !life.botched && is_first && !policy.restart_finished
}

/// Whether a slot that stays stopped after this exit has done its work for good, so that a later daemon does
/// not start it either. With an explicit `autorestart`, each daemon starts it again.
pub fn stays_finished(last_exit: Option<&Exit>, policy: &RestartPolicy) -> bool {
    last_exit == Some(&Exit::Code(0)) && !policy.restart_finished
}

/// Whether a slot that stays stopped after this exit has asked for it by its exit code, so that a later daemon does not start it either.
pub fn has_asked_to_stop(last_exit: Option<&Exit>, policy: &RestartPolicy) -> bool {
    matches!(last_exit, Some(Exit::Code(code)) if policy.stop_exit_codes.contains(code))
}

/// Decides what follows an unexpected exit. `chance` is uniform in 0..1 and determines the jitter.
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

/// The pause before a restart after `earlier` consecutive restarts.
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
