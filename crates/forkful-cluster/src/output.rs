//! What waits to be written to a worker's channel, and its form in the saved state: a daemon that takes over goes on in the middle
//! of a line.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Maximum bytes of complete lines in the saved state, so that it stays small for an app that does not read.
const SAVED_BYTES_MAX: usize = 64 * 1024;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(crate) struct Output {
    /// The rest of a partly written line.
    pub(crate) rest: Vec<u8>,
    pub(crate) lines: VecDeque<Vec<u8>>,
    /// Total bytes in `lines`.
    pub(crate) bytes: usize,
    /// The number of changes: lines that were added, bytes that were sent.
    pub(crate) changes: u64,
    /// The value of `changes` for the output in the saved state; `None` if the saved state has no output.
    pub(crate) saved: Option<u64>,
}

/// The saved form. Each character is a byte: the rest of a line need not begin with a whole character.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WrittenOutput {
    rest: String,
    lines: Vec<String>,
}

impl Output {
    /// The state for another daemon. The rest of a line is complete, because without it the worker could not read
    /// what follows.
    pub(crate) fn write_down(&self) -> WrittenOutput {
        let mut bytes = 0;
        let fits = |line: &&Vec<u8>| {
            bytes += line.len();
            bytes <= SAVED_BYTES_MAX
        };
        WrittenOutput {
            rest: text_of(&self.rest),
            lines: self.lines.iter().take_while(fits).map(|line| text_of(line)).collect(),
        }
    }

    /// Restores the saved state.
    pub(crate) fn resume(written: &WrittenOutput) -> Self {
        let lines: VecDeque<Vec<u8>> = written.lines.iter().map(|line| bytes_of(line)).collect();
        let bytes = lines.iter().map(Vec::len).sum();
        Self { rest: bytes_of(&written.rest), lines, bytes, changes: 0, saved: Some(0) }
    }

    /// Writing has ended for now; returns whether the saved state has to change.
    pub(crate) fn note(&mut self) -> bool {
        let is_left = !self.rest.is_empty() || !self.lines.is_empty();
        let left = is_left.then_some(self.changes);
        std::mem::replace(&mut self.saved, left) != left
    }
}

fn text_of(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(*byte)).collect()
}

fn bytes_of(text: &str) -> Vec<u8> {
    text.chars().filter_map(|character| u8::try_from(character).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_daemon_goes_on_with_each_byte() {
        let rest: Vec<u8> = (0..=255).collect();
        let lines = VecDeque::from([b"one\n".to_vec(), "zw\u{f6}lf\n".as_bytes().to_vec()]);
        let before = Output { rest: rest.clone(), lines: lines.clone(), bytes: 11, ..Output::default() };
        let json = serde_json::to_string(&before.write_down()).unwrap();
        let after = Output::resume(&serde_json::from_str(&json).unwrap());
        assert_eq!((after.rest, after.lines, after.bytes), (rest, lines, 11));
    }

    #[test]
    fn the_state_changes_with_what_is_left_and_not_otherwise() {
        let mut output = Output::default();
        assert!(!output.note());
        output.lines.push_back(b"a\n".to_vec());
        output.changes += 1;
        assert_eq!([output.note(), output.note()], [true, false]);
        // Another line of the same length is left.
        output.lines[0] = b"b\n".to_vec();
        output.changes += 1;
        assert_eq!([output.note(), output.note()], [true, false]);
        output.lines.clear();
        output.changes += 1;
        assert_eq!([output.note(), output.note()], [true, false]);
    }

    #[test]
    fn an_app_that_reads_nothing_does_not_fill_the_state() {
        let lines = VecDeque::from(vec![vec![b'x'; SAVED_BYTES_MAX / 3]; 10]);
        let rest = vec![b'x'; 2 * SAVED_BYTES_MAX];
        let output = Output { rest: rest.clone(), lines, ..Output::default() };
        let after = Output::resume(&output.write_down());
        assert_eq!((after.rest, after.lines.len()), (rest, 3));
    }
}
