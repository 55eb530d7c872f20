//! The tables of slots whose process is ending.

use super::*;

#[test]
fn stopping_to_stop() {
    let slot = stopping(StopReason::Stop, Some(Verb::Stop));
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → stopping 0 to Restart · -
    stop → stopping 0 to Stop · -
    restart → stopping 0 to Restart · -
    delete → stopping 0 to Delete · -
    retire → stopping 0 to Delete · -
    replace → stopping 0 to Restart · -
    spawn failed 0 → stopped · first: Stopped
    code 0 of 0 → stopped · first: Stopped
    code 3 of 0 → stopped · first: Stopped
    code 1 of 0 after 60 s → stopped · first: Stopped
    deadline → killing 0 to Stop · kill 0
    reset → stopping 0 to Stop · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0, disconnected 0
    ");
}

#[test]
fn stopping_to_delete() {
    let slot = stopping(StopReason::Delete, Some(Verb::Delete));
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → stopping 0 to Delete · refused: the worker is being deleted
    stop → stopping 0 to Delete · -
    restart → stopping 0 to Delete · refused: the worker is being deleted
    delete → stopping 0 to Delete · -
    retire → stopping 0 to Delete · -
    replace → stopping 0 to Delete · refused: the worker is being deleted
    spawn failed 0 → stopped · first: Deleted
    code 0 of 0 → stopped · first: Deleted
    code 3 of 0 → stopped · first: Deleted
    code 1 of 0 after 60 s → stopped · first: Deleted
    deadline → killing 0 to Delete · kill 0
    reset → stopping 0 to Delete · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0, disconnected 0
    ");
}

#[test]
fn stopping_to_restart() {
    let slot = stopping(StopReason::Restart, Some(Verb::Restart));
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → stopping 0 to Restart · -
    stop → stopping 0 to Stop · first: cancelled by a later `stop`
    restart → stopping 0 to Restart · -
    delete → stopping 0 to Delete · first: cancelled by a later `delete`
    retire → stopping 0 to Delete · first: cancelled by a later `scale`
    replace → stopping 0 to Restart · -
    spawn failed 0 → starting 5 [1 restart] · spawn 5
    code 0 of 0 → starting 5 [1 restart] · spawn 5
    code 3 of 0 → starting 5 [1 restart] · spawn 5
    code 1 of 0 after 60 s → starting 5 [1 restart] · spawn 5
    deadline → killing 0 to Restart · kill 0
    reset → stopping 0 to Restart · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0, disconnected 0
    ");
}

#[test]
fn stopping_because_it_was_not_ready() {
    let slot = stopping(StopReason::NotReady { waited: Duration::from_secs(3) }, None);
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, true)), @r"
    start → stopping 0 to Restart · -
    stop → stopping 0 to Stop · -
    restart → stopping 0 to Restart · -
    delete → stopping 0 to Delete · -
    retire → stopping 0 to Delete · -
    replace → stopping 0 to Restart · -
    spawn failed 0 → backoff 2 · -
    code 0 of 0 → backoff 2 · -
    code 3 of 0 → backoff 2 · -
    code 1 of 0 after 60 s → backoff 2 · -
    deadline → killing 0 to NotReady { waited: 3s } · kill 0
    reset → stopping 0 to NotReady { waited: 3s } · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0, disconnected 0
    ");
}

#[test]
fn killing() {
    let state = State::Stopping {
        generation: Generation(0),
        started: at(0),
        why: StopReason::Stop,
        push: Push::Killed,
    };
    insta::assert_snapshot!(table(&slot(state, Some(Verb::Stop)), &policy(Mode::Cluster, false)), @r"
    start → killing 0 to Restart · -
    stop → killing 0 to Stop · -
    restart → killing 0 to Restart · -
    delete → killing 0 to Delete · -
    retire → killing 0 to Delete · -
    replace → killing 0 to Restart · -
    spawn failed 0 → stopped · first: Stopped
    code 0 of 0 → stopped · first: Stopped
    code 3 of 0 → stopped · first: Stopped
    code 1 of 0 after 60 s → stopped · first: Stopped
    reset → killing 0 to Stop · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, deadline, drained 0, disconnected 0
    ");
}

#[test]
fn with_a_process_still_draining() {
    let mut slot = slot(State::Stopped { last_exit: None }, None);
    slot.leaving = vec![Leaver {
        generation: Generation(0),
        state: leaving::State::Draining { signal_at: at(BOUND_MS) },
    }];
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → starting 5 + draining 0 · spawn 5
    stop → stopped + signalled 0 · signal 0
    restart → starting 5 + draining 0 · spawn 5
    delete → stopped + signalled 0 · signal 0
    retire → stopped + draining 0 · -
    replace → starting 5 + draining 0 · spawn 5
    spawn failed 0 → stopped · -
    code 0 of 0 → stopped · -
    code 3 of 0 → stopped · -
    code 1 of 0 after 60 s → stopped · -
    deadline → stopped + signalled 0 · signal 0
    drained 0 → stopped + draining 0 · -
    disconnected 0 → stopped + draining 0 · -
    reset → stopped + draining 0 · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline
    ");
}

#[test]
fn with_a_process_signalled_while_deleting() {
    let mut slot = slot(State::Stopped { last_exit: None }, Some(Verb::Delete));
    slot.leaving = vec![Leaver {
        generation: Generation(0),
        state: leaving::State::Signalled { kill_at: at(BOUND_MS) },
    }];
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → stopped + signalled 0 · refused: the worker is being deleted
    stop → stopped + signalled 0 · -
    restart → stopped + signalled 0 · refused: the worker is being deleted
    delete → stopped + signalled 0 · -
    retire → stopped + signalled 0 · -
    replace → stopped + signalled 0 · refused: the worker is being deleted
    spawn failed 0 → stopped · first: Deleted
    code 0 of 0 → stopped · first: Deleted
    code 3 of 0 → stopped · first: Deleted
    code 1 of 0 after 60 s → stopped · first: Deleted
    deadline → stopped + killed 0 · kill 0
    reset → stopped + signalled 0 · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0, disconnected 0
    ");
}
