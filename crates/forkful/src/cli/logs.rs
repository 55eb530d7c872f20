//! Options of `logs`, `flush` and `reloadLogs`.

use clap::Args;
use forkful_core::date_format::DateFormat;

/// The default time format of `--timestamp`.
const TIMESTAMP_DEFAULT: &str = "YYYY-MM-DDTHH:mm:ss";

/// Lines of each file to print before new ones.
pub(crate) const LINES_DEFAULT: u32 = 15;

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Rotated and compressed files are read too. Slow readers miss lines; the count is shown.

Examples:
  forkful logs                       follow all apps
  forkful logs api --lines 100
  forkful logs '/^api-/' --highlight timeout
  forkful logs api --err --nostream  print the last lines of stderr and exit
  forkful logs --json | jq -r 'select(.type == \"err\") | .message'")]
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub(crate) struct LogsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default all.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Show this many lines of each file before new ones.
    #[arg(long, short = 'n', default_value_t = LINES_DEFAULT, value_name = "NUMBER",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(forkful_api::types::LOG_TAIL_LINES_MAX)))]
    pub(crate) lines: u32,
    /// Only stderr.
    #[arg(long, conflicts_with = "out")]
    pub(crate) err: bool,
    /// Only stdout.
    #[arg(long)]
    pub(crate) out: bool,
    /// Print each line as a JSON object with PM2's keys.
    #[arg(long, conflicts_with_all = ["raw", "format"])]
    pub(crate) json: bool,
    /// Print each line as `timestamp=… app=… id=… type=… message=…`.
    #[arg(long, conflicts_with = "raw")]
    pub(crate) format: bool,
    /// Print the lines as the app wrote them, without a prefix.
    #[arg(long)]
    pub(crate) raw: bool,
    /// Begin lines with the time, if known, in this format (tokens of Moment.js).
    #[arg(long, value_name = "FORM", num_args = 0..=1, default_missing_value = TIMESTAMP_DEFAULT,
          value_parser = date_format)]
    pub(crate) timestamp: Option<DateFormat>,
    /// Highlight this text.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "")]
    pub(crate) highlight: Option<String>,
    /// Print the existing lines and exit.
    #[arg(long)]
    pub(crate) nostream: bool,
    /// Show new lines as they arrive (the default).
    #[arg(long, short = 'f', conflicts_with = "nostream")]
    pub(crate) follow: bool,
}

fn date_format(text: &str) -> Result<DateFormat, String> {
    DateFormat::new(text).map_err(|fault| fault.to_string())
}

#[derive(Debug, Args)]
#[command(after_help = "\
Rotated files are removed.

Examples:
  forkful flush
  forkful flush api")]
pub(crate) struct FlushArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default all.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Return at once.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
For log files that another program such as logrotate(8) moves. SIGUSR2 to the daemon does the same.
The daemon also detects removed and replaced log files by itself.

Examples:
  forkful reloadLogs")]
pub(crate) struct ReloadLogsArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
