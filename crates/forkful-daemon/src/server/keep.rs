//! Handlers of routes about the saved state.

use axum::extract::State;
use forkful_api::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest};
use forkful_api::types::{ActionReply, UpdateReply, UpdateRequest};

use super::refusal::{Json, Refusal};
use super::routes::Api;
use crate::command::{Command, Keep};

pub(super) async fn save(
    State(api): State<Api>,
    Json(request): Json<SaveRequest>,
) -> Result<Json<SaveReply>, Refusal> {
    api.ask(|reply| Command::Keep(Keep::Save { request, reply })).await.map(Json)
}

pub(super) async fn resurrect(
    State(api): State<Api>,
    Json(request): Json<ResurrectRequest>,
) -> Result<Json<ActionReply>, Refusal> {
    api.ask(|reply| Command::Keep(Keep::Resurrect { request, reply })).await.map(Json)
}

pub(super) async fn update(
    State(api): State<Api>,
    Json(request): Json<UpdateRequest>,
) -> Result<Json<UpdateReply>, Refusal> {
    if !request.program.starts_with('/') {
        return Err(Refusal::bad_request("the program's path must be absolute"));
    }
    api.ask(|reply| Command::Keep(Keep::Update { request, reply })).await.map(Json)
}

pub(super) async fn clear(State(api): State<Api>) -> Result<Json<ClearReply>, Refusal> {
    api.ask(|reply| Command::Keep(Keep::Clear { reply })).await.map(Json)
}
