//! Options of `forkful doctor`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::duration;

#[derive(Debug, Args)]
#[command(after_help = "\
Run it while the app is slow: the verdict covers only these seconds. docs/DOCTOR.md describes every
verdict, its rule and what to do.

Examples:
  forkful doctor api
  forkful doctor api --for 30s
  forkful doctor api --ago 10m
  forkful doctor api --profile             the hottest functions of its busiest worker
  forkful doctor api --fix
  forkful doctor --json | jq '.apps[].verdict'")]
pub(crate) struct DoctorArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(value_name = "APP|CONFIG", default_value = "all")]
    pub(crate) targets: Vec<String>,
    /// How long to watch; a verdict needs 10 s.
    #[arg(long = "for", value_name = "DURATION", default_value = "12s", value_parser = duration)]
    pub(crate) watch_for: Duration,
    /// Use measurements of the last hour instead of watching: `--ago 5m --for 30s` covers the 30 seconds that
    /// ended 5 minutes ago, `--ago 0s` the last seconds.
    #[arg(long, value_name = "DURATION", value_parser = duration, conflicts_with = "fix")]
    pub(crate) ago: Option<Duration>,
    /// Then take a CPU profile of the busiest worker (or of the one whose id is given), for as long again, 60 s at most: the hottest functions are named,
    /// and the profile is written as a flame graph for the browser and as a `.cpuprofile` for the developer tools of Chrome and VS Code.
    #[arg(long, conflicts_with_all = ["ago", "fix"])]
    pub(crate) profile: bool,
    /// The folder for the files of `--profile`.
    #[arg(long, value_name = "FOLDER", default_value = ".", hide_default_value = true, requires = "profile")]
    pub(crate) out: PathBuf,
    /// Try the change that would help most (workers, pool, memory of Node.js, balance): measure again for as
    /// long, and revert it unless it helped. The exit code is 1 if nothing helped. Ctrl-C reverts it, too.
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}
