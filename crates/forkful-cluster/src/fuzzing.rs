//! Fuzz targets of the cluster protocol: arbitrary bytes of a worker, in pieces of any length, and single
//! lines.
//!
//! Each target takes bytes and panics if a property does not hold. `dev/fuzz` runs them with libFuzzer; tests
//! replay the corpora.

use serde_json::Value;

use crate::protocol::frame::LineDecoder;
use crate::protocol::incoming::{Incoming, parse};
use crate::protocol::outgoing::{self, ReplyHead};

/// A stream of a worker's bytes. The first byte selects the size of the pieces.
pub fn frames(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let piece = 1 + usize::from(*first);
    let mut decoder = LineDecoder::default();
    let mut lines = Vec::new();
    for chunk in bytes.chunks(piece) {
        decoder.feed(chunk, |line| lines.push(line.to_vec()));
    }
    let mut whole: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    whole.pop();
    assert_eq!(lines, whole, "the same lines, however they were cut");
    incoming(bytes);
}

/// Lines of a worker: each is parsed with the same result as by a plain JSON reader, and can be answered.
pub fn incoming(bytes: &[u8]) {
    for line in bytes.split(|byte| *byte == b'\n') {
        let incoming = parse(line);
        agrees(&incoming, line);
        answerable(&incoming);
    }
}

/// Compares the parser with a plain JSON reader.
fn agrees(incoming: &Incoming, line: &[u8]) {
    let json = line.strip_prefix(b"\x02").unwrap_or(line);
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    let internal = value["cmd"].as_str().is_some_and(|cmd| cmd.starts_with("NODE_") && cmd.len() > 5);
    match incoming {
        Incoming::Ready => assert_eq!(value, "ready"),
        Incoming::User | Incoming::Ignored => {}
        // The plain reader has a nesting limit; deeper nesting is allowed in members that are not used.
        _ => assert!(internal || value.is_null(), "{incoming:?}"),
    }
    let written_plainly = !json.contains(&b'\\') && json.starts_with(b"{") && names_once(json);
    if written_plainly
        && value["cmd"] == "NODE_CLUSTER"
        && value["act"] == "queryServer"
        && value["seq"].is_u64()
    {
        let (Incoming::QueryServer { seq, .. } | Incoming::BadQuery { seq }) = incoming else {
            panic!("a query that would wait for ever: {incoming:?}");
        };
        assert_eq!(Some(*seq), value["seq"].as_u64());
    }
}

/// Whether no member that we use occurs twice; the meaning of such a line is undefined.
fn names_once(json: &[u8]) -> bool {
    let text = String::from_utf8_lossy(json);
    ["cmd", "act", "seq"].iter().all(|name| text.matches(&format!("\"{name}\"")).count() <= 1)
}

/// A parsed query can be answered by one line of JSON that contains its data unchanged.
fn answerable(incoming: &Incoming) {
    let Incoming::QueryServer { query, seq } = incoming else { return };
    let head = ReplyHead { key: "forkful:1", ack: *seq, data: query.data.as_deref(), seq: 1 };
    for reply in [
        outgoing::reply_error(head, 98),
        outgoing::reply_push(head, None),
        outgoing::reply_handle(head, outgoing::handle_kind(query.kind)),
    ] {
        let mut lines = Vec::new();
        LineDecoder::default().feed(&reply, |line| lines.push(line.to_vec()));
        assert_eq!(lines.len(), 1, "one line: {}", String::from_utf8_lossy(&reply));
        let Ok(value) = serde_json::from_slice::<Value>(&lines[0]) else {
            assert!(query.data.is_some(), "only the data can be beyond the plain reader");
            continue;
        };
        let message = value.get("msg").unwrap_or(&value);
        assert_eq!(message["ack"], *seq);
        let data = query.data.as_ref().and_then(|data| serde_json::from_str::<Value>(data.get()).ok());
        assert_eq!(message["data"], data.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use forkful_testkit::replay;

    #[test]
    fn corpus_of_frames() {
        replay("frames", super::frames);
    }

    #[test]
    fn corpus_of_incoming() {
        replay("incoming", super::incoming);
    }
}
