//! Finds the events in the body of an answer, in pieces of any length. Pure.

use crate::http1::{ChunkStep, Chunked};
use crate::tasks::fault::Fault;

/// Bytes kept of a line: enough for a field's name and an `id`.
pub(in crate::tasks) const LINE_KEPT: usize = 512;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The body of an answer, chunked or not.
pub(in crate::tasks) struct EventBody {
    chunked: Option<Chunked>,
    events: EventReader,
}

impl EventBody {
    pub(in crate::tasks) fn new(is_chunked: bool) -> Self {
        Self { chunked: is_chunked.then(Chunked::new), events: EventReader::default() }
    }

    /// Reads a piece with [`EventReader::read`]. Returns whether the body has ended.
    pub(in crate::tasks) fn read(
        &mut self,
        bytes: &[u8],
        came: &mut dyn FnMut(u64, Option<&str>),
    ) -> Result<bool, Fault> {
        let Some(chunked) = &mut self.chunked else {
            self.events.read(bytes, came);
            return Ok(false);
        };
        let mut at = 0;
        while at < bytes.len() {
            let step = chunked.step(bytes, &mut at);
            match step.map_err(|fault| Fault::new(fault.cause, fault.detail))? {
                ChunkStep::More => {}
                ChunkStep::Data(length) => {
                    self.events.read(&bytes[at..at + length], came);
                    at += length;
                }
                ChunkStep::End(_) => return Ok(true),
            }
        }
        Ok(false)
    }
}

/// The state between two reads.
#[derive(Debug, Default)]
struct EventReader {
    /// The start of the current line.
    line: Vec<u8>,
    /// Its length.
    length: u64,
    /// The last byte was a carriage return; a line feed right after it belongs to the same line end.
    after_return: bool,
    /// Data bytes of the current event.
    data: u64,
    has_data: bool,
    id: Option<String>,
}

impl EventReader {
    /// Reads a piece of the stream. Calls `came` for each event with the length of its data and its `id`, if
    /// any.
    fn read(&mut self, bytes: &[u8], came: &mut dyn FnMut(u64, Option<&str>)) {
        for byte in bytes {
            let was_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if was_return => {}
                b'\n' | b'\r' => self.end_line(came),
                _ => {
                    self.length += 1;
                    if self.line.len() < LINE_KEPT {
                        self.line.push(*byte);
                    }
                }
            }
        }
    }

    fn end_line(&mut self, came: &mut dyn FnMut(u64, Option<&str>)) {
        let (mut line, mut length) = (std::mem::take(&mut self.line), std::mem::take(&mut self.length));
        // A byte order mark may precede the first line.
        if line.starts_with(BYTE_ORDER_MARK) {
            line.drain(..BYTE_ORDER_MARK.len());
            length -= BYTE_ORDER_MARK.len() as u64;
        }
        if line.is_empty() {
            if std::mem::take(&mut self.has_data) {
                came(std::mem::take(&mut self.data), self.id.take().as_deref());
            }
            self.id = None;
            return;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let value = line.get(colon + 1..).unwrap_or_default();
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match &line[..colon] {
            b"data" => {
                let before_value = (line.len() - value.len()) as u64;
                self.data += u64::from(self.has_data) + length - before_value;
                self.has_data = true;
            }
            // The id is sent in a header of the next connection, in full or not at all.
            b"id" if length == line.len() as u64 && value.iter().all(|byte| (0x20..0x7f).contains(byte)) => {
                self.id = String::from_utf8(value.to_vec()).ok();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The events of a text that arrives in pieces of `piece` bytes.
    fn events(text: &str, piece: usize) -> Vec<(u64, Option<String>)> {
        let mut found = Vec::new();
        let mut reader = EventReader::default();
        for bytes in text.as_bytes().chunks(piece) {
            reader.read(bytes, &mut |length, id| found.push((length, id.map(str::to_owned))));
        }
        found
    }

    #[test]
    fn events_are_found_however_their_bytes_are_cut() {
        let text = "\u{feff}data: one\n\n: a comment\n\nid: 7\r\ndata:two\r\ndata\r\n\r\nevent: x\n\nid: bad\u{7}\rdata: é\r\rdata: unfinished";
        for piece in [1, 2, 3, 7, 1000] {
            let id = |text: &str| Some(text.to_owned());
            assert_eq!(events(text, piece), [(3, None), (4, id("7")), (2, None)], "{piece}");
        }
    }

    #[test]
    fn a_long_line_is_measured_and_not_kept() {
        let text = format!("data: {}\n\n", "x".repeat(1 << 20));
        assert_eq!(events(&text, 4096), [(1 << 20, None)]);
        let text = format!("id: {}\ndata: x\n\n", "7".repeat(LINE_KEPT));
        assert_eq!(events(&text, 4096), [(1, None)], "a part of an `id` is none");
    }
}
