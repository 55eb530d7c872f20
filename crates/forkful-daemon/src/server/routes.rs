//! Routes: each turns a request into one [`Command`] and waits for the engine's answer.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{DefaultBodyLimit, Query, Request, State};
use axum::handler::Handler;
use axum::http::{HeaderMap, Method, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use forkful_api::apply::{ApplyReply, ApplyRequest};
use forkful_api::routes::Route;
use forkful_api::stalls::StallsReply;
use forkful_api::types::{
    API_VERSION, ActionReply, ActionRequest, AppDefinition, AppList, AppTable, DescribeQuery, HistoryQuery,
    HistoryReply, LOG_TAIL_LINES_MAX, ListQuery, LogsQuery, MetricsQuery, Ping, StartRequest, TARGETS_MAX,
};
use forkful_core::metrics::{self, exposition::Format, history::COLUMNS};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use tokio::sync::{mpsc, oneshot};

use super::dashboard::{self, Dashboard};
use super::log_body::LogBody;
use super::refusal::{Json, Refusal, Segment};
use super::{REQUEST_BYTES_MAX, conversation, keep, profile};
use crate::command::{Command, Reply, Verb};

#[derive(Clone)]
pub(super) struct Api {
    pub(super) commands: mpsc::Sender<Command>,
    pub(super) dashboard: Arc<Dashboard>,
    started_at_ms: u64,
}

/// All routes, talking to the engine behind `commands`.
pub(crate) fn router(commands: mpsc::Sender<Command>) -> Router {
    let started_at_ms = forkful_os::wall_clock::now_ms();
    Route::ALL
        .iter()
        .fold(Router::new(), |router, route| router.route(route.path(), handler(*route)))
        .fallback(no_such_route)
        .method_not_allowed_fallback(no_such_route)
        .layer(DefaultBodyLimit::max(REQUEST_BYTES_MAX))
        .with_state(Api { commands, dashboard: Arc::default(), started_at_ms })
}

/// What answers a route.
fn handler(route: Route) -> MethodRouter<Api> {
    match route {
        Route::Ping => of(route, ping),
        Route::List => of(route, list),
        Route::Table => of(route, table),
        Route::Start => of(route, start),
        Route::Describe => of(route, describe),
        Route::Action => of(route, action),
        Route::Apply => of(route, apply),
        Route::Kill => of(route, kill),
        Route::Logs => of(route, logs),
        Route::Events => of(route, conversation::events),
        Route::Messages => of(route, conversation::messages),
        Route::Stdin => of(route, conversation::stdin),
        Route::Trigger => of(route, conversation::trigger),
        Route::Environment => of(route, conversation::environment),
        Route::Stalls => of(route, stalls),
        Route::Profile => of(route, profile::take),
        Route::Incidents => of(route, conversation::incidents),
        Route::Incident => of(route, conversation::incident),
        Route::Metrics => of(route, metrics),
        Route::History => of(route, history),
        Route::Jlist => of(route, conversation::jlist),
        Route::Save => of(route, keep::save),
        Route::Resurrect => of(route, keep::resurrect),
        Route::ClearSaved => of(route, keep::clear),
        Route::Update => of(route, keep::update),
        Route::Dashboard => of(route, dashboard::open),
    }
}

fn of<H: Handler<T, Api>, T: 'static>(route: Route, handler: H) -> MethodRouter<Api> {
    let method = MethodFilter::try_from(route.method()).expect("every route has an ordinary method");
    let handled = on(method, handler);
    if has_query(route) { handled } else { handled.layer(middleware::from_fn(without_query)) }
}

/// Whether the address may have a query.
fn has_query(route: Route) -> bool {
    use Route::{Describe, Environment, Events, History, Incidents, Jlist, List, Logs, Metrics};
    matches!(route, Describe | Environment | Events | History | Incidents | Jlist | List | Logs | Metrics)
}

/// Refuses a query, which the route would not read.
async fn without_query(request: Request, next: Next) -> Response {
    match request.uri().query() {
        None | Some("") => next.run(request).await,
        Some(query) => {
            let path = request.uri().path();
            Refusal::bad_request(format!("{path} has no parameters: unknown `{query}`")).into_response()
        }
    }
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
        keeper: forkful_os::tree::keeper(),
        started_at_ms: api.started_at_ms,
        portable: forkful_os::portable::is_on(),
    })
}

async fn list(
    State(api): State<Api>,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<AppList>, Refusal> {
    let Query(ListQuery { measure }) =
        query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    api.ask(|reply| Command::List { measure, target: None, reply }).await.map(Json)
}

async fn table(State(api): State<Api>) -> Result<Json<AppTable>, Refusal> {
    api.ask(|reply| Command::Table { reply }).await.map(Json)
}

async fn describe(
    State(api): State<Api>,
    Segment(target): Segment,
    query: Result<Query<DescribeQuery>, QueryRejection>,
) -> Result<Json<AppList>, Refusal> {
    let Query(DescribeQuery { brief }) =
        query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    api.ask(|reply| Command::Describe { target, brief, reply }).await.map(Json)
}

async fn stalls(State(api): State<Api>, Segment(target): Segment) -> Result<Json<StallsReply>, Refusal> {
    api.ask(|reply| Command::Stalls { target, reply }).await.map(Json)
}

async fn start(
    State(api): State<Api>,
    Json(mut request): Json<StartRequest>,
) -> Result<Json<ActionReply>, Refusal> {
    request.check().map_err(Refusal::bad_request)?;
    api.complete_start(&mut request).await?;
    api.ask(|reply| Command::Start { request, reply }).await.map(Json)
}

async fn action(
    State(api): State<Api>,
    Segment(verb): Segment,
    Json(mut request): Json<ActionRequest>,
) -> Result<Json<ActionReply>, Refusal> {
    let verb = parse_verb(&verb).ok_or_else(|| Refusal::bad_request(format!("no such action: {verb:?}")))?;
    request.check(verb).map_err(Refusal::bad_request)?;
    api.complete_action(&mut request).await?;
    api.ask(|reply| Command::Action { verb, request, reply }).await.map(Json)
}

async fn apply(
    State(api): State<Api>,
    Json(request): Json<ApplyRequest>,
) -> Result<Json<ApplyReply>, Refusal> {
    if request.apps.is_empty() || request.apps.len() > TARGETS_MAX {
        return Err(Refusal::bad_request(format!("a configuration names 1 to {TARGETS_MAX} apps")));
    }
    request.apps.iter().try_for_each(AppDefinition::check_kinds).map_err(Refusal::bad_request)?;
    api.ask(|reply| Command::Apply { request, reply }).await.map(Json)
}

async fn metrics(
    State(api): State<Api>,
    headers: HeaderMap,
    query: Result<Query<MetricsQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(MetricsQuery { app: target, format }) =
        query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = format.unwrap_or_else(|| Format::accepted(accept));
    let order = api.ask(|reply| Command::Metrics { target, format, reply }).await?;
    let page = tokio::task::spawn_blocking(move || order.finish()).await;
    let page = page.map_err(|error| Refusal::internal(error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, format.content_type())], page).into_response())
}

async fn history(
    State(api): State<Api>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<HistoryReply>, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let HistoryQuery { app: target, from, to, step, metrics } = query;
    let asked = metrics.iter().flat_map(|names| names.split(',')).map(str::trim);
    if let Some(unknown) = asked.into_iter().find(|name| !COLUMNS.contains(name)) {
        let known = COLUMNS.join(", ");
        return Err(Refusal::bad_request(format!("the history has no metric `{unknown}`, only {known}")));
    }
    let order = api.ask(|reply| Command::History { target, reply }).await?;
    let in_s = |ms: Option<u64>| ms.map(|ms| ms / 1000);
    let span = metrics::history::Query { from_s: in_s(from), to_s: in_s(to), step_s: step };
    let wants = move |name: &str| {
        metrics.as_ref().is_none_or(|names| names.split(',').any(|wanted| wanted.trim() == name))
    };
    let read = tokio::task::spawn_blocking(move || order.read(span, wants)).await;
    let reply = read.map_err(|error| Refusal::internal(error.to_string()))?;
    reply.map(Json).map_err(|error| Refusal::internal(error.to_string()))
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
    let lines = api.ask(|reply| Command::Logs { query, reply }).await?.begun().await;
    let content_type = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((content_type, Body::new(LogBody::new(lines, api.commands))).into_response())
}

async fn no_such_route(method: Method, uri: Uri) -> Refusal {
    Refusal::bad_request(format!("the API has no {method} {}", uri.path()))
}

fn parse_verb(verb: &str) -> Option<Verb> {
    let name: StrDeserializer<'_, serde::de::value::Error> = verb.into_deserializer();
    Verb::deserialize(name).ok()
}
