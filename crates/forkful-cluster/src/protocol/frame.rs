//! Splits a byte stream into lines, with limited memory.

use super::incoming;

/// The longest line that is kept. Protocol lines are below 1 KiB; longer lines are messages of the app to its
/// primary that have no reader, so they are skipped without being stored. A skipped line that came with a
/// handle must still be acknowledged: [`incoming::in_short`] replaces it.
pub const LINE_BYTES_MAX: usize = 1 << 20;
/// Bytes kept of the beginning of a skipped line.
const HEAD_BYTES: usize = 64;

/// An incremental line splitter.
#[derive(Debug, Default)]
pub struct LineDecoder {
    /// The current line; for a skipped line, its beginning.
    partial: Vec<u8>,
    skipping: bool,
    skipped: u64,
}

impl LineDecoder {
    /// Feeds a chunk; calls `line` for each completed line, without its newline.
    pub fn feed(&mut self, mut chunk: &[u8], mut line: impl FnMut(&[u8])) {
        while let Some(end) = chunk.iter().position(|byte| *byte == b'\n') {
            let (head, rest) = chunk.split_at(end);
            chunk = &rest[1..];
            if self.skipping || self.partial.len() + head.len() > LINE_BYTES_MAX {
                self.skip(head);
                if let Some(short) = incoming::in_short(&self.partial) {
                    line(short);
                }
                self.skipped += 1;
                self.skipping = false;
                self.partial = Vec::new();
            } else if self.partial.is_empty() {
                line(head);
            } else {
                self.partial.extend_from_slice(head);
                line(&self.partial);
                self.partial.clear();
                self.partial.shrink_to(4096);
            }
        }
        if self.skipping {
            return;
        }
        if self.partial.len() + chunk.len() > LINE_BYTES_MAX {
            self.skip(chunk);
            self.skipping = true;
        } else {
            self.partial.extend_from_slice(chunk);
        }
    }

    /// Keeps the beginning of a line that is too long.
    fn skip(&mut self, more: &[u8]) {
        let missing = HEAD_BYTES.saturating_sub(self.partial.len());
        self.partial.extend_from_slice(&more[..missing.min(more.len())]);
        self.partial.truncate(HEAD_BYTES);
        self.partial.shrink_to(HEAD_BYTES);
    }

    /// The number of lines skipped because they were longer than [`LINE_BYTES_MAX`].
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(decoder: &mut LineDecoder, chunk: &[u8]) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        decoder.feed(chunk, |line| out.push(line.to_vec()));
        out
    }

    #[test]
    fn splits_at_any_byte() {
        let text = "{\"a\":\"ü\"}\n\nsecond\nthird".as_bytes();
        for cut in 0..text.len() {
            let mut decoder = LineDecoder::default();
            let mut seen = lines(&mut decoder, &text[..cut]);
            seen.extend(lines(&mut decoder, &text[cut..]));
            assert_eq!(seen, ["{\"a\":\"ü\"}".as_bytes(), b"", b"second"], "cut at {cut}");
        }
    }

    #[test]
    fn a_line_over_the_bound_is_skipped_and_the_next_one_is_read() {
        let mut decoder = LineDecoder::default();
        let big = vec![b'x'; LINE_BYTES_MAX / 2 + 1];
        assert!(lines(&mut decoder, &big).is_empty());
        assert!(lines(&mut decoder, &big).is_empty());
        assert!(lines(&mut decoder, &big).is_empty());
        assert_eq!(lines(&mut decoder, b"\nnext\n"), [b"next"]);
        assert_eq!(decoder.skipped(), 1);
        assert!(decoder.partial.capacity() <= 4096);
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

    #[test]
    fn of_a_long_line_that_came_with_a_handle_its_kind_is_told() {
        let long = [
            b"{\"cmd\":\"NODE_HANDLE\",\"type\":\"net.Socket\",\"msg\":\"",
            &vec![b'x'; LINE_BYTES_MAX][..],
            b"\"}\n",
        ]
        .concat();
        let short = incoming::in_short(&long).unwrap();
        for piece in [1, 7, 1000, long.len()] {
            // Byte by byte only where the kept beginning ends; otherwise it would take too long.
            let mut decoder = LineDecoder::default();
            let mut seen = Vec::new();
            let (head, rest) = long.split_at(200);
            for chunk in head.chunks(piece).chain([rest]) {
                seen.extend(lines(&mut decoder, chunk));
            }
            assert_eq!(seen, [short], "in pieces of {piece}");
        }
        let mut decoder = LineDecoder::default();
        assert_eq!(lines(&mut decoder, &long), [short], "at once");
        assert_eq!(lines(&mut decoder, b"next\n"), [b"next"]);
    }
}
