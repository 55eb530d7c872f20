//! `forkful stop`: stops apps, which stay in the list.

use forkful_api::types::Verb;

use super::act::{Words, act, request};
use super::targets::expand;
use crate::cli::TargetArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: TargetArgs) -> Result<Exit, Failure> {
    let words = Words { verb: Verb::Stop, doing: "stopping", done: "stopped" };
    let targets = expand(home, args.targets, &args.only).await?;
    act(home, words, request(targets, args.no_wait), args.json).await
}
