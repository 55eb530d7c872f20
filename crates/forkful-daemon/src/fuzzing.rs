//! Fuzz targets of the daemon: requests of the control API, saved states, files of incidents, and messages that apps send to
//! their process manager.

use axum::body::Body;
use forkful_api::conversation::WorkerReports;
use forkful_api::incidents::Alert;
use forkful_api::routes::Route;
use forkful_api::saved::{SavedApp, SavedState};
use forkful_api::types::{ActionReply, AppChange, AppDefinition, ErrorCode, ErrorReply};
use forkful_core::spec::AppSpec;
use hyper::service::Service as _;
use hyper_util::service::TowerToHyperService;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::command::{COMMAND_QUEUE, Command, Keep};
use crate::incidents::shelf;
use crate::server::routes;
use crate::worker_message;

/// Maximum length of a reply to a refused request; longer replies would repeat hostile input.
const REFUSAL_BYTES_MAX: usize = 64 << 10;

/// A request: the first byte chooses the route, the rest is its body, or the query and path of a route without one.
/// Definitions of apps and changes of them are converted as the engine would.
pub fn api(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    let route = Route::ALL[usize::from(*first) % Route::ALL.len()];
    let Some(request) = request(route, body) else { return };
    RUNTIME.with(|runtime| runtime.block_on(ask(request)));
}

thread_local! {
    static RUNTIME: Runtime = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a loop for one thread")
    };
}

/// An existing app to be changed.
const APP: &str = r#"{"name":"api","program":"/usr/bin/node","program_args":["/srv/app.js"],"script":"/srv/app.js",
    "args":[],"cwd":"/srv","runtime":"node","mode":"cluster","instances":2,"balance":"auto","autorestart":true,
    "max_restarts":16,"restart_window_ms":60000,"min_uptime_ms":1000,"restart_delay_ms":null,
    "exp_backoff_restart_delay_ms":100,"stop_exit_codes":[0],"wait_ready":false,"listen_timeout_ms":null,
    "kill_signal":15,"kill_timeout_ms":1600,"drain_timeout_ms":5000,"out_file":null,"error_file":null,
    "merge_logs":false,"time":false,"agent":true,"env":{"PORT":"3000"}}"#;

fn request(route: Route, body: &[u8]) -> Option<hyper::Request<Body>> {
    let (segment, body) = if route.path().contains('{') {
        let end = body.iter().position(|byte| *byte == b'\n').unwrap_or(body.len());
        (std::str::from_utf8(&body[..end]).ok()?, body.get(end + 1..).unwrap_or_default())
    } else {
        ("", body)
    };
    let path = route.path().replace("{target}", segment).replace("{verb}", segment);
    let (uri, body) = if route.method() == hyper::Method::GET {
        (format!("{path}?{}", std::str::from_utf8(body).ok()?), Body::empty())
    } else {
        (path, Body::from(body.to_vec()))
    };
    hyper::Request::builder().method(route.method()).uri(uri).body(body).ok()
}

async fn ask(request: hyper::Request<Body>) {
    let (commands, received) = mpsc::channel(COMMAND_QUEUE);
    let service = TowerToHyperService::new(routes::router(commands));
    let (reply, ()) = tokio::join!(
        async {
            let reply = service.call(request).await;
            drop(service);
            reply
        },
        engine(received)
    );
    let Ok(reply) = reply;
    let is_refused = reply.status().is_client_error();
    if is_refused {
        let text = axum::body::to_bytes(reply.into_body(), usize::MAX).await.unwrap_or_default();
        assert!(text.len() <= REFUSAL_BYTES_MAX, "a refusal of {} bytes", text.len());
        let refusal = serde_json::from_slice::<ErrorReply>(&text);
        assert!(refusal.is_ok(), "no error reply: {}", String::from_utf8_lossy(&text));
    }
}

/// Replaces the engine: converts definitions, and refuses everything.
async fn engine(mut commands: mpsc::Receiver<Command>) {
    let refusal = || ErrorReply::new(ErrorCode::NoSuchTarget, "no", None);
    while let Some(command) = commands.recv().await {
        match command {
            Command::Start { request, reply } => {
                let defined = request.targets.into_iter().flat_map(|target| target.apps);
                request.apps.into_iter().chain(defined).for_each(convert);
                request.change.into_iter().for_each(change);
                drop(reply.send(Ok(ActionReply::default())));
            }
            Command::Action { request, reply, .. } => {
                request.changes.into_iter().for_each(change);
                request.definitions.into_iter().for_each(convert);
                drop(reply.send(Err(refusal())));
            }
            Command::Keep(Keep::Resurrect { reply, .. }) => drop(reply.send(Err(refusal()))),
            _ => {}
        }
    }
}

fn change(change: AppChange) {
    let present: AppDefinition = serde_json::from_str(APP).expect("a definition");
    // It may be refused.
    let _warnings = change.check_all(std::slice::from_ref(&present));
    if let Ok(changed) = change.apply(&present, 0) {
        convert(changed);
    }
}

/// An accepted definition survives a round trip through the core's spec.
fn convert(definition: AppDefinition) {
    let Ok(spec) = AppSpec::try_from(definition) else { return };
    let again = AppDefinition::from(&spec);
    assert_eq!(AppSpec::try_from(again), Ok(spec), "the same after it crossed the socket again");
}

/// A text in `state.json` or `dump.json`: it is refused as a whole, or app by app.
pub fn state(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<SavedState>(bytes) else { return };
    for value in state.apps {
        if let Ok((app, unknown)) = SavedApp::read(&value) {
            // Unknown keys are written again.
            assert!(SavedApp::read(&app.entry(&unknown)).is_ok(), "{value}");
            convert(app.definition);
        }
    }
}

/// A file below `incidents`: what is read is the same after it was written, and can be told as an alert.
pub fn incident(bytes: &[u8]) {
    let Ok(incident) = shelf::parse(bytes) else { return };
    let written = serde_json::to_vec(&incident).expect("an incident is JSON");
    assert_eq!(shelf::parse(&written).expect("what was written is read"), incident);
    let alert = Alert::new(incident.clone(), 1, "host".to_owned());
    assert!(alert.text.contains(&incident.summary.app) && alert.text.contains(&incident.summary.reason));
}

/// A message of an app; its reports stay within their limits.
pub fn worker_message(bytes: &[u8]) {
    let mut reports = WorkerReports::default();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(message) = worker_message::interpret(line) else { continue };
        worker_message::note(&mut reports, &message);
    }
    assert!(reports.metrics.len() <= worker_message::METRICS_MAX, "{} metrics", reports.metrics.len());
    assert!(reports.actions.len() <= worker_message::ACTIONS_MAX, "{} actions", reports.actions.len());
}

#[cfg(test)]
mod tests {
    use forkful_testkit::replay;

    #[test]
    fn corpus_of_the_api() {
        replay("api", super::api);
    }

    #[test]
    fn corpus_of_incidents() {
        replay("incident", super::incident);
    }

    #[test]
    fn corpus_of_states() {
        replay("state", super::state);
    }

    #[test]
    fn corpus_of_worker_messages() {
        replay("worker-message", super::worker_message);
    }
}
