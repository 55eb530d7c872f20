//! Routes about the saved state.

use axum::Router;
use axum::extract::State;
use axum::routing::post;
use forkful_api::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest};
use forkful_api::types::ActionReply;

use super::refusal::{Json, Refusal};
use super::routes::Api;
use crate::command::{Command, Keep};

pub(super) fn routes() -> Router<Api> {
    Router::new()
        .route("/v1/save", post(save))
        .route("/v1/resurrect", post(resurrect))
        .route("/v1/cleardump", post(clear))
}

async fn save(State(api): State<Api>, Json(request): Json<SaveRequest>) -> Result<Json<SaveReply>, Refusal> {
    api.ask(|reply| Command::Keep(Keep::Save { request, reply })).await.map(Json)
}

async fn resurrect(
    State(api): State<Api>,
    Json(request): Json<ResurrectRequest>,
) -> Result<Json<ActionReply>, Refusal> {
    api.ask(|reply| Command::Keep(Keep::Resurrect { request, reply })).await.map(Json)
}

async fn clear(State(api): State<Api>) -> Result<Json<ClearReply>, Refusal> {
    api.ask(|reply| Command::Keep(Keep::Clear { reply })).await.map(Json)
}
