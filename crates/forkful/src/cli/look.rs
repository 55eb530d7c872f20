//! Display options: of every command, of actions, and of commands that print the table at the end.

use clap::{ArgAction, Args};

use crate::output::table::Sort;

/// Accepted before or after the command.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// Print only errors and results.
    #[arg(long, short, global = true, hide = true)]
    pub(crate) silent: bool,
    /// No colours.
    #[arg(long, global = true, hide = true)]
    pub(crate) no_color: bool,
    /// PM2's letter for the version.
    #[arg(short = 'v', action = ArgAction::Version, hide = true)]
    pm2_version: Option<bool>,
}

/// Whether an action is waited for, and how its result is printed.
#[derive(Debug, Args)]
pub(crate) struct ActionArgs {
    /// Return at once instead of when the action is done.
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Print JSON.
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) table: TableArgs,
}

/// The table that is printed after an action.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Compact table without borders.
    #[arg(long, short, hide = true)]
    pub(crate) mini_list: bool,
    /// Order of the table's rows, as for `list`.
    #[arg(long, value_name = "FIELD[:desc]", hide = true)]
    pub(crate) sort: Option<Sort>,
}
