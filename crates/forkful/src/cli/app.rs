//! Arguments of `start` and `run` that say which app.

use clap::Args;

use super::app_options::AppOptionArgs;

#[derive(Debug, Args)]
pub(crate) struct AppArgs {
    /// Scripts, programs, quoted command lines, config files (`-` for JSON from stdin), or existing apps (name, id, pattern).
    #[arg(value_name = "SCRIPT|CONFIG|APP")]
    pub(crate) targets: Vec<String>,
    #[command(flatten)]
    pub(crate) options: AppOptionArgs,
}
