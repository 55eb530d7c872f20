//! The client's side of an HTTP/2 connection to a hostile server, without the engine around it.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::fault::Fault;
use super::link;

/// Requests that are sent, one after the other.
const REQUESTS: usize = 2;

/// Makes a connection as the engine does, sends requests on it, and reads what comes until it ends.
pub(crate) async fn ask(io: impl AsyncRead + AsyncWrite + Unpin) {
    let (sender, connection) = match link::builder().handshake::<_, Bytes>(io).await {
        Ok(connection) => connection,
        Err(error) => return drop(Fault::before_settings(&error, "")),
    };
    let requests = async move {
        let mut sender = sender.ready().await?;
        for _ in 0..REQUESTS {
            let request = http::Request::get("http://127.0.0.1/").body(()).expect("a request");
            let (response, _) = sender.send_request(request, true)?;
            let mut stream = response.await?.into_body();
            while let Some(bytes) = stream.data().await {
                stream.flow_control().release_capacity(bytes?.len())?;
            }
            stream.trailers().await?;
            sender = sender.ready().await?;
        }
        Ok::<(), h2::Error>(())
    };
    let (end, requests) = tokio::join!(connection, requests);
    for error in [end.err(), requests.err()].into_iter().flatten() {
        let fault = Fault::of(&error, false);
        assert!(!fault.cause.key().is_empty(), "a fault has a cause");
    }
}
