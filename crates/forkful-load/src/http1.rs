//! Reading HTTP/1 answers. Pure: bytes in, answers or a named cause out; no socket, no clock.

mod chunked;
mod head;
mod reader;

pub(crate) use head::HeadCache;
pub(crate) use reader::{Answer, HEAD_BYTES_MAX, INTERIM_MAX, Reader, ReaderContext};
