//! The parts with made-up input and a made-up clock, then the service as a whole with real pipes and files.

mod disk;
mod file;
mod follow;
mod frame;
mod support;
mod tail;
mod write;
