//! The engines against real servers, in this process, and Node.js, on loopback.

mod counts;
mod http2;
mod http2_misbehaviour;
mod misbehaviour;
mod node_server;
mod streams;
mod support;
mod transports;
mod uploads;
mod waiting;
