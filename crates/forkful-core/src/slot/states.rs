//! One function for each state of a slot, which handles each input.

use super::turn::{Input, Turn};
use super::{
    Action, Exit, FailReason, Fault, Generation, Outcome, Push, ReadySign, Report, Running, State,
    StopReason, Verb,
};
use crate::Time;
use crate::restart::{self, Life};

/// Handles an input in the slot's current state.
pub(super) fn take(state: State, input: Input, turn: &mut Turn<'_>) -> State {
    match state {
        State::Stopped { last_exit } => stopped(last_exit, &input, turn),
        State::Starting { generation, started, ready_by } => {
            starting(Starting { generation, started, ready_by }, input, turn)
        }
        State::Online(running) => online(running, input, turn),
        State::Replacing { old, new, new_started, ready_by } => {
            let successor = Starting { generation: new, started: new_started, ready_by };
            replacing(old, successor, input, turn)
        }
        State::Stopping { generation, started, why, push } => {
            stopping(Stopping { generation, started, why, push }, input, turn)
        }
        State::Backoff { attempt, start_at, last_exit } => {
            backoff(Backoff { attempt, start_at, last_exit }, &input, turn)
        }
        State::Failed { reason, last_exit } => failed(reason, last_exit, &input, turn),
    }
}

/// The fields of [`State::Starting`], and of the successor in [`State::Replacing`].
#[derive(Clone, Copy)]
struct Starting {
    generation: Generation,
    started: Time,
    ready_by: Time,
}

/// The fields of [`State::Stopping`].
#[derive(Clone, Copy)]
struct Stopping {
    generation: Generation,
    started: Time,
    why: StopReason,
    push: Push,
}

/// The fields of [`State::Backoff`].
struct Backoff {
    attempt: u32,
    start_at: Time,
    last_exit: Exit,
}

impl From<Starting> for State {
    fn from(Starting { generation, started, ready_by }: Starting) -> Self {
        Self::Starting { generation, started, ready_by }
    }
}

impl From<Stopping> for State {
    fn from(Stopping { generation, started, why, push }: Stopping) -> Self {
        Self::Stopping { generation, started, why, push }
    }
}

impl From<Backoff> for State {
    fn from(Backoff { attempt, start_at, last_exit }: Backoff) -> Self {
        Self::Backoff { attempt, start_at, last_exit }
    }
}

fn stopped(last_exit: Option<Exit>, input: &Input, turn: &mut Turn<'_>) -> State {
    match input {
        Input::Command(Verb::Start | Verb::Restart | Verb::Replace) => turn.spawn_as_asked(),
        Input::Command(Verb::Stop | Verb::Delete | Verb::Retire) => State::Stopped { last_exit: None },
        Input::Ready(..) | Input::Exited(..) | Input::Deadline => State::Stopped { last_exit },
    }
}

fn failed(reason: FailReason, last_exit: Exit, input: &Input, turn: &mut Turn<'_>) -> State {
    match input {
        Input::Command(Verb::Start | Verb::Restart | Verb::Replace) => turn.spawn_as_asked(),
        Input::Command(Verb::Stop | Verb::Delete | Verb::Retire) => turn.rest(None),
        Input::Ready(..) | Input::Exited(..) | Input::Deadline => State::Failed { reason, last_exit },
    }
}

fn backoff(pause: Backoff, input: &Input, turn: &mut Turn<'_>) -> State {
    match input {
        Input::Command(Verb::Start | Verb::Restart | Verb::Replace) => {
            turn.counters.forgive();
            turn.respawn()
        }
        Input::Command(Verb::Stop | Verb::Delete | Verb::Retire) => turn.rest(None),
        Input::Deadline if turn.now >= pause.start_at => turn.respawn(),
        Input::Deadline | Input::Ready(..) | Input::Exited(..) => pause.into(),
    }
}

fn starting(process: Starting, input: Input, turn: &mut Turn<'_>) -> State {
    let Starting { generation, started, ready_by } = process;
    match input {
        // It does not serve yet, so ending it first loses nothing.
        Input::Command(Verb::Restart | Verb::Replace) => turn.stop(generation, started, StopReason::Restart),
        Input::Command(Verb::Stop) => turn.stop(generation, started, StopReason::Stop),
        Input::Command(Verb::Delete | Verb::Retire) => turn.stop(generation, started, StopReason::Delete),
        Input::Ready(of, sign) if of == generation && turn.policy.accepts(sign) => {
            settle(generation, started, Confirmation::Given, turn)
        }
        Input::Deadline if turn.now >= ready_by => {
            if !turn.policy.announces() {
                settle(generation, started, Confirmation::NotNeeded, turn)
            } else if turn.policy.readiness.wait_ready {
                let waited = ready_by.since(started);
                let fault = Fault::NotReadyInTime { waited };
                turn.answer_failed(&fault);
                turn.report(Report::StartFailed { generation, fault });
                turn.stop(generation, started, StopReason::NotReady { waited })
            } else {
                settle(generation, started, Confirmation::Missing { waited: ready_by.since(started) }, turn)
            }
        }
        Input::Exited(of, exit) if of == generation => {
            turn.report_exit(generation, started, &exit);
            let life = turn.life(started, &exit);
            let policy = turn.policy;
            // A process that announces readiness is a server: exiting before that is no success.
            if !policy.announces() && restart::is_finished(&exit, life, &turn.counters, &policy.restart) {
                answer_finished(&exit, turn);
                return turn.rest(Some(exit));
            }
            let fault = Fault::Exited(exit.clone());
            if restart::stays_stopped(&exit, life, &policy.restart) {
                answer_finished(&exit, turn);
            } else {
                turn.answer_failed(&fault);
            }
            turn.report(Report::StartFailed { generation, fault });
            turn.crash(exit, life)
        }
        // A start is already in progress; the client waits with the others.
        Input::Command(Verb::Start) | Input::Ready(..) | Input::Deadline | Input::Exited(..) => {
            process.into()
        }
    }
}

/// Why a starting process counts as serving.
#[derive(Clone, Copy)]
enum Confirmation {
    Given,
    /// It is alive, and nothing more is required.
    NotNeeded,
    /// It is alive, but should have announced readiness by now.
    Missing {
        waited: std::time::Duration,
    },
}

impl Confirmation {
    fn is_confirmed(self) -> bool {
        !matches!(self, Self::Missing { .. })
    }
}

/// A starting process goes online.
fn settle(generation: Generation, started: Time, confirmation: Confirmation, turn: &mut Turn<'_>) -> State {
    let confirmed = confirmation.is_confirmed();
    let state = turn.online(generation, started, confirmed);
    turn.answer(|verb| match (verb, confirmation) {
        (Verb::Start | Verb::Restart, _) => Some(Outcome::Online { confirmed }),
        (Verb::Replace, Confirmation::Given | Confirmation::NotNeeded) => Some(Outcome::Replaced),
        (Verb::Replace, Confirmation::Missing { waited }) => {
            Some(Outcome::Failed(Fault::NotReadyInTime { waited }))
        }
        (Verb::Stop | Verb::Delete | Verb::Retire, _) => None,
    });
    state
}

/// A starting process has ended in a way that its policy accepts.
fn answer_finished(exit: &Exit, turn: &mut Turn<'_>) {
    let fine = match exit {
        Exit::Code(code) => *code == 0 || turn.policy.restart.stop_exit_codes.contains(code),
        Exit::Signal(_) | Exit::SpawnFailed(_) => false,
    };
    if fine {
        turn.answer(|verb| match verb {
            Verb::Start | Verb::Restart | Verb::Replace => Some(Outcome::Finished(exit.clone())),
            Verb::Stop | Verb::Delete | Verb::Retire => None,
        });
    } else {
        turn.answer_failed(&Fault::Exited(exit.clone()));
    }
}

fn online(running: Running, input: Input, turn: &mut Turn<'_>) -> State {
    match input {
        Input::Command(Verb::Start) => {
            turn.answer_newest(Outcome::AlreadyOnline);
            State::Online(running)
        }
        Input::Command(Verb::Restart) => turn.stop_running(running, StopReason::Restart),
        Input::Command(Verb::Stop) => turn.stop_running(running, StopReason::Stop),
        Input::Command(Verb::Delete) => turn.stop_running(running, StopReason::Delete),
        Input::Command(Verb::Retire) => {
            turn.retire(running);
            turn.rest(None)
        }
        Input::Command(Verb::Replace) => {
            let new = turn.next_process();
            let ready_by = turn.now + successor_bound(running, turn);
            State::Replacing { old: running, new, new_started: turn.now, ready_by }
        }
        Input::Ready(of, sign) if of == running.generation => State::Online(confirm(running, sign, turn)),
        Input::Exited(of, exit) if of == running.generation => {
            turn.close_traffic(running);
            turn.report_exit(of, running.started, &exit);
            let life = turn.life(running.started, &exit);
            turn.crash(exit, life)
        }
        Input::Ready(..) | Input::Exited(..) | Input::Deadline => State::Online(running),
    }
}

/// How long a successor may take to announce that it serves; in fork mode only processes that listen through
/// the primary are replaced this way. If the old process never confirmed, the successor is not expected to
/// confirm either, so it gets no more time than a first start.
fn successor_bound(old: Running, turn: &Turn<'_>) -> std::time::Duration {
    let policy = turn.policy;
    if old.confirmed || policy.readiness.wait_ready {
        policy.readiness.reload_timeout()
    } else {
        policy.readiness.start_timeout()
    }
}

/// A process that went online without confirmation has now confirmed.
fn confirm(running: Running, sign: ReadySign, turn: &mut Turn<'_>) -> Running {
    if running.confirmed || !turn.policy.accepts(sign) {
        return running;
    }
    turn.act(Action::OpenTraffic(running.generation));
    turn.report(Report::Online { generation: running.generation, confirmed: true });
    Running { confirmed: true, ..running }
}

fn replacing(old: Running, new: Starting, input: Input, turn: &mut Turn<'_>) -> State {
    let unchanged =
        |old| State::Replacing { old, new: new.generation, new_started: new.started, ready_by: new.ready_by };
    match input {
        Input::Command(Verb::Start) => {
            turn.answer_newest(Outcome::AlreadyOnline);
            unchanged(old)
        }
        Input::Command(Verb::Replace) => {
            turn.answer_newest(Outcome::Failed(Fault::BeingReplaced));
            unchanged(old)
        }
        Input::Command(Verb::Restart) => {
            cancel(new, Verb::Restart, turn);
            turn.stop_running(old, StopReason::Restart)
        }
        Input::Command(Verb::Stop) => {
            cancel(new, Verb::Stop, turn);
            turn.stop_running(old, StopReason::Stop)
        }
        Input::Command(Verb::Delete) => {
            cancel(new, Verb::Delete, turn);
            turn.stop_running(old, StopReason::Delete)
        }
        Input::Command(Verb::Retire) => {
            cancel(new, Verb::Retire, turn);
            turn.retire(old);
            turn.rest(None)
        }
        Input::Ready(of, sign) if of == new.generation && turn.policy.accepts(sign) => {
            promote(old, new, Confirmation::Given, turn)
        }
        Input::Ready(of, sign) if of == old.generation => {
            let old = confirm(old, sign, turn);
            // Now the successor is expected to confirm as well, and gets the time for it.
            let bound = new.started + successor_bound(old, turn);
            let ready_by = new.ready_by.max(bound);
            State::Replacing { old, new: new.generation, new_started: new.started, ready_by }
        }
        Input::Deadline if turn.now >= new.ready_by => {
            let waited = new.ready_by.since(new.started);
            if old.confirmed || turn.policy.readiness.wait_ready {
                turn.dismiss(new.generation);
                keep(old, new.generation, Fault::NotReadyInTime { waited }, turn)
            } else {
                promote(old, new, Confirmation::Missing { waited }, turn)
            }
        }
        Input::Exited(of, exit) if of == new.generation => {
            turn.report_exit(of, new.started, &exit);
            keep(old, new.generation, Fault::Exited(exit), turn)
        }
        // The successor is the restart of the old process: waiting clients continue to wait.
        Input::Exited(of, exit) if of == old.generation => {
            turn.close_traffic(old);
            turn.report_exit(of, old.started, &exit);
            let life = turn.life(old.started, &exit);
            turn.counters.note_life(life, turn.now, &turn.policy.restart);
            turn.counters.in_a_row = turn.counters.in_a_row.saturating_add(1);
            turn.counters.crashes = turn.counters.crashes.saturating_add(1);
            turn.counters.restarts = turn.counters.restarts.saturating_add(1);
            new.into()
        }
        Input::Ready(..) | Input::Deadline | Input::Exited(..) => unchanged(old),
    }
}

fn promote(old: Running, new: Starting, confirmation: Confirmation, turn: &mut Turn<'_>) -> State {
    let confirmed = confirmation.is_confirmed();
    let state = turn.online(new.generation, new.started, confirmed);
    turn.retire(old);
    if turn.now.since(old.started) >= restart::STABLE_LIFE {
        turn.counters.in_a_row = 0;
    }
    turn.counters.restarts = turn.counters.restarts.saturating_add(1);
    turn.report(Report::Replaced { old: old.generation, new: new.generation });
    turn.answer(|verb| match verb {
        Verb::Replace => Some(Outcome::Replaced),
        Verb::Start | Verb::Restart | Verb::Stop | Verb::Delete | Verb::Retire => None,
    });
    state
}

/// The successor is given up; the old process continues to serve.
fn keep(old: Running, new: Generation, fault: Fault, turn: &mut Turn<'_>) -> State {
    turn.answer_failed(&fault);
    turn.report(Report::ReplaceFailed { new, fault });
    State::Online(old)
}

/// A command ends a replacement: the successor leaves.
fn cancel(new: Starting, by: Verb, turn: &mut Turn<'_>) {
    turn.answer(|verb| match verb {
        Verb::Replace => Some(Outcome::Failed(Fault::Cancelled { by })),
        Verb::Start | Verb::Restart | Verb::Stop | Verb::Delete | Verb::Retire => None,
    });
    turn.report(Report::ReplaceFailed { new: new.generation, fault: Fault::Cancelled { by } });
    turn.dismiss(new.generation);
}

fn stopping(process: Stopping, input: Input, turn: &mut Turn<'_>) -> State {
    match input {
        Input::Command(Verb::Start | Verb::Restart | Verb::Replace) => {
            Stopping { why: StopReason::Restart, ..process }.into()
        }
        Input::Command(Verb::Stop) => {
            let why = match process.why {
                StopReason::Delete => StopReason::Delete,
                StopReason::Stop | StopReason::Restart | StopReason::NotReady { .. } => StopReason::Stop,
            };
            Stopping { why, ..process }.into()
        }
        Input::Command(Verb::Delete | Verb::Retire) => Stopping { why: StopReason::Delete, ..process }.into(),
        Input::Deadline => match process.push {
            Push::Signalled { kill_at } if turn.now >= kill_at => {
                turn.act(Action::Kill(process.generation));
                turn.report(Report::Killed(process.generation));
                Stopping { push: Push::Killed, ..process }.into()
            }
            Push::Signalled { .. } | Push::Killed => process.into(),
        },
        Input::Exited(of, exit) if of == process.generation => {
            let asked = !matches!(process.why, StopReason::NotReady { .. });
            turn.report_end(of, process.started, &exit, asked);
            match process.why {
                StopReason::Stop | StopReason::Delete => turn.rest(None),
                StopReason::Restart => {
                    turn.counters.forgive();
                    turn.respawn()
                }
                StopReason::NotReady { waited } => turn.crash(exit, Life { uptime: waited, botched: true }),
            }
        }
        Input::Ready(..) | Input::Exited(..) => process.into(),
    }
}
