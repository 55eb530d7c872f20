//! Fuzz targets of the load engine: arbitrary answers of a server over HTTP/1, HTTP/2 and event streams, and recordings of
//! requests.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::http1::{HeadCache, Reader, ReaderContext};
use crate::plan::{Expect, Plan, Request};
use crate::template::Template;
use crate::{Url, har, tasks};

/// Capacity of an in-memory connection in each direction.
const PIPE_BYTES: usize = 64 << 10;

/// Answers on one HTTP/1 connection. The first byte selects the size of the pieces and the kind of request.
pub fn http1(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let piece = 1 + usize::from(first >> 2) * 8;
    let (is_head, keep_body) = (first & 1 == 1, first & 2 == 2);
    let mut cache = HeadCache::new(Some("x-worker"));
    let mut reader = Reader::default();
    for chunk in bytes.chunks(piece) {
        let mut rest = chunk;
        while !rest.is_empty() {
            let mut context = ReaderContext { cache: &mut cache, is_head, keep_body };
            let Ok((used, answer)) = reader.read(rest, &mut context) else { return };
            assert!(used > 0 && used <= rest.len(), "{used} of {} bytes were read", rest.len());
            assert!(answer.is_some() || used == rest.len(), "without an answer all of the input is used");
            assert!(
                reader.body().len() <= Expect::BODY_BYTES_MAX + 1,
                "{} bytes are kept",
                reader.body().len()
            );
            rest = &rest[used..];
        }
    }
    let _ = reader.end_of_input();
}

/// An answer that may be an event stream. The first byte selects the size of the pieces.
pub fn event_stream(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    tasks::fuzzing::read_events(bytes, 1 + usize::from(*first));
}

/// What a server sends on one HTTP/2 connection with two requests under way.
pub fn http2(bytes: &[u8]) {
    RUNTIME.with(|runtime| runtime.block_on(answer_http2(bytes)));
}

thread_local! {
    static RUNTIME: tokio::runtime::Runtime = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a loop for one thread")
    };
}

async fn answer_http2(bytes: &[u8]) {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    // Both directions run concurrently; otherwise a full pipe would be a deadlock.
    let (mut from, mut to) = tokio::io::split(theirs);
    let write = async move {
        // Writing fails after the client has closed the connection, which is allowed.
        drop(to.write_all(bytes).await);
        drop(to.shutdown().await);
    };
    let read = async move {
        let mut sink = vec![0; 4096];
        while matches!(from.read(&mut sink).await, Ok(1..)) {}
    };
    tokio::join!(tasks::fuzzing::ask(ours), write, read);
}

/// A HAR file, with and without another server. Each request that can be sent is one request: no part of the recording ends
/// its head or its body early.
pub fn har(bytes: &[u8]) {
    let Ok(recording) = har::read(bytes, None) else { return };
    let to = Url::parse("https://user:password@127.0.0.1:8443/").expect("a URL");
    let other = har::read(bytes, Some(&to)).expect("it does not depend on the server");
    assert_eq!((other.elsewhere, other.unusable), (recording.elsewhere, recording.unusable));
    assert_eq!(other.requests.len(), recording.requests.len());
    let origin = recording.requests[0].url.origin();
    for (request, moved) in recording.requests.iter().zip(&other.requests) {
        assert_eq!((request.url.origin(), moved.url.origin()), (origin.clone(), to.origin()));
        assert_eq!((&request.url.path, &request.body), (&moved.url.path, &moved.body));
        is_one(request);
        is_one(moved);
        tasks::fuzzing::send(request);
    }
}

/// The bytes of a request have the head and the body that the request has.
fn is_one(request: &Request) {
    let plan = Plan::of(vec![request.clone()]);
    let Ok(template) = Template::new(request, &plan) else { return };
    let mut bytes = Vec::new();
    template.write(0, &mut bytes);
    let end = memchr::memmem::find(&bytes, b"\r\n\r\n").expect("a head");
    assert_eq!(bytes[end + 4..], request.body);
    let head = String::from_utf8_lossy(&bytes[..end]);
    let mut lines = head.split("\r\n");
    assert_eq!(lines.next(), Some(format!("{} {} HTTP/1.1", request.method, request.url.path).as_str()));
    let lengths: Vec<&str> = lines.filter_map(|line| line.strip_prefix("Content-Length: ")).collect();
    let is_framed = !request.body.is_empty() || ["POST", "PUT", "PATCH"].contains(&request.method.as_str());
    assert_eq!(lengths, if is_framed { vec![request.body.len().to_string()] } else { Vec::new() });
}

#[cfg(test)]
mod tests {
    use forkful_testkit::replay;

    #[test]
    fn corpus_of_event_stream() {
        replay("event-stream", super::event_stream);
    }

    #[test]
    fn corpus_of_har() {
        replay("har", super::har);
    }

    #[test]
    fn corpus_of_http1() {
        replay("http1", super::http1);
    }

    #[test]
    fn corpus_of_http2() {
        replay("http2", super::http2);
    }
}
