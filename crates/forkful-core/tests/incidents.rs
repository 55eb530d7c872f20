//! What is noted as an incident, how its reason reads, and what is kept.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::doctor::TrialCommands;
use forkful_core::incidents::{
    BYTES_MAX, Death, ENTRIES_MAX, Entry, FixNote, FixStep, IncidentKind, Noticed, ROUTINE_MAX, Role,
    follows, is_done, noticed, role, surplus,
};
use forkful_core::leaving;
use forkful_core::slot::{
    Exit, FailReason, Fault, Generation, Leaver, Push, Running, Slot, State, StopReason, Verb,
};
use forkful_core::spec::Named as _;
use forkful_core::supervisor::{Effect, JobId, Notice, ReloadFailure, ReloadResult};

const FIRST: Generation = Generation(0);
const NEXT: Generation = Generation(1);

fn death(exit: Exit) -> Death {
    Death { exit, role: Role::Serving, kernel: None, stuck: None }
}

fn lines(text: &str) -> Vec<String> {
    text.lines().map(str::to_owned).collect()
}

#[test]
fn reasons_are_in_words() {
    let stack = lines("TypeError: x is not a function\n    at serve (/srv/app.js:3:1)");
    let heap = lines("FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory");
    let reason = |death: &Death, excerpt: &[String]| death.reason(excerpt);
    assert_eq!(
        reason(&death(Exit::Code(1)), &stack),
        "uncaught error (exit code 1): TypeError: x is not a function"
    );
    assert_eq!(
        reason(&death(Exit::Code(3)), &lines("Error: no database")),
        "exit code 3: Error: no database"
    );
    assert_eq!(reason(&death(Exit::Code(0)), &[]), "it ended by itself with exit code 0");
    assert_eq!(
        reason(&death(Exit::Signal(6)), &heap),
        "its JavaScript heap was full (SIGABRT): FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory"
    );
    assert_eq!(
        reason(&death(Exit::Signal(9)), &[]),
        "SIGKILL: another process killed it: neither Forkful nor the kernel for lack of memory did"
    );
    assert_eq!(
        reason(&death(Exit::Signal(11)), &[]),
        "SIGSEGV: native code used memory that it does not have"
    );
    assert_eq!(
        reason(&death(Exit::Signal(15)), &[]),
        "SIGTERM: another process sent the signal, or the worker itself"
    );
    let kernel = Some("the kernel killed it: memory had run out".to_owned());
    assert_eq!(
        reason(&Death { kernel, ..death(Exit::Signal(9)) }, &[]),
        "the kernel killed it: memory had run out"
    );
    let stuck = Some("its event loop stood still".to_owned());
    assert_eq!(
        reason(&Death { stuck, ..death(Exit::Signal(9)) }, &stack),
        "killed by Forkful: its event loop stood still"
    );
    let late = Role::NotReady { waited: Duration::from_millis(2500) };
    assert_eq!(
        reason(&Death { role: late, ..death(Exit::Signal(15)) }, &[]),
        "not ready within 2.5 s, so Forkful ended it"
    );
    assert_eq!(
        reason(&death(Exit::SpawnFailed("no such file".to_owned())), &[]),
        "could not be started: no such file"
    );
}

#[test]
fn an_end_that_somebody_asked_for_is_no_incident() {
    let now = Time::default();
    let running = Running { generation: FIRST, started: now, since: now, confirmed: true };
    let with = |state: State| Slot { state, ..Slot::default() };
    let stopping = |why| State::Stopping { generation: FIRST, started: now, why, push: Push::Killed };
    let replacing = State::Replacing { old: running, new: NEXT, new_started: now, ready_by: now };
    assert_eq!(role(&with(State::Online(running)), FIRST), Some(Role::Serving));
    assert_eq!(role(&with(State::Online(running)), NEXT), None, "it has left the slot");
    assert_eq!(
        role(&with(State::Starting { generation: FIRST, started: now, ready_by: now }), FIRST),
        Some(Role::Serving)
    );
    assert_eq!(role(&with(replacing.clone()), FIRST), Some(Role::Replaced));
    assert_eq!(role(&with(replacing), NEXT), Some(Role::Successor));
    for why in [StopReason::Stop, StopReason::Delete, StopReason::Restart] {
        assert_eq!(role(&with(stopping(why)), FIRST), None);
    }
    let leaver = |state| Some(Leaver { generation: FIRST, state });
    let draining = leaver(leaving::State::Draining { signal_at: now });
    let told = leaver(leaving::State::Killed);
    let closed = |disconnected| Slot { disconnected, ..with(State::Online(running)) };
    assert_eq!(role(&closed(draining), FIRST), Some(Role::Serving), "its channel ended with it");
    assert_eq!(role(&closed(told), FIRST), Some(Role::Disconnected));
    let waited = Duration::from_secs(3);
    assert_eq!(
        role(&with(stopping(StopReason::NotReady { waited })), FIRST),
        Some(Role::NotReady { waited })
    );
    assert_eq!(role(&with(State::Stopped { last_exit: None }), FIRST), None);
}

#[test]
fn what_follows_is_told() {
    let now = Time::default();
    let told = |role, after: Option<State>| follows(role, after.as_ref(), now).1;
    let exit = Exit::Code(1);
    let backoff = |ms| State::Backoff {
        attempt: 2,
        start_at: now + Duration::from_millis(ms),
        last_exit: exit.clone(),
    };
    let starting = State::Starting { generation: NEXT, started: now, ready_by: now };
    assert_eq!(told(Role::Serving, Some(starting.clone())), "restart at once");
    assert_eq!(told(Role::Replaced, Some(starting)), "its successor was starting already");
    assert_eq!(told(Role::Serving, Some(backoff(1500))), "restart in 1.5 s");
    assert_eq!(told(Role::Serving, Some(backoff(98))), "restart in 98 ms");
    assert_eq!(told(Role::Serving, None), "it is not started again");
    let reason = FailReason::CrashLoop { count: 16, window: Duration::from_secs(600) };
    let failed = State::Failed { reason, last_exit: exit.clone() };
    assert_eq!(
        follows(Role::Serving, Some(&failed), now),
        (Some(reason), "given up: 16 unstable exits in 10 min".to_owned())
    );
    let rests = State::Stopped { last_exit: None };
    assert!(is_done(&Exit::Code(0), Some(&rests), &[]));
    assert!(is_done(&Exit::Code(7), Some(&rests), &[7]));
    assert!(!is_done(&exit, Some(&rests), &[]), "`autorestart: false` makes no crash a success");
    assert!(!is_done(&Exit::Code(0), Some(&backoff(1)), &[]));
}

#[test]
fn effects_that_nobody_asked_for_are_noted() {
    let renewed = Effect::Notice(Some(1), Notice::Renewed("3 health checks in a row failed".to_owned()));
    assert_eq!(noticed(&renewed, false), None, "it was due for another reason");
    let Some(Noticed::Incident { kind, slot, reason, .. }) = noticed(&renewed, true) else { panic!() };
    assert_eq!(
        (kind, slot, reason.as_str()),
        (IncidentKind::Unhealthy, Some(1), "3 health checks in a row failed")
    );
    let stuck = Effect::Notice(Some(0), Notice::KilledWhileStuck("busy".to_owned()));
    assert_eq!(noticed(&stuck, false), Some(Noticed::Stuck(0, "busy".to_owned())));
    let fault = Fault::NotReadyInTime { waited: Duration::from_secs(3) };
    let failure = ReloadFailure { slot: 2, fault, listen_fault: None, old_serves: true };
    let result = |failure| {
        Effect::Reloaded(Some(JobId(1)), ReloadResult { rolling: true, replaced: vec![], total: 4, failure })
    };
    assert_eq!(noticed(&result(None), false), None);
    let cancelled = ReloadFailure { fault: Fault::Cancelled { by: Verb::Stop }, ..failure.clone() };
    assert_eq!(noticed(&result(Some(cancelled)), false), None, "a `stop` ended it");
    assert_eq!(
        noticed(&result(Some(failure)), false),
        Some(Noticed::Incident {
            kind: IncidentKind::FailedReload,
            slot: Some(2),
            reason: "a new worker failed: not ready within 3 s".to_owned(),
            next: "the worker before serves on".to_owned(),
        })
    );
    let scaled = |from, to| Effect::Notice(None, Notice::Scaled { from, to, why: "busy".to_owned() });
    let kinds = [scaled(1, 2), scaled(2, 1)].map(|effect| match noticed(&effect, false) {
        Some(Noticed::Incident { kind, slot: None, next, .. }) => (kind, next),
        other => panic!("{other:?}"),
    });
    let words = ["from 1 to 2 workers", "from 2 to 1 worker"].map(str::to_owned);
    let [up, down] = words;
    assert_eq!(kinds, [(IncidentKind::ScaledUp, up), (IncidentKind::ScaledDown, down)]);
    let step = |step| FixNote::new(step, "a", "why").noticed();
    assert_eq!(step(FixStep::Keep), None);
    let kinds = [FixStep::Try, FixStep::Revert].map(|of| match step(of) {
        Some(Noticed::Incident { kind, slot: None, reason, .. }) => (kind, reason),
        other => panic!("{other:?}"),
    });
    let why = || "why".to_owned();
    assert_eq!(kinds, [(IncidentKind::FixTried, why()), (IncidentKind::FixReverted, why())]);
    assert!(kinds.iter().all(|(kind, _)| !kind.is_fault()));
    for (kind, ..) in IncidentKind::ALL {
        assert_eq!(IncidentKind::named(kind.name()), Some(*kind));
    }
}

#[test]
fn a_long_reason_of_a_step_is_cut_so_that_the_step_is_not_refused() {
    let reason = |text: &str| {
        let note = FixNote::new(FixStep::Revert, "a", text);
        assert_eq!(note.check(), Ok(()), "{text}");
        note.reason
    };
    assert_eq!(reason(&"x".repeat(1024)), "x".repeat(1024));
    assert_eq!(reason(&"x".repeat(1025)), format!("{}…", "x".repeat(1021)));
    // A character of three bytes is not cut.
    assert_eq!(reason(&"€".repeat(400)), format!("{}…", "€".repeat(340)));
}

#[test]
fn a_step_has_what_it_needs() {
    let commands = |length| {
        let text = "x".repeat(length);
        Some(TrialCommands { keep: text.clone().into(), undo: text.into() })
    };
    let note = |step, trial: &str, commands| FixNote { commands, ..FixNote::new(step, trial, "why") };
    let (tries, revert) = (FixStep::Try, FixStep::Revert);
    for (note, expected) in [
        (note(tries, "a", commands(128 * 1024)), None),
        (note(tries, "a", commands(128 * 1024 + 1)), Some("`keep` of `fix` has at most 131072 bytes")),
        (note(tries, "a", None), Some("`commands` of `fix` belong to the step `try`, which needs them")),
        (
            note(revert, "a", commands(1)),
            Some("`commands` of `fix` belong to the step `try`, which needs them"),
        ),
        (note(revert, &"a".repeat(64), None), None),
        (note(revert, &"a".repeat(65), None), Some("`trial` of `fix` has at most 64 bytes")),
        (note(revert, "", None), Some("`trial` of `fix` is the name of the trial")),
    ] {
        assert_eq!(note.check().err().as_deref(), expected, "{:?}", note.trial);
    }
}

#[test]
fn the_oldest_of_the_app_with_the_most_go_first() {
    let entry = |id: u64, app: &'static str, bytes: u64| Entry { id, app, bytes, is_fault: true };
    let quiet = (1..=3).map(|id| entry(id, "quiet", 10));
    let busy = (4..=ENTRIES_MAX as u64 + 2).map(|id| entry(id, "busy", 10));
    let all: Vec<Entry<'_>> = quiet.chain(busy).collect();
    assert_eq!(surplus(&all), [4, 5]);
    assert!(surplus(&all[..ENTRIES_MAX]).is_empty());
    let large = [entry(1, "a", BYTES_MAX / 2), entry(2, "b", BYTES_MAX / 2), entry(3, "b", 1)];
    assert_eq!(surplus(&large), [2]);
    assert_eq!(surplus(&[entry(9, "a", BYTES_MAX + 1)]), [9]);
    let routine = |id: u64| Entry { is_fault: false, ..entry(id, "a", 1) };
    let many: Vec<Entry<'_>> =
        [entry(1, "a", 1)].into_iter().chain((2..=ROUTINE_MAX as u64 + 3).map(routine)).collect();
    assert_eq!(surplus(&many), [3, 2], "the crash stays");
}
