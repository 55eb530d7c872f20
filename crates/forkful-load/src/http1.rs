//! HTTP/1: the engine (connections in one epoll loop for each thread), and the reader of answers, which is
//! pure: it takes bytes and returns answers or an error cause, and uses neither sockets nor a clock.

mod chunked;
pub(crate) mod engine;
mod head;
mod reader;

pub(crate) use chunked::{ChunkStep, Chunked};
pub(crate) use head::HeadCache;
pub(crate) use reader::{Answer, HEAD_BYTES_MAX, INTERIM_MAX, Reader, ReaderContext};
