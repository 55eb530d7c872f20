//! Lines that lie in several slices: where one ends, and which bytes to write.

/// `length` bytes of `slices` from `start` on.
pub(super) fn range<'a>(slices: &[&'a [u8]], start: usize, length: usize) -> Vec<&'a [u8]> {
    let (mut skip, mut left, mut found) = (start, length, Vec::with_capacity(slices.len()));
    for slice in slices {
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let part = &slice[skip..slice.len().min(skip + left)];
        skip = 0;
        left -= part.len();
        found.push(part);
        if left == 0 {
            break;
        }
    }
    found
}

/// The largest number of bytes from `start` on, at most `room`, after which a line ends.
pub(super) fn part_of_lines(slices: &[&[u8]], start: usize, room: u64) -> usize {
    let end = start.saturating_add(usize::try_from(room).unwrap_or(usize::MAX));
    end_of_last_line(slices, end).saturating_sub(start)
}

/// Length of the line that begins at `start`, with its newline.
pub(super) fn first_line(slices: &[&[u8]], start: usize) -> usize {
    let (mut skip, mut length) = (start, 0);
    for slice in slices {
        if skip >= slice.len() {
            skip -= slice.len();
            continue;
        }
        let part = &slice[skip..];
        skip = 0;
        if let Some(newline) = memchr::memchr(b'\n', part) {
            return length + newline + 1;
        }
        length += part.len();
    }
    length
}

/// The largest number of bytes, at most `written`, after which a line ends.
pub(super) fn end_of_last_line(slices: &[&[u8]], written: usize) -> usize {
    let (mut start, mut kept) = (0, 0);
    for slice in slices {
        if start >= written {
            break;
        }
        let inside = slice.len().min(written - start);
        if let Some(newline) = memchr::memrchr(b'\n', &slice[..inside]) {
            kept = start + newline + 1;
        }
        start += inside;
    }
    kept
}
