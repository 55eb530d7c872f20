//! Splits a log stream into lines as bytes arrive.

use std::collections::VecDeque;

use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::{Client, ClientError};
use crate::types::LogLine;

/// Maximum bytes of a log line: it may have many megabytes, escaped as JSON.
const LOG_LINE_BYTES_MAX: usize = 256 * 1024 * 1024;

/// The lines of `GET /v1/logs`.
#[derive(Debug)]
pub struct LogReader {
    body: Incoming,
    buffer: LineBuffer,
    request: String,
    /// Kept so that the connection lives as long as its stream.
    _client: Client,
}

impl LogReader {
    pub(super) fn new(body: Incoming, request: String, client: Client) -> Self {
        Self { body, buffer: LineBuffer::default(), request, _client: client }
    }

    /// The next line; `None` if the daemon ends the stream.
    pub async fn next(&mut self) -> Result<Option<LogLine>, ClientError> {
        loop {
            if let Some(line) = self.buffer.next_line() {
                return serde_json::from_slice(&line).map(Some).map_err(|e| self.broken(e.to_string()));
            }
            if self.buffer.len() > LOG_LINE_BYTES_MAX {
                return Err(self.broken("a line without an end".to_owned()));
            }
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(source)) => {
                    return Err(ClientError::Lost { request: self.request.clone(), source });
                }
                Some(Ok(frame)) => {
                    if let Ok(data) = frame.into_data() {
                        self.buffer.push(&data);
                    }
                }
            }
        }
    }

    /// Whether [`LogReader::next`] has a line without waiting for the daemon.
    pub fn has_line(&self) -> bool {
        self.buffer.bytes.contains(&b'\n')
    }

    fn broken(&self, what: String) -> ClientError {
        ClientError::Broken { request: self.request.clone(), what }
    }
}

/// Splits a byte stream into lines, examining each byte once.
#[derive(Debug, Default)]
struct LineBuffer {
    bytes: VecDeque<u8>,
    /// Bytes at the front without a newline.
    scanned: usize,
}

impl LineBuffer {
    fn push(&mut self, data: &[u8]) {
        self.bytes.extend(data);
    }

    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn next_line(&mut self) -> Option<Vec<u8>> {
        let end = self.bytes.iter().skip(self.scanned).position(|byte| *byte == b'\n');
        let Some(end) = end.map(|offset| self.scanned + offset) else {
            self.scanned = self.bytes.len();
            return None;
        };
        self.scanned = 0;
        let mut line: Vec<u8> = self.bytes.drain(..=end).collect();
        line.pop();
        Some(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_wherever_the_stream_was_cut() {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for chunk in ["on", "e\ntw", "o", "\n\nrest"] {
            buffer.push(chunk.as_bytes());
            while let Some(line) = buffer.next_line() {
                lines.push(String::from_utf8(line).unwrap());
            }
        }
        assert_eq!(lines, ["one", "two", ""]);
        assert_eq!(buffer.len(), 4);
    }
}
