//! `forkful flush`: empties the log files of apps.

use forkful_api::types::Verb;

use super::act::{Words, act, request};
use super::targets::expand;
use crate::cli::FlushArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: FlushArgs) -> Result<Exit, Failure> {
    let words = Words { verb: Verb::Flush, doing: "emptying the logs of", done: "logs emptied" };
    let targets = if args.targets.is_empty() { vec!["all".to_owned()] } else { args.targets };
    act(home, words, request(expand(home, targets, &[]).await?, args.no_wait), args.json).await
}
