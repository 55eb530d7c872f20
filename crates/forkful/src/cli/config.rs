//! Options of the commands about configurations, and of small commands that print one thing.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful init             a small forkful.config.js
  forkful init full        all options, commented
  forkful init -o forkful.config.toml    as TOML; .json, .yaml, .ts and others too")]
pub(crate) struct InitArgs {
    /// `simple` (default) or `full`.
    #[arg(value_enum)]
    pub(crate) kind: Option<InitKind>,
    /// The file, whose extension is the format; `-` is stdout. By default forkful.config.js in a terminal, else stdout.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Overwrite an existing file.
    #[arg(long, short)]
    pub(crate) force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InitKind {
    Simple,
    Full,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Nothing is started, and no daemon is needed. All errors are shown at once, each with its line; the exit code
is then 2. Warnings do not change the exit code.

Examples:
  forkful validate
  forkful validate ecosystem.config.js --env production
  forkful validate --schema > forkful.schema.json      for editors")]
pub(crate) struct ValidateArgs {
    /// Config files; by default the one in this directory.
    #[arg(value_name = "CONFIG")]
    pub(crate) configs: Vec<String>,
    /// Use the blocks `env_NAME`.
    #[arg(long, value_name = "NAME")]
    pub(crate) env: Vec<String>,
    /// Print the JSON Schema of a configuration.
    #[arg(long)]
    pub(crate) schema: bool,
    /// Print the resolved apps, or the errors, as JSON; without environments.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful id api       [ 0, 2 ]")]
pub(crate) struct IdArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  forkful pid api
  kill -USR2 $(forkful pid 3)")]
pub(crate) struct PidArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files; by default
    /// the daemon's own process id is printed.
    #[arg(value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Values are masked if their name or their form suggests a secret.

Examples:
  forkful env api
  forkful env 0 --show-secrets | grep DATABASE_URL")]
pub(crate) struct EnvArgs {
    /// Names, ids, namespaces, `/patterns/` of names or scripts of apps, `all`, or config files.
    #[arg(required = true, value_name = "APP|CONFIG")]
    pub(crate) targets: Vec<String>,
    /// Show secrets too.
    #[arg(long)]
    pub(crate) show_secrets: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
The output contains no secrets, so it can be attached to a bug report.

Examples:
  forkful report > report.txt")]
pub(crate) struct ReportArgs {}
