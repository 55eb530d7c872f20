//! The server against a task that plays the engine, over a real socket.

use std::path::{Path, PathBuf};

use forkful_api::client::{Client, ClientError};
use forkful_api::dashboard::DashboardRequest;
use forkful_api::types::{
    ActionReply, ActionRequest, AppList, AppOutcome, AppTable, Deployment, ErrorCode, ErrorReply, FixNote,
    FixStep, LogLine, LogStream, LogsQuery, TrialCommands,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

use forkful_core::metrics::exposition;
use forkful_core::pages::Page;
use forkful_core::probes::Answer;
use forkful_core::scale::ScaleTarget;

use super::*;
use crate::command::{COMMAND_QUEUE, Verb};
use crate::engine::MetricsOrder;
use crate::logs::{Chunk, channel_for_tests};

/// Lines that the engine's channel to a log reader holds in these tests.
const LOG_QUEUE: usize = 8;

struct Served {
    directory: tempfile::TempDir,
    server: JoinHandle<()>,
    engine: JoinHandle<()>,
}

impl Served {
    fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("sock")).unwrap();
        let (commands, received) = mpsc::channel(COMMAND_QUEUE);
        Self {
            server: tokio::spawn(serve(listener, commands, Rest::default())),
            engine: tokio::spawn(engine(received)),
            directory,
        }
    }

    fn socket(&self) -> PathBuf {
        self.directory.path().join("sock")
    }

    async fn client(&self) -> Client {
        Client::connect_same_version(&self.socket(), env!("CARGO_PKG_VERSION")).await.unwrap()
    }
}

/// Plays the engine: answers actions with what was asked, ends at `Kill`.
async fn engine(mut commands: mpsc::Receiver<Command>) {
    while let Some(command) = commands.recv().await {
        match command {
            Command::List { reply, .. } => drop(reply.send(Ok(AppList::default()))),
            Command::Table { reply } => drop(reply.send(Ok(AppTable::default()))),
            Command::Describe { target, reply, .. } => {
                let error = format!("no app {target:?}");
                let hint = Some(Page::Targets.hint("look at `forkful list`"));
                drop(reply.send(Err(ErrorReply::new(ErrorCode::NoSuchTarget, error, hint))));
            }
            Command::Action { verb, request, reply } => {
                let apps = request.targets.iter().map(|target| outcome(target, verb)).collect();
                drop(reply.send(Ok(ActionReply::of(apps))));
            }
            Command::Start { reply, .. } => drop(reply.send(Ok(ActionReply::default()))),
            Command::Logs { query, reply } => {
                let (lines, receiver) = channel_for_tests(LOG_QUEUE);
                drop(reply.send(Ok(receiver)));
                tokio::spawn(write_logs(query, lines));
            }
            Command::Probe { reply, .. } => {
                drop(reply.send(Ok(Answer { is_yes: true, text: String::new() })));
            }
            Command::Metrics { target, format, reply } => {
                const ASKED: exposition::Family =
                    exposition::Family { name: "asked", kind: exposition::FamilyKind::Gauge, help: "Asked." };
                let mut page = exposition::Page::new(format);
                page.add(&ASKED, &[("target", target.as_deref().unwrap_or_default())], 1.0);
                drop(reply.send(Ok(MetricsOrder { page, apps: Vec::new() })));
            }
            Command::Talk(_)
            | Command::History { .. }
            | Command::Stalls { .. }
            | Command::Keep(_)
            | Command::Apply { .. } => {}
            Command::Kill { reply } => {
                drop(reply.send(Ok(ActionReply::of(vec![outcome("last", Verb::Stop)]))));
                return;
            }
        }
    }
}

fn outcome(name: &str, verb: Verb) -> AppOutcome {
    AppOutcome {
        finished: false,
        unchanged: false,
        started: false,
        scaled: None,
        name: name.to_owned(),
        ok: true,
        pm_ids: vec![0],
        error: None,
        hint: None,
        see: None,
        notes: vec![format!("{verb:?}")],
        stderr_tail: Vec::new(),
    }
}

/// Sends `query.lines` lines, and if asked to follow, more until the reader is too slow.
async fn write_logs(query: LogsQuery, lines: mpsc::Sender<Chunk>) {
    for number in 0..query.lines {
        let line = log_line(&query.targets, format!("line {number}\nof a kind"));
        if lines.send(Chunk::Told(line)).await.is_err() {
            return;
        }
    }
    let filler = "x".repeat(100_000);
    if !query.follow {
        return;
    }
    if query.targets == "silent" {
        return lines.closed().await;
    }
    while lines.try_send(Chunk::Told(log_line(&query.targets, filler.clone()))).is_ok() {
        tokio::task::yield_now().await;
    }
}

fn log_line(app: &str, line: String) -> LogLine {
    LogLine { app: app.to_owned(), pm_id: Some(1), stream: LogStream::Out, at_ms: Some(2), line }
}

fn request(targets: &[&str]) -> ActionRequest {
    ActionRequest {
        targets: targets.iter().map(ToString::to_string).collect(),
        optional_targets: Vec::new(),
        wait: true,
        instances: None,
        signal: None,
        definitions: Vec::new(),
        update_env: false,
        changes: Vec::new(),
        code_changed_at_ms: std::collections::BTreeMap::new(),
        fix: None,
        deployment: None,
    }
}

/// Sends raw bytes and reads until the server closes the connection, which it may do before it read
/// everything: then the write fails, or the read ends with a reset after the answer.
async fn raw(socket: &Path, bytes: &[u8]) -> String {
    let mut stream = UnixStream::connect(socket).await.unwrap();
    drop(stream.write_all(bytes).await);
    let mut answer = Vec::new();
    drop(stream.read_to_end(&mut answer).await);
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test]
async fn one_connection_serves_many_requests() {
    let served = Served::start();
    let mut client = served.client().await;
    assert_eq!(client.ping().await.unwrap().pid, std::process::id());
    assert_eq!(client.list().await.unwrap().apps, []);
    for verb in [Verb::Stop, Verb::Restart, Verb::Flush, Verb::ReloadLogs] {
        let reply = client.action(verb, &request(&["a b", "7"])).await.unwrap();
        assert_eq!(reply.apps, [outcome("a b", verb), outcome("7", verb)]);
    }
}

#[tokio::test]
async fn refusals_of_the_engine_reach_the_client_whole() {
    let served = Served::start();
    let error = served.client().await.describe("a/ü ?").await.unwrap_err();
    assert_eq!(error.refusal(), Some(ErrorCode::NoSuchTarget));
    assert_eq!(error.to_string(), "no app \"a/ü ?\"");
}

#[tokio::test]
async fn requests_that_make_no_sense_are_refused_before_the_engine() {
    let served = Served::start();
    let mut client = served.client().await;
    let commands = TrialCommands { keep: "keep".to_owned().into(), undo: "undo".to_owned().into() };
    let fix = |length| FixNote {
        step: FixStep::Try,
        trial: "a".to_owned(),
        reason: "x".repeat(length),
        commands: Some(commands.clone()),
    };
    let tried = |length| ActionRequest { fix: Some(fix(length)), ..request(&["a"]) };
    let scale = ActionRequest { instances: Some(ScaleTarget::Exactly(2)), ..request(&["a"]) };
    let with_env = ActionRequest { update_env: true, ..request(&["a"]) };
    let mut of_code = request(&["a"]);
    of_code.code_changed_at_ms.insert("a".to_owned(), 1);
    let changed = "`update_env` and `code_changed_at_ms` belong to `restart` and `reload`";
    let deployed = ActionRequest { deployment: Deployment::of("v2"), ..scale.clone() };
    for (verb, request, expected) in [
        (Verb::Stop, request(&[]), "an action names 1 to 4096 targets"),
        (Verb::Scale, request(&["a"]), "`instances` belongs to `scale`, which needs it"),
        (Verb::Stop, scale, "`instances` belongs to `scale`, which needs it"),
        (Verb::Signal, request(&["a"]), "`signal` belongs to the action `signal`, which needs it"),
        (Verb::Restart, tried(1), "`fix` belongs to `reload`, `scale` and `keep_fix`"),
        (Verb::Reload, tried(1025), "`reason` of `fix` has at most 1024 bytes"),
        (Verb::KeepFix, tried(1), "the step `keep` of `fix` belongs to `keep_fix`"),
        (Verb::KeepFix, request(&["a"]), "`keep_fix` needs `fix`"),
        (Verb::Stop, with_env, changed),
        (Verb::Delete, of_code, changed),
        (Verb::Scale, deployed, "`deployment` belongs to `restart` and `reload`"),
    ] {
        let error = client.action(verb, &request).await.unwrap_err();
        assert_eq!(error.refusal(), Some(ErrorCode::BadRequest));
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn parameters_that_nothing_reads_are_refused() {
    let served = Served::start();
    for (path, expected) in [
        ("/v1/ping?x", "/v1/ping has no parameters: unknown `x`"),
        ("/v1/table?x=1", "/v1/table has no parameters: unknown `x=1`"),
        ("/v1/stalls/api?since_ms=5", "/v1/stalls/api has no parameters: unknown `since_ms=5`"),
        ("/v1/apps?x=1", "unknown field `x`"),
        ("/v1/history?app=api&metrics=heap_used_bytes,no_such", "the history has no metric `no_such`, only "),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nhost: forkful\r\nconnection: close\r\n\r\n");
        let reply = raw(&served.socket(), request.as_bytes()).await;
        assert!(reply.starts_with("HTTP/1.1 400") && reply.contains(expected), "{path}: {reply}");
    }
    let reply =
        raw(&served.socket(), b"GET /v1/ping? HTTP/1.1\r\nhost: forkful\r\nconnection: close\r\n\r\n").await;
    assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
}

#[tokio::test]
async fn the_folder_of_the_dashboards_reports_is_an_absolute_one() {
    let served = Served::start();
    let mut client = served.client().await;
    let file = tempfile::NamedTempFile::new().unwrap();
    for folder in [Path::new("results"), Path::new("/none/there"), file.path()] {
        let request = DashboardRequest { control: false, reports: Some(folder.to_owned()) };
        let error = client.dashboard(&request).await.unwrap_err();
        assert_eq!(error.refusal(), Some(ErrorCode::BadRequest), "{error}");
    }
}

#[tokio::test]
async fn garbage_ends_its_own_connection_and_nothing_else() {
    let served = Served::start();
    let mut before = served.client().await;
    for garbage in [&b"\0\0\0\0\xff\xff\xff\xff\r\n\r\n"[..], b"GET\r\n\r\n", "A".repeat(200_000).as_bytes()]
    {
        let answer = raw(&served.socket(), garbage).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{answer}");
    }
    let post = |path: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    };
    for (path, body) in [
        ("/v1/apps", "{"),
        ("/v1/apps", "[]"),
        ("/v1/apps", r#"{"apps":[],"wait":true,"extra":1}"#),
        ("/v1/apps", r#"{"apps":[],"wait":true}"#),
        ("/v1/nowhere", "{}"),
        ("/v1/ping", "{}"),
        ("/v1/actions/stop", &"[".repeat(100_000)),
        // Found by fuzzing: a segment that is not UTF-8.
        ("/v1/actions/%ca", "{}"),
    ] {
        let answer = raw(&served.socket(), post(path, body).as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
        assert!(answer.contains(r#""code":"bad_request""#), "{path}: {answer}");
    }
    let dance = post("/v1/actions/dance", r#"{"targets":["a"],"wait":true}"#);
    let answer = raw(&served.socket(), dance.as_bytes()).await;
    assert!(answer.contains(r#"no such action: \"dance\""#), "{answer}");
    assert_eq!(before.list().await.unwrap().apps, []);
    assert_eq!(served.client().await.list().await.unwrap().apps, []);
}

#[tokio::test]
async fn a_body_above_the_bound_is_refused() {
    let served = Served::start();
    let head = format!(
        "POST /v1/apps HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        REQUEST_BYTES_MAX + 1
    );
    let answer = raw(&served.socket(), head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
    assert!(answer.contains("the request's body is larger than 16777216 bytes"), "{answer}");
    let mut chunked = b"POST /v1/apps HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    chunked.extend_from_slice(format!("{:x}\r\n", REQUEST_BYTES_MAX + 1).as_bytes());
    chunked.resize(chunked.len() + REQUEST_BYTES_MAX + 1, b' ');
    let answer = raw(&served.socket(), &chunked).await;
    assert!(answer.contains("length limit exceeded"), "{answer}");
}

#[tokio::test]
async fn log_lines_come_one_by_one_and_end_with_the_engine_s_channel() {
    let served = Served::start();
    let query = LogsQuery { targets: "api".into(), lines: 100, follow: false, stream: None };
    let mut logs = served.client().await.logs(&query).await.unwrap();
    for number in 0..100 {
        let line = logs.next().await.unwrap().unwrap();
        assert_eq!(line, log_line("api", format!("line {number}\nof a kind")));
    }
    assert_eq!(logs.next().await.unwrap(), None);
}

#[tokio::test]
async fn a_log_reader_that_does_not_read_is_dropped_and_others_go_on() {
    let served = Served::start();
    let query = LogsQuery { targets: "api".into(), lines: 0, follow: true, stream: None };
    // Until the first read only the socket's buffers and the channel take lines, so the engine's `try_send` fails.
    let mut logs = served.client().await.logs(&query).await.unwrap();
    assert_eq!(served.client().await.list().await.unwrap().apps, []);
    while logs.next().await.unwrap().is_some() {}
}

#[tokio::test]
async fn too_many_log_lines_and_unknown_keys_are_refused() {
    let served = Served::start();
    let query = LogsQuery { targets: String::new(), lines: u32::MAX, follow: false, stream: None };
    let error = served.client().await.logs(&query).await.unwrap_err();
    assert_eq!(error.to_string(), "lines must be at most 100000");
    let answer =
        raw(&served.socket(), b"GET /v1/logs?line=3 HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
}

#[tokio::test]
async fn the_reply_to_kill_arrives_before_the_server_ends() {
    let served = Served::start();
    let idle = served.client().await;
    let reply = served.client().await.kill().await.unwrap();
    assert_eq!(reply.apps, [outcome("last", Verb::Stop)]);
    served.engine.await.unwrap();
    served.server.await.unwrap();
    let gone = Client::connect(&served.directory.path().join("sock")).await.unwrap_err();
    assert!(matches!(gone, ClientError::NotRunning { stale: true, .. }), "{gone}");
    drop(idle);
}

#[tokio::test]
async fn a_follower_does_not_hold_up_the_end() {
    let served = Served::start();
    let query = LogsQuery { targets: "silent".into(), lines: 3, follow: true, stream: None };
    let mut logs = served.client().await.logs(&query).await.unwrap();
    for _ in 0..3 {
        assert!(logs.next().await.unwrap().is_some());
    }
    served.client().await.kill().await.unwrap();
    assert_eq!(logs.next().await.unwrap(), None);
    served.server.await.unwrap();
}

#[tokio::test]
async fn another_version_is_told_apart() {
    let served = Served::start();
    let error = Client::connect_same_version(&served.socket(), "99.0.0").await.unwrap_err();
    assert!(matches!(error, ClientError::OtherVersion { .. }), "{error}");
}

#[tokio::test]
async fn the_metrics_page_is_written_as_the_client_wants_it() {
    use forkful_api::types::MetricsQuery;
    use forkful_core::metrics::exposition::Format;
    let served = Served::start();
    let mut client = served.client().await;
    let query = MetricsQuery::default();
    assert_eq!(
        client.metrics(&query).await.unwrap(),
        "# HELP asked Asked.\n# TYPE asked gauge\nasked{target=\"\"} 1.0\n"
    );
    let query = MetricsQuery { app: Some("a&b".to_owned()), format: Some(Format::OpenMetrics) };
    assert!(client.metrics(&query).await.unwrap().ends_with("asked{target=\"a&b\"} 1.0\n# EOF\n"));
    client.kill().await.unwrap();
    served.engine.await.unwrap();
    served.server.await.unwrap();
}
