//! A state as bytes, so that a daemon can end at any moment and another one go on from there: of the same version of the
//! program, of the one before or, where the format allows it, of the one after.
//!
//! ```text
//! 0        8         10              12               16         24
//! magic ── version ─ oldest reader ─ length of body ─ checksum ─ body: JSON
//! ```
//!
//! Numbers are little-endian. Values are not mirrored by types of their own: their fields and variants are the format.
//! - A change that readers of before understand (a field more) raises [`VERSION`], and the new field has a `serde` default.
//! - Any other change raises `READER_MIN` too, and the reader keeps a way to read what was there before. It comes in two
//!   releases: the first release reads the new form and still writes the old form; the second release writes the new form. So each
//!   version of the program reads what the versions before and after it write, and an update can be undone.
//!
//! **Hazards.** The environment of an app is part of its definition, with its secrets: a snapshot goes to memory of the
//! user's own processes or to files of mode 0600, never into logs, messages or reports. Times are those of the monotonic
//! clock (see [`Time`](crate::Time)): a snapshot is of no use after the machine has been started again.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::random::mixed;

/// The version of the format that is written.
pub const VERSION: u16 = 16;
/// The oldest version of the format that is read.
const VERSION_MIN: u16 = 1;
/// Programs that write this version or a later one can read what is written now.
const READER_MIN: u16 = 1;

/// Whether a program that knows the format up to `version` can read what is written now.
pub fn is_read_by(version: u16) -> bool {
    READER_MIN <= version
}

pub(crate) const MAGIC: [u8; 8] = *b"forkful\0";
pub(crate) const HEAD: usize = 24;

/// Why bytes cannot be read, or a value not be written. It tells nothing of the content, which has secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Something else, or nothing.
    NoSnapshot,
    /// Of a version of the program that this one does not know.
    Newer { version: u16 },
    /// Of a version that is not read any more.
    Older { version: u16 },
    /// The end is missing.
    Cut { has: usize, needs: usize },
    /// Something has changed since it was written.
    Garbled,
    /// Whole, and not a value of this kind: what does not fit ends at this byte of the body.
    Misfit { at: usize },
    /// A path of the value is not UTF-8, or the value is larger than 4 GiB.
    Unwritable,
}

/// Appends a value to bytes; with a fault nothing is appended.
pub fn write<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<(), Fault> {
    let begin = bytes.len();
    let written = write_at(value, bytes, begin);
    if written.is_err() {
        bytes.truncate(begin);
    }
    written
}

fn write_at<T: Serialize>(value: &T, bytes: &mut Vec<u8>, begin: usize) -> Result<(), Fault> {
    bytes.extend([0; HEAD]);
    serde_json::to_writer(&mut *bytes, value).map_err(|_| Fault::Unwritable)?;
    seal(&mut bytes[begin..])
}

/// Makes the head of a body.
pub(crate) fn seal(bytes: &mut [u8]) -> Result<(), Fault> {
    let (head, body) = bytes.split_at_mut(HEAD);
    let length = u32::try_from(body.len()).map_err(|_| Fault::Unwritable)?;
    head[..8].copy_from_slice(&MAGIC);
    head[8..10].copy_from_slice(&VERSION.to_le_bytes());
    head[10..12].copy_from_slice(&READER_MIN.to_le_bytes());
    head[12..16].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&head[..16], body);
    head[16..].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// Reads a value; yields what follows it, too.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<(T, &[u8]), Fault> {
    let (body, rest) = body(bytes)?;
    // One line: the column is the number of the byte.
    let value = serde_json::from_slice(body).map_err(|error| Fault::Misfit { at: error.column() })?;
    Ok((value, rest))
}

/// The content of the snapshot at the beginning of these bytes, and what follows it.
fn body(bytes: &[u8]) -> Result<(&[u8], &[u8]), Fault> {
    if !bytes.starts_with(&MAGIC) {
        return Err(Fault::NoSnapshot);
    }
    let (head, rest) = bytes.split_at_checked(HEAD).ok_or(Fault::Cut { has: bytes.len(), needs: HEAD })?;
    let number = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let (version, reader_min) = (number(8), number(10));
    if reader_min > VERSION {
        return Err(Fault::Newer { version });
    }
    if version < VERSION_MIN {
        return Err(Fault::Older { version });
    }
    let length = usize::from(number(12)) | usize::from(number(14)) << 16;
    let needs = HEAD.saturating_add(length);
    let (body, rest) = rest.split_at_checked(length).ok_or(Fault::Cut { has: bytes.len(), needs })?;
    if head[16..] != checksum(&head[..16], body).to_le_bytes() {
        return Err(Fault::Garbled);
    }
    Ok((body, rest))
}

/// Against accidents, not against somebody who means it.
fn checksum(head: &[u8], body: &[u8]) -> u64 {
    checksum_after(checksum_after(u64::from(u32::MAX), head), body)
}

/// The checksum of all bytes so far, with these after them; the last bytes are filled up with zeros to eight.
fn checksum_after(sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let add = |sum: u64, word: [u8; 8]| mixed(sum.rotate_left(5) ^ u64::from_le_bytes(word));
    let sum = words.iter().fold(sum, |sum, word| add(sum, *word));
    if rest.is_empty() {
        return sum;
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    add(sum, last)
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSnapshot => f.write_str("these bytes are no saved state of a daemon"),
            Self::Newer { version } => write!(
                f,
                "it has version {version} of the format, of a newer program; this one reads up to {VERSION}"
            ),
            Self::Older { version } => write!(
                f,
                "it has version {version} of the format, of an old program; this one reads from {VERSION_MIN}"
            ),
            Self::Cut { has, needs } => write!(f, "it ends after {has} of {needs} bytes"),
            Self::Garbled => f.write_str("its checksum does not match: some of its bytes have changed"),
            Self::Misfit { at } => write!(f, "byte {at} of its content does not fit what is expected there"),
            Self::Unwritable => {
                f.write_str("a value with a path that is not UTF-8, or of more than 4 GiB, cannot be written")
            }
        }
    }
}

impl std::error::Error for Fault {}
