//! `forkful completion`: prints the completion script of a shell. The scripts call `forkful complete` for the
//! candidates, so they know the apps of the running daemon and never become outdated.

use crate::cli::{CompletionArgs, CompletionShell};
use crate::exit::{Exit, Failure};
use crate::output;

const BASH: &str = include_str!("completion/forkful.bash");
const ZSH: &str = include_str!("completion/_forkful.zsh");
const FISH: &str = include_str!("completion/forkful.fish");

pub(super) fn run(args: &CompletionArgs) -> Result<Exit, Failure> {
    output::print(match args.shell {
        CompletionShell::Bash => BASH,
        CompletionShell::Zsh => ZSH,
        CompletionShell::Fish => FISH,
    })?;
    Ok(Exit::Done)
}
