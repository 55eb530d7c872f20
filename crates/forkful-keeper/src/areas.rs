//! The written-down state: two areas in one file. The next state goes over the older one, so that a daemon that dies while it
//! writes leaves the one before whole. What changes is added behind the state that it changes, and costs no more than it is long.
//!
//! ```text
//! area:     magic 8 · sequence 8 · length 8 · checksum of the content 8 · checksum of these 32 bytes 8 · content · padding
//! addition: magic 8 · sequence of the state 8 · number 8 · length 8 · checksum of the content 8 · checksum of these 40 bytes 8 ·
//!           content · padding to 8 bytes
//! ```
//!
//! The content comes first and the head after it: a head that is there names a content that was written whole. Earlier versions
//! read the state without its additions, so that a state is written as a whole before one of them goes on from it.

use std::fmt;
use std::io;
use std::os::fd::OwnedFd;

use forkful_os::memory_file;

/// Maximum bytes of a state. Memory is used only for what was written.
pub const STATE_BYTES_MAX: usize = 32 << 20;

const MAGIC: u64 = u64::from_le_bytes(*b"forkful1");
const HEAD_BYTES: usize = 40;
const AREA_BYTES: u64 = (HEAD_BYTES + STATE_BYTES_MAX) as u64;

const ADDITION_MAGIC: u64 = u64::from_le_bytes(*b"forkful+");
const ADDITION_HEAD_BYTES: usize = 48;
/// Additions up to this many bytes are always allowed; beyond it, up to the size of their state.
const ADDITIONS_BYTES_LEAST: u64 = 64 << 10;

/// The file with both areas, as written by one daemon.
#[derive(Debug)]
pub struct Areas {
    file: OwnedFd,
    /// The position of the last written state.
    sequence: u64,
    /// What this daemon has added after it.
    behind: Option<Behind>,
}

/// Where additions of a state are written.
#[derive(Debug)]
struct Behind {
    /// Their number.
    number: u64,
    /// The offset of the next addition in the area.
    at: u64,
    /// The end of the area.
    end: u64,
}

/// The content of the file.
#[derive(Debug, PartialEq, Eq)]
pub struct Found {
    /// The newest completely written state.
    pub state: Vec<u8>,
    /// The additions to it, in order.
    pub additions: Vec<Vec<u8>>,
}

/// Why a state was not written; the previous one still exists.
#[derive(Debug)]
pub enum WriteFault {
    /// It has this many bytes, more than [`STATE_BYTES_MAX`].
    TooLarge(usize),
    Io(io::Error),
}

impl fmt::Display for WriteFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge(bytes) => write!(f, "what would have to be written down has {bytes} bytes"),
            Self::Io(error) => error.fmt(f),
        }
    }
}

/// Creates the empty file.
pub fn create() -> io::Result<OwnedFd> {
    memory_file::create("forkful-state", AREA_BYTES * 2)
}

impl Areas {
    /// Opens the file, and returns the newest complete state in it.
    pub fn open(file: OwnedFd) -> io::Result<(Self, Option<Found>)> {
        let mut newest: Option<(u64, Vec<u8>)> = None;
        for area in 0..2 {
            if let Some((sequence, content)) = read_area(&file, area)?
                && newest.as_ref().is_none_or(|(before, _)| *before < sequence)
            {
                newest = Some((sequence, content));
            }
        }
        let Some((sequence, state)) = newest else {
            return Ok((Self { file, sequence: 0, behind: None }, None));
        };
        let additions = read_additions(&file, sequence, state.len())?;
        Ok((Self { file, sequence, behind: None }, Some(Found { state, additions })))
    }

    /// Writes a state, which is then the newest. Returns the position of its bytes in the file, which is
    /// valid until the state after the next is written.
    pub fn write(&mut self, content: &[u8]) -> Result<u64, WriteFault> {
        if content.len() > STATE_BYTES_MAX {
            return Err(WriteFault::TooLarge(content.len()));
        }
        let sequence = self.sequence + 1;
        self.write_parts(&image(sequence, content))?;
        self.sequence = sequence;
        let at = behind(content.len());
        let end = AREA_BYTES.min(at + ADDITIONS_BYTES_LEAST.max(content.len() as u64));
        self.behind = Some(Behind { number: 0, at, end });
        Ok(sequence % 2 * AREA_BYTES + HEAD_BYTES as u64)
    }

    /// Adds to the last written state, and returns the position of the bytes in the file; `None` if the state
    /// should be written completely instead.
    pub fn add(&mut self, content: &[u8]) -> Result<Option<u64>, WriteFault> {
        let Some(Behind { number, at, end }) = self.behind else { return Ok(None) };
        let next = at + addition_bytes(content.len());
        if next > end {
            return Ok(None);
        }
        self.write_parts(&addition(self.sequence, number, at, content))?;
        self.behind = Some(Behind { number: number + 1, at: next, end });
        Ok(Some(self.sequence % 2 * AREA_BYTES + at + ADDITION_HEAD_BYTES as u64))
    }

    /// Reads written bytes.
    pub fn read(&self, at: u64, buffer: &mut [u8]) -> io::Result<()> {
        let read = memory_file::read_at(&self.file, at, buffer)?;
        if read < buffer.len() { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(()) }
    }

    fn write_parts(&mut self, parts: &[(u64, Part<'_>)]) -> Result<(), WriteFault> {
        for (offset, bytes) in parts {
            memory_file::write_at(&self.file, *offset, bytes.as_ref()).map_err(|error| {
                // What follows the state now is unknown.
                self.behind = None;
                WriteFault::Io(error)
            })?;
        }
        Ok(())
    }
}

/// Where additions to a state of this length begin in its area.
fn behind(state_bytes: usize) -> u64 {
    (HEAD_BYTES + state_bytes).next_multiple_of(8) as u64
}

/// The size of an addition with its head.
fn addition_bytes(length: usize) -> u64 {
    (ADDITION_HEAD_BYTES + length).next_multiple_of(8) as u64
}

/// The parts of an addition, in order, each with its offset in the file.
fn addition(sequence: u64, number: u64, at: u64, content: &[u8]) -> [(u64, Part<'_>); 2] {
    let begin = sequence % 2 * AREA_BYTES + at;
    let words = [ADDITION_MAGIC, sequence, number, content.len() as u64, checksum(content)];
    [(begin + ADDITION_HEAD_BYTES as u64, Part::Content(content)), (begin, Part::Addition(head(words)))]
}

/// Words and their checksum, as bytes.
fn head<const WORDS: usize, const BYTES: usize>(words: [u64; WORDS]) -> [u8; BYTES] {
    let mut head = [0; BYTES];
    for (word, place) in words.iter().zip(head.chunks_exact_mut(8)) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = checksum(&head[..WORDS * 8]);
    head[WORDS * 8..].copy_from_slice(&sum.to_le_bytes());
    head
}

/// The parts of a write, in order, each with its offset in the file: first the area's head is erased, then
/// the content is written, then a new head.
fn image(sequence: u64, content: &[u8]) -> [(u64, Part<'_>); 3] {
    let begin = sequence % 2 * AREA_BYTES;
    let head = head([MAGIC, sequence, content.len() as u64, checksum(content)]);
    let empty = Part::Head([0; HEAD_BYTES]);
    [(begin, empty), (begin + HEAD_BYTES as u64, Part::Content(content)), (begin, Part::Head(head))]
}

enum Part<'a> {
    Head([u8; HEAD_BYTES]),
    Addition([u8; ADDITION_HEAD_BYTES]),
    Content(&'a [u8]),
}

impl AsRef<[u8]> for Part<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Head(head) => head,
            Self::Addition(head) => head,
            Self::Content(content) => content,
        }
    }
}

/// The state in an area, with its number, if it is complete.
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

/// The additions to a state, up to the first incomplete one.
fn read_additions(file: &OwnedFd, sequence: u64, state_bytes: usize) -> io::Result<Vec<Vec<u8>>> {
    let (mut additions, mut at) = (Vec::new(), behind(state_bytes));
    while at + ADDITION_HEAD_BYTES as u64 <= AREA_BYTES {
        let begin = sequence % 2 * AREA_BYTES + at;
        let mut head = [0; ADDITION_HEAD_BYTES];
        memory_file::read_at(file, begin, &mut head)?;
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|byte| head[at * 8 + byte]));
        let expected = [ADDITION_MAGIC, sequence, additions.len() as u64];
        let room = AREA_BYTES - at - ADDITION_HEAD_BYTES as u64;
        if [word(0), word(1), word(2)] != expected || word(5) != checksum(&head[..40]) || word(3) > room {
            break;
        }
        let mut content = vec![0; word(3) as usize];
        memory_file::read_at(file, begin + ADDITION_HEAD_BYTES as u64, &mut content)?;
        if word(4) != checksum(&content) {
            break;
        }
        at += addition_bytes(content.len());
        additions.push(content);
    }
    Ok(additions)
}

/// Detects accidental damage: eight bytes at a time, in four lanes, a few gigabytes per second.
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

    fn found(file: &OwnedFd) -> Option<Found> {
        Areas::open(file.try_clone().unwrap()).unwrap().1
    }

    fn newest(file: &OwnedFd) -> Option<Vec<u8>> {
        found(file).map(|found| found.state)
    }

    fn additions(file: &OwnedFd) -> Vec<Vec<u8>> {
        found(file).unwrap().additions
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
        // So that both areas have been used, and the torn area has an older state of another length.
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
            // The last bytes of the head may be unchanged.
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

    #[test]
    fn what_is_added_is_found_behind_its_state_and_goes_with_it() {
        let file = create().unwrap();
        let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        assert!(areas.add(b"nothing to add to").unwrap().is_none());
        for round in 0..4 {
            areas.write(format!("state {round}").as_bytes()).unwrap();
            assert_eq!(additions(&file), Vec::<Vec<u8>>::new(), "those of two rounds before are no more");
            for content in [&b"one"[..], b"", b"three of them"] {
                let at = areas.add(content).unwrap().unwrap();
                let mut read = vec![0; content.len()];
                areas.read(at, &mut read).unwrap();
                assert_eq!(read, *content);
            }
            assert_eq!(additions(&file), [&b"one"[..], b"", b"three of them"]);
        }
        // The next daemon begins with a complete state.
        let (mut next, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        assert!(next.add(b"more").unwrap().is_none());
        next.write(b"of the next one").unwrap();
        assert_eq!((newest(&file).unwrap(), additions(&file).len()), (b"of the next one".to_vec(), 0));
    }

    #[test]
    fn additions_take_no_more_than_their_state_or_a_little() {
        let file = create().unwrap();
        let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        for (state, most) in [(100, ADDITIONS_BYTES_LEAST), (1_000_000, 1_000_000), (STATE_BYTES_MAX, 0)] {
            areas.write(&vec![7; state]).unwrap();
            let mut added = 0;
            while areas.add(&[1; 1000]).unwrap().is_some() {
                added += addition_bytes(1000);
            }
            assert!(added <= most && added + 2 * addition_bytes(1000) > most, "{added} of {most}");
            assert_eq!(additions(&file).len() as u64, added / addition_bytes(1000));
        }
    }

    #[test]
    fn an_addition_that_was_torn_at_any_byte_is_as_if_it_had_not_been_or_whole() {
        let file = create().unwrap();
        let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        areas.write(b"a state").unwrap();
        assert!(areas.add(b"the first").unwrap().is_some());
        let Some(Behind { number, at, .. }) = areas.behind else { panic!("a state was written") };
        let content = b"the second one, of some length";
        let parts = addition(areas.sequence, number, at, content);
        let total: usize = parts.iter().map(|(_, bytes)| bytes.as_ref().len()).sum();
        for cut in 0..=total {
            memory_file::write_at(&file, AREA_BYTES + at, &[0xff; 200]).unwrap();
            let mut left = cut;
            for (offset, bytes) in &parts {
                let now = left.min(bytes.as_ref().len());
                memory_file::write_at(&file, *offset, &bytes.as_ref()[..now]).unwrap();
                left -= now;
            }
            let expected: &[&[u8]] = if cut == total { &[b"the first", content] } else { &[b"the first"] };
            assert_eq!(additions(&file), expected, "{cut} of {total}");
        }
    }

    #[test]
    fn a_changed_byte_of_an_addition_ends_what_is_read() {
        let file = create().unwrap();
        let (mut areas, _) = Areas::open(file.try_clone().unwrap()).unwrap();
        areas.write(b"a state").unwrap();
        for content in [&b"12345678"[..], b"abcdefgh", b"ABCDEFGH"] {
            assert!(areas.add(content).unwrap().is_some());
        }
        let second = AREA_BYTES + behind(7) + addition_bytes(8);
        let mut bytes = vec![0; ADDITION_HEAD_BYTES + 8];
        memory_file::read_at(&file, second, &mut bytes).unwrap();
        for at in 0..bytes.len() {
            let mut spoilt = bytes.clone();
            spoilt[at] ^= 0x10;
            memory_file::write_at(&file, second, &spoilt).unwrap();
            assert_eq!(additions(&file), [b"12345678"], "byte {at}");
        }
    }
}
