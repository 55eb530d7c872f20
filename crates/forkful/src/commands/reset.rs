//! `forkful reset`: sets the restart counters of apps to zero.

use forkful_api::types::Verb;

use super::act::{Words, act, request};
use super::targets::expand;
use crate::cli::TargetArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: TargetArgs) -> Result<Exit, Failure> {
    let words = Words { verb: Verb::Reset, doing: "resetting", done: "restart counters reset" };
    let targets = expand(home, args.targets, &args.only).await?;
    act(home, words, request(targets, args.no_wait), args.json).await
}
