//! The engines against real servers on loopback: in this process, and Node.js.

mod counts;
mod ends;
mod http2;
mod http2_misbehaviour;
mod misbehaviour;
mod node_server;
mod streams;
mod support;
mod transports;
mod uploads;
mod waiting;
