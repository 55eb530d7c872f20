//! `forkful reload`: replaces workers one by one, so that no request is lost.

use forkful_api::types::Verb;

use super::act::Words;
use super::restart::roll;
use crate::cli::RestartArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: &RestartArgs) -> Result<Exit, Failure> {
    roll(home, args, Words { verb: Verb::Reload, doing: "reloading", done: "reloaded" }).await
}
