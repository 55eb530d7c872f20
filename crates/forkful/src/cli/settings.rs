//! Options of `set`, `multiset`, `get`, `unset` and `conf`.

use clap::Args;

#[derive(Debug, Args)]
#[command(after_help = "\
The settings of PM2's module pm2-logrotate (max_size, retain, compress) and of `log_rotate` are the
defaults for apps without `log_rotate` that are started afterwards. `APP:KEY` sets the environment
variable KEY of that app and restarts it. Other settings are only saved.

Examples:
  forkful set pm2-logrotate:max_size 50M
  forkful set log_rotate:keep 5
  forkful set api:LOG_LEVEL debug")]
pub(crate) struct SetArgs {
    /// A module and a name: `module:name` or `module.name`.
    pub(crate) key: String,
    /// The value.
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful multiset \"pm2-logrotate:max_size 50M pm2-logrotate:retain 5\"")]
pub(crate) struct MultisetArgs {
    /// Keys and values in turn, quoted if they contain spaces.
    pub(crate) pairs: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful get                              all settings, without secrets
  forkful get pm2-logrotate                settings of a module
  forkful get pm2-logrotate:max_size       only the value")]
pub(crate) struct GetArgs {
    /// A key or a module; by default all settings.
    pub(crate) key: Option<String>,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful unset pm2-logrotate:max_size
  forkful unset all")]
pub(crate) struct UnsetArgs {
    /// A key, or `all`.
    pub(crate) key: String,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful conf                             as `forkful get`
  forkful conf pm2-logrotate:retain 5      as `forkful set`")]
pub(crate) struct ConfArgs {
    /// A key or a module; by default all settings.
    pub(crate) key: Option<String>,
    /// The value.
    #[arg(allow_hyphen_values = true)]
    pub(crate) value: Option<String>,
}
