//! The log service as a whole: real pipes, real files, both threads.

mod disk;
mod follow;
mod support;
mod write;
