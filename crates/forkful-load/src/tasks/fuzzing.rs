//! The client side of an HTTP/2 connection or an event stream with a hostile server, without the engine; requests of a
//! recording in HTTP/2 form.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};

use super::events::Head;
use super::events::reader::{EventBody, LINE_KEPT};
use super::fault::Fault;
use super::link;
use super::request::{Template, check};
use crate::plan::{HttpVersion, Plan, Request};

/// Requests sent one after the other.
const REQUESTS: usize = 2;

/// Connects as the engine does, sends requests, and reads until the connection ends.
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

/// Builds a request for HTTP/2, if it can be sent so.
pub(crate) fn send(request: &Request) {
    let mut plan = Plan::of(vec![request.clone()]);
    plan.http = HttpVersion::Http2;
    if check(&plan).is_ok() {
        let (built, body) = Template::new(request, &plan).of(0).expect("it was checked");
        assert_eq!(
            (built.method().as_str(), &body),
            (request.method.as_str(), &Bytes::from(request.body.clone()))
        );
    }
}

/// Reads an answer as an event stream in pieces of this length; the events must equal those of one piece.
pub(crate) fn read_events(bytes: &[u8], piece: usize) {
    let mut came = 0;
    for chunk in bytes.chunks(piece) {
        came += chunk.len();
        match Head::parse(&bytes[..came]) {
            Ok(None) => {}
            Ok(Some(head)) => {
                let body = &bytes[head.bytes..];
                assert_eq!(events(body, head.is_chunked, piece), events(body, head.is_chunked, bytes.len()));
                return;
            }
            Err(fault) => {
                assert!(!fault.cause.key().is_empty(), "a fault has a cause");
                return;
            }
        }
    }
}

/// The events of a body: the data length and the `id` of each.
fn events(body: &[u8], is_chunked: bool, piece: usize) -> Vec<(u64, Option<String>)> {
    let mut found = Vec::new();
    let mut reader = EventBody::new(is_chunked);
    for chunk in body.chunks(piece) {
        let mut came = |length, id: Option<&str>| {
            assert!(length <= body.len() as u64, "an event of {length} bytes");
            assert!(id.is_none_or(|id| id.len() < LINE_KEPT), "a long `id` is kept");
            found.push((length, id.map(str::to_owned)));
        };
        if !matches!(reader.read(chunk, &mut came), Ok(false)) {
            break;
        }
    }
    found
}
