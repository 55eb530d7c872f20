//! The keeper's decisions, on virtual time.

mod daemons;
mod update;

use std::time::Duration;

use forkful_keeper::keeper::Keeper;
use forkful_os::keeper::Frame;

const SECOND: Duration = Duration::from_secs(1);

/// The frames that a daemon gets at its start, each with its descriptor.
fn handed(keeper: &mut Keeper<u32>) -> Vec<(Frame, Option<u32>)> {
    keeper.on_start();
    let mut frames = Vec::new();
    while let Some(outgoing) = keeper.outgoing() {
        frames.push((outgoing.frame, outgoing.descriptor.copied()));
        keeper.sent();
    }
    frames
}
