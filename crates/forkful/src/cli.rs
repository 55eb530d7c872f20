//! The command line as clap parses it: options that several commands share, help, completions. The table of
//! commands is `commands.rs`; the options of a command stand beside its code, in `commands/<verb>.rs`.

mod app;
mod app_options;
pub(crate) mod completions;
pub(crate) mod gone;
mod lab;
mod later;
mod look;
pub(crate) mod man;
pub(crate) mod overview;
#[cfg(test)]
mod tests {
    mod examples;
    mod reference;
}

use clap::Parser;

pub(crate) use app::AppArgs;
pub(crate) use app_options::{AppOptionArgs, GivenKeys};
pub(crate) use lab::{LabAppArgs, LabArgs, LabOtherArgs, RequestArgs};
pub(crate) use later::Later;
use look::LookArgs;
pub(crate) use look::{ActionArgs, TableArgs};

use crate::commands::CliCommand;
use crate::output::look::Look;

/// Runs Node.js apps on every core, and keeps them up.
#[derive(Debug, Parser)]
#[command(
    name = "forkful",
    bin_name = "forkful",
    version,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) look: LookArgs,
    #[command(subcommand)]
    pub(crate) verb: CliCommand,
}

impl Cli {
    /// The display options.
    pub(crate) fn look(&self) -> Look {
        let table = self.verb.table();
        Look {
            silent: self.look.silent,
            no_color: self.look.no_color,
            mini_list: table.is_some_and(|table| table.mini_list),
            sort: table.and_then(|table| table.sort).unwrap_or_default(),
        }
    }
}

pub(crate) fn duration(text: &str) -> Result<std::time::Duration, String> {
    forkful_config::parse_duration(text)
        .ok_or_else(|| "expected milliseconds, or a string such as 500ms, 10s, 2m or 1h".to_owned())
}
