//! `forkful reloadLogs`: all log files are opened anew, under their names.

use forkful_api::types::Verb;

use super::act::{Words, act, request};
use crate::cli::ReloadLogsArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: &ReloadLogsArgs) -> Result<Exit, Failure> {
    let words = Words { verb: Verb::ReloadLogs, doing: "reopening the logs of", done: "logs reopened" };
    act(home, words, request(vec!["all".to_owned()], false), args.json).await
}
