//! The chunked transfer coding (RFC 9112, 7.1) as a state machine that accepts input in pieces of any length.

use super::reader::Fault;
use crate::cause::ErrorCause;

/// Longest size line of a chunk with its extensions, and longest trailer section. Real servers stay far below
/// it.
const LINE_BYTES_MAX: u32 = 16 * 1024;
/// Digits of a chunk size; 15 hexadecimal digits are an exabyte.
const SIZE_DIGITS_MAX: u32 = 15;

/// The reader's position in a chunked body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunked {
    /// In the digits of a size.
    Size { size: u64, digits: u32 },
    /// After the digits, before the end of the line.
    Extension { size: u64, bytes: u32 },
    /// In the data.
    Data { left: u64 },
    /// The line end after the data: its CR (or LF), its LF.
    DataEnd { seen_cr: bool },
    /// In the trailers; `line` bytes of the current line, `bytes` of all.
    Trailers { line: u32, bytes: u32 },
}

/// The result of a step.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ChunkStep {
    /// All input was consumed; more is needed.
    More,
    /// The next bytes of input are data; their number.
    Data(usize),
    /// The body ended; the number of input bytes consumed.
    End(usize),
}

impl Chunked {
    pub(crate) fn new() -> Self {
        Self::Size { size: 0, digits: 0 }
    }

    /// Reads from `input` at `*at` until data, the end of the body, or the end of the input. The caller skips
    /// the data.
    pub(crate) fn step(&mut self, input: &[u8], at: &mut usize) -> Result<ChunkStep, Fault> {
        while *at < input.len() {
            if let Self::Data { left } = self {
                let here = (input.len() - *at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= here as u64;
                if *left == 0 {
                    *self = Self::DataEnd { seen_cr: false };
                }
                return Ok(ChunkStep::Data(here));
            }
            let byte = input[*at];
            *at += 1;
            if self.byte(byte)? {
                return Ok(ChunkStep::End(*at));
            }
        }
        Ok(ChunkStep::More)
    }

    /// Reads one byte that is not data. Returns whether it was the last byte of the body.
    fn byte(&mut self, byte: u8) -> Result<bool, Fault> {
        match *self {
            Self::Size { size, digits } => match (byte as char).to_digit(16) {
                Some(digit) if digits < SIZE_DIGITS_MAX => {
                    *self = Self::Size { size: size * 16 + u64::from(digit), digits: digits + 1 };
                }
                Some(_) => return Err(bad(format!("a size of more than {SIZE_DIGITS_MAX} digits"))),
                None if digits == 0 => return Err(bad(format!("a size begins with {:?}", byte as char))),
                None if byte == b'\n' => *self = Self::after_size(size),
                None if matches!(byte, b'\r' | b';' | b' ' | b'\t') => {
                    *self = Self::Extension { size, bytes: 1 }
                }
                None => return Err(bad(format!("a size is followed by {:?}", byte as char))),
            },
            Self::Extension { size, .. } if byte == b'\n' => *self = Self::after_size(size),
            Self::Extension { size, bytes } => {
                *self = Self::Extension { size, bytes: counted(bytes)? };
            }
            Self::Data { .. } => unreachable!("data is passed over by `step`"),
            Self::DataEnd { seen_cr: false } if byte == b'\r' => *self = Self::DataEnd { seen_cr: true },
            Self::DataEnd { .. } if byte == b'\n' => *self = Self::new(),
            Self::DataEnd { .. } => return Err(bad("no line end after a chunk".to_owned())),
            Self::Trailers { line: 0, .. } if byte == b'\n' => return Ok(true),
            Self::Trailers { bytes, .. } if byte == b'\n' => {
                *self = Self::Trailers { line: 0, bytes: counted(bytes)? };
            }
            Self::Trailers { line, bytes } => {
                *self = Self::Trailers { line: line + u32::from(byte != b'\r'), bytes: counted(bytes)? };
            }
        }
        Ok(false)
    }

    fn after_size(size: u64) -> Self {
        if size == 0 { Self::Trailers { line: 0, bytes: 0 } } else { Self::Data { left: size } }
    }
}

fn counted(bytes: u32) -> Result<u32, Fault> {
    if bytes >= LINE_BYTES_MAX {
        Err(bad(format!("a line of more than {LINE_BYTES_MAX} bytes")))
    } else {
        Ok(bytes + 1)
    }
}

fn bad(detail: String) -> Fault {
    Fault::new(ErrorCause::BadChunk, detail)
}
