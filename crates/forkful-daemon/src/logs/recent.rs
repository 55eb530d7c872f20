//! The last lines that a process wrote to stderr, kept to say why it ended.

use std::collections::VecDeque;

use forkful_core::stderr_excerpt::{excerpt, is_uncaught};

use super::stream::lines_of;

/// Lines that are kept. Node prints up to 30 lines of frames and properties after the line with the message.
const STDERR_TAIL_LINES: usize = 64;
/// Bytes that are kept of one of them; the rest (Node prints whole lines of minified bundles) is left out.
const STDERR_TAIL_LINE_BYTES: usize = 1024;

/// What a process wrote to stderr last.
#[derive(Debug, Default)]
pub struct StderrTail {
    /// An excerpt, the error first.
    pub lines: Vec<String>,
    /// An error that no code caught has ended the process.
    pub is_uncaught: bool,
}

/// The last lines of one process's stderr.
#[derive(Debug, Default)]
pub(super) struct RecentLines {
    lines: VecDeque<Box<[u8]>>,
}

impl RecentLines {
    /// Adds whole lines, each with its newline.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        for line in lines_of(&bytes[start_of_last_lines(bytes)..]) {
            if self.lines.len() == STDERR_TAIL_LINES {
                self.lines.pop_front();
            }
            let content = &line[..line.len() - 1];
            self.lines.push_back(content[..content.len().min(STDERR_TAIL_LINE_BYTES + 1)].into());
        }
    }

    /// An excerpt of the lines, with `partial` (a line that has not ended yet) as the last one unless it is empty.
    pub(super) fn snapshot(&self, partial: &[u8]) -> StderrTail {
        let partial = Some(partial).filter(|partial| !partial.is_empty());
        let skipped = (self.lines.len() + usize::from(partial.is_some())).saturating_sub(STDERR_TAIL_LINES);
        let lines: Vec<String> =
            self.lines.iter().skip(skipped).map(AsRef::as_ref).chain(partial).map(shortened).collect();
        StderrTail { lines: excerpt(&lines), is_uncaught: is_uncaught(&lines) }
    }
}

/// Where the last [`STDERR_TAIL_LINES`] lines begin.
fn start_of_last_lines(bytes: &[u8]) -> usize {
    memchr::memrchr_iter(b'\n', bytes).nth(STDERR_TAIL_LINES).map_or(0, |newline| newline + 1)
}

fn shortened(line: &[u8]) -> String {
    match line.get(..STDERR_TAIL_LINE_BYTES) {
        Some(start) if line.len() > STDERR_TAIL_LINE_BYTES => format!("{}…", String::from_utf8_lossy(start)),
        _ => String::from_utf8_lossy(line).into_owned(),
    }
}
