//! States, actions and outcomes as the tables show them.

use std::fmt::Write as _;

use forkful_core::leaving;
use forkful_core::slot::{Action, Fault, Outcome, Push, Running, Slot, State, Ticket};

pub(super) fn state_text(slot: &Slot) -> String {
    let mut text = match &slot.state {
        State::Stopped { last_exit: None } => "stopped".to_owned(),
        State::Stopped { last_exit: Some(exit) } => format!("stopped ({exit})"),
        State::Starting { generation, .. } => format!("starting {generation}"),
        State::Online(Running { generation, confirmed: true, .. }) => format!("online {generation}"),
        State::Online(Running { generation, confirmed: false, .. }) => {
            format!("online {generation} unconfirmed")
        }
        State::Replacing { old, new, .. } => format!("replacing {} by {new}", old.generation),
        State::Stopping { generation, why, push, .. } => {
            let killed = matches!(push, Push::Killed);
            format!("{} {generation} to {why:?}", if killed { "killing" } else { "stopping" })
        }
        State::Backoff { attempt, .. } => format!("backoff {attempt}"),
        State::Failed { .. } => "failed".to_owned(),
    };
    for leaver in &slot.leaving {
        let how = match leaver.state {
            leaving::State::Draining { .. } => "draining",
            leaving::State::Signalled { .. } => "signalled",
            leaving::State::Killed => "killed",
        };
        let _ = write!(text, " + {how} {}", leaver.generation);
    }
    if slot.disconnected.is_some() {
        text.push_str(" disconnected");
    }
    if slot.counters.restarts > 0 {
        let _ = write!(text, " [{} restart]", slot.counters.restarts);
    }
    text
}

pub(super) fn action_text(action: &Action) -> Option<String> {
    Some(match action {
        Action::Spawn(generation) => format!("spawn {generation}"),
        Action::Signal(generation) => format!("signal {generation}"),
        Action::Kill(generation) => format!("kill {generation}"),
        Action::OpenTraffic(generation) => format!("open {generation}"),
        Action::CloseTraffic(generation) => format!("close {generation}"),
        Action::Drain(generation) => format!("drain {generation}"),
        Action::Wake(_) | Action::Report(_) => return None,
        Action::Answer(Ticket(1), outcome) => format!("first: {}", outcome_text(outcome)),
        Action::Answer(_, outcome) => outcome_text(outcome),
    })
}

fn outcome_text(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(
            fault @ (Fault::Exited(_) | Fault::NotReadyInTime { .. } | Fault::Cancelled { .. }),
        ) => fault.to_string(),
        Outcome::Failed(fault) => format!("refused: {fault}"),
        Outcome::Online { .. }
        | Outcome::AlreadyOnline
        | Outcome::Finished(_)
        | Outcome::Replaced
        | Outcome::Stopped
        | Outcome::Deleted => format!("{outcome:?}"),
    }
}
