//! The real binary, command by command: what it says and how it exits.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod foreground;
mod help;
mod home;
mod lifecycle;
mod offline;
mod sandbox;
mod terminal;
