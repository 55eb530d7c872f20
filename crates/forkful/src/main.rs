//! The `forkful` command.
fn main() {}
