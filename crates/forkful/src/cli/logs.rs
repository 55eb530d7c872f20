//! Options of `logs`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful logs                       follow all apps
  forkful logs api --lines 100
  forkful logs api --err --nostream  the last lines of stderr, then end
  forkful logs --json | jq -r 'select(.stream == \"err\") | .line'")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct LogsArgs {
    /// Names or ids of apps; all when none is named.
    #[arg(value_name = "APP")]
    pub(crate) targets: Vec<String>,
    /// Show this many lines of each file before new ones.
    #[arg(long, short = 'n', default_value_t = 15, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(forkful_api::types::LOG_TAIL_LINES_MAX)))]
    pub(crate) lines: u32,
    /// Only stderr.
    #[arg(long, conflicts_with = "out")]
    pub(crate) err: bool,
    /// Only stdout.
    #[arg(long)]
    pub(crate) out: bool,
    /// Print each line as a JSON object.
    #[arg(long, conflicts_with = "raw")]
    pub(crate) json: bool,
    /// Print the lines as the app wrote them, without a prefix.
    #[arg(long)]
    pub(crate) raw: bool,
    /// End after the lines that are there.
    #[arg(long)]
    pub(crate) nostream: bool,
}
