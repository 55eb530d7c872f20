//! What follows when a trial fails, with a daemon that is played.

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};

use super::*;
use crate::connection::VERSION;

/// The reply to one request, in a world whose trial has this name; none: the connection is lost.
type Reply = fn(trial: &str) -> Option<(u16, Value)>;

/// Each request, with the step and the trial that it names.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

async fn request(stream: &mut UnixStream) -> Option<(String, Value)> {
    let (mut text, mut chunk) = (String::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut chunk).await.ok().filter(|length| *length > 0)?;
        text.push_str(&String::from_utf8_lossy(&chunk[..length]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let announced = head.split_once("content-length: ").map_or("0", |(_, rest)| rest);
        if body.len() >= announced.lines().next()?.parse::<usize>().ok()? {
            let line = head.lines().next()?.trim_end_matches(" HTTP/1.1").to_owned();
            return Some((line, serde_json::from_str(body).unwrap_or_default()));
        }
    }
}

async fn serve(mut stream: UnixStream, requests: Requests, script: &'static [Reply]) {
    while let Some((line, body)) = request(&mut stream).await {
        let reply = if line == "GET /v1/ping" {
            Some((200, json!({ "version": VERSION, "api": 1, "pid": 1, "started_at_ms": 1 })))
        } else {
            let mut requests = requests.lock().unwrap();
            requests.push((line, body["fix"].clone()));
            let trial = requests[0].1["trial"].as_str().unwrap().to_owned();
            script.get(requests.len() - 1).and_then(|reply| reply(&trial))
        };
        let Some((status, body)) = reply else { return };
        let body = body.to_string();
        let head = format!("HTTP/1.1 {status} status\r\ncontent-length: {}\r\n\r\n", body.len());
        stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
    }
}

/// Why a trial fails whose change gets these replies, and the requests that were made.
fn failing(script: &'static [Reply]) -> (String, Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::new(folder.path().to_owned());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let requests = Requests::default();
    let served = Arc::clone(&requests);
    let error = runtime.block_on(async {
        let listener = UnixListener::bind(home.socket()).unwrap();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&served), script));
            }
        });
        let request = || ActionRequest { targets: vec!["web".to_owned()], ..ActionRequest::default() };
        let change = Change {
            there: (Verb::Reload, request()),
            back: (Verb::Reload, request()),
            commands: TrialCommands { keep: "keep".to_owned().into(), undo: "undo".to_owned().into() },
        };
        let steps = Steps::new(&home, "web", &change).unwrap();
        let mut client = client_for(&home, &["web".to_owned()]).await.unwrap();
        let failure = steps.begin(&mut client, "why").await.unwrap_err();
        let mut interrupts = Interrupts::new().unwrap();
        steps.give_up(failure, &mut interrupts).await.error.to_string()
    });
    let requests = requests.lock().unwrap();
    let trial = &requests[0].1["trial"];
    let told = requests.iter().map(|(line, fix)| match fix {
        Value::Null => line.clone(),
        fix => {
            assert_eq!(&fix["trial"], trial, "a step is of the same trial");
            format!("{line} {}", fix["step"].as_str().unwrap())
        }
    });
    (error, told.collect())
}

/// The reply with an app, whose open trial has this name.
pub(in super::super) fn app(trial: Option<&str>) -> Option<(u16, Value)> {
    let trial = trial
        .map(|id| json!({ "id": id, "since_ms": 1, "state": "changed", "keep": "keep", "undo": "undo" }));
    let definition = json!({
        "name": "web", "program": "/usr/bin/node", "program_args": [], "script": "/srv/web.js", "args": [], "cwd": "/srv",
        "runtime": "node", "mode": "cluster", "instances": 2, "balance": "auto", "autorestart": true, "max_restarts": 16,
        "restart_window_ms": 600_000, "min_uptime_ms": 1000, "restart_delay_ms": null, "exp_backoff_restart_delay_ms": 100,
        "stop_exit_codes": [], "wait_ready": false, "listen_timeout_ms": null, "kill_signal": 2, "kill_timeout_ms": 5000,
        "drain_timeout_ms": 30_000, "out_file": null, "error_file": null, "merge_logs": false, "time": false, "agent": true,
        "namespace": "default",
    });
    let app = json!({
        "definition": definition, "env_names": [], "listening": [], "created_at_ms": 0, "dispatch": [], "workers": [], "trial": trial,
    });
    Some((200, json!({ "apps": [app] })))
}

fn done(error: Option<&str>) -> Option<(u16, Value)> {
    let outcome = json!({
        "name": "web", "ok": error.is_none(), "pm_ids": [0], "error": error, "hint": null, "notes": [], "stderr_tail": [],
    });
    Some((200, json!({ "apps": [outcome] })))
}

fn refused(_: &str) -> Option<(u16, Value)> {
    Some((409, json!({ "code": "conflict", "error": "refused", "hint": null })))
}

const TRY: &str = "POST /v1/actions/reload try";
const LOOK: &str = "GET /v1/apps/web?brief=true";
const REVERT: &str = "POST /v1/actions/reload revert";

#[test]
fn a_change_that_is_refused_leaves_the_trial_of_another_doctor() {
    let of_another = failing(&[refused, |_| app(Some("another"))]);
    assert_eq!(of_another, ("refused".to_owned(), vec![TRY.to_owned(), LOOK.to_owned()]));
    let of_none = failing(&[refused, |_| app(None)]);
    assert_eq!(of_none, of_another);
}

#[test]
fn a_change_that_failed_is_reverted_where_it_is_in_place() {
    let (error, requests) = failing(&[|_| done(Some("broken")), |own| app(Some(own)), |_| done(None)]);
    assert_eq!(error, "the change of web failed: broken");
    assert_eq!(requests, [TRY, LOOK, REVERT]);
    let (_, requests) = failing(&[|_| done(Some("broken")), |_| app(None)]);
    assert_eq!(requests, [TRY, LOOK]);
}

#[test]
fn a_change_of_which_nothing_is_known_is_reverted() {
    let (_, requests) = failing(&[|_| None, |own| app(Some(own)), |_| done(None)]);
    assert_eq!(requests, [TRY, LOOK, REVERT]);
    // The client asks once more when it loses the connection.
    let (error, requests) = failing(&[|_| None, |_| None, |_| None, refused]);
    assert_eq!(error, "refused");
    assert_eq!(requests, [TRY, LOOK, LOOK, REVERT]);
}
