//! The engine against real servers, in this process and on loopback.

mod counts;
mod misbehaviour;
mod support;
mod transports;
