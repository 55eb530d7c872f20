//! A fuzz target for the channel's bytes: the line decoder, the parser, and replies to what was understood.
//!
//! An ordinary test: it mutates the lines that workers really say; see `forkful_testkit`. The input that failed is printed
//! as a byte string.
#![expect(clippy::unwrap_used, reason = "a target's helpers fail the test")]

use forkful_cluster::protocol::frame::{LINE_BYTES_MAX, LineDecoder};
use forkful_cluster::protocol::incoming::{Incoming, parse};
use forkful_cluster::protocol::outgoing::{self, ReplyHead};
use forkful_testkit::{Chance, Spoil, fuzz};
use serde_json::Value;

/// What workers say, and what comes close to it.
const SEEDS: &[&str] = &[
    r#"{"cmd":"NODE_CLUSTER","act":"online","seq":0}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":null,"port":18080,"addressType":4,"flags":0,"backlog":0,"seq":1}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"127.0.0.1","port":0,"addressType":4,"flags":0,"backlog":false,"seq":1}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":1,"data":null,"address":"::1","port":1,"addressType":6,"flags":1,"backlog":77,"seq":2}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"/run/app.sock","port":-1,"addressType":-1,"backlog":0,"readableAll":true,"writableAll":true,"seq":2}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"fd":7,"address":null,"port":null,"addressType":null,"seq":2}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":null,"address":"0.0.0.0","port":5353,"addressType":"udp4","fd":-1,"flags":4,"seq":2}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"queryServer","index":0,"data":{"ticketKeys":"00ff"},"address":null,"port":443,"addressType":4,"flags":0,"backlog":0,"seq":1}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"listening","index":0,"data":null,"address":null,"port":43210,"addressType":4,"flags":0,"backlog":0,"seq":2}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"close","key":"forkful:7","seq":3}"#,
    r#"{"cmd":"NODE_CLUSTER","act":"exitedAfterDisconnect","seq":4}"#,
    r#"{"cmd":"NODE_CLUSTER","ack":12,"accepted":true,"seq":5}"#,
    r#"{"cmd":"NODE_HANDLE_ACK"}"#,
    r#"{"cmd":"NODE_HANDLE_NACK"}"#,
    r#"{"cmd":"NODE_HANDLE","type":"net.Socket","msg":{"hello":1},"key":"6::::8080"}"#,
    r#"{"cmd":"NODE_FORKFUL","act":"hello","version":1,"can":["drain"]}"#,
    r#"{"cmd":"NODE_FORKFUL","act":"drained","idle":3,"busy":0}"#,
    "\u{2}{\"cmd\":\"NODE_CLUSTER\",\"act\":\"online\",\"seq\":0}",
    r#""ready""#,
    r#"{"type":"process:msg","data":{"text":"\"NODE_\" \u00fc ü"}}"#,
];

/// Pieces that matter to the parser, to be put anywhere.
const TOKENS: &[&[u8]] = &[
    b"\"NODE_",
    b"NODE_CLUSTER",
    b"queryServer",
    b"null",
    b"true",
    b"-1",
    b"0",
    b"18446744073709551615",
    b"18446744073709551616",
    b"1e400",
    b"9223372036854775808",
    b"{",
    b"}",
    b"[",
    b"]",
    b"[[[[[[[[",
    b"{\"a\":",
    b",",
    b":",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\n",
    b"\r",
    b"\0",
    b"\x02",
    b"\xff\xfe",
    b"\xc3",
    b" ",
    b"\"seq\":",
    b"\"data\":",
    b"\"address\":",
    b"\"port\":",
    b"\"addressType\":",
    b"\"udp6\"",
    b"\"ack\":",
];

const SPOIL: Spoil<'_> = Spoil { tokens: TOKENS, places: 5, span: 12, copies: 40, pile: 40 };

/// A few lines, spoilt here and there.
fn input(chance: &mut Chance) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..=chance.below(3) {
        bytes.extend_from_slice(chance.one(SEEDS).as_bytes());
        bytes.push(b'\n');
    }
    SPOIL.spoil(&mut bytes, chance);
    bytes
}

/// The target: whatever the bytes are and however they are cut, this holds.
fn holds(bytes: &[u8], chance: &mut Chance) {
    let mut decoder = LineDecoder::default();
    let mut lines = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(1 + chance.below(rest.len()));
        decoder.feed(piece, |line| lines.push(line.to_vec()));
        rest = later;
    }
    let mut whole: Vec<&[u8]> = bytes.split(|byte| *byte == b'\n').collect();
    whole.pop();
    assert_eq!(lines, whole, "the same lines, however they were cut");
    for line in &lines {
        let incoming = parse(line);
        agrees(&incoming, line);
        answerable(&incoming);
    }
}

/// The parser against a plain reading of the JSON.
fn agrees(incoming: &Incoming, line: &[u8]) {
    let json = line.strip_prefix(b"\x02").unwrap_or(line);
    let value: Value = serde_json::from_slice(json).unwrap_or_default();
    let internal = value["cmd"].as_str().is_some_and(|cmd| cmd.starts_with("NODE_") && cmd.len() > 5);
    match incoming {
        Incoming::Ready => assert_eq!(value, "ready"),
        Incoming::User | Incoming::Ignored => {}
        // Nesting deeper than the plain reader follows is fine in what nobody looks at.
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

/// Whether no member of ours is named twice; what that means is nobody's business.
fn names_once(json: &[u8]) -> bool {
    let text = String::from_utf8_lossy(json);
    ["cmd", "act", "seq"].iter().all(|name| text.matches(&format!("\"{name}\"")).count() <= 1)
}

/// What was understood can be answered, by one line of JSON that carries the data unchanged.
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
        let data = query.data.as_ref().map(|data| serde_json::from_str::<Value>(data.get()).unwrap());
        assert_eq!(message["data"], data.unwrap_or_default());
    }
}

#[test]
fn any_bytes_are_cut_understood_and_answered() {
    fuzz(
        input,
        |bytes: &Vec<u8>, chance: &mut Chance| holds(bytes, chance),
        |bytes| format!("b\"{}\"", bytes.escape_ascii()),
    );
}

#[test]
fn the_lines_themselves_hold_at_every_cut() {
    for seed in SEEDS {
        let bytes = format!("{seed}\n{seed}\n");
        for cut in 1..bytes.len() {
            let mut decoder = LineDecoder::default();
            let mut lines = Vec::new();
            for piece in [&bytes.as_bytes()[..cut], &bytes.as_bytes()[cut..]] {
                decoder.feed(piece, |line| lines.push(line.to_vec()));
            }
            assert_eq!(lines, [seed.as_bytes(), seed.as_bytes()]);
        }
    }
}

#[test]
fn a_line_of_the_greatest_length_is_kept_and_a_longer_one_skipped() {
    for (length, kept) in [(LINE_BYTES_MAX, 2), (LINE_BYTES_MAX + 1, 1)] {
        for piece in [4096, 65_536, length + 1] {
            let mut bytes = vec![b'x'; length];
            bytes.extend_from_slice(b"\nnext\n");
            let mut decoder = LineDecoder::default();
            let mut lines = Vec::new();
            for piece in bytes.chunks(piece) {
                decoder.feed(piece, |line| lines.push(line.len()));
            }
            assert_eq!((lines.len(), lines.last()), (kept, Some(&4)), "{length} bytes by {piece}");
            assert_eq!(decoder.skipped(), u64::from(kept == 1));
        }
    }
}
