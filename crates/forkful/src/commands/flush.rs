//! `forkful flush`: empties the log files of apps.

use super::act::{Words, act, expand, request};
use crate::cli::TargetArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: TargetArgs) -> Result<Exit, Failure> {
    let words = Words { verb: "flush", doing: "emptying the logs of", done: "logs emptied" };
    act(home, words, request(expand(args.targets)?, args.no_wait), args.json).await
}
