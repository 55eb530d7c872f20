//! Reads the answers on one connection, in pieces of any length.

use super::chunked::{ChunkStep, Chunked};
use super::head::{Framing, Head, HeadCache};
use crate::cause::{ErrorCause, ErrorExample};
use crate::plan::Expect;

/// Longest head: the limit of Node.js is 16 KB, that of proxies up to 128 KB.
pub(crate) const HEAD_BYTES_MAX: usize = 256 * 1024;
/// Interim answers before the final one; a server sends a few 103 early hints at most.
pub(crate) const INTERIM_MAX: u32 = 16;
/// What every answer begins with.
const PREFIX: &[u8] = b"HTTP/1.";

/// An error after which the connection cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) cause: ErrorCause,
    pub(crate) detail: String,
}

impl Fault {
    pub(crate) fn new(cause: ErrorCause, detail: String) -> Self {
        Self { cause, detail }
    }

    /// Not HTTP: gives the reason and the first bytes.
    pub(crate) fn unreadable(why: &str, input: &[u8]) -> Self {
        let shown = &input[..input.len().min(ErrorExample::BYTES_MAX)];
        Self::new(ErrorCause::NotHttp, format!("{why}; it begins with \"{}\"", shown.escape_ascii()))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) head: Head,
    /// Without the chunked coding.
    pub(crate) body_bytes: u64,
    /// Interim answers before it.
    pub(crate) interim: u32,
}

/// What the reader needs beside the bytes.
pub(crate) struct ReaderContext<'a> {
    pub(crate) cache: &'a mut HeadCache,
    /// The request was a HEAD.
    pub(crate) is_head: bool,
    /// Keep the body, for comparing it.
    pub(crate) keep_body: bool,
}

/// The state of a connection between two reads.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    state: State,
    /// The start of a head that is not complete yet.
    partial: Vec<u8>,
    /// Bytes of `partial` that were already searched for the end of the head.
    scanned: usize,
    interim: u32,
    body: Vec<u8>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    Length {
        head: Head,
        left: u64,
    },
    Chunked {
        head: Head,
        chunked: Chunked,
        body_bytes: u64,
    },
    UntilClose {
        head: Head,
        body_bytes: u64,
    },
}

impl Reader {
    /// No byte of an answer has arrived.
    #[inline]
    pub(crate) fn is_at_start(&self) -> bool {
        self.state == State::Head && self.partial.is_empty() && self.interim == 0
    }

    /// The body of the last answer, if it is kept.
    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    /// Reads one answer. Returns how much of `input` was consumed, and the answer if it is complete. Without
    /// an answer, all of the input was consumed.
    #[inline]
    pub(crate) fn read(
        &mut self,
        input: &[u8],
        context: &mut ReaderContext<'_>,
    ) -> Result<(usize, Option<Answer>), Fault> {
        // The usual case: the whole answer is there and its head is cached.
        if self.is_at_start()
            && !context.is_head
            && !context.keep_body
            && let Some(head) = context.cache.known(input)
        {
            let head_bytes = head.bytes as usize;
            if let Framing::Length(length) = head.framing {
                let end = head_bytes as u64 + length;
                if end <= input.len() as u64 && head.status >= 200 {
                    return Ok((end as usize, Some(Answer { head, body_bytes: length, interim: 0 })));
                }
            }
        }
        self.read_any(input, context)
    }

    fn read_any(
        &mut self,
        input: &[u8],
        context: &mut ReaderContext<'_>,
    ) -> Result<(usize, Option<Answer>), Fault> {
        let mut at = 0;
        loop {
            match &mut self.state {
                State::Head => {
                    let Some(head) = self.read_head(input, &mut at, context.cache)? else {
                        return Ok((input.len(), None));
                    };
                    self.begin_body(head, context)?;
                }
                State::Length { head, left } => {
                    let here = (input.len() - at).min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= here as u64;
                    let (head, left) = (*head, *left);
                    self.keep(&input[at..at + here], context);
                    at += here;
                    if left > 0 {
                        return Ok((at, None));
                    }
                    let Framing::Length(body_bytes) = head.framing else {
                        unreachable!("read by its length")
                    };
                    return Ok((at, Some(self.end(head, body_bytes))));
                }
                State::Chunked { head, chunked, body_bytes } => match chunked.step(input, &mut at)? {
                    ChunkStep::More => return Ok((at, None)),
                    ChunkStep::Data(length) => {
                        *body_bytes += length as u64;
                        self.keep(&input[at..at + length], context);
                        at += length;
                    }
                    ChunkStep::End(_) => {
                        let (head, body_bytes) = (*head, *body_bytes);
                        return Ok((at, Some(self.end(head, body_bytes))));
                    }
                },
                State::UntilClose { body_bytes, .. } => {
                    *body_bytes += (input.len() - at) as u64;
                    self.keep(&input[at..], context);
                    return Ok((input.len(), None));
                }
            }
        }
    }

    /// The connection ended. Returns the answer that ends with it, or the cause of the error.
    pub(crate) fn end_of_input(&mut self) -> Result<Answer, ErrorCause> {
        match self.state {
            State::UntilClose { head, body_bytes } => Ok(self.end(head, body_bytes)),
            _ if self.is_at_start() => Err(ErrorCause::ClosedBeforeAnswer),
            _ => Err(ErrorCause::ClosedInAnswer),
        }
    }

    fn begin_body(&mut self, head: Head, context: &ReaderContext<'_>) -> Result<(), Fault> {
        self.body.clear();
        if head.status < 200 && head.status != 101 {
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(Fault::new(ErrorCause::TooManyInterim, format!("more than {INTERIM_MAX}")));
            }
            return Ok(());
        }
        let framing = if context.is_head { Framing::Length(0) } else { head.framing };
        let head = Head { framing, ..head };
        self.state = match framing {
            Framing::Length(left) => State::Length { head, left },
            Framing::Chunked => State::Chunked { head, chunked: Chunked::new(), body_bytes: 0 },
            Framing::UntilClose => State::UntilClose { head, body_bytes: 0 },
        };
        Ok(())
    }

    fn end(&mut self, head: Head, body_bytes: u64) -> Answer {
        let keep_alive = head.keep_alive && head.framing != Framing::UntilClose;
        let interim = std::mem::take(&mut self.interim);
        self.state = State::Head;
        Answer { head: Head { keep_alive, ..head }, body_bytes, interim }
    }

    fn keep(&mut self, bytes: &[u8], context: &ReaderContext<'_>) {
        // One byte more than the limit, so that a longer body is detected.
        let room = (Expect::BODY_BYTES_MAX + 1).saturating_sub(self.body.len());
        if context.keep_body {
            self.body.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    /// Reads the next head if it is complete, and moves `at` past it.
    fn read_head(
        &mut self,
        input: &[u8],
        at: &mut usize,
        cache: &mut HeadCache,
    ) -> Result<Option<Head>, Fault> {
        let rest = &input[*at..];
        if self.partial.is_empty() {
            if rest.is_empty() {
                return Ok(None);
            }
            if let Some(head) = cache.known(rest) {
                *at += head.bytes as usize;
                return Ok(Some(head));
            }
            expect_prefix(rest)?;
            if let Some(head) = cache.parse(rest)? {
                *at += head.bytes as usize;
                return Ok(Some(head));
            }
        }
        // Incomplete: collect the bytes until its end arrives, then parse it once.
        let before = self.partial.len();
        self.partial.extend_from_slice(rest);
        expect_prefix(&self.partial)?;
        let end = find_head_end(&self.partial, self.scanned);
        if end.unwrap_or(self.partial.len()) > HEAD_BYTES_MAX {
            return Err(Fault::new(ErrorCause::HeadTooLarge, format!("more than {HEAD_BYTES_MAX} bytes")));
        }
        let Some(end) = end else {
            self.scanned = self.partial.len().saturating_sub(2);
            *at = input.len();
            return Ok(None);
        };
        let head =
            cache.parse(&self.partial[..end])?.ok_or_else(|| Fault::unreadable("no head", &self.partial))?;
        *at += (head.bytes as usize).saturating_sub(before);
        self.partial.clear();
        self.partial.shrink_to(4096);
        self.scanned = 0;
        Ok(Some(head))
    }
}

fn expect_prefix(input: &[u8]) -> Result<(), Fault> {
    let length = input.len().min(PREFIX.len());
    if input[..length] == PREFIX[..length] {
        return Ok(());
    }
    Err(Fault::unreadable("an answer begins with \"HTTP/1.\"", input))
}

/// The first byte after an empty line, which may end with LF alone; the search starts at `from`.
fn find_head_end(bytes: &[u8], from: usize) -> Option<usize> {
    for newline in memchr::memchr_iter(b'\n', &bytes[from..]).map(|at| from + at) {
        match bytes.get(newline + 1..) {
            Some([b'\n', ..]) => return Some(newline + 2),
            Some([b'\r', b'\n', ..]) => return Some(newline + 3),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
#[path = "reader/tests.rs"]
mod tests;
