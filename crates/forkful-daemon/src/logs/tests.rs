//! The parts with made-up input and a made-up clock, then the service as a whole with real pipes and files.

mod archive;
mod disk;
mod file;
mod follow;
mod frame;
mod rotate;
mod style;
mod support;
mod tail;
mod write;
