//! The protocol between daemon and keeper: frames of a fixed size, one per packet, with at most one
//! descriptor each.

/// Maximum places for descriptors. A worker needs six, and a daemon has a few hundred workers; memory is used
/// only for places that were in use.
pub const PLACES_MAX: usize = 32 * 1024;
/// The size of a frame.
pub const FRAME_BYTES: usize = 256;
/// The length of the text in a frame.
pub const TEXT_BYTES_MAX: usize = FRAME_BYTES - TEXT_AT - 1;

/// The protocol and its version; other versions are not accepted.
const MAGIC: u32 = 0x464b_0001;
const NUMBERS_AT: usize = 8;
const NUMBERS: usize = 6;
const TEXT_AT: usize = NUMBERS_AT + NUMBERS * 4;

/// The kinds of kept descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The lock of the home.
    Lock,
    /// The socket of the API.
    Api,
    /// The in-memory file with the stored state.
    State,
    /// The in-memory file with a word for each place, see [`super::Hold::word`].
    Words,
    /// Where the command that started the daemon waits until it serves.
    Ready,
    /// A worker's process.
    Process,
    /// Our end of a worker's channel.
    Channel,
    /// Our end of a worker's stdin.
    Stdin,
    /// Our end of a worker's stdout.
    Out,
    /// Our end of a worker's stderr.
    Err,
    /// A socket on which an app listens.
    Listener,
    /// A socket on which an app has listened, and which the service manager has kept over a restart of the
    /// keeper.
    Stored,
}

const KINDS: [Kind; 12] = [
    Kind::Lock,
    Kind::Api,
    Kind::State,
    Kind::Words,
    Kind::Ready,
    Kind::Process,
    Kind::Channel,
    Kind::Stdin,
    Kind::Out,
    Kind::Err,
    Kind::Listener,
    Kind::Stored,
];

/// The name of a kept descriptor. The numbers are the daemon's: of an app, and of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    pub kind: Kind,
    pub app: u32,
    /// A worker's id, or the number of an address.
    pub of: u32,
    /// Which socket of an address.
    pub part: u32,
}

impl Name {
    /// The name of a descriptor that exists once.
    pub const fn only(kind: Kind) -> Self {
        Self { kind, app: 0, of: 0, part: 0 }
    }
}

impl Kind {
    /// Its number in frames and in tables.
    pub fn number(self) -> u32 {
        KINDS.iter().position(|kind| *kind == self).unwrap_or(0) as u32
    }

    /// The kind of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        KINDS.get(number as usize).copied()
    }
}

/// The progress of an update, for a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Update {
    /// There is no update.
    None,
    /// The daemon is of another program than the keeper, and is replaced by the previous one if it dies soon.
    Trial,
    /// The daemon is the previous one again: the new one died soon.
    Undone,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It is alive, or is not a child of the keeper.
    Unknown,
}

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// To the keeper: keep the attached descriptor at this place, instead of the previous one.
    Keep { place: u32, name: Name },
    /// To the keeper: release the descriptor at this place.
    Drop { place: u32 },
    /// To the keeper: reap this child, which has ended.
    Reap { pid: u32 },
    /// To the keeper: how did this child end? The answer is [`Frame::Ended`].
    Ask { pid: u32 },
    /// To the keeper: send this to the service manager.
    Tell { text: Text },
    /// To the keeper: the daemon ends on purpose. Everything is released, which [`Frame::Done`] confirms; the
    /// keeper ends when the daemon has.
    Leave,
    /// To the keeper, with a descriptor: the next daemon uses this program. The daemon ends, and another one
    /// continues.
    Update,
    /// To the daemon, first of all: who the keeper is, how many daemons died in a row since one served, how
    /// the last one died, and whether the daemon is part of an update.
    Hello { keeper: u32, died: u32, last: End, update: Update },
    /// To the daemon: a descriptor kept for a previous daemon.
    Kept { place: u32, name: Name },
    /// To the daemon: it has everything, or, after [`Frame::Leave`], everything was released.
    Done,
    /// To the daemon: how a child ended.
    Ended { pid: u32, end: End },
    /// To the daemon: a child has ended, perhaps an unknown one.
    Child,
    /// To the keeper: the daemon serves; earlier deaths no longer count.
    Serves,
    /// To the daemon: does its event loop run? The answer is [`Frame::Turns`].
    Look,
    /// To the keeper: the daemon's event loop runs.
    Turns,
}

/// A short text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Text {
    length: u8,
    bytes: [u8; TEXT_BYTES_MAX],
}

impl Text {
    /// The part of a text for which there is room.
    pub fn new(text: &str) -> Self {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = [0; TEXT_BYTES_MAX];
        bytes[..end].copy_from_slice(&text.as_bytes()[..end]);
        Self { length: end as u8, bytes }
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

impl End {
    fn as_numbers(self) -> (u32, u32) {
        match self {
            Self::Unknown => (0, 0),
            Self::Code(code) => (1, code as u32),
            Self::Signal(signal) => (2, signal as u32),
        }
    }

    fn from_numbers(how: u32, number: u32) -> Option<Self> {
        match how {
            0 => Some(Self::Unknown),
            1 => Some(Self::Code(number as i32)),
            2 => Some(Self::Signal(number as i32)),
            _ => None,
        }
    }
}

impl Frame {
    /// The frame's bytes.
    pub fn encode(&self) -> [u8; FRAME_BYTES] {
        let mut bytes = [0; FRAME_BYTES];
        let of_name = |place: u32, name: Name| [place, name.kind.number(), name.app, name.of, name.part, 0];
        let (op, numbers) = match *self {
            Self::Keep { place, name } => (1, of_name(place, name)),
            Self::Drop { place } => (2, [place, 0, 0, 0, 0, 0]),
            Self::Reap { pid } => (3, [pid, 0, 0, 0, 0, 0]),
            Self::Ask { pid } => (4, [pid, 0, 0, 0, 0, 0]),
            Self::Tell { text } => {
                bytes[TEXT_AT] = text.length;
                bytes[TEXT_AT + 1..].copy_from_slice(&text.bytes);
                (5, [0; NUMBERS])
            }
            Self::Leave => (6, [0; NUMBERS]),
            Self::Hello { keeper, died, last, update } => {
                let (how, number) = last.as_numbers();
                (7, [keeper, died, how, number, update as u32, 0])
            }
            Self::Kept { place, name } => (8, of_name(place, name)),
            Self::Done => (9, [0; NUMBERS]),
            Self::Ended { pid, end } => {
                let (how, number) = end.as_numbers();
                (10, [pid, how, number, 0, 0, 0])
            }
            Self::Child => (11, [0; NUMBERS]),
            Self::Serves => (12, [0; NUMBERS]),
            Self::Look => (20, [0; NUMBERS]),
            Self::Turns => (21, [0; NUMBERS]),
            Self::Update => (13, [0; NUMBERS]),
        };
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4..8].copy_from_slice(&u32::to_le_bytes(op));
        for (number, place) in numbers.iter().zip(bytes[NUMBERS_AT..TEXT_AT].chunks_exact_mut(4)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Parses received bytes; `None` if they are not a frame of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; FRAME_BYTES] = bytes.try_into().ok()?;
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let nth = |n: usize| number(NUMBERS_AT + n * 4);
        if number(0) != MAGIC {
            return None;
        }
        let name = || Some(Name { kind: Kind::from_number(nth(1))?, app: nth(2), of: nth(3), part: nth(4) });
        Some(match number(4) {
            1 => Self::Keep { place: nth(0), name: name()? },
            2 => Self::Drop { place: nth(0) },
            3 => Self::Reap { pid: nth(0) },
            4 => Self::Ask { pid: nth(0) },
            5 => {
                let length = bytes[TEXT_AT];
                let mut text = [0; TEXT_BYTES_MAX];
                text.copy_from_slice(&bytes[TEXT_AT + 1..]);
                (usize::from(length) <= TEXT_BYTES_MAX)
                    .then_some(Self::Tell { text: Text { length, bytes: text } })?
            }
            6 => Self::Leave,
            7 => {
                let update = [Update::None, Update::Trial, Update::Undone].get(nth(4) as usize).copied()?;
                let last = End::from_numbers(nth(2), nth(3))?;
                Self::Hello { keeper: nth(0), died: nth(1), last, update }
            }
            8 => Self::Kept { place: nth(0), name: name()? },
            9 => Self::Done,
            10 => Self::Ended { pid: nth(0), end: End::from_numbers(nth(1), nth(2))? },
            11 => Self::Child,
            12 => Self::Serves,
            20 => Self::Look,
            21 => Self::Turns,
            13 => Self::Update,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<Frame> {
        let mut frames = vec![
            Frame::Drop { place: u32::MAX },
            Frame::Reap { pid: 4_194_304 },
            Frame::Ask { pid: 1 },
            Frame::Tell { text: Text::new("READY=1\nSTATUS=ü") },
            Frame::Tell { text: Text::new(&"é".repeat(300)) },
            Frame::Leave,
            Frame::Hello { keeper: 7, died: 5, last: End::Signal(9), update: Update::None },
            Frame::Hello { keeper: 7, died: 0, last: End::Code(0), update: Update::Trial },
            Frame::Hello { keeper: 7, died: 1, last: End::Code(1), update: Update::Undone },
            Frame::Update,
            Frame::Done,
            Frame::Child,
            Frame::Serves,
            Frame::Look,
            Frame::Turns,
        ];
        for kind in KINDS {
            let name = Name { kind, app: 1, of: u32::MAX, part: 3 };
            frames.extend([Frame::Keep { place: 9, name }, Frame::Kept { place: 9, name }]);
        }
        for end in [End::Code(255), End::Code(-1), End::Signal(9), End::Unknown] {
            frames.push(Frame::Ended { pid: 8, end });
        }
        frames
    }

    #[test]
    fn every_frame_survives_the_way() {
        for frame in all() {
            assert_eq!(Frame::decode(&frame.encode()), Some(frame));
        }
    }

    #[test]
    fn what_is_no_frame_is_refused_or_is_one_that_reads_the_same_again() {
        assert_eq!(Frame::decode(&[]), None);
        assert_eq!(Frame::decode(&[0; FRAME_BYTES]), None);
        for frame in all() {
            let bytes = frame.encode();
            assert_eq!(Frame::decode(&bytes[1..]), None);
            for at in 0..FRAME_BYTES {
                for flipped in [1, 0x80, 0xff] {
                    let mut spoilt = bytes;
                    spoilt[at] ^= flipped;
                    if let Some(read) = Frame::decode(&spoilt) {
                        assert_eq!(Frame::decode(&read.encode()), Some(read));
                    }
                }
            }
        }
    }
}
