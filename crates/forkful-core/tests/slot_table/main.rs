//! The whole table of a slot: what each event does in each state, one line a pair.
//!
//! A line reads `event → state after it · actions`; wake-ups and reports are left out, for the
//! world's properties hold them. Generation 0 is the current process, 1 its successor, 2 is leaving
//! and 9 is unknown. Time is in milliseconds since the state began; a bound is reached at 60,000.

mod events;
mod stopping;
mod text;

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::Duration;

use events::{commands, happenings};
use forkful_core::restart::Counters;
use forkful_core::slot::{
    Event, Exit, FailReason, Generation, Leaver, Policy, Push, Running, Slot, State, StopReason, Ticket,
    Verb, Waiting, step,
};
use forkful_core::spec::{Mode, Readiness, RestartPolicy, StopPolicy};
use forkful_core::{Time, leaving};
use text::{action_text, state_text};

const BOUND_MS: u64 = 60_000;

fn at(millis: u64) -> Time {
    Time::from_start(Duration::from_millis(millis))
}

fn policy(mode: Mode, wait_ready: bool) -> Policy {
    Policy {
        restart: RestartPolicy { stop_exit_codes: vec![3], ..RestartPolicy::default() },
        readiness: Readiness { wait_ready, listen_timeout: None },
        stop: StopPolicy::default(),
        mode,
        greets: false,
        compiles: false,
    }
}

fn running(generation: u32, confirmed: bool) -> Running {
    Running { generation: Generation(generation), started: at(0), since: at(0), confirmed }
}

fn slot(state: State, waiting: Option<Verb>) -> Slot {
    let counters =
        Counters { restarts: 0, crashes: 0, in_a_row: 1, unstable: VecDeque::new(), next_generation: 5 };
    let waiting = waiting.into_iter().map(|verb| Waiting { ticket: Ticket(1), verb }).collect();
    Slot { state, counters, leaving: Vec::new(), disconnected: None, waiting }
}

fn starting(waiting: Verb) -> Slot {
    let state = State::Starting { generation: Generation(0), started: at(0), ready_by: at(BOUND_MS) };
    slot(state, Some(waiting))
}

fn replacing(confirmed: bool) -> Slot {
    let old = running(0, confirmed);
    let state = State::Replacing { old, new: Generation(1), new_started: at(0), ready_by: at(BOUND_MS) };
    slot(state, Some(Verb::Replace))
}

fn stopping(why: StopReason, waiting: Option<Verb>) -> Slot {
    let push = Push::Signalled { kill_at: at(BOUND_MS) };
    slot(State::Stopping { generation: Generation(0), started: at(0), why, push }, waiting)
}

/// The table of one slot; lines where nothing happens are gathered at the end.
fn table(before: &Slot, policy: &Policy) -> String {
    let mut table = String::new();
    let mut nothing = Vec::new();
    for (name, event, millis) in commands().into_iter().chain(happenings()) {
        let reset = event == Event::Reset;
        let (after, actions) = step(before.clone(), event, at(millis), policy, 0.5);
        let actions: Vec<_> = actions.iter().filter_map(action_text).collect();
        if after == *before && actions.is_empty() {
            nothing.push(name);
            continue;
        }
        assert!(!reset || after.counters == Counters { next_generation: 5, ..Counters::default() });
        let actions = if actions.is_empty() { "-".to_owned() } else { actions.join(", ") };
        writeln!(table, "{name} → {} · {actions}", state_text(&after)).expect("a string takes all");
    }
    writeln!(table, "nothing: {}", nothing.join(", ")).expect("a string takes all");
    table
}

#[test]
fn stopped() {
    let slot = slot(State::Stopped { last_exit: None }, None);
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → starting 5 · spawn 5
    stop → stopped · Stopped
    restart → starting 5 · spawn 5
    delete → stopped · Deleted
    retire → stopped · Deleted
    replace → starting 5 · spawn 5
    reset → stopped · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 0, spawn failed 1, code 0 of 0, code 3 of 0, code 1 of 0 after 60 s, signal 9 of 1, early deadline, deadline, drained 0, disconnected 0
    ");
}

#[test]
fn failed() {
    let reason = FailReason::CrashLoop { count: 16, window: Duration::from_secs(600) };
    let slot = slot(State::Failed { reason, last_exit: Exit::Code(1) }, None);
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → starting 5 · spawn 5
    stop → stopped · Stopped
    restart → starting 5 · spawn 5
    delete → stopped · Deleted
    retire → stopped · Deleted
    replace → starting 5 · spawn 5
    reset → failed · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 0, spawn failed 1, code 0 of 0, code 3 of 0, code 1 of 0 after 60 s, signal 9 of 1, early deadline, deadline, drained 0, disconnected 0
    ");
}

#[test]
fn backoff() {
    let state = State::Backoff { attempt: 2, start_at: at(BOUND_MS), last_exit: Exit::Code(1) };
    insta::assert_snapshot!(table(&slot(state, None), &policy(Mode::Cluster, false)), @r"
    start → starting 5 [1 restart] · spawn 5
    stop → stopped · Stopped
    restart → starting 5 [1 restart] · spawn 5
    delete → stopped · Deleted
    retire → stopped · Deleted
    replace → starting 5 [1 restart] · spawn 5
    deadline → starting 5 [1 restart] · spawn 5
    reset → backoff 2 · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 0, spawn failed 1, code 0 of 0, code 3 of 0, code 1 of 0 after 60 s, signal 9 of 1, early deadline, drained 0, disconnected 0
    ");
}

#[test]
fn starting_in_cluster_mode() {
    insta::assert_snapshot!(table(&starting(Verb::Start), &policy(Mode::Cluster, false)), @r"
    start → starting 0 · -
    stop → stopping 0 to Stop · first: cancelled by a later `stop`, signal 0
    restart → stopping 0 to Restart · signal 0
    delete → stopping 0 to Delete · first: cancelled by a later `delete`, signal 0
    retire → stopping 0 to Delete · first: cancelled by a later `scale`, signal 0
    replace → stopping 0 to Restart · signal 0
    listening 0 → online 0 · open 0, first: Online { confirmed: true }
    message 0 → online 0 · open 0, first: Online { confirmed: true }
    spawn failed 0 → backoff 2 · first: could not be started: no such file
    code 0 of 0 → backoff 2 · first: ended with exit code 0
    code 3 of 0 → stopped (exit code 3) · first: Finished(Code(3))
    code 1 of 0 after 60 s → starting 5 [1 restart] · first: ended with exit code 1, spawn 5
    deadline → online 0 unconfirmed · first: Online { confirmed: false }
    disconnected 0 → starting 0 disconnected · -
    reset → starting 0 · -
    nothing: listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0
    ");
}

#[test]
fn starting_with_wait_ready() {
    insta::assert_snapshot!(table(&starting(Verb::Restart), &policy(Mode::Cluster, true)), @r"
    start → starting 0 · -
    stop → stopping 0 to Stop · first: cancelled by a later `stop`, signal 0
    restart → stopping 0 to Restart · signal 0
    delete → stopping 0 to Delete · first: cancelled by a later `delete`, signal 0
    retire → stopping 0 to Delete · first: cancelled by a later `scale`, signal 0
    replace → stopping 0 to Restart · signal 0
    message 0 → online 0 · open 0, first: Online { confirmed: true }
    spawn failed 0 → backoff 2 · first: could not be started: no such file
    code 0 of 0 → backoff 2 · first: ended with exit code 0
    code 3 of 0 → stopped (exit code 3) · first: Finished(Code(3))
    code 1 of 0 after 60 s → starting 5 [1 restart] · first: ended with exit code 1, spawn 5
    deadline → stopping 0 to NotReady { waited: 60s } · first: not ready within 60 s, signal 0
    disconnected 0 → starting 0 disconnected · -
    reset → starting 0 · -
    nothing: listening 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0
    ");
}

#[test]
fn starting_in_fork_mode() {
    insta::assert_snapshot!(table(&starting(Verb::Replace), &policy(Mode::Fork, false)), @r"
    start → starting 0 · -
    stop → stopping 0 to Stop · first: cancelled by a later `stop`, signal 0
    restart → stopping 0 to Restart · signal 0
    delete → stopping 0 to Delete · first: cancelled by a later `delete`, signal 0
    retire → stopping 0 to Delete · first: cancelled by a later `scale`, signal 0
    replace → stopping 0 to Restart · signal 0
    listening 0 → online 0 · open 0, first: Replaced
    message 0 → online 0 · open 0, first: Replaced
    spawn failed 0 → backoff 2 · first: could not be started: no such file
    code 0 of 0 → backoff 2 · first: ended with exit code 0
    code 3 of 0 → stopped (exit code 3) · first: Finished(Code(3))
    code 1 of 0 after 60 s → starting 5 [1 restart] · first: ended with exit code 1, spawn 5
    deadline → online 0 · open 0, first: Replaced
    reset → starting 0 · -
    nothing: listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0, disconnected 0
    ");
}

#[test]
fn a_program_that_ends_with_0_in_its_first_life_is_finished_unless_it_announces_readiness() {
    let first_life = |mode, wait_ready, restart_finished| {
        let mut slot = starting(Verb::Start);
        slot.counters.in_a_row = 0;
        let mut policy = policy(mode, wait_ready);
        policy.restart.restart_finished = restart_finished;
        let (slot, actions) = step(slot, Event::Exited(Generation(0), Exit::Code(0)), at(500), &policy, 0.5);
        let text: Vec<String> = actions.iter().filter_map(action_text).collect();
        format!("{} · {}", state_text(&slot), text.join(", "))
    };
    let finished = "stopped (exit code 0) · first: Finished(Code(0))";
    let again = "starting 5 [1 restart] · first: ended with exit code 0, spawn 5";
    assert_eq!(first_life(Mode::Fork, false, false), finished);
    assert_eq!(first_life(Mode::Fork, false, true), again);
    assert_eq!(first_life(Mode::Fork, true, false), again);
    assert_eq!(first_life(Mode::Cluster, false, false), again);
}

#[test]
fn crashes_are_told_until_a_process_has_proven_stable() {
    let crashed = |state: State| slot(state, None).crashes_in_a_row(at(20_000));
    let backoff = State::Backoff { attempt: 1, start_at: at(BOUND_MS), last_exit: Exit::Code(1) };
    assert_eq!(crashed(backoff), 1);
    assert_eq!(crashed(State::Online(running(0, true))), 1);
    let reason = FailReason::CrashLoop { count: 2, window: std::time::Duration::from_secs(600) };
    assert_eq!(
        crashed(State::Failed { reason, last_exit: Exit::Code(1) }),
        2,
        "the last one was not followed by a restart"
    );
    assert_eq!(slot(State::Online(running(0, true)), None).crashes_in_a_row(at(30_000)), 0);
    assert_eq!(crashed(State::Stopped { last_exit: Some(Exit::Code(1)) }), 0);
}

#[test]
fn a_program_that_served_is_restarted_after_code_0() {
    let mut slot = slot(State::Online(running(0, true)), None);
    slot.counters.in_a_row = 0;
    let exit = Event::Exited(Generation(0), Exit::Code(0));
    let (slot, _) = step(slot, exit, at(5_000), &policy(Mode::Fork, false), 0.5);
    assert!(matches!(slot.state, State::Starting { .. }), "{:?}", slot.state);
}

#[test]
fn starting_after_the_old_one_died_in_a_replacement() {
    insta::assert_snapshot!(table(&starting(Verb::Replace), &policy(Mode::Cluster, false)), @r"
    start → starting 0 · -
    stop → stopping 0 to Stop · first: cancelled by a later `stop`, signal 0
    restart → stopping 0 to Restart · signal 0
    delete → stopping 0 to Delete · first: cancelled by a later `delete`, signal 0
    retire → stopping 0 to Delete · first: cancelled by a later `scale`, signal 0
    replace → stopping 0 to Restart · signal 0
    listening 0 → online 0 · open 0, first: Replaced
    message 0 → online 0 · open 0, first: Replaced
    spawn failed 0 → backoff 2 · first: could not be started: no such file
    code 0 of 0 → backoff 2 · first: ended with exit code 0
    code 3 of 0 → stopped (exit code 3) · first: Finished(Code(3))
    code 1 of 0 after 60 s → starting 5 [1 restart] · first: ended with exit code 1, spawn 5
    deadline → online 0 unconfirmed · first: not ready within 60 s
    disconnected 0 → starting 0 disconnected · -
    reset → starting 0 · -
    nothing: listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, drained 0
    ");
}

#[test]
fn online() {
    let slot = slot(State::Online(running(0, true)), None);
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → online 0 · AlreadyOnline
    stop → stopping 0 to Stop · close 0, signal 0
    restart → stopping 0 to Restart · close 0, signal 0
    delete → stopping 0 to Delete · close 0, signal 0
    retire → stopped + draining 0 · close 0, drain 0
    replace → replacing 0 by 5 · spawn 5
    spawn failed 0 → backoff 2 · close 0
    code 0 of 0 → backoff 2 · close 0
    code 3 of 0 → stopped (exit code 3) · close 0
    code 1 of 0 after 60 s → starting 5 [1 restart] · close 0, spawn 5
    disconnected 0 → online 0 disconnected · -
    reset → online 0 · -
    nothing: listening 0, message 0, listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, deadline, drained 0
    ");
}

#[test]
fn online_unconfirmed() {
    let slot = slot(State::Online(running(0, false)), None);
    insta::assert_snapshot!(table(&slot, &policy(Mode::Cluster, false)), @r"
    start → online 0 unconfirmed · AlreadyOnline
    stop → stopping 0 to Stop · signal 0
    restart → stopping 0 to Restart · signal 0
    delete → stopping 0 to Delete · signal 0
    retire → stopped + draining 0 · drain 0
    replace → replacing 0 by 5 · spawn 5
    listening 0 → online 0 · open 0
    message 0 → online 0 · open 0
    spawn failed 0 → backoff 2 · -
    code 0 of 0 → backoff 2 · -
    code 3 of 0 → stopped (exit code 3) · -
    code 1 of 0 after 60 s → starting 5 [1 restart] · spawn 5
    disconnected 0 → online 0 unconfirmed disconnected · -
    reset → online 0 unconfirmed · -
    nothing: listening 1, message 1, spawn failed 1, signal 9 of 1, early deadline, deadline, drained 0
    ");
}

#[test]
fn replacing_in_cluster_mode() {
    insta::assert_snapshot!(table(&replacing(true), &policy(Mode::Cluster, false)), @r"
    start → replacing 0 by 1 · AlreadyOnline
    stop → stopping 0 to Stop + signalled 1 · first: cancelled by a later `stop`, signal 1, close 0, signal 0
    restart → stopping 0 to Restart + signalled 1 · first: cancelled by a later `restart`, signal 1, close 0, signal 0
    delete → stopping 0 to Delete + signalled 1 · first: cancelled by a later `delete`, signal 1, close 0, signal 0
    retire → stopped + signalled 1 + draining 0 · first: cancelled by a later `scale`, signal 1, close 0, drain 0
    replace → replacing 0 by 1 · refused: the worker is being reloaded already
    listening 1 → online 1 + draining 0 [1 restart] · open 1, close 0, drain 0, first: Replaced
    message 1 → online 1 + draining 0 [1 restart] · open 1, close 0, drain 0, first: Replaced
    spawn failed 0 → starting 1 [1 restart] · close 0
    spawn failed 1 → online 0 · first: could not be started: no such file
    code 0 of 0 → starting 1 [1 restart] · close 0
    code 3 of 0 → starting 1 [1 restart] · close 0
    code 1 of 0 after 60 s → starting 1 [1 restart] · close 0
    signal 9 of 1 → online 0 · first: ended with SIGKILL
    deadline → online 0 + signalled 1 · signal 1, first: not ready within 60 s
    disconnected 0 → replacing 0 by 1 disconnected · -
    reset → replacing 0 by 1 · -
    nothing: listening 0, message 0, early deadline, drained 0
    ");
}

#[test]
fn replacing_an_unconfirmed_worker() {
    insta::assert_snapshot!(table(&replacing(false), &policy(Mode::Cluster, false)), @r"
    start → replacing 0 by 1 · AlreadyOnline
    stop → stopping 0 to Stop + signalled 1 · first: cancelled by a later `stop`, signal 1, signal 0
    restart → stopping 0 to Restart + signalled 1 · first: cancelled by a later `restart`, signal 1, signal 0
    delete → stopping 0 to Delete + signalled 1 · first: cancelled by a later `delete`, signal 1, signal 0
    retire → stopped + signalled 1 + draining 0 · first: cancelled by a later `scale`, signal 1, drain 0
    replace → replacing 0 by 1 · refused: the worker is being reloaded already
    listening 0 → replacing 0 by 1 · open 0
    message 0 → replacing 0 by 1 · open 0
    listening 1 → online 1 + draining 0 [1 restart] · open 1, drain 0, first: Replaced
    message 1 → online 1 + draining 0 [1 restart] · open 1, drain 0, first: Replaced
    spawn failed 0 → starting 1 [1 restart] · -
    spawn failed 1 → online 0 unconfirmed · first: could not be started: no such file
    code 0 of 0 → starting 1 [1 restart] · -
    code 3 of 0 → starting 1 [1 restart] · -
    code 1 of 0 after 60 s → starting 1 [1 restart] · -
    signal 9 of 1 → online 0 unconfirmed · first: ended with SIGKILL
    deadline → online 1 unconfirmed + draining 0 [1 restart] · drain 0, first: Replaced
    disconnected 0 → replacing 0 by 1 disconnected · -
    reset → replacing 0 by 1 · -
    nothing: early deadline, drained 0
    ");
}

#[test]
fn replacing_with_wait_ready() {
    insta::assert_snapshot!(table(&replacing(false), &policy(Mode::Cluster, true)), @r"
    start → replacing 0 by 1 · AlreadyOnline
    stop → stopping 0 to Stop + signalled 1 · first: cancelled by a later `stop`, signal 1, signal 0
    restart → stopping 0 to Restart + signalled 1 · first: cancelled by a later `restart`, signal 1, signal 0
    delete → stopping 0 to Delete + signalled 1 · first: cancelled by a later `delete`, signal 1, signal 0
    retire → stopped + signalled 1 + draining 0 · first: cancelled by a later `scale`, signal 1, drain 0
    replace → replacing 0 by 1 · refused: the worker is being reloaded already
    message 0 → replacing 0 by 1 · open 0
    message 1 → online 1 + draining 0 [1 restart] · open 1, drain 0, first: Replaced
    spawn failed 0 → starting 1 [1 restart] · -
    spawn failed 1 → online 0 unconfirmed · first: could not be started: no such file
    code 0 of 0 → starting 1 [1 restart] · -
    code 3 of 0 → starting 1 [1 restart] · -
    code 1 of 0 after 60 s → starting 1 [1 restart] · -
    signal 9 of 1 → online 0 unconfirmed · first: ended with SIGKILL
    deadline → online 0 unconfirmed + signalled 1 · signal 1, first: not ready within 60 s
    disconnected 0 → replacing 0 by 1 disconnected · -
    reset → replacing 0 by 1 · -
    nothing: listening 0, listening 1, early deadline, drained 0
    ");
}

#[test]
fn replacing_in_fork_mode() {
    insta::assert_snapshot!(table(&replacing(true), &policy(Mode::Fork, false)), @r"
    start → replacing 0 by 1 · AlreadyOnline
    stop → stopping 0 to Stop + signalled 1 · first: cancelled by a later `stop`, signal 1, close 0, signal 0
    restart → stopping 0 to Restart + signalled 1 · first: cancelled by a later `restart`, signal 1, close 0, signal 0
    delete → stopping 0 to Delete + signalled 1 · first: cancelled by a later `delete`, signal 1, close 0, signal 0
    retire → stopped + signalled 1 + draining 0 · first: cancelled by a later `scale`, signal 1, close 0, drain 0
    replace → replacing 0 by 1 · refused: the worker is being reloaded already
    listening 1 → online 1 + draining 0 [1 restart] · open 1, close 0, drain 0, first: Replaced
    message 1 → online 1 + draining 0 [1 restart] · open 1, close 0, drain 0, first: Replaced
    spawn failed 0 → starting 1 [1 restart] · close 0
    spawn failed 1 → online 0 · first: could not be started: no such file
    code 0 of 0 → starting 1 [1 restart] · close 0
    code 3 of 0 → starting 1 [1 restart] · close 0
    code 1 of 0 after 60 s → starting 1 [1 restart] · close 0
    signal 9 of 1 → online 0 · first: ended with SIGKILL
    deadline → online 0 + signalled 1 · signal 1, first: not ready within 60 s
    reset → replacing 0 by 1 · -
    nothing: listening 0, message 0, early deadline, drained 0, disconnected 0
    ");
}
