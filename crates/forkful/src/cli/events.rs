//! Options of `forkful events`.

use std::time::Duration;

use clap::Args;

use super::duration;

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Crashes, crash loops, failed reloads, failed health checks, workers that were stuck, and full disks, the
newest last; the last 200 are kept. Each has a number; `--show` prints all that was known then.

Examples:
  forkful events
  forkful events api --since 1h
  forkful events --show 17
  forkful events -f
  forkful events --json | jq '.incidents[] | select(.kind == \"crash\")'")]
pub(crate) struct EventsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; all when none is named. The name of
    /// an app that is gone shows what it had.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Print all that is known of one of them.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["targets", "since", "follow"])]
    pub(crate) show: Option<u64>,
    /// Only what happened in the last so long, as 10m or 2h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) since: Option<Duration>,
    /// Go on and print what happens from now on.
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Print JSON; with `--follow`, an object a line.
    #[arg(long)]
    pub(crate) json: bool,
}
