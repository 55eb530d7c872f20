//! Options of `dashboard`.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The link works once, for a browser on this machine. From another machine, forward the port first:
  ssh -L 4000:127.0.0.1:PORT server    and open the link with port 4000

Examples:
  forkful dashboard
  forkful dashboard --control
  forkful dashboard --reports ./results
  forkful dashboard --no-open --json | jq -r .url")]
pub(crate) struct DashboardArgs {
    /// Let the page restart, reload, scale and stop apps.
    #[arg(long)]
    pub(crate) control: bool,
    /// Let the page list and open the reports of `bench`, `compare`, `tune` and `experiment` (`*.json`, `*.html`) in this folder.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) reports: Option<PathBuf>,
    /// Print the link only.
    #[arg(long)]
    pub(crate) no_open: bool,
    /// Print JSON without opening a browser.
    #[arg(long)]
    pub(crate) json: bool,
}
