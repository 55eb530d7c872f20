//! `forkful signal`: sends a signal to apps' workers.

use forkful_api::types::ActionRequest;

use super::act::{SIGNAL, Words, act, request};
use super::targets::expand;
use crate::cli::SignalArgs;
use crate::exit::{Exit, Failure};
use crate::home::Home;

pub(super) async fn run(home: &Home, args: SignalArgs) -> Result<Exit, Failure> {
    let Some(number) = forkful_core::signals::number(&args.signal) else {
        return Err(Failure::new(Exit::WrongUse, format!("unknown signal `{}`", args.signal))
            .hint("write it as SIGUSR2, USR2 or 12; `kill -l` lists them"));
    };
    let done = format!("got {}", forkful_core::signals::words(number));
    let words = Words { done: &done, ..SIGNAL };
    let targets = expand(home, args.targets, &[]).await?;
    act(home, words, ActionRequest { signal: Some(number), ..request(targets, false) }, args.json).await
}
