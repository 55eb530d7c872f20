//! The written-down state: two areas in one file. The next state goes over the older one, so that a daemon that dies while it
//! writes leaves the one before whole.
//!
//! ```text
//! area: magic 8 · sequence 8 · length 8 · checksum of the content 8 · checksum of these 32 bytes 8 · content
//! ```
//!
//! The content comes first and the head after it: a head that is there names a content that was written whole.

use std::io;
use std::os::fd::OwnedFd;

use forkful_os::memory_file;

/// The most of a state. Memory is taken only for what was written.
pub const STATE_BYTES_MAX: usize = 32 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"forkful1");
const HEAD_BYTES: usize = 40;
const AREA_BYTES: u64 = (HEAD_BYTES + STATE_BYTES_MAX) as u64;

/// The file with both areas, as one daemon writes it.
#[derive(Debug)]
pub struct Areas {
    file: OwnedFd,
    /// Of the state that was written last.
    sequence: u64,
}

/// Why a state was not written; the one before is still there.
#[derive(Debug)]
pub enum WriteFault {
    /// It has so many bytes, more than [`STATE_BYTES_MAX`].
    TooLarge(usize),
    Io(io::Error),
}

/// Makes the file, empty.
pub fn create() -> io::Result<OwnedFd> {
    memory_file::create("forkful-state", AREA_BYTES * 2)
}

impl Areas {
    /// The file, and the newest state in it that is whole.
    pub fn open(file: OwnedFd) -> io::Result<(Self, Option<Vec<u8>>)> {
        let mut found: Option<(u64, Vec<u8>)> = None;
        for area in 0..2 {
            if let Some((sequence, content)) = read_area(&file, area)?
                && found.as_ref().is_none_or(|(newest, _)| *newest < sequence)
            {
                found = Some((sequence, content));
            }
        }
        let sequence = found.as_ref().map_or(0, |(sequence, _)| *sequence);
        Ok((Self { file, sequence }, found.map(|(_, content)| content)))
    }

    /// Writes a state, which is the newest one from then on.
    pub fn write(&mut self, content: &[u8]) -> Result<(), WriteFault> {
        if content.len() > STATE_BYTES_MAX {
            return Err(WriteFault::TooLarge(content.len()));
        }
        let sequence = self.sequence + 1;
        for (offset, bytes) in image(sequence, content) {
            memory_file::write_at(&self.file, offset, bytes.as_ref()).map_err(WriteFault::Io)?;
        }
        self.sequence = sequence;
        Ok(())
    }
}

/// What a write is made of, in order, each with its offset in the file: the area's head goes, the content comes, and then a
/// head for it.
fn image(sequence: u64, content: &[u8]) -> [(u64, Part<'_>); 3] {
    let begin = sequence % 2 * AREA_BYTES;
    let mut head = [0; HEAD_BYTES];
    let words = [MAGIC, sequence, content.len() as u64, checksum(content)];
    for (word, place) in words.iter().zip(head.chunks_exact_mut(8)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(&head[..32]);
    head[32..].copy_from_slice(&sum.to_le_bytes());
    let empty = Part::Head([0; HEAD_BYTES]);
    [(begin, empty), (begin + HEAD_BYTES as u64, Part::Content(content)), (begin, Part::Head(head))]
}

enum Part<'a> {
    Head([u8; HEAD_BYTES]),
    Content(&'a [u8]),
}

impl AsRef<[u8]> for Part<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Head(head) => head,
            Self::Content(content) => content,
        }
    }
}

/// The state in an area, with its number, if it is whole.
fn read_area(file: &OwnedFd, area: u64) -> io::Result<Option<(u64, Vec<u8>)>> {
    let begin = area * AREA_BYTES;
    let mut head = [0; HEAD_BYTES];
    memory_file::read_at(file, begin, &mut head)?;
    let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at * 8 + byte]));
    if word(0) != MAGIC || word(4) != checksum(&head[..32]) || word(2) > STATE_BYTES_MAX as u64 {
        return Ok(None);
    }
    let mut content = vec![0; word(2) as usize];
    memory_file::read_at(file, begin + HEAD_BYTES as u64, &mut content)?;
    Ok((word(3) == checksum(&content)).then_some((word(1), content)))
}

/// Against accidents: eight bytes at a time, in four lanes, a few gigabytes a second.
fn checksum(bytes: &[u8]) -> u64 {
    const PRIME: u64 = 0x9e37_79b1_85eb_ca87;
    let mix = |sum: u64, word: u64| (sum ^ word).wrapping_mul(PRIME).rotate_left(29);
    let mut lanes = [1_u64, 2, 3, bytes.len() as u64];
    let (blocks, rest) = bytes.as_chunks::<32>();
    for block in blocks {
        for (lane, word) in lanes.iter_mut().zip(block.as_chunks::<8>().0) {
            *lane = mix(*lane, u64::from_le_bytes(*word));
        }
    }
    for (lane, chunk) in lanes.iter_mut().zip(rest.chunks(8)) {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        *lane = mix(*lane, u64::from_le_bytes(word));
    }
    lanes.into_iter().fold(PRIME, |sum, lane| mix(sum, lane).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn newest(file: &OwnedFd) -> Option<Vec<u8>> {
        Areas::open(file.try_clone().unwrap()).unwrap().1
    }

    #[test]
    fn the_newest_state_is_found_by_the_next_daemon() {
        let file = create().unwrap();
        assert_eq!(newest(&file), None);
        for round in 0_u8..5 {
            let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
            let content = vec![round; usize::from(round) * 1000];
            areas.write(&content).unwrap();
            assert_eq!(newest(&file), Some(content));
        }
    }

    #[test]
    fn a_write_that_was_torn_at_any_byte_leaves_the_state_before_or_the_new_one() {
        let file = create().unwrap();
        let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        // So that both areas have been used, and the torn one holds an older state of another length.
        for content in [&b"the first, which is a good deal longer than the others"[..], b"the second"] {
            areas.write(content).unwrap();
        }
        let parts = image(3, b"the third state");
        let total: usize = parts.iter().map(|(_, bytes)| bytes.as_ref().len()).sum();
        let original: Vec<u8> = {
            let mut bytes = vec![0; HEAD_BYTES + 100];
            memory_file::read_at(&file, AREA_BYTES, &mut bytes).unwrap();
            bytes
        };
        for cut in 0..=total {
            memory_file::write_at(&file, AREA_BYTES, &original).unwrap();
            let mut left = cut;
            for (offset, bytes) in &parts {
                let now = left.min(bytes.as_ref().len());
                memory_file::write_at(&file, *offset, &bytes.as_ref()[..now]).unwrap();
                left -= now;
            }
            let expected = if cut == total { &b"the third state"[..] } else { b"the second" };
            let found = newest(&file).unwrap();
            // The last bytes of the head may be what they were.
            assert!(
                found == expected || (cut > total - 8 && found == b"the third state"),
                "{cut} of {total}"
            );
            assert!(Areas::open(file.try_clone().unwrap()).unwrap().0.sequence >= 2);
        }
    }

    #[test]
    fn a_changed_byte_is_noticed_wherever_it_is() {
        let file = create().unwrap();
        let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        areas.write(b"old").unwrap();
        let content = b"0123456789abcdef0123456789abcdef0123456789";
        areas.write(content).unwrap();
        // The second state is in the first area.
        let mut bytes = vec![0; HEAD_BYTES + content.len()];
        memory_file::read_at(&file, 0, &mut bytes).unwrap();
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 0x10;
            memory_file::write_at(&file, 0, &spoilt).unwrap();
            assert_eq!(newest(&file).as_deref(), Some(&b"old"[..]), "byte {at}");
        }
    }

    #[test]
    fn a_state_that_is_too_large_leaves_the_one_before() {
        let file = create().unwrap();
        let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        areas.write(b"small").unwrap();
        let large = vec![1; STATE_BYTES_MAX + 1];
        assert!(matches!(areas.write(&large), Err(WriteFault::TooLarge(_))));
        assert_eq!(newest(&file).as_deref(), Some(&b"small"[..]));
    }
}
