//! Handlers of the routes that watch workers and send messages to them.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use forkful_api::conversation::{
    ACTION_BYTES_MAX, EnvironmentQuery, EnvironmentReply, EventsQuery, JlistQuery, MessageRequest,
    STDIN_TEXT_BYTES_MAX, StdinRequest, TRIGGER_TIMEOUT_MS_MAX, TriggerRequest, WorkersReply,
};
use forkful_api::incidents::{Incident, IncidentList, IncidentsQuery};
use forkful_api::jlist::JlistEntry;
use forkful_api::types::{LogsQuery, TARGETS_MAX};
use serde_json::Value;

use super::event_body::EventBody;
use super::refusal::{Json, Refusal, Segment};
use super::routes::Api;
use crate::command::{Command, Talk};

pub(super) async fn events(
    State(api): State<Api>,
    query: Result<Query<EventsQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let wants_logs = query.logs;
    let events = api.ask(|reply| Command::Talk(Talk::Watch { query, reply })).await?;
    let logs = if wants_logs {
        // Of all: an app that is watched may be started later.
        let query = LogsQuery { targets: String::new(), lines: 0, follow: true, stream: None };
        Some(api.ask(|reply| Command::Logs { query, reply }).await?.begun().await)
    } else {
        None
    };
    let head = [(header::CONTENT_TYPE, "text/event-stream"), (header::CACHE_CONTROL, "no-store")];
    Ok((head, Body::new(EventBody::new(events, logs, api.commands))).into_response())
}

pub(super) async fn incidents(
    State(api): State<Api>,
    query: Result<Query<IncidentsQuery>, QueryRejection>,
) -> Result<Json<IncidentList>, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    api.ask(|reply| Command::Talk(Talk::Incidents { query, reply })).await.map(Json)
}

pub(super) async fn incident(
    State(api): State<Api>,
    Segment(id): Segment,
) -> Result<Json<Incident>, Refusal> {
    let id =
        id.parse().map_err(|_| Refusal::bad_request(format!("{id:?} is not the number of an incident")))?;
    api.ask(|reply| Command::Talk(Talk::Incident { id, reply })).await.map(Json)
}

pub(super) async fn messages(
    State(api): State<Api>,
    Json(request): Json<MessageRequest>,
) -> Result<Json<WorkersReply>, Refusal> {
    check_targets(&request.targets)?;
    if is_nodes_own(&request.message) {
        return Err(Refusal::bad_request("a message whose `cmd` begins with NODE_ is Node's own"));
    }
    api.ask(|reply| Command::Talk(Talk::Message { request, reply })).await.map(Json)
}

pub(super) async fn stdin(
    State(api): State<Api>,
    Json(request): Json<StdinRequest>,
) -> Result<Json<WorkersReply>, Refusal> {
    check_targets(&request.targets)?;
    if request.text.is_empty() || request.text.len() > STDIN_TEXT_BYTES_MAX {
        return Err(Refusal::bad_request(format!("a text has 1 to {STDIN_TEXT_BYTES_MAX} bytes")));
    }
    api.ask(|reply| Command::Talk(Talk::Stdin { request, reply })).await.map(Json)
}

pub(super) async fn trigger(
    State(api): State<Api>,
    Json(request): Json<TriggerRequest>,
) -> Result<Json<WorkersReply>, Refusal> {
    check_targets(&request.targets)?;
    if request.action.is_empty() || request.action.len() > ACTION_BYTES_MAX {
        return Err(Refusal::bad_request(format!("an action's name has 1 to {ACTION_BYTES_MAX} bytes")));
    }
    if request.timeout_ms == 0 || request.timeout_ms > TRIGGER_TIMEOUT_MS_MAX {
        return Err(Refusal::bad_request(format!("timeout_ms must be 1 to {TRIGGER_TIMEOUT_MS_MAX}")));
    }
    api.ask(|reply| Command::Talk(Talk::Trigger { request, reply })).await.map(Json)
}

pub(super) async fn environment(
    State(api): State<Api>,
    Segment(target): Segment,
    query: Result<Query<EnvironmentQuery>, QueryRejection>,
) -> Result<Json<EnvironmentReply>, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let show_secrets = query.show_secrets;
    api.ask(|reply| Command::Talk(Talk::Environment { target, show_secrets, reply })).await.map(Json)
}

/// Workers in PM2's shape. The second question of two sees what the first one saw, or a little more.
pub(super) async fn jlist(
    State(api): State<Api>,
    query: Result<Query<JlistQuery>, QueryRejection>,
) -> Result<Json<Vec<JlistEntry>>, Refusal> {
    let Query(query) = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()))?;
    let JlistQuery { show_secrets, target } = query;
    let of = target.clone().unwrap_or_else(|| "all".to_owned());
    let list = api.ask(|reply| Command::List { measure: true, target, reply }).await?;
    if list.apps.is_empty() {
        return Ok(Json(Vec::new()));
    }
    let asked = api.ask(|reply| Command::Talk(Talk::Environment { target: of, show_secrets, reply })).await;
    // When the last app was deleted in between, there is nothing to add.
    let environment = asked.unwrap_or_else(|_| EnvironmentReply { apps: BTreeMap::new() });
    Ok(Json(forkful_api::jlist::jlist(&list, &environment, show_secrets)))
}

fn check_targets(targets: &[String]) -> Result<(), Refusal> {
    if targets.is_empty() || targets.len() > TARGETS_MAX {
        return Err(Refusal::bad_request(format!("name 1 to {TARGETS_MAX} targets")));
    }
    Ok(())
}

/// Node does not give such a message to the app but acts on it, and could be made to do anything.
fn is_nodes_own(message: &Value) -> bool {
    message.get("cmd").and_then(Value::as_str).is_some_and(|cmd| cmd.starts_with("NODE_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_that_node_would_act_on_are_known() {
        for (message, own) in [
            (r#"{"cmd":"NODE_CLUSTER","act":"disconnect"}"#, true),
            (r#"{"cmd":"NODE_"}"#, true),
            (r#"{"cmd":"node"}"#, false),
            (r#"{"cmd":{"a":"NODE_X"}}"#, false),
            (r#"["cmd","NODE_X"]"#, false),
            ("null", false),
        ] {
            assert_eq!(is_nodes_own(&serde_json::from_str(message).unwrap()), own, "{message}");
        }
    }
}
