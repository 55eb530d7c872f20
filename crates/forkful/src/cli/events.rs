//! Options of `forkful events`.

use std::time::Duration;

use clap::Args;

use super::duration;

#[derive(Debug, Default, Args)]
#[command(after_help = "\
Incidents are crashes, crash loops, failed reloads, failed health checks, stuck workers and full disks. The
newest is last; the last 200 are kept. Each has a number; `--show` prints its details.

Examples:
  forkful events
  forkful events api --since 1h
  forkful events --show 17
  forkful events -f
  forkful events --json | jq '.incidents[] | select(.kind == \"crash\")'")]
pub(crate) struct EventsArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, or config files; by default all.
    /// Names of deleted apps work too.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Print all details of one incident.
    #[arg(long, value_name = "NUMBER", conflicts_with_all = ["targets", "since", "follow"])]
    pub(crate) show: Option<u64>,
    /// Only incidents of this last period, such as 10m or 2h.
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    pub(crate) since: Option<Duration>,
    /// Print new incidents as they happen.
    #[arg(long, short = 'f')]
    pub(crate) follow: bool,
    /// Print JSON; with `--follow`, one object per line.
    #[arg(long)]
    pub(crate) json: bool,
}
