//! Routes: each turns a request into one [`Command`] and waits for the engine's answer.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Path, Query, State};
use axum::http::{Method, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use forkful_api::types::{
    API_VERSION, ActionReply, ActionRequest, AppList, LOG_TAIL_LINES_MAX, ListQuery, LogsQuery, Ping,
    StartRequest,
};
use tokio::sync::{mpsc, oneshot};

use super::REQUEST_BYTES_MAX;
use super::log_body::LogBody;
use super::refusal::{Json, Refusal};
use crate::command::{Command, Reply, Verb};

/// The most targets or definitions in one request; a bound on what one message makes the engine do.
pub(super) const TARGETS_MAX: usize = 4096;

#[derive(Clone)]
pub(super) struct Api {
    pub(super) commands: mpsc::Sender<Command>,
    started_at_ms: u64,
}

/// All routes, talking to the engine behind `commands`.
pub(super) fn router(commands: mpsc::Sender<Command>) -> Router {
    let started_at_ms = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    Router::new()
        .route("/v1/ping", get(ping))
        .route("/v1/apps", get(list).post(start))
        .route("/v1/apps/{target}", get(describe))
        .route("/v1/actions/{verb}", post(action))
        .route("/v1/logs", get(logs))
        .route("/v1/kill", post(kill))
        .merge(super::keep::routes())
        .merge(super::conversation::routes())
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_route)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(Api { commands, started_at_ms })
}

impl Api {
    /// Sends a command and waits for its answer.
    pub(super) async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Refusal> {
        let (reply, answer) = oneshot::channel();
        let ending = || Refusal::internal("the daemon is ending");
        self.commands.send(command(reply)).await.map_err(|_| ending())?;
        answer.await.map_err(|_| ending())?.map_err(Refusal)
    }
}

async fn ping(State(api): State<Api>) -> Json<Ping> {
    Json(Ping {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        api: API_VERSION,
        pid: std::process::id(),
        started_at_ms: api.started_at_ms,
    })
}

async fn list(
    State(api): State<Api>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<AppList>, Refusal> {
    let Query(ListQuery { measure }) =
        query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    api.ask(|reply| Command::List { measure, reply }).await.map(Json)
}

async fn describe(State(api): State<Api>, Path(target): Path<String>) -> Result<Json<AppList>, Refusal> {
    api.ask(|reply| Command::Describe { target, reply }).await.map(Json)
}

async fn start(
    State(api): State<Api>,
    Json(request): Json<StartRequest>,
) -> Result<Json<ActionReply>, Refusal> {
    if request.apps.is_empty() || request.apps.len() > TARGETS_MAX {
        return Err(Refusal::bad_request(format!("a start names 1 to {TARGETS_MAX} apps")));
    }
    api.ask(|reply| Command::Start { request, reply }).await.map(Json)
}

async fn action(
    State(api): State<Api>,
    Path(verb): Path<String>,
    Json(request): Json<ActionRequest>,
) -> Result<Json<ActionReply>, Refusal> {
    let verb = parse_verb(&verb).ok_or_else(|| Refusal::bad_request(format!("no such action: {verb:?}")))?;
    check_action(verb, &request).map_err(Refusal::bad_request)?;
    api.ask(|reply| Command::Action { verb, request, reply }).await.map(Json)
}

async fn kill(State(api): State<Api>) -> Result<Json<ActionReply>, Refusal> {
    api.ask(|reply| Command::Kill { reply }).await.map(Json)
}

async fn logs(
    State(api): State<Api>,
    query: Result<Query<LogsQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    if query.lines > LOG_TAIL_LINES_MAX {
        return Err(Refusal::bad_request(format!("lines must be at most {LOG_TAIL_LINES_MAX}")));
    }
    let lines = api.ask(|reply| Command::Logs { query, reply }).await?;
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, Body::new(LogBody::new(lines, api.commands))).into_response())
}

async fn no_such_route(method: Method, uri: Uri) -> Refusal {
    Refusal::bad_request(format!("the API has no {method} {}", uri.path()))
}

fn parse_verb(verb: &str) -> Option<Verb> {
    Some(match verb {
        "stop" => Verb::Stop,
        "restart" => Verb::Restart,
        "reload" => Verb::Reload,
        "delete" => Verb::Delete,
        "scale" => Verb::Scale,
        "signal" => Verb::Signal,
        "flush" => Verb::Flush,
        "reload_logs" => Verb::ReloadLogs,
        "reset" => Verb::Reset,
        _ => return None,
    })
}

/// What an action's request must have, and must not have, beyond its types.
fn check_action(verb: Verb, request: &ActionRequest) -> Result<(), String> {
    if request.targets.is_empty() || request.targets.len() > TARGETS_MAX {
        return Err(format!("an action names 1 to {TARGETS_MAX} targets"));
    }
    if request.instances.is_some() != (verb == Verb::Scale) {
        return Err("`instances` belongs to `scale`, which needs it".to_owned());
    }
    if request.signal.is_some() != (verb == Verb::Signal) {
        return Err("`signal` belongs to the action `signal`, which needs it".to_owned());
    }
    let defined = request.definitions.len() + request.changes.len();
    if defined > 0 && !matches!(verb, Verb::Restart | Verb::Reload) {
        return Err("`definitions` and `changes` belong to `restart` and `reload`".to_owned());
    }
    if defined > TARGETS_MAX {
        return Err(format!("an action holds at most {TARGETS_MAX} definitions and changes"));
    }
    Ok(())
}
