//! The `forkful` command: a thin client of the daemon, the daemon itself, and the same supervisor in
//! the foreground.
//!
//! `cli` says what can be typed, `commands` holds one file per verb, `specs` turns options and config
//! files into apps, `changes` options into changes of apps that exist, `settings` are what `set` keeps, `connection`
//! reaches (or starts) the daemon, `masked` takes secrets out of command lines, `output` is all that users see,
//! `terminal` the terminal while it is redrawn.

mod changes;
mod cli;
mod commands;
mod connection;
mod exit;
mod home;
mod masked;
mod output;
mod package_version;
mod settings;
mod specs;
mod terminal;

use std::process::ExitCode;

fn main() -> ExitCode {
    let parsed = || {
        cli::overview::parse()
            .map_err(|error| output::failure::of_command_line(&error))
            .inspect(|cli| output::look::set(cli.look()))
            .and_then(commands::dispatch)
    };
    let outcome = commands::keeper().unwrap_or_else(parsed);
    match outcome {
        Ok(exit) => exit.into(),
        Err(failure) => {
            output::failure::report(&failure);
            failure.exit.into()
        }
    }
}
