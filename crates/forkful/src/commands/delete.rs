//! `forkful delete`: stops apps and forgets them.

use super::act::{Words, act, expand, request};
use crate::cli::TargetArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: TargetArgs) -> Result<Exit, Failure> {
    let words = Words { verb: "delete", doing: "deleting", done: "deleted" };
    act(home, words, request(expand(args.targets)?, args.no_wait), args.json).await
}
