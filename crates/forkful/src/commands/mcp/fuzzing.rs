//! The fuzz target: what a client sends.

use std::path::PathBuf;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Runtime;

use super::answer::ANSWER_BYTES_MAX;
use super::{REQUEST_BYTES_MAX, Server};
use crate::home::Home;

/// Capacity of an in-memory connection in each direction.
const PIPE_BYTES: usize = 64 << 10;
/// The longest answer: an error that repeats a part of the request, with each character escaped.
const LINE_BYTES_MAX: usize = REQUEST_BYTES_MAX + 8 * ANSWER_BYTES_MAX;

/// What a client says first.
const HELLO: &[u8] = br#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"fuzz","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
"#;

thread_local! {
    static RUNTIME: Runtime = {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a loop for one thread")
    };
}

/// The lines of a client. The first byte chooses `--control`, `--reports`, and whether the client has said hello. There is no
/// daemon. Each line of the answer is a message of the protocol.
pub fn requests(bytes: &[u8]) {
    let Some((first, lines)) = bytes.split_first() else { return };
    let reports = (first & 2 == 2).then(|| PathBuf::from("/nonexistent/reports"));
    let server = Server::new(Home::new(PathBuf::from("/nonexistent/home")), first & 1 == 1, reports);
    let hello = if first & 4 == 0 { HELLO } else { b"" };
    let answers = RUNTIME.with(|runtime| runtime.block_on(talk(server, &[hello, lines, b"\n"].concat())));
    for line in answers.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        assert!(line.len() <= LINE_BYTES_MAX, "an answer of {} bytes", line.len());
        let answer: Value = serde_json::from_slice(line).expect("each line is JSON");
        assert_eq!(answer["jsonrpc"], "2.0", "{answer}");
    }
}

/// All that the server answers.
async fn talk(server: Server, said: &[u8]) -> Vec<u8> {
    let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
    let (reader, writer) = tokio::io::split(theirs);
    let (mut from, mut to) = tokio::io::split(ours);
    let write = async move {
        // Writing fails after the server has ended the conversation, which is allowed.
        drop(to.write_all(said).await);
        drop(to.shutdown().await);
    };
    let mut answers = Vec::new();
    let (_refused, (), read) =
        tokio::join!(server.converse(reader, writer), write, from.read_to_end(&mut answers));
    read.expect("a connection in memory");
    answers
}
