//! The daemon's HTTP API: the types that cross the socket ([`types`]), their conversion to and from
//! the core's spec ([`definition`]), events and messages ([`conversation`]), event loops that stood still ([`stalls`]), profiles of workers ([`profile`]), what happened that nobody asked for ([`incidents`]), the list in PM2's shape ([`jlist`]), and the client that the command
//! uses ([`client`]). The server's paths are in [`routes`];
//! requests are read by [`strict`], and what is kept on disk by [`saved`]; `openapi.json` beside the sources describes them all.
//!
//! Transport: HTTP/1.1 with JSON bodies over a unix socket (`$FORKFUL_HOME/forkful.sock`, mode 0600).
//!
//! **Invariant:** only types of this crate cross the API's socket or reach the saved state and dump; what comes in is hostile until converted.
//! What one daemon leaves to the next goes through a memory file, with types of the core and the engine.

#![warn(missing_docs)]

pub mod apply;
pub mod client;
pub mod conversation;
pub mod dashboard;
pub mod definition;
pub mod incidents;
pub mod jlist;
pub mod profile;
pub mod routes;
pub mod saved;
pub mod stalls;
pub mod strict;
#[cfg(test)]
mod tests {
    mod openapi;
    mod output;
}
pub mod types;
