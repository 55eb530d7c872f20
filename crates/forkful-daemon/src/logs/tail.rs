//! The last lines of a file, read backwards in blocks.

use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Bytes read at a time.
const BLOCK_BYTES: usize = 64 << 10;

/// The last `lines` lines of the file, without their newlines, in the order of the file.
///
/// At most `bytes_max` bytes are read: then the first line given may lack its beginning, and there may be fewer.
/// A last line without a newline counts as a line. A file that does not exist is empty, and so is anything that
/// is not a regular file.
pub(super) fn last_lines(path: &Path, lines: usize, bytes_max: usize) -> io::Result<Vec<Vec<u8>>> {
    let file = match fs_err::File::open(path) {
        Ok(file) => file,
        Err(fault) if fault.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(fault) => return Err(fault),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() || lines == 0 {
        return Ok(Vec::new());
    }
    let bytes = last_bytes(file.file(), metadata.len(), lines, bytes_max)?;
    Ok(split(&bytes, lines))
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
        file.read_exact_at(&mut block, start)?;
        bytes += size;
        newlines += memchr::memchr_iter(b'\n', &block).count();
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

fn split(bytes: &[u8], lines: usize) -> Vec<Vec<u8>> {
    let content = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    let mut found: Vec<Vec<u8>> =
        content.rsplit(|byte| *byte == b'\n').take(lines).map(<[u8]>::to_vec).collect();
    found.reverse();
    found
}
