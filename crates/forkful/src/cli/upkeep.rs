//! Options of `start` and `run` that a configuration file has too, as texts: their values are read and
//! checked by `forkful-config`, with the same messages as in a file.

use std::path::PathBuf;

use clap::Args;

#[derive(Debug, Args)]
#[command(next_help_heading = "Grouping and environment")]
pub(crate) struct GroupArgs {
    /// Group of apps that commands can address together.
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,
    /// A `.env` file; values of `--env` win. Repeatable.
    #[arg(long, value_name = "FILE")]
    pub(crate) env_file: Vec<String>,
    /// Leave out variables of this environment whose names contain one of these texts; `true` for all.
    #[arg(long, value_name = "TEXTS", value_delimiter = ',', num_args = 0..=1, default_missing_value = "true")]
    pub(crate) filter_env: Vec<String>,
    /// User that the workers run as; needs root.
    #[arg(long, short, visible_alias = "user", value_name = "USER")]
    pub(crate) uid: Option<String>,
    /// Group that the workers run as.
    #[arg(long, value_name = "GROUP")]
    pub(crate) gid: Option<String>,
    /// Let an app of another user listen on ports below 1024.
    #[arg(long)]
    pub(crate) low_ports: bool,
    /// Add the app to the list without starting it.
    #[arg(long)]
    pub(crate) no_autostart: bool,
    /// Apps that must be ready before this app starts.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) depends_on: Vec<String>,
    /// Run in fork mode.
    #[arg(long, short = 'x')]
    pub(crate) execute_command: bool,
    /// Stack traces name the sources.
    #[arg(long)]
    pub(crate) source_map_support: bool,
    /// File for a worker's process id.
    #[arg(long, short, visible_alias = "pid-file", value_name = "FILE")]
    pub(crate) pid: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Renewing workers")]
pub(crate) struct RenewalArgs {
    /// Reload when files change: here, or at these paths.
    #[arg(long, value_name = "PATHS", value_delimiter = ',', num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    pub(crate) watch: Vec<String>,
    /// Paths that are not watched.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) ignore_watch: Vec<String>,
    /// Watch only files with these extensions.
    #[arg(long, value_name = "EXTENSIONS", value_delimiter = ',')]
    pub(crate) ext: Vec<String>,
    /// Debounce before reloading: seconds, or a string such as 500ms.
    #[arg(long, value_name = "SECONDS")]
    pub(crate) watch_delay: Option<String>,
    /// Reload workers that use more memory, such as 300M.
    #[arg(long, value_name = "BYTES")]
    pub(crate) max_memory_restart: Option<String>,
    /// Memory limit of all processes of the app together, such as 512M.
    #[arg(long, value_name = "BYTES")]
    pub(crate) memory_max: Option<String>,
    /// CPU limit of all processes together, such as 1.5 or 150%.
    #[arg(long, value_name = "CORES")]
    pub(crate) cpu_max: Option<String>,
    /// Reload workers after roughly this number of requests.
    #[arg(long, value_name = "NUMBER")]
    pub(crate) max_requests: Option<String>,
    /// Reload workers after roughly this age.
    #[arg(long, value_name = "DURATION")]
    pub(crate) max_age: Option<String>,
    /// Reload at these times; 0 for never.
    #[arg(long, short, visible_alias = "cron", value_name = "PATTERN")]
    pub(crate) cron_restart: Option<String>,
    /// Health check at this path or URL; `tcp` only connects.
    #[arg(long, value_name = "PATH")]
    pub(crate) health: Option<String>,
    /// Ask a worker to stop by a message instead of a signal.
    #[arg(long)]
    pub(crate) shutdown_with_message: bool,
    /// Send the first signal of a stop to the worker alone, not to its descendants.
    #[arg(long)]
    pub(crate) no_treekill: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LogShapeArgs {
    /// One more file for both streams.
    #[arg(long, short, value_name = "FILE", num_args = 0..=1, default_missing_value = "true",
          next_line_help = false, help_heading = "Output")]
    pub(crate) log: Option<String>,
    /// How lines are written: raw or json.
    #[arg(long, value_name = "TYPE", help_heading = "Output")]
    pub(crate) log_type: Option<String>,
    /// Begin each line with the time in this form, as "YYYY-MM-DD HH:mm:ss".
    #[arg(long, value_name = "FORM", help_heading = "Output")]
    pub(crate) log_date_format: Option<String>,
    /// Write no log files.
    #[arg(long, help_heading = "Output")]
    pub(crate) disable_logs: bool,
}

/// Options that PM2's users pass and that ask for what is so anyway.
#[derive(Debug, Args)]
pub(crate) struct AcceptedArgs {
    #[arg(long, hide = true)]
    pub(crate) no_vizion: bool,
    #[arg(long, hide = true)]
    pub(crate) no_pmx: bool,
    #[arg(long, hide = true)]
    pub(crate) no_automation: bool,
    #[arg(long, hide = true)]
    pub(crate) disable_source_map_support: bool,
    #[arg(long, short = 'a', hide = true)]
    pub(crate) update_env: bool,
    #[arg(long, hide = true)]
    pub(crate) parallel: Option<u32>,
}
