//! `forkful signal`: sends a signal to apps' workers.

use clap::Args;
use forkful_api::types::ActionRequest;

use super::act::{SIGNAL, Words, act, request};
use super::targets::expand;
use crate::exit::{Exit, Failure};
use crate::home::Home;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful signal SIGUSR2 api
  forkful sendSignal HUP all
  forkful signal 12 0 1")]
pub(crate) struct SignalArgs {
    /// Name or number: SIGUSR2, usr2, 12.
    #[arg(value_name = "SIGNAL")]
    pub(crate) signal: String,
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) async fn run(home: &Home, args: SignalArgs) -> Result<Exit, Failure> {
    let Some(number) = forkful_core::signals::number(&args.signal) else {
        return Err(Failure::new(Exit::WrongUse, format!("unknown signal `{}`", args.signal))
            .hint("write it as SIGUSR2, USR2 or 12; `kill -l` lists them"));
    };
    let done = format!("got {}", forkful_core::signals::words(number));
    let words = Words { done: &done, ..SIGNAL };
    let targets = expand(args.targets, &[])?;
    act(home, words, ActionRequest { signal: Some(number), ..request(targets, false) }, args.json).await
}
