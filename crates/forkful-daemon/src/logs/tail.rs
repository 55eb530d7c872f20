//! The last lines of log files: of a file as it was at some moment, and further back of what was set aside.

use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt;

use flate2::bufread::MultiGzDecoder;
use forkful_os::behalf::Entry;

use super::archive_name::{Archive, COMPRESSED, archives_of, stamp, uncompressed, with_ending};
use super::file::{Snapshot, open_regular};

/// Bytes read at a time.
const BLOCK_BYTES: usize = 64 << 10;
/// What is unpacked between two looks at how much of it is still wanted.
const UNPACK_BYTES: usize = 1 << 20;

/// The last `lines` lines of a log file and, where it has fewer, of what was set aside before; in their order, each
/// with its newline.
///
/// At most `bytes_max` bytes are given: then the first line may lack its beginning, and there may be fewer. A last
/// line without a newline counts as a line. What is not there is empty.
pub(super) fn last_lines(snapshot: Snapshot, lines: usize, bytes_max: usize) -> io::Result<Vec<u8>> {
    if lines == 0 || bytes_max == 0 {
        return Ok(Vec::new());
    }
    let mut found = match snapshot.present? {
        Some((file, length)) => last_of_file(&file, length, lines, bytes_max)?,
        None => Vec::new(),
    };
    let mut left = lines - count(&found).min(lines);
    if left == 0 || found.len() >= bytes_max {
        return Ok(found);
    }
    let Some(log) = snapshot.entry else { return Ok(found) };
    let until = stamp(snapshot.until_ms);
    // Newest first; each is put before the others only once.
    let mut parts = Vec::new();
    let mut bytes_left = bytes_max - found.len();
    for archive in archives_of(&log)?.iter().rev().filter(|archive| archive.stamp <= until) {
        if left == 0 || bytes_left == 0 {
            break;
        }
        let part = last_of_archive(&log, archive, left, bytes_left)?;
        left -= count(&part).min(left);
        bytes_left = bytes_left.saturating_sub(part.len());
        parts.push(part);
    }
    parts.reverse();
    parts.push(std::mem::take(&mut found));
    Ok(parts.concat())
}

fn count(bytes: &[u8]) -> usize {
    memchr::memchr_iter(b'\n', bytes).count()
}

/// It may be compressed or removed while we look, and the app may put something else in its place: neither a link is
/// followed nor a pipe waited for.
pub(super) fn last_of_archive(
    log: &Entry,
    archive: &Archive,
    lines: usize,
    bytes_max: usize,
) -> io::Result<Vec<u8>> {
    let plain = uncompressed(&archive.name);
    if !archive.is_compressed
        && let Some(file) = open_regular(&log.sibling(&plain)?)?
    {
        let length = file.metadata()?.len();
        return last_of_file(&file, length, lines, bytes_max);
    }
    match open_regular(&log.sibling(&with_ending(&plain, COMPRESSED))?)? {
        Some(file) => last_of_compressed(file, lines, bytes_max),
        None => Ok(Vec::new()),
    }
}

/// Unpacks all of it, and keeps what may be wanted.
fn last_of_compressed(file: impl Read, lines: usize, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut unpacked = MultiGzDecoder::new(BufReader::with_capacity(BLOCK_BYTES, file));
    let mut kept = Vec::new();
    loop {
        let count = unpacked.by_ref().take(UNPACK_BYTES as u64).read_to_end(&mut kept)?;
        let start = start_of_last(&kept, lines).max(kept.len().saturating_sub(bytes_max));
        kept.drain(..start);
        if count == 0 {
            return Ok(ended(kept));
        }
    }
}

fn last_of_file(file: &std::fs::File, length: u64, lines: usize, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = last_bytes(file, length, lines, bytes_max)?;
    bytes.drain(..start_of_last(&bytes, lines));
    Ok(ended(bytes))
}

/// Reads blocks from the end until they hold `lines` lines, the file's beginning, or `bytes_max` bytes.
fn last_bytes(file: &std::fs::File, length: u64, lines: usize, bytes_max: usize) -> io::Result<Vec<u8>> {
    // Last block first; each is put together with the others only once, so that long lines cost no more.
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    let (mut start, mut bytes, mut newlines) = (length, 0, 0);
    while start > 0 && bytes < bytes_max {
        let size = (BLOCK_BYTES as u64).min(start).min((bytes_max - bytes) as u64) as usize;
        let mut block = vec![0; size];
        start -= size as u64;
        match file.read_exact_at(&mut block, start) {
            Ok(()) => {}
            // It was emptied meanwhile.
            Err(fault) if fault.kind() == io::ErrorKind::UnexpectedEof => return Ok(Vec::new()),
            Err(fault) => return Err(fault),
        }
        bytes += size;
        newlines += count(&block);
        blocks.push(block);
        // The newline that ends the last line does not begin another one.
        let ended = blocks[0].last() == Some(&b'\n');
        if newlines >= lines + usize::from(ended) {
            break;
        }
    }
    blocks.reverse();
    Ok(blocks.concat())
}

/// Where the last `lines` lines begin.
pub(super) fn start_of_last(bytes: &[u8], lines: usize) -> usize {
    let content = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    memchr::memrchr_iter(b'\n', content).nth(lines - 1).map_or(0, |newline| newline + 1)
}

fn ended(mut bytes: Vec<u8>) -> Vec<u8> {
    if bytes.last().is_some_and(|last| *last != b'\n') {
        bytes.push(b'\n');
    }
    bytes
}
