//! Options of how things are shown: of every verb, and of those that show the table when they are done.

use clap::{ArgAction, Args};

use crate::output::table::Sort;

/// Before or after the verb.
#[derive(Debug, Args)]
pub(crate) struct LookArgs {
    /// Say nothing but errors and what was asked for.
    #[arg(long, short, global = true, hide = true)]
    pub(crate) silent: bool,
    /// No colours.
    #[arg(long, global = true, hide = true)]
    pub(crate) no_color: bool,
    /// PM2's letter for the version.
    #[arg(short = 'v', action = ArgAction::Version, hide = true)]
    pm2_version: Option<bool>,
}

/// The table that is shown when an action is done.
#[derive(Debug, Args)]
pub(crate) struct TableArgs {
    /// Compact table without borders.
    #[arg(long, short, hide = true)]
    pub(crate) mini_list: bool,
    /// Order of the table's rows, as for `list`.
    #[arg(long, value_name = "FIELD[:desc]", hide = true)]
    pub(crate) sort: Option<Sort>,
}
