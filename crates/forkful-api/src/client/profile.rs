//! The bytes of a profile, as they come.

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};

use super::{Client, ClientError};

/// The reply of `POST /v1/profile`, piece by piece.
#[derive(Debug)]
pub struct ProfileReader {
    body: Incoming,
    request: String,
    /// Held so that the connection lives as long as its stream.
    _client: Client,
}

impl ProfileReader {
    pub(super) fn new(body: Incoming, request: String, client: Client) -> Self {
        Self { body, request, _client: client }
    }

    /// The next bytes; `None` when the profile is complete. [`ClientError::Lost`] when it will not be: the worker has ended, or has
    /// stopped to write.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ClientError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(source)) => {
                    return Err(ClientError::Lost { request: self.request.clone(), source });
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }
}
