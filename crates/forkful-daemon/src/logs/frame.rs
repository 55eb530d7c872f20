//! Bytes in any pieces → whole lines. No I/O: takes bytes, returns lines.

use std::ops::Range;

/// The longest line that is kept whole, without its newline. A longer one is passed on in parts of this
/// length, each ended by a newline, so that an app which never ends a line cannot fill the memory.
pub const LINE_BYTES_MAX: usize = 16 << 20;

/// Memory of all lines together whose end has not come yet. Beyond it the largest is cut, as a line that is too long is,
/// so that the number of workers does not multiply [`LINE_BYTES_MAX`]. One line of the greatest length fits, and as much
/// for all others.
pub(super) const PARTIAL_BYTES_MAX: usize = LINE_BYTES_MAX + (8 << 20);

/// Holds the beginning of a line whose end has not come yet. Holds no memory when there is none.
#[derive(Debug)]
pub(super) struct Framer {
    /// Has no newline, and at most `line_bytes_max` bytes.
    partial: Vec<u8>,
    line_bytes_max: usize,
}

/// What became whole: first all of `head`, then that range of the chunk. Each ends with a newline or is empty.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Framed {
    pub(super) head: Vec<u8>,
    pub(super) body: Range<usize>,
    /// How many newlines were put in because a line was too long.
    pub(super) cuts: u64,
}

impl Framed {
    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty() && self.body.is_empty()
    }
}

impl Framer {
    pub(super) fn new(line_bytes_max: usize) -> Self {
        Self { partial: Vec::new(), line_bytes_max }
    }

    /// The line so far.
    pub(super) fn partial(&self) -> &[u8] {
        &self.partial
    }

    /// Bytes of memory held: at most those of the longest line and its newline.
    pub(super) fn capacity(&self) -> usize {
        self.partial.capacity()
    }

    /// Appends to the line so far. Its memory doubles as it grows, but not beyond the longest line.
    fn hold(&mut self, bytes: &[u8]) {
        let length = self.partial.len() + bytes.len();
        if length > self.partial.capacity() {
            let room = (self.partial.capacity() * 2).clamp(length, length.max(self.line_bytes_max + 1));
            self.partial.reserve_exact(room - self.partial.len());
        }
        self.partial.extend_from_slice(bytes);
    }

    /// Takes the next bytes of the stream.
    pub(super) fn push(&mut self, chunk: &[u8]) -> Framed {
        if self.partial.len() + chunk.len() > self.line_bytes_max {
            return self.push_by_line(chunk);
        }
        let Some(last) = memchr::memrchr(b'\n', chunk) else {
            self.hold(chunk);
            return Framed::default();
        };
        let mut head = Vec::new();
        let mut start = 0;
        if !self.partial.is_empty() {
            start = memchr::memchr(b'\n', chunk).map_or(0, |first| first + 1);
            head = std::mem::take(&mut self.partial);
            head.extend_from_slice(&chunk[..start]);
        }
        // Replaced and not appended to, so that it has no more room than it needs.
        self.partial = chunk[last + 1..].to_vec();
        Framed { head, body: start..last + 1, cuts: 0 }
    }

    /// Ends the line so far where it is, such as the last line of a stream.
    pub(super) fn finish(&mut self) -> Option<Vec<u8>> {
        let mut last = std::mem::take(&mut self.partial);
        if last.is_empty() {
            return None;
        }
        last.push(b'\n');
        Some(last)
    }

    /// As [`Self::push`], when some line may be too long.
    fn push_by_line(&mut self, chunk: &[u8]) -> Framed {
        let mut framed = Framed::default();
        for line in chunk.split_inclusive(|byte| *byte == b'\n') {
            let (mut content, ended) = match line.strip_suffix(b"\n") {
                Some(content) => (content, true),
                None => (line, false),
            };
            loop {
                let room = self.line_bytes_max - self.partial.len();
                if content.len() <= room {
                    break;
                }
                self.hold(&content[..room]);
                content = &content[room..];
                framed.cuts += 1;
                self.end_line(&mut framed.head);
            }
            self.hold(content);
            if ended {
                self.end_line(&mut framed.head);
            }
        }
        framed
    }

    fn end_line(&mut self, head: &mut Vec<u8>) {
        self.partial.push(b'\n');
        if head.is_empty() {
            *head = std::mem::take(&mut self.partial);
        } else {
            head.append(&mut self.partial);
            self.partial = Vec::new();
        }
    }
}
