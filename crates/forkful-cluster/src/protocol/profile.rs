//! What an agent writes into the stream of a profile: parts, each a byte that says what it is, the length of its content in four bytes (big-endian),
//! and the content. Content is handed on as it comes, however long its part is.

use std::fmt;

const DATA: u8 = b'D';
const END: u8 = b'Z';
const REFUSED: u8 = b'E';

/// Bytes before the content of a part.
const HEAD_BYTES: usize = 5;
/// The longest reason of a refusal.
const REASON_BYTES_MAX: usize = 4096;

/// What the next bytes of a stream are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Bytes of the profile.
    Data(&'a [u8]),
    /// The profile is complete; nothing follows.
    End,
    /// There is no profile, for this reason; nothing follows.
    Refused(String),
    /// More is needed first.
    More,
}

/// A worker has written something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotOurs;

impl fmt::Display for NotOurs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the worker sent something else than a profile")
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct ProfileDecoder {
    head: [u8; HEAD_BYTES],
    /// Bytes of the head that are there.
    filled: usize,
    /// Bytes of the content that are yet to come, once the head is whole.
    left: usize,
    reason: Vec<u8>,
    is_over: bool,
}

impl ProfileDecoder {
    /// Takes the next piece off the front of `bytes`. After [`Piece::More`] nothing of them is left.
    ///
    /// # Errors
    /// What comes is no stream of a profile.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Piece<'a>, NotOurs> {
        loop {
            if self.is_over {
                return if bytes.is_empty() { Ok(Piece::More) } else { Err(NotOurs) };
            }
            while self.filled < HEAD_BYTES {
                let Some((first, rest)) = bytes.split_first() else { return Ok(Piece::More) };
                self.head[self.filled] = *first;
                self.filled += 1;
                *bytes = rest;
                if self.filled == HEAD_BYTES {
                    self.begin()?;
                }
            }
            match self.head[0] {
                END => return Ok(self.end()),
                _ if self.left == 0 => self.filled = 0,
                _ if bytes.is_empty() => return Ok(Piece::More),
                kind => {
                    let (content, rest) = bytes.split_at(self.left.min(bytes.len()));
                    *bytes = rest;
                    self.left -= content.len();
                    if kind == DATA {
                        if self.left == 0 {
                            self.filled = 0;
                        }
                        return Ok(Piece::Data(content));
                    }
                    self.reason.extend_from_slice(content);
                    if self.left == 0 {
                        return Ok(self.end());
                    }
                }
            }
        }
    }

    /// A head is whole.
    fn begin(&mut self) -> Result<(), NotOurs> {
        let [kind, length @ ..] = self.head;
        let length = u32::from_be_bytes(length) as usize;
        let fits = match kind {
            DATA => true,
            END => length == 0,
            REFUSED => (1..=REASON_BYTES_MAX).contains(&length),
            _ => false,
        };
        self.left = length;
        if fits { Ok(()) } else { Err(NotOurs) }
    }

    fn end(&mut self) -> Piece<'static> {
        self.is_over = true;
        match self.head[0] {
            END => Piece::End,
            _ => Piece::Refused(String::from_utf8_lossy(&self.reason).into_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads a whole stream in pieces of this length, and returns the result.
    fn read(stream: &[u8], piece: usize) -> Result<(Vec<u8>, Option<Piece<'static>>), NotOurs> {
        let mut decoder = ProfileDecoder::default();
        let (mut data, mut last) = (Vec::new(), None);
        for mut bytes in stream.chunks(piece) {
            loop {
                match decoder.next(&mut bytes)? {
                    Piece::Data(content) => data.extend_from_slice(content),
                    Piece::End => last = Some(Piece::End),
                    Piece::Refused(reason) => last = Some(Piece::Refused(reason)),
                    Piece::More => break,
                }
            }
            assert!(bytes.is_empty());
        }
        Ok((data, last))
    }

    fn part(kind: u8, content: &[u8]) -> Vec<u8> {
        let length = u32::try_from(content.len()).unwrap().to_be_bytes();
        [&[kind], &length[..], content].concat()
    }

    #[test]
    fn a_reason_is_told_and_nothing_may_follow_it() {
        let refused = part(REFUSED, b"no inspector");
        let told = Piece::Refused("no inspector".to_owned());
        assert_eq!(read(&refused, 3), Ok((Vec::new(), Some(told))));
        assert_eq!(read(&[refused, part(END, b"")].concat(), 3), Err(NotOurs));
        assert_eq!(read(&part(END, b"x"), 9), Err(NotOurs));
        assert_eq!(read(&part(REFUSED, &[b'x'; REASON_BYTES_MAX + 1]), 9), Err(NotOurs));
        assert_eq!(read(b"HTTP/1.1 200 OK", 64), Err(NotOurs));
    }

    proptest! {
        #[test]
        fn parts_are_the_same_however_they_are_cut(
            contents in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            piece in 1_usize..50,
        ) {
            let parts = contents.iter().map(|content| part(DATA, content));
            let stream: Vec<u8> = parts.chain([part(END, b"")]).flatten().collect();
            prop_assert_eq!(read(&stream, piece), Ok((contents.concat(), Some(Piece::End))));
            // Without its end it is not whole.
            let cut = &stream[..stream.len() - 1];
            prop_assert_eq!(read(cut, piece), Ok((contents.concat(), None)));
        }

        #[test]
        fn no_bytes_make_it_fail_otherwise(stream in prop::collection::vec(any::<u8>(), 0..80), piece in 1_usize..20) {
            let _read = read(&stream, piece);
        }
    }
}
