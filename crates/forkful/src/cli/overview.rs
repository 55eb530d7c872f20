//! `forkful --help` on one screen: the commands in groups. `-h` after a command with many options shows only
//! the common ones; `--help` shows all.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Command, CommandFactory, FromArgMatches};

use super::Cli;
use super::later::with_options_later;
use crate::commands::GROUPS;

/// A heading, the commands with descriptions, and commands that are only named.
pub(crate) struct Group {
    pub(crate) heading: &'static str,
    pub(crate) commands: &'static [&'static str],
    pub(crate) more: &'static [&'static str],
}

/// Options that `-h` shows for the commands in [`LONG_COMMANDS`].
const COMMON_OPTIONS: [&str; 32] = [
    "instances",
    "name",
    "cwd",
    "env",
    "update-env",
    "only",
    "interpreter",
    "node-args",
    "balance",
    "no-autorestart",
    "wait-ready",
    "watch",
    "max-memory-restart",
    "cron-restart",
    "attach",
    "no-daemon",
    "force",
    "connections",
    "requests",
    "duration",
    "rate",
    "warmup",
    "method",
    "header",
    "body",
    "path",
    "git",
    "workers",
    "save",
    "budget",
    "html",
    "json",
];

/// Commands with so many options that `-h` shows only some.
pub(crate) const LONG_COMMANDS: [&str; 7] = ["start", "restart", "reload", "run", "bench", "compare", "tune"];

const FOOTER: &str = "\
`forkful <COMMAND> --help` shows options and examples; `-s` prints only errors and results.
Files and the daemon's socket are in $FORKFUL_HOME (default ~/.forkful).";

/// The command line for clap, with our own overview.
pub(crate) fn command() -> Command {
    let command = Cli::command();
    let text = overview(&command);
    command.override_help(text)
}

/// Parses this process's command line.
pub(crate) fn parse() -> Result<Cli, clap::Error> {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let words: Vec<OsString> = words.collect();
    let command = match long_command_in_short(&words) {
        Some(verb) => command().mut_subcommand(verb, in_short),
        None => with_options_later(command),
    };
    let mut matches = command.try_get_matches_from(std::iter::once(name).chain(words))?;
    Cli::from_arg_matches_mut(&mut matches)
}

/// The name of the typed command, as in the reference. `None` without a command, or for a command that is not
/// in the reference.
pub(crate) fn asked() -> Option<String> {
    // A word may not be UTF-8; then it is no command.
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let typed = words.take_while(|word| word != "--").find(|word| !word.starts_with('-'))?;
    let command = Cli::command();
    let found = command.find_subcommand(typed)?;
    (!found.is_hide_set()).then(|| found.get_name().to_owned())
}

/// The command of [`LONG_COMMANDS`] that was typed with `-h`.
fn long_command_in_short(words: &[OsString]) -> Option<&'static str> {
    let own = words.iter().take_while(|word| *word != "--");
    if !own.clone().any(|word| word == "-h") {
        return None;
    }
    let verb = own.clone().find(|word| !word.to_string_lossy().starts_with('-'))?;
    LONG_COMMANDS.into_iter().find(|name| verb == name)
}

fn in_short(command: Command) -> Command {
    let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let examples = examples.find("Examples:").map_or("", |at| &examples[at..]).to_owned();
    let verb = command.get_name().to_owned();
    command
        .mut_args(|arg| {
            let is_common =
                arg.is_positional() || arg.get_long().is_some_and(|long| COMMON_OPTIONS.contains(&long));
            if is_common { arg.help_heading(None) } else { arg.hide(true) }
        })
        .after_help(format!("`forkful {verb} --help` shows all options.\n\n{examples}"))
}

fn overview(command: &Command) -> String {
    let mut text = String::from("Runs Node.js apps on every core, and keeps them up\n\n");
    text.push_str("Usage: forkful <COMMAND> [OPTIONS]\n");
    for group in &GROUPS {
        writeln!(text, "\n{}", group.heading).expect("a String takes everything");
        for name in group.commands {
            let found = command.find_subcommand(name).and_then(Command::get_about);
            let about = found.map(ToString::to_string).unwrap_or_default();
            let about = about.split("; ").next().unwrap_or_default();
            writeln!(text, "  {name:11}{about}").expect("a String takes everything");
        }
        if !group.more.is_empty() {
            let label = if group.commands.is_empty() { "" } else { "also: " };
            writeln!(text, "  {label}{}", group.more.join(", ")).expect("a String takes everything");
        }
    }
    writeln!(text, "\n{FOOTER}").expect("a String takes everything");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_visible_command_is_in_one_group() {
        let command = Cli::command();
        let mut known: Vec<&str> =
            command.get_subcommands().filter(|verb| !verb.is_hide_set()).map(Command::get_name).collect();
        let mut grouped: Vec<&str> =
            GROUPS.iter().flat_map(|group| group.commands.iter().chain(group.more).copied()).collect();
        known.sort_unstable();
        grouped.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn the_overview_fits_on_a_screen() {
        let text = overview(&Cli::command());
        assert!(text.lines().count() <= 40, "{}", text.lines().count());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
