//! The `forkful` command: a thin client of the daemon, the daemon itself, and the same supervisor in the
//! foreground.
//!
//! `commands` has the table of commands and one file per command, `cli` what their command lines share, `specs`
//! converts options and config files to apps or to changes of existing apps, `settings` are the values saved by
//! `set`, `working_directory` is the caller's, `connection` connects to (or starts) the daemon, `masked` removes secrets from command lines, `output`
//! formats everything that users see, `terminal` handles a terminal while it is redrawn.
//!
//! It is a library so that fuzz targets can call its parsers; only the program `forkful` uses it.

mod cli;
mod commands;
mod connection;
mod exit;
/// Targets for `dev/fuzz`; not for programs.
#[cfg(any(test, forkful_fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod home;
mod masked;
mod output;
mod package_version;
mod settings;
mod specs;
mod terminal;
mod working_directory;

use std::process::ExitCode;

/// The program.
pub fn main() -> ExitCode {
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
