//! In which order the lines of several files were written: of each file, the batches of its last lines, with the time
//! and the worker of each. Lines that are read back from stdout and stderr are put in their order by these.
//!
//! Pure. Kept in memory alone: of lines from before the daemon's start, and of those further back than the marks
//! reach, only the order within their file is known.

use std::collections::VecDeque;
use std::ops::Range;

use forkful_api::types::LogStream;
use forkful_os::behalf::Identity;

use super::tail::start_of_last;

/// Batches that are remembered of one file: 32 KiB. Of an app that says little, each is a line.
pub(super) const MARKS_MAX: usize = 1024;

/// Lines that came together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    /// Counted over all files.
    pub(super) number: u64,
    /// Milliseconds since the Unix epoch.
    pub(super) at_ms: u64,
    pub(super) lines: u32,
    pub(super) pm_id: u32,
    pub(super) stream: LogStream,
}

/// A file and its length.
pub(super) type Extent = (Identity, u64);

/// The last batches of one file, oldest first.
#[derive(Debug, Default)]
pub(super) struct Order {
    marks: VecDeque<Mark>,
    /// The file after the last of them.
    end: Option<Extent>,
}

impl Order {
    /// Lines were appended.
    pub(super) fn add(&mut self, mark: Mark) {
        if mark.lines == 0 {
            return;
        }
        if let Some(last) = self.marks.back_mut()
            && last.number + 1 == mark.number
            && (last.at_ms, last.pm_id, last.stream) == (mark.at_ms, mark.pm_id, mark.stream)
            && let Some(lines) = last.lines.checked_add(mark.lines)
        {
            (last.number, last.lines) = (mark.number, lines);
            return;
        }
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(mark);
    }

    /// What the file is after the last lines that were added.
    pub(super) fn ends_at(&mut self, end: Option<Extent>) {
        self.end = end;
    }

    /// Compares with the file as it is: where somebody else has appended, the marks say nothing of it.
    pub(super) fn check(&mut self, now: Option<Extent>) {
        if let (Some((file, length)), Some((file_now, length_now))) = (self.end, now)
            && file == file_now
            && length_now > length
        {
            self.forget();
        }
    }

    /// The file was emptied, or is no longer ours alone.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }

    /// Those of the last `lines` lines, oldest first.
    pub(super) fn of_last(&self, lines: usize) -> Vec<Mark> {
        let mut left = lines;
        let mut marks = Vec::new();
        for mark in self.marks.iter().rev() {
            if left == 0 {
                break;
            }
            left = left.saturating_sub(mark.lines as usize);
            marks.push(*mark);
        }
        marks.reverse();
        marks
    }
}

/// Divides the last lines of a file among its last marks; what is older than these has none. In their order.
pub(super) fn parts(bytes: &[u8], marks: &[Mark]) -> Vec<(Option<Mark>, Range<usize>)> {
    let (mut parts, mut end) = (Vec::new(), bytes.len());
    for mark in marks.iter().rev().filter(|mark| mark.lines > 0) {
        if end == 0 {
            break;
        }
        let start = start_of_last(&bytes[..end], mark.lines as usize);
        parts.push((Some(*mark), start..end));
        end = start;
    }
    if end > 0 {
        parts.push((None, 0..end));
    }
    parts.reverse();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(number: u64, lines: u32) -> Mark {
        Mark { number, at_ms: 7, lines, pm_id: 0, stream: LogStream::Out }
    }

    #[test]
    fn the_last_lines_belong_to_the_last_marks() {
        let marks = [mark(1, 2), mark(3, 1)];
        let found = |text: &str| -> Vec<(Option<u64>, String)> {
            let of = |(mark, range): (Option<Mark>, Range<usize>)| {
                (mark.map(|mark| mark.number), text[range].to_owned())
            };
            parts(text.as_bytes(), &marks).into_iter().map(of).collect()
        };
        let part = |number, text: &str| (number, text.to_owned());
        assert_eq!(found(""), []);
        assert_eq!(found("c\n"), [part(Some(3), "c\n")]);
        assert_eq!(found("b\nc\n"), [part(Some(1), "b\n"), part(Some(3), "c\n")]);
        assert_eq!(
            found("x\ny\na\nb\nc\n"),
            [part(None, "x\ny\n"), part(Some(1), "a\nb\n"), part(Some(3), "c\n")]
        );
    }

    #[test]
    fn marks_are_bounded_and_those_that_follow_each_other_are_one() {
        let mut order = Order::default();
        for number in 0..5 {
            order.add(mark(number, 2));
        }
        assert_eq!(order.of_last(99), [mark(4, 10)]);
        for number in 0..2 * MARKS_MAX as u64 {
            order.add(mark(10 + 2 * number, 1));
        }
        assert_eq!(order.marks.len(), MARKS_MAX);
        assert_eq!(order.of_last(1), [mark(8 + 4 * MARKS_MAX as u64, 1)]);
        assert_eq!(order.of_last(2).len(), 2);
    }

    #[test]
    fn a_file_that_others_append_to_has_no_order() {
        let file = |inode| Identity { device: 1, inode };
        let mut order = Order::default();
        order.add(mark(0, 1));
        order.ends_at(Some((file(1), 10)));
        // As it was, emptied by somebody, and another file after a rotation.
        for (inode, length) in [(1, 10), (1, 0), (2, 99)] {
            order.check(Some((file(inode), length)));
            assert_eq!(order.of_last(9).len(), 1);
        }
        order.check(Some((file(1), 11)));
        assert_eq!(order.of_last(9), []);
    }
}
