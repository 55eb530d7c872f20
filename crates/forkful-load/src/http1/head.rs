//! The head of an answer: its parser, and a cache of recent heads.
//!
//! Most answers of a load begin with exactly the same bytes as an earlier one. A head that equals a cached
//! head byte for byte is not parsed again. All others are parsed by `httparse`.

use httparse::{EMPTY_HEADER, Status};

use super::reader::Fault;
use crate::cause::ErrorCause;
use crate::workers::{NO_WORKER, WorkerNames};

/// Headers parsed on the stack; more than servers usually send.
const HEADERS_USUAL: usize = 64;
/// Maximum headers of an answer: what fits into a head of the maximum size, with at most 1 MB of memory.
const HEADERS_MAX: usize = 16_384;
/// Cached heads: for a few paths, or for the workers of a cluster, each with a header of its own.
const CACHED_HEADS: usize = 8;

/// How to find the end of the body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// The contents of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) status: u16,
    /// For a request whose answer may have a body.
    pub(crate) framing: Framing,
    /// Whether the connection can be used again.
    pub(crate) keep_alive: bool,
    /// Index into the cache's names, or [`NO_WORKER`].
    pub(crate) worker: u16,
    /// Minor version of HTTP/1.
    pub(crate) minor: u8,
    pub(crate) bytes: u32,
}

/// The recent heads and the workers' names in them; one cache for each thread.
#[derive(Debug)]
pub(crate) struct HeadCache {
    entries: Vec<(Vec<u8>, Head)>,
    recent: usize,
    worker_header: Option<String>,
    workers: WorkerNames,
    /// `Server` header of the first answer.
    pub(crate) server: Option<String>,
    seen: bool,
}

impl HeadCache {
    pub(crate) fn new(worker_header: Option<&str>) -> Self {
        Self {
            entries: Vec::with_capacity(CACHED_HEADS),
            recent: 0,
            worker_header: worker_header.map(str::to_ascii_lowercase),
            workers: WorkerNames::default(),
            server: None,
            seen: false,
        }
    }

    /// Names of workers by the index in [`Head::worker`].
    pub(crate) fn workers(&self) -> &[String] {
        self.workers.as_slice()
    }

    /// The head at the start of `input`, if it is cached.
    #[inline]
    pub(crate) fn known(&mut self, input: &[u8]) -> Option<Head> {
        let matches = |entry: &(Vec<u8>, Head)| input.starts_with(&entry.0);
        if let Some(entry) = self.entries.get(self.recent).filter(|entry| matches(entry)) {
            return Some(entry.1);
        }
        self.recent = self.entries.iter().position(matches)?;
        Some(self.entries[self.recent].1)
    }

    /// Parses the head at the start of `input`; `None`: it is incomplete.
    pub(crate) fn parse(&mut self, input: &[u8]) -> Result<Option<Head>, Fault> {
        let mut usual = [EMPTY_HEADER; HEADERS_USUAL];
        match self.parse_with(input, &mut usual) {
            Err(ParseError::TooManyHeaders) => {}
            Err(ParseError::Fault(fault)) => return Err(fault),
            Ok(head) => return Ok(head),
        }
        let mut many = vec![EMPTY_HEADER; HEADERS_MAX];
        self.parse_with(input, &mut many).map_err(|error| match error {
            ParseError::TooManyHeaders => {
                Fault::new(ErrorCause::HeadTooLarge, format!("more than {HEADERS_MAX} headers"))
            }
            ParseError::Fault(fault) => fault,
        })
    }

    fn parse_with<'b>(
        &mut self,
        input: &'b [u8],
        headers: &mut [httparse::Header<'b>],
    ) -> Result<Option<Head>, ParseError> {
        let mut response = httparse::Response::new(headers);
        let length = match response.parse(input) {
            Ok(Status::Complete(length)) => length,
            Ok(Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(ParseError::TooManyHeaders),
            Err(error) => return Err(ParseError::Fault(Fault::unreadable(&error.to_string(), input))),
        };
        let status = response.code.unwrap_or_default();
        if !(100..1000).contains(&status) {
            return Err(ParseError::Fault(Fault::unreadable("a status from 100 to 999 was expected", input)));
        }
        let minor = response.version.unwrap_or(1);
        let mut meaning = Meaning { minor, ..Meaning::default() };
        let mut worker = NO_WORKER;
        for header in response.headers.iter() {
            meaning.add(header).map_err(ParseError::Fault)?;
            if self.worker_header.as_ref().is_some_and(|name| header.name.eq_ignore_ascii_case(name)) {
                worker = self.workers.index(header.value);
            }
            if !self.seen && header.name.eq_ignore_ascii_case("server") {
                self.server = Some(String::from_utf8_lossy(header.value).into_owned());
            }
        }
        self.seen |= status >= 200;
        let head = meaning.head(status, worker, length as u32);
        self.remember(&input[..length], head);
        Ok(Some(head))
    }

    fn remember(&mut self, bytes: &[u8], head: Head) {
        if self.entries.len() < CACHED_HEADS {
            self.recent = self.entries.len();
            self.entries.push((bytes.to_vec(), head));
        } else {
            self.recent = (self.recent + 1) % CACHED_HEADS;
            let (kept, meaning) = &mut self.entries[self.recent];
            kept.clear();
            kept.extend_from_slice(bytes);
            *meaning = head;
        }
    }
}

enum ParseError {
    TooManyHeaders,
    Fault(Fault),
}

/// The headers that determine how an answer is read (RFC 9112, 6.3 and 9.3).
#[expect(clippy::struct_excessive_bools, reason = "what a head says is a set of yes and no")]
#[derive(Debug, Default)]
struct Meaning {
    minor: u8,
    length: Option<u64>,
    /// The last transfer coding is `chunked`; there is another coding.
    chunked: bool,
    coded: bool,
    close: bool,
    keep_alive: bool,
}

impl Meaning {
    fn add(&mut self, header: &httparse::Header<'_>) -> Result<(), Fault> {
        // The length of the name first: it distinguishes almost all headers.
        match header.name.len() {
            14 if header.name.eq_ignore_ascii_case("content-length") => {
                for part in header.value.split(|byte| *byte == b',') {
                    let length = decimal(part.trim_ascii()).ok_or_else(|| bad_length(header.value))?;
                    if self.length.is_some_and(|other| other != length) {
                        return Err(Fault::new(
                            ErrorCause::BadLength,
                            "given twice with different values".to_owned(),
                        ));
                    }
                    self.length = Some(length);
                }
            }
            17 if header.name.eq_ignore_ascii_case("transfer-encoding") => {
                let last = header.value.rsplit(|byte| *byte == b',').next().unwrap_or_default().trim_ascii();
                self.coded = true;
                self.chunked = last.eq_ignore_ascii_case(b"chunked");
            }
            10 if header.name.eq_ignore_ascii_case("connection") => {
                for part in header.value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii) {
                    self.close |= part.eq_ignore_ascii_case(b"close");
                    self.keep_alive |= part.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn head(&self, status: u16, worker: u16, bytes: u32) -> Head {
        let bodiless = status < 200 || status == 204 || status == 304;
        let framing = if bodiless {
            Framing::Length(0)
        } else if self.chunked {
            Framing::Chunked
        } else if self.coded {
            Framing::UntilClose
        } else {
            self.length.map_or(Framing::UntilClose, Framing::Length)
        };
        let keep_alive = !self.close && (self.minor >= 1 || self.keep_alive) && status != 101;
        Head { status, framing, keep_alive, worker, minor: self.minor, bytes }
    }
}

fn bad_length(value: &[u8]) -> Fault {
    Fault::new(ErrorCause::BadLength, format!("`{}`", value.escape_ascii()))
}

/// Only digits, at most 18: longer lengths (an exabyte) do not occur.
fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 18 || !text.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(text.iter().fold(0, |number, digit| number * 10 + u64::from(digit - b'0')))
}
