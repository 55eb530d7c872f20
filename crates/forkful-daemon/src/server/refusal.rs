//! Error replies: every fault has the same shape.

use axum::body::HttpBody;
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use forkful_api::types::{ErrorCode, ErrorReply};
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::{BODY_TIMEOUT, REQUEST_BYTES_MAX};

/// An [`ErrorReply`] on its way out.
#[derive(Debug)]
pub(super) struct Refusal(pub(super) ErrorReply);

impl Refusal {
    pub(super) fn bad_request(error: impl Into<String>) -> Self {
        Self(ErrorReply::new(ErrorCode::BadRequest, error, None))
    }

    pub(super) fn internal(error: impl Into<String>) -> Self {
        Self(ErrorReply::new(ErrorCode::Internal, error, None))
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = match self.0.code {
            ErrorCode::BadRequest => StatusCode::BAD_REQUEST,
            ErrorCode::NoSuchTarget => StatusCode::NOT_FOUND,
            ErrorCode::Conflict => StatusCode::CONFLICT,
            ErrorCode::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(self.0)).into_response()
    }
}

/// A JSON body, in both directions; unlike axum's, its faults are [`Refusal`]s.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(body) => ([(header::CONTENT_TYPE, "application/json")], body).into_response(),
            // Our own types always have a JSON form; a plain text tells of a fault in this program.
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// The variable segment of a route's path; unlike axum's, its faults are [`Refusal`]s.
#[derive(Debug)]
pub(super) struct Segment(pub(super) String);

impl<S: Send + Sync> FromRequestParts<S> for Segment {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Refusal> {
        match Path::from_request_parts(parts, state).await {
            Ok(Path(segment)) => Ok(Self(segment)),
            Err(rejection) => Err(Refusal::bad_request(rejection.body_text())),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Refusal;

    async fn from_request(request: Request, state: &S) -> Result<Self, Refusal> {
        if request.body().size_hint().lower() > REQUEST_BYTES_MAX as u64 {
            return Err(Refusal::bad_request(format!(
                "the request's body is larger than {REQUEST_BYTES_MAX} bytes"
            )));
        }
        let body = timeout(BODY_TIMEOUT, Bytes::from_request(request, state))
            .await
            .map_err(|_| Refusal::bad_request("the request's body did not arrive in time"))?
            .map_err(|rejection| Refusal::bad_request(rejection.body_text().to_lowercase()))?;
        forkful_api::strict::from_slice(&body)
            .map(Self)
            .map_err(|error| Refusal::bad_request(format!("the request's body is not as expected: {error}")))
    }
}
