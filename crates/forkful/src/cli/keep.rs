//! Options of the commands that save and restore apps, and import them from PM2.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "\
The app list is saved automatically at every change, in $FORKFUL_HOME/state.json. `save` writes a
copy that `resurrect --saved` restores. Values from your environment are not saved, except harmless
ones such as PATH: put them into a file named by `env_file`, or save them with --with-env.

Examples:
  forkful save
  forkful save --with-env")]
pub(crate) struct SaveArgs {
    /// Save even if there is no app.
    #[arg(long, short)]
    pub(crate) force: bool,
    /// From now on also save values from the environment of `start`.
    #[arg(long)]
    pub(crate) with_env: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Values that were not saved are taken from this command's environment and from the apps' `env_file`.
Existing apps are left unchanged.

Examples:
  forkful resurrect
  forkful resurrect --saved     the apps that `forkful save` wrote")]
pub(crate) struct ResurrectArgs {
    /// Start the apps that `save` wrote, instead of those that ran last.
    #[arg(long)]
    pub(crate) saved: bool,
    /// Return at once instead of when the apps are ready.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful cleardump")]
pub(crate) struct ClearArgs {
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    #[command(subcommand)]
    pub(crate) from: ImportFrom,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ImportFrom {
    /// Start the apps that PM2 runs, or has saved.
    Pm2(ImportPm2Args),
}

#[derive(Debug, Args)]
#[command(after_help = "\
The apps are read from a running PM2, or from its dump.pm2. PM2 and its apps are left alone: if they
listen on the same ports, stop them first with `pm2 kill`, or use --stop-pm2.

Examples:
  forkful import pm2 --dry-run
  forkful import pm2 --stop-pm2
  forkful import pm2 --file /backup/dump.pm2 --only api,worker")]
pub(crate) struct ImportPm2Args {
    /// PM2's folder.
    #[arg(long, env = "PM2_HOME", value_name = "FOLDER", hide_env_values = true)]
    pub(crate) home: Option<PathBuf>,
    /// Read this dump instead of asking PM2.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Only the apps with these names.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only print the apps as a configuration file.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// With --dry-run: also show the values of secrets.
    #[arg(long)]
    pub(crate) show_env: bool,
    /// Stop PM2 and its apps first, then start the apps here. Without this option, apps are imported stopped while PM2 runs.
    #[arg(long)]
    pub(crate) stop_pm2: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The init system is detected by default. As root the service is installed system-wide. If privileges
are missing, the commands are printed, nothing is changed, and the exit code is 1.

Examples:
  forkful startup                       a systemd unit of your user
  forkful startup --system              a system-wide unit that runs as you
  forkful startup openrc --print        only show it")]
pub(crate) struct StartupArgs {
    /// Init system; detected by default.
    #[arg(value_enum)]
    pub(crate) platform: Option<Platform>,
    /// Install a system-wide service that starts before any login; the default for root.
    #[arg(long)]
    pub(crate) system: bool,
    /// User of a system-wide service; by default you.
    #[arg(long, short, value_name = "USER")]
    pub(crate) user: Option<String>,
    /// The home directory of that user.
    #[arg(long, visible_alias = "hp", value_name = "FOLDER")]
    pub(crate) home: Option<PathBuf>,
    /// The service's name.
    #[arg(long, value_name = "NAME")]
    pub(crate) service_name: Option<String>,
    /// Wait for the network before starting.
    #[arg(long, alias = "wait-ip")]
    pub(crate) wait_network: bool,
    /// Let apps listen on ports below 1024 (systemd, system-wide services).
    #[arg(long)]
    pub(crate) low_ports: bool,
    /// Only show the file.
    #[arg(long)]
    pub(crate) print: bool,
}

/// An init system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Platform {
    #[value(alias = "ubuntu", alias = "centos", alias = "arch", alias = "oracle", alias = "debian")]
    Systemd,
    #[value(alias = "gentoo", alias = "alpine")]
    Openrc,
    #[value(alias = "darwin", alias = "macos")]
    Launchd,
}
