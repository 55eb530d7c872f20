//! Candidates for `forkful completion`: a pure function of the typed words, clap's command and the existing
//! apps.

use clap::{Arg, ArgAction, Command};
use forkful_lab::experiment::catalogue;

/// The candidates for the last word.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Offer {
    /// Words, best first, each with a description.
    pub(crate) words: Vec<(String, String)>,
    /// Whether file names are candidates too.
    pub(crate) files: bool,
}

/// A possible target and its description.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) word: String,
    pub(crate) meaning: String,
}

/// The candidates for the last of `words`, which may be empty; `words` does not contain the program's name.
/// `targets` is only called if apps can be named.
pub(crate) fn offer(command: &Command, words: &[String], targets: impl FnOnce() -> Vec<Target>) -> Offer {
    let Some((word, before)) = words.split_last() else { return Offer::default() };
    let mut verb = command;
    let mut awaited: Option<&Arg> = None;
    let mut place = 0;
    for (index, earlier) in before.iter().enumerate() {
        if awaited.take().is_some() {
            continue;
        }
        if earlier == "--" {
            return Offer { files: true, ..Offer::default() };
        }
        if let Some(option) = option(verb, earlier) {
            awaited = Some(option).filter(|option| takes_next_word(option));
        } else if let Some(found) = subcommand(verb, earlier, index == 0 || place == 0) {
            (verb, place) = (found, 0);
        } else if !earlier.starts_with('-') {
            place += 1;
        }
    }
    let with_value = word.split_once('=').and_then(|(name, _)| Some((name, option_with_value(verb, name)?)));
    let offer = if let Some(option) = awaited {
        values(option, targets)
    } else if let Some((name, option)) = with_value {
        let Offer { words, files } = values(option, targets);
        let words = words.into_iter().map(|(value, meaning)| (format!("{name}={value}"), meaning)).collect();
        Offer { words, files }
    } else if word.starts_with('-') {
        Offer { words: options(verb), files: false }
    } else if verb.has_subcommands() {
        Offer { words: subcommands(verb), files: false }
    } else {
        match verb.get_positionals().filter(|arg| !arg.is_last_set()).nth(place).or_else(|| repeated(verb)) {
            Some(argument) => values(argument, targets),
            None => Offer::default(),
        }
    };
    let words =
        offer.words.into_iter().filter(|(candidate, _)| candidate.starts_with(word.as_str())).collect();
    Offer { words, ..offer }
}

/// A positional argument that takes all further words.
fn repeated(verb: &Command) -> Option<&Arg> {
    let many = |arg: &&Arg| matches!(arg.get_action(), ArgAction::Append) && !arg.is_last_set();
    verb.get_positionals().filter(many).last()
}

fn subcommand<'a>(verb: &'a Command, word: &str, expected: bool) -> Option<&'a Command> {
    verb.find_subcommand(word).filter(|_| expected)
}

/// The option of a word such as `--name`; `--name=value` already has its value.
fn option<'a>(verb: &'a Command, word: &str) -> Option<&'a Arg> {
    let is_named = |arg: &&Arg| match word.strip_prefix("--") {
        Some(long) => {
            arg.get_long() == Some(long)
                || arg.get_visible_aliases().is_some_and(|aliases| aliases.contains(&long))
        }
        None => word.strip_prefix('-').is_some_and(|short| {
            arg.get_short().is_some_and(|letter| short.chars().eq(std::iter::once(letter)))
        }),
    };
    verb.get_arguments().find(is_named)
}

/// The option of the first part of a word such as `--name=value`.
fn option_with_value<'a>(verb: &'a Command, name: &str) -> Option<&'a Arg> {
    option(verb, name).filter(|option| name.starts_with("--") && option.get_action().takes_values())
}

fn takes_next_word(option: &Arg) -> bool {
    option.get_action().takes_values() && !option.is_require_equals_set()
}

/// The candidates for an argument's value, from its possible values and its value name in the usage.
fn values(argument: &Arg, targets: impl FnOnce() -> Vec<Target>) -> Offer {
    let possible = argument.get_possible_values();
    if !possible.is_empty() {
        let text = |value: &clap::builder::PossibleValue| {
            (value.get_name().to_owned(), value.get_help().map(ToString::to_string).unwrap_or_default())
        };
        return Offer {
            words: possible.iter().filter(|value| !value.is_hide_set()).map(text).collect(),
            files: false,
        };
    }
    let names: Vec<&str> =
        argument.get_value_names().unwrap_or_default().iter().flat_map(|name| name.split('|')).collect();
    let has = |wanted: &[&str]| names.iter().any(|name| wanted.contains(name));
    let mut words = Vec::new();
    if has(&["APP", "NAMES"]) {
        words.extend(targets().into_iter().map(|target| (target.word, target.meaning)));
    }
    if argument.get_id() == "name" && argument.is_positional() {
        words.extend(experiments());
    }
    let files = has(&["SCRIPT", "CONFIG", "FILE", "FOLDER", "DIRECTORY", "PATHS", "PROGRAM", "COMMAND"]);
    Offer { words, files }
}

/// The names of experiments, and the words for several.
fn experiments() -> Vec<(String, String)> {
    let all = catalogue::ALL.iter().map(|one| (one.name.to_owned(), one.title.to_owned()));
    let several = [("list", "show the experiments"), ("all", "run every experiment")];
    all.chain(several.map(|(word, meaning)| (word.to_owned(), meaning.to_owned()))).collect()
}

/// Commands in the order of the overview, without internal ones.
fn subcommands(verb: &Command) -> Vec<(String, String)> {
    let visible = |command: &&Command| !command.is_hide_set();
    let mut found: Vec<&Command> = verb.get_subcommands().filter(visible).collect();
    let order: Vec<&str> = crate::commands::GROUPS
        .iter()
        .flat_map(|group| group.commands.iter().chain(group.more).copied())
        .collect();
    found.sort_by_key(|command| order.iter().position(|name| *name == command.get_name()));
    let about = |command: &Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    found.into_iter().map(|command| (command.get_name().to_owned(), about(command))).collect()
}

fn options(verb: &Command) -> Vec<(String, String)> {
    let visible = verb.get_opts().chain(verb.get_arguments().filter(|arg| !arg.get_action().takes_values()));
    let mut found: Vec<(String, String)> = visible
        .filter(|arg| !arg.is_hide_set() && !arg.is_positional())
        .filter_map(|arg| {
            let about = arg.get_help().map(ToString::to_string).unwrap_or_default();
            Some((format!("--{}", arg.get_long()?), about))
        })
        .collect();
    found.push(("--help".to_owned(), "Print help".to_owned()));
    found.sort();
    found.dedup_by(|one, other| one.0 == other.0);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::overview;

    fn offered(line: &str) -> Offer {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let target = |word: &str| Target { word: word.to_owned(), meaning: "app".to_owned() };
        offer(&overview::command(), &words, || vec![target("api"), target("worker"), target("all")])
    }

    fn words(line: &str) -> Vec<String> {
        offered(line).words.into_iter().map(|(word, _)| word).collect()
    }

    #[test]
    fn commands_come_in_the_order_of_the_overview_without_internal_ones() {
        let all = words("");
        assert_eq!(all[..4], ["start", "stop", "restart", "reload"]);
        for hidden in ["api", "guard", "daemon", "serve-files", "complete"] {
            assert!(!all.iter().any(|word| word == hidden), "{hidden}");
        }
        assert_eq!(words("desc"), ["describe"]);
    }

    #[test]
    fn apps_come_where_apps_are_named_and_flags_only_after_a_dash() {
        assert_eq!(words("reload "), ["api", "worker", "all"]);
        assert_eq!(words("reload api w"), ["worker"]);
        assert_eq!(words("scale "), ["api", "worker", "all"]);
        assert_eq!(words("scale api "), [""; 0]);
        assert!(words("reload --").contains(&"--max-memory-restart".to_owned()));
        assert!(words("reload -").iter().all(|word| word.starts_with("--")));
        assert_eq!(words("reload --only w"), ["worker"]);
        assert!(offered("reload ").files, "a config file is a target, too");
    }

    #[test]
    fn start_offers_files_and_values_of_options() {
        assert_eq!(offered("start "), Offer { words: offered("start ").words, files: true });
        assert_eq!(words("start app.js --balance e"), ["exact"]);
        assert_eq!(offered("start app.js --output "), Offer { words: vec![], files: true });
        assert_eq!(offered("start app.js -- "), Offer { words: vec![], files: true });
        assert_eq!(words("start app.js -n "), [""; 0]);
        assert_eq!(words("start app.js --balance=e"), ["--balance=exact"]);
        assert_eq!(words("reload --only=w"), ["--only=worker"]);
        assert_eq!(offered("start app.js --output="), Offer { words: vec![], files: true });
        assert_eq!(offered("start app.js --no-such=x"), Offer::default());
        assert_eq!(words("completion z"), ["zsh"]);
        assert_eq!(words("import "), ["pm2"]);
    }

    #[test]
    fn experiments_are_offered_by_name() {
        let all = words("experiment ");
        assert!(
            all.len() > 4 && all.contains(&"fibonacci".to_owned()) && all.contains(&"list".to_owned()),
            "{all:?}"
        );
    }
}
