//! `forkful completion`: prints the completion script of a shell. The scripts call `forkful complete` for the
//! candidates, so they know the apps of the running daemon and never become outdated.

use clap::Args;

use crate::exit::{Exit, Failure};
use crate::output;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful completion bash > ~/.local/share/bash-completion/completions/forkful
  forkful completion zsh  > ~/.zfunc/_forkful
  forkful completion fish > ~/.config/fish/completions/forkful.fish")]
pub(crate) struct CompletionArgs {
    /// The shell to print the script for.
    #[arg(value_enum)]
    pub(crate) shell: CompletionShell,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub(crate) enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

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
