//! Keys and the screen.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use forkful_api::types::{AppList, LogLine, LogStream};
use insta::assert_snapshot;
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::draw::{Theme, draw};
use super::keys::{Effect, press};
use super::state::{Action, Choice, LINES_MAX, Mode, State, Told};
use crate::commands::act::{DELETE, RELOAD, RESTART, SCALE, START, STOP};

/// Two apps: one with two workers, one of which is waiting, and one that has failed.
fn list() -> AppList {
    let app = |name: &str, namespace: &str, mode: &str, listening: &[&str], workers: serde_json::Value| {
        serde_json::json!({
            "definition": {
                "name": name, "program": "/usr/bin/node", "program_args": [], "script": format!("/srv/{name}.js"),
                "args": ["--token", "hunter2"], "cwd": "/srv", "runtime": "node", "mode": mode, "instances": 2,
                "balance": "auto", "autorestart": true, "max_restarts": 16, "restart_window_ms": 600_000,
                "min_uptime_ms": 1000, "restart_delay_ms": null, "exp_backoff_restart_delay_ms": 100,
                "stop_exit_codes": [], "wait_ready": false, "listen_timeout_ms": null, "kill_signal": 2,
                "kill_timeout_ms": 5000, "drain_timeout_ms": 30_000, "out_file": null, "error_file": null,
                "merge_logs": false, "time": false, "agent": true, "namespace": namespace,
            },
            "env_names": [], "listening": listening, "created_at_ms": 0, "dispatch": [], "workers": workers,
        })
    };
    let worker = |pm_id: u32, pid: Option<u32>, status: &str, reason: Option<&str>| {
        serde_json::json!({
            "pm_id": pm_id, "slot": pm_id, "pid": pid, "status": status, "restarts": pm_id * 7, "crashes": pm_id * 2,
            "unstable_restarts": 0, "started_at_ms": 1000, "cpu_percent": 12.34, "memory_bytes": 47_080_000,
            "out_log_path": "", "error_log_path": "", "last_exit": reason.map(|_| "exit code 1"), "exit_code": null,
            "reason": reason, "dropped_log_lines": 0, "loop_delay_ms": pid.map(|_| 1.26),
            "reports": { "metrics": { "Users": { "value": 3 } }, "actions": [], "options": {} },
        })
    };
    serde_json::from_value(serde_json::json!({ "apps": [
        app("api", "web", "cluster", &["tcp://127.0.0.1:3000"], serde_json::json!([
            worker(0, Some(4711), "online", None),
            worker(1, None, "waiting restart", Some("2nd consecutive restart; last exit code 1")),
        ])),
        app("mail", "jobs", "fork", &[], serde_json::json!([
            worker(2, None, "errored", Some("16 unstable exits in 10 min; last exit code 1")),
        ])),
    ] }))
    .unwrap()
}

fn line(pm_id: u32, stream: LogStream, text: &str) -> LogLine {
    LogLine { app: "api".to_owned(), pm_id: Some(pm_id), stream, at_ms: None, line: text.to_owned() }
}

/// The list, with some output of its first app.
fn state() -> State {
    let mut state = State::default();
    state.take_list(list(), 3_601_000);
    state.follow(state.chosen.clone());
    state.take_line(&line(0, LogStream::Out, "\u{1b}[32mlistening\u{1b}[0m on 3000"));
    state.take_line(&line(1, LogStream::Err, "Error: broken on purpose"));
    for number in 1..=30 {
        state.take_line(&line(number % 2, LogStream::Out, &format!("GET /{number} 200")));
    }
    state
}

#[test]
fn a_blocked_worker_is_shown_with_the_time() {
    let mut list = list();
    list.apps[0].workers[0].blocked_ms = Some(12_345);
    let mut state = State::default();
    state.take_list(list, 3_601_000);
    let screen = screen(&state, 80, 24);
    assert!(screen.contains(" blocked 12s "), "{screen}");
}

fn screen(state: &State, width: u16, height: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, Theme { has_colours: false })).unwrap();
    let text = terminal.backend().to_string();
    text.lines().map(|line| format!("{}\n", line.trim_matches('"').trim_end())).collect()
}

fn keys(state: &mut State, codes: &[KeyCode]) -> Option<Effect> {
    codes.iter().map(|code| press(state, KeyEvent::new(*code, KeyModifiers::NONE))).last().flatten()
}

fn typed(state: &mut State, text: &str) -> Option<Effect> {
    keys(state, &text.chars().map(KeyCode::Char).collect::<Vec<_>>())
}

#[test]
fn the_screen_at_80_by_24() {
    assert_snapshot!(screen(&state(), 80, 24), @"
    forkful  2 apps, 1 of 3 workers running  cpu 37.0%  mem 134.7 MiB
    ┌ apps ────────────────────────────────────────────────────────────────────────┐
    │ name              id status         cpu       mem   ↺ crashes     loop uptime│
    │>api                  1/2 up       24.7%  89.8 MiB   5       2   1.3 ms       │
    │   slot 0           0 online       12.3%  44.9 MiB   0       0   1.3 ms     1h│
    │   slot 1           1 waiting          -         -   5       2        -      -│
    │ mail               2 errored          -         -  10       4        -      -│
    └──────────────────────────────────────────────────────────────────────────────┘
    ┌ output of api ──────────────────────────────────────────────────── following ┐
    │ 0 GET /18 200                                                                │
    │ 1 GET /19 200                                                                │
    │ 0 GET /20 200                                                                │
    │ 1 GET /21 200                                                                │
    │ 0 GET /22 200                                                                │
    │ 1 GET /23 200                                                                │
    │ 0 GET /24 200                                                                │
    │ 1 GET /25 200                                                                │
    │ 0 GET /26 200                                                                │
    │ 1 GET /27 200                                                                │
    │ 0 GET /28 200                                                                │
    │ 1 GET /29 200                                                                │
    │ 0 GET /30 200                                                                │
    └──────────────────────────────────────────────────────────────────────────────┘
    q quit  ? help  r restart  l reload  s stop  t start  / filter  tab output
    ");
}

#[test]
fn the_screen_at_120_by_40_has_details() {
    let mut state = state();
    keys(&mut state, &[KeyCode::Down, KeyCode::Down]);
    assert_snapshot!(screen(&state, 120, 40), @"
    forkful  2 apps, 1 of 3 workers running  cpu 37.0%  mem 134.7 MiB
    ┌ apps ────────────────────────────────────────────────────────────────────────────────────────────────────────────────┐
    │ name                                                      id status         cpu       mem   ↺ crashes     loop uptime│
    │ api                                                          1/2 up       24.7%  89.8 MiB   5       2   1.3 ms       │
    │   slot 0                                                   0 online       12.3%  44.9 MiB   0       0   1.3 ms     1h│
    │>  slot 1                                                   1 waiting          -         -   5       2        -      -│
    │ mail                                                       2 errored          -         -  10       4        -      -│
    └──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
    ┌ details ─────────────────────────────────────────────────────────────────────────────────────────────────────────────┐
    │ script     /srv/api.js --token [redacted]                                                                            │
    │ mode       cluster, namespace web                                                                                    │
    │ listening  tcp://127.0.0.1:3000                                                                                      │
    │ why        2nd consecutive restart; last exit code 1                                                                 │
    │ last exit  exit code 1                                                                                               │
    │ cpu        ▂                                        12.3%                                                            │
    │ memory     █                                        44.9 MiB                                                         │
    └──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
    ┌ output of api ──────────────────────────────────────────────────────────────────────────────────────────── following ┐
    │ 1 GET /11 200                                                                                                        │
    │ 0 GET /12 200                                                                                                        │
    │ 1 GET /13 200                                                                                                        │
    │ 0 GET /14 200                                                                                                        │
    │ 1 GET /15 200                                                                                                        │
    │ 0 GET /16 200                                                                                                        │
    │ 1 GET /17 200                                                                                                        │
    │ 0 GET /18 200                                                                                                        │
    │ 1 GET /19 200                                                                                                        │
    │ 0 GET /20 200                                                                                                        │
    │ 1 GET /21 200                                                                                                        │
    │ 0 GET /22 200                                                                                                        │
    │ 1 GET /23 200                                                                                                        │
    │ 0 GET /24 200                                                                                                        │
    │ 1 GET /25 200                                                                                                        │
    │ 0 GET /26 200                                                                                                        │
    │ 1 GET /27 200                                                                                                        │
    │ 0 GET /28 200                                                                                                        │
    │ 1 GET /29 200                                                                                                        │
    │ 0 GET /30 200                                                                                                        │
    └──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
    q quit  ? help  r restart  l reload  s stop  t start  / filter  tab output  +- scale  o sort  d delete  ↑↓ choose
    ");
}

#[test]
fn the_screen_at_40_by_12() {
    assert_snapshot!(screen(&state(), 40, 12), @"
    forkful  2 apps, 1 of 3 workers running
    ┌ apps ────────────────────────────────┐
    │ name       status        cpu      mem│
    │>api        1/2 up      24.7% 89.8 MiB│
    │   slot 0   online      12.3% 44.9 MiB│
    └──────────────────────────────────────┘
    ┌ output of api ──────────── following ┐
    │ 0 GET /28 200                        │
    │ 1 GET /29 200                        │
    │ 0 GET /30 200                        │
    └──────────────────────────────────────┘
    q quit  ? help  r restart  l reload
    ");
}

#[test]
fn a_tiny_terminal_is_no_reason_to_fall_over() {
    let mut state = state();
    for mode in [Mode::Look, Mode::Help, Mode::Filter] {
        state.mode = mode;
        for (width, height) in [(1, 1), (5, 3), (20, 6), (300, 4)] {
            screen(&state, width, height);
        }
    }
}

#[test]
fn help_and_questions_lie_over_the_panes() {
    let mut state = state();
    typed(&mut state, "?");
    assert_snapshot!(screen(&state, 80, 24), @"
    forkful  2 apps, 1 of 3 workers running  cpu 37.0%  mem 134.7 MiB
    ┌ apps ────────────────────────────────────────────────────────────────────────┐
    │ name              id status         cpu       mem   ↺ crashes     loop uptime│
    │>api                  1/2 up       24.7%  89.8 MiB   5       2   1.3 ms       │
    │   slot 0     ┌ keys ──────────────────────────────────────────┐ 1.3 ms     1h│
    │   slot 1     │ ↑ ↓  PgUp PgDn  choose, or scroll the output   │      -      -│
    │ mail         │ ← →             long lines of output           │      -      -│
    └──────────────│ tab             between apps and output        │──────────────┘
    ┌ output of api│ end             follow the output again        │─── following ┐
    │ 0 GET /18 200│ /               filter the pane; esc clears    │              │
    │ 1 GET /19 200│ o               sort by the next field         │              │
    │ 0 GET /20 200│ r               restart the app or worker      │              │
    │ 1 GET /21 200│ l               reload                         │              │
    │ 0 GET /22 200│ s               stop                           │              │
    │ 1 GET /23 200│ t               start                          │              │
    │ 0 GET /24 200│ + -             one worker more or less        │              │
    │ 1 GET /25 200│ d               delete                         │              │
    │ 0 GET /26 200│ ?               this help                      │              │
    │ 1 GET /27 200│ q  Ctrl-C       quit; the apps keep running    │              │
    │ 0 GET /28 200└────────────────────────────────────────────────┘              │
    │ 1 GET /29 200                                                                │
    │ 0 GET /30 200                                                                │
    └──────────────────────────────────────────────────────────────────────────────┘
    q quit  ? help  r restart  l reload  s stop  t start  / filter  tab output
    ");
    typed(&mut state, "x");
    typed(&mut state, "r");
    assert_snapshot!(screen(&state, 60, 16), @"
    forkful  2 apps, 1 of 3 workers running  cpu 37.0%  mem 134.
    ┌ apps ────────────────────────────────────────────────────┐
    │ name          id status         cpu       mem   ↺ crashes│
    │>api              1/2 up       24.7%  89.8 MiB   5       2│
    │   slot 0       0 online       12.3%  44.9 MiB   0       0│
    │   slot 1       1 waiting          -         -   5       2│
    │ mail  ┌──────────────────────────────────────────┐      4│
    └───────│ Restart api (2 workers)?                 │───────┘
    ┌ output│                                          │lowing ┐
    │ 0 GET │ y restart   any other key: no            │       │
    │ 1 GET └──────────────────────────────────────────┘       │
    │ 0 GET /28 200                                            │
    │ 1 GET /29 200                                            │
    │ 0 GET /30 200                                            │
    └──────────────────────────────────────────────────────────┘
    q quit  ? help  r restart  l reload  s stop  t start
    ");
}

#[test]
fn without_apps_and_without_a_daemon_it_says_so() {
    let mut state = State::default();
    state.take_list(AppList::default(), 0);
    assert_snapshot!(screen(&state, 60, 10), @"
    forkful  0 apps, 0 of 0 workers running  cpu 0.0%  mem 0 B
    ┌ apps ────────────────────────────────────────────────────┐
    │no apps; `forkful start app.js` starts an app             │
    │                                                          │
    └──────────────────────────────────────────────────────────┘
    ┌ output ──────────────────────────────────────────────────┐
    │                                                          │
    │                                                          │
    └──────────────────────────────────────────────────────────┘
    q quit  ? help  r restart  l reload  s stop  t start
    ");
    state.lose("no daemon is running; waiting for one".to_owned());
    assert!(screen(&state, 60, 10).starts_with("no daemon is running; waiting for one\n"));
    state.take_list(list(), 0);
    assert!(screen(&state, 60, 10).starts_with("forkful  2 apps, 1 of 3 workers running  cpu"));
}

#[test]
fn nothing_is_done_without_a_yes() {
    let mut state = state();
    for no in ["n", "q", "r", " "] {
        assert_eq!(typed(&mut state, &format!("s{no}")), None);
        assert_eq!(state.mode, Mode::Look);
    }
    let done = |words, target: Choice, whom: &str| {
        Some(Effect::Act(Action { words, instances: None, target, whom: whom.to_owned() }))
    };
    let api = Choice::App("api".to_owned());
    assert_eq!(typed(&mut state, "ry"), done(RESTART, api.clone(), "api (2 workers)"));
    assert_eq!(typed(&mut state, "ly"), done(RELOAD, api, "api (2 workers)"));
    assert_eq!(typed(&mut state, "jsy"), done(STOP, Choice::Worker(0), "worker 0 of api"));
    assert_eq!(typed(&mut state, "Gsy"), done(STOP, Choice::App("mail".to_owned()), "mail"));
    assert_eq!(state.mode, Mode::Look);
    // The target of the question is gone; the answer would affect something else.
    typed(&mut state, "s");
    let mut fewer = list();
    fewer.apps.pop();
    state.take_list(fewer, 0);
    assert_eq!((&state.mode, &state.chosen), (&Mode::Look, &Some(Choice::App("api".to_owned()))));
}

#[test]
fn quitting_has_several_keys() {
    assert_eq!(typed(&mut state(), "q"), Some(Effect::Quit));
    let control = |c| press(&mut state(), KeyEvent::new(KeyCode::Char(c), KeyModifiers::CONTROL));
    assert_eq!((control('c'), control('d'), control('x')), (Some(Effect::Quit), Some(Effect::Quit), None));
    let mut writing = state();
    assert_eq!(typed(&mut writing, "/q"), None);
    assert_eq!(writing.app_filter, "q");
    let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
    assert_eq!(press(&mut writing, interrupt), Some(Effect::Quit));
}

#[test]
fn apps_are_filtered_by_name_and_group() {
    let mut state = state();
    typed(&mut state, "/JOB");
    assert_eq!(state.chosen, Some(Choice::App("mail".to_owned())));
    keys(&mut state, &[KeyCode::Backspace, KeyCode::Backspace, KeyCode::Backspace]);
    assert_eq!((state.rows().len(), &state.mode), (4, &Mode::Filter));
    typed(&mut state, "nothing");
    keys(&mut state, &[KeyCode::Enter]);
    assert_eq!((state.rows().len(), &state.chosen, &state.mode), (0, &None, &Mode::Look));
    assert!(screen(&state, 80, 24).contains("no app has this in its name; esc shows all apps"));
    keys(&mut state, &[KeyCode::Esc]);
    assert_eq!((state.rows().len(), state.chosen_index()), (4, Some(0)));
}

#[test]
fn output_is_filtered_and_scrolled_and_stays_where_it_is() {
    let mut state = state();
    keys(&mut state, &[KeyCode::Tab]);
    let last = |state: &State| {
        let screen = screen(state, 80, 24);
        let lines: Vec<&str> = screen.lines().collect();
        lines[21].trim_matches(['│', ' ']).to_owned()
    };
    assert_eq!(last(&state), "0 GET /30 200");
    keys(&mut state, &[KeyCode::Up, KeyCode::Up]);
    assert_eq!(last(&state), "0 GET /28 200");
    state.take_line(&line(0, LogStream::Out, "GET /31 200"));
    assert_eq!(last(&state), "0 GET /28 200");
    keys(&mut state, &[KeyCode::Right]);
    assert_eq!(last(&state), "0 200");
    keys(&mut state, &[KeyCode::Left, KeyCode::End]);
    assert_eq!(last(&state), "0 GET /31 200");
    keys(&mut state, &[KeyCode::Home]);
    assert!(screen(&state, 80, 24).lines().nth(9).unwrap().starts_with("│ 0 listening on 3000"));
    keys(&mut state, &[KeyCode::Down]);
    assert!(screen(&state, 80, 24).lines().nth(9).unwrap().starts_with("│ 1 ! Error: broken on purpose"));
    typed(&mut state, "/broken");
    assert_eq!(last(&state), "");
    assert!(screen(&state, 80, 24).contains("! Error: broken on purpose"));
    typed(&mut state, "x");
    assert!(screen(&state, 80, 24).contains("no line contains this; esc shows all"));
}

#[test]
fn output_is_bounded() {
    let mut state = state();
    keys(&mut state, &[KeyCode::Tab, KeyCode::Up]);
    for number in 0..LINES_MAX + 10 {
        state.take_line(&line(0, LogStream::Out, &number.to_string()));
    }
    assert_eq!(state.output.shown().len(), LINES_MAX);
    assert!(state.output.up < LINES_MAX);
}

#[test]
fn what_was_done_is_told_beside_the_keys() {
    let mut state = state();
    state.told = Some(Told { text: "api restarted".to_owned(), is_fault: false });
    let screen = screen(&state, 80, 24);
    assert!(screen.starts_with("api restarted\n"), "{screen}");
    assert!(screen.lines().last().unwrap().starts_with("q quit  ? help"), "{screen}");
}

#[test]
fn apps_are_started_scaled_and_deleted_after_a_yes() {
    let mut state = state();
    let api = Choice::App("api".to_owned());
    let done = |words, instances, target: Choice, whom: &str| {
        Some(Effect::Act(Action { words, instances, target, whom: whom.to_owned() }))
    };
    assert_eq!(typed(&mut state, "ty"), done(START, None, api.clone(), "api (2 workers)"));
    assert_eq!(typed(&mut state, "dn"), None);
    assert_eq!(typed(&mut state, "dy"), done(DELETE, None, api.clone(), "api (2 workers)"));
    let scaled = done(SCALE, Some(3), api.clone(), "api from 2 to 3 workers");
    assert_eq!(typed(&mut state, "+y"), scaled);
    assert_eq!(typed(&mut state, "j+y"), scaled, "a worker's app is scaled");
    assert_eq!(typed(&mut state, "-y"), done(SCALE, Some(1), api, "api from 2 to 1 worker"));
    typed(&mut state, "G-");
    assert_eq!(state.mode, Mode::Look, "the last worker goes by `stop`");
}

#[test]
fn apps_are_sorted() {
    let mut state = state();
    let names = |state: &State| -> Vec<String> {
        state
            .rows()
            .iter()
            .filter(|row| matches!(row, super::state::Row::App(_)))
            .map(|row| row.app().definition.name.clone())
            .collect()
    };
    assert_eq!(names(&state), ["api", "mail"]);
    typed(&mut state, "oooo");
    assert_eq!((state.order.name(), names(&state)), ("restarts", vec!["mail".to_owned(), "api".to_owned()]));
    assert!(screen(&state, 80, 24).contains("apps by restarts"));
    typed(&mut state, "o");
    assert_eq!(names(&state), ["api", "mail"]);
}
