//! Options that are only described for the command that was typed.
//!
//! By default clap builds the description of every option of every command before it reads the first word:
//! about a megabyte here, more than most commands use otherwise.

use std::cell::Cell;
use std::ops::Deref;

use clap::builder::Resettable;
use clap::error::Error;
use clap::{ArgMatches, Args, Command, FromArgMatches};

thread_local! {
    static IS_LATER: Cell<bool> = const { Cell::new(false) };
}

/// Options `T` of a command.
#[derive(Debug)]
pub(crate) struct Later<T>(Box<T>);

/// Creates a command line whose commands get their options when one of them is parsed; otherwise they get
/// them immediately.
pub(crate) fn with_options_later(make: impl FnOnce() -> Command) -> Command {
    IS_LATER.set(true);
    let made = make();
    IS_LATER.set(false);
    made
}

impl<T> Later<T> {
    pub(crate) fn into_inner(self) -> T {
        *self.0
    }
}

impl<T> Deref for Later<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Args> Args for Later<T> {
    fn augment_args(command: Command) -> Command {
        if !IS_LATER.get() {
            return T::augment_args(command);
        }
        command.defer(|command| {
            // The command's own description precedes that of its options.
            let (about, long_about) = (command.get_about().cloned(), command.get_long_about().cloned());
            let after_help = command.get_after_help().cloned();
            let command = T::augment_args(command);
            let after_help = after_help.or_else(|| command.get_after_help().cloned());
            command
                .about(Resettable::from(about))
                .long_about(Resettable::from(long_about))
                .after_help(Resettable::from(after_help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        T::augment_args_for_update(command)
    }
}

impl<T: FromArgMatches> FromArgMatches for Later<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches(matches).map(|args| Self(Box::new(args)))
    }

    fn from_arg_matches_mut(matches: &mut ArgMatches) -> Result<Self, Error> {
        T::from_arg_matches_mut(matches).map(|args| Self(Box::new(args)))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches(matches)
    }

    fn update_from_arg_matches_mut(&mut self, matches: &mut ArgMatches) -> Result<(), Error> {
        self.0.update_from_arg_matches_mut(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::with_options_later;
    use crate::cli::overview;

    #[test]
    fn help_is_the_same_whenever_the_options_are_made() {
        let mut at_once = overview::command();
        let mut later = with_options_later(overview::command);
        let names: Vec<String> = at_once.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
        assert!(names.len() > 40);
        for name in names {
            let help = |command: &mut clap::Command| {
                let asked = ["forkful", name.as_str(), "--help"];
                command.try_get_matches_from_mut(asked).unwrap_err().to_string()
            };
            assert_eq!(help(&mut later), help(&mut at_once), "{name}");
        }
    }

    #[test]
    fn only_the_command_that_is_asked_for_gets_its_options() {
        let mut command = with_options_later(overview::command);
        let options =
            |command: &clap::Command, name| command.find_subcommand(name).unwrap().get_arguments().count();
        assert_eq!((options(&command, "list"), options(&command, "bench")), (0, 0));
        command.try_get_matches_from_mut(["forkful", "list", "--json"]).unwrap();
        assert!(options(&command, "list") > 3);
        assert!(options(&command, "bench") < 5, "those that all commands have");
    }
}
