//! The only renderer of errors: `error: …`, `caused by: …`, a blank line, `hint: …`, `see: …`.

use forkful_core::pages::{self, Page};

use super::format::{quoted, visible};
use super::paint::Paint;
use super::talk;
use crate::exit::{Exit, Failure, See};

/// Prints a failure to stderr.
pub(crate) fn report(failure: &Failure) {
    let causes: Vec<String> = failure.error.chain().skip(1).map(ToString::to_string).collect();
    let error = failure.error.to_string();
    let full_disk = || is_full_disk(failure).then_some((FULL_DISK_HINT, See::from(Page::DiskFull)));
    let hint = failure.hint.as_deref().map(|hint| (hint, failure.see.clone())).or_else(full_disk);
    talk(&text(Paint::stderr(), &error, &causes, &[], hint));
}

const FULL_DISK_HINT: &str = "free some space; `df -h` shows full disks";

/// The address of a page, for the typed command.
pub(crate) fn address(see: See) -> String {
    match see {
        See::At(address) => address,
        See::Command => match crate::cli::overview::asked() {
            Some(command) => pages::of_command(&command),
            None => Page::Commands.url(),
        },
    }
}

/// `hint: …`, and below it the page with more information.
pub(crate) fn hint_lines(paint: Paint, hint: &str, see: See) -> String {
    format!("{} {}\n{} {}\n", paint.cyan("hint:"), visible(hint), paint.cyan("see:"), visible(&address(see)))
}

fn is_full_disk(failure: &Failure) -> bool {
    let kinds = failure.error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    kinds.map(std::io::Error::kind).any(|kind| kind == std::io::ErrorKind::StorageFull)
}

/// Converts a clap error to our own kind of error. `--help` and `--version`, which clap treats as errors, are
/// printed and end the program.
pub(crate) fn of_command_line(error: &clap::Error) -> Failure {
    use clap::error::ErrorKind;
    match error.kind() {
        // As PM2 prints it: only the number.
        ErrorKind::DisplayVersion if std::env::args_os().nth(1).is_some_and(|word| word == "-v") => {
            println!("{}", env!("CARGO_PKG_VERSION"));
            std::process::exit(0)
        }
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => error.exit(),
        _ => {}
    }
    if let Some(failure) = of_gone(error) {
        return failure;
    }
    let command = crate::cli::overview::asked().unwrap_or_default();
    // clap's text: the error, tips, the usage and where to find more, separated by blank lines.
    let rendered = error.render().to_string();
    let mut parts = rendered.split("\n\n").map(str::trim);
    let what = parts.next().unwrap_or_default();
    let what =
        what.strip_prefix("error: ").unwrap_or(what).replace("unrecognized subcommand", "unknown command");
    let what = what.replace("invalid digit found in string", "expected a whole number");
    let takes_arguments = PASSES_ARGUMENTS.contains(&command.as_str());
    // What is similar is said by `did_you_mean`.
    let is_of_use =
        |tip: &&str| !tip.contains("similar ") && (takes_arguments || !tip.starts_with("to pass "));
    let tips = rendered.lines().filter_map(|line| line.trim().strip_prefix("tip: "));
    let tips: Vec<&str> = tips.filter(is_of_use).collect();
    let usage = parts.find_map(|part| part.strip_prefix("Usage: "));
    let suggestion = of_other_tools(&command, error).map(str::to_owned).or_else(|| did_you_mean(error));
    let hint = match (suggestion, tips.is_empty(), usage) {
        (Some(suggestion), ..) => suggestion,
        (None, false, _) => tips.join("; "),
        (None, true, Some(usage)) => format!("the usage is `{usage}`; `--help` shows more"),
        (None, true, None) => "the command's `--help` describes its options".to_owned(),
    };
    Failure::new(Exit::WrongUse, what).hint(hint)
}

/// Commands that pass arguments after `--` to an app.
const PASSES_ARGUMENTS: [&str; 4] = ["start", "run", "restart", "reload"];

/// Options that users know from other tools, by the command, with what to use instead.
const OF_OTHER_TOOLS: [(&str, &str, &str); 7] = [
    (
        "logs",
        "--since",
        "`--lines 200` shows more lines, and `--timestamp` their times where they are known; `forkful events --since 1h` shows incidents",
    ),
    (
        "start",
        "--port",
        "an app reads its port from the environment, as in `PORT=8080 forkful start app.js`; in a config file it is the key `port`",
    ),
    (
        "run",
        "--raw",
        "the lines of a single worker are written as they are; `--no-log-prefix` leaves the worker out where there are several",
    ),
    ("run", "--json", "`--log-type json` writes each line as JSON"),
    ("run", "--format", "`--time` and `--log-type json` give the lines a form"),
    ("startup", "--dry-run", "`--print` only shows the file"),
    ("unstartup", "--dry-run", "`--print` only shows the file"),
];

fn of_other_tools(command: &str, error: &clap::Error) -> Option<&'static str> {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg) else { return None };
    let known = OF_OTHER_TOOLS.iter().find(|(of, name, _)| (*of, *name) == (command, option.as_str()));
    known.map(|(.., instead)| *instead)
}

/// Similar commands, options or values, most similar first.
fn did_you_mean(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue};
    const KINDS: [(ContextKind, ContextKind); 3] = [
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    let (word, found) = KINDS.iter().find_map(|(given, suggested)| {
        let ContextValue::String(word) = error.get(*given)? else { return None };
        match error.get(*suggested)? {
            ContextValue::String(one) => Some((word, vec![one.as_str()])),
            ContextValue::Strings(several) => Some((word, several.iter().map(String::as_str).collect())),
            _ => None,
        }
    })?;
    let (best, others) = by_similarity(word, found);
    if !is_near(word, best) {
        return None;
    }
    Some(match others.as_slice() {
        [] => format!("did you mean `{best}`?"),
        others => format!("did you mean `{best}`? Similar: {}", others.join(", ")),
    })
}

/// The most similar word, and words that are nearly as similar.
fn by_similarity<'a>(word: &str, mut found: Vec<&'a str>) -> (&'a str, Vec<&'a str>) {
    let distance = |other: &str| strsim::damerau_levenshtein(word, other);
    // A prefix of a word counts as most similar.
    found.sort_by_key(|other| (!other.starts_with(word), distance(other), other.len()));
    let best = found.first().copied().unwrap_or_default();
    let close = distance(best) + 1;
    (best, found.into_iter().skip(1).filter(|other| distance(other) <= close).collect())
}

/// Whether a word may be a slip of the keyboard, or the beginning, of another one.
fn is_near(word: &str, other: &str) -> bool {
    let letters = word.trim_start_matches('-').chars().count();
    other.starts_with(word) || strsim::damerau_levenshtein(word, other) <= (letters / 2).max(1)
}

/// A command or an option that PM2 has but Forkful has not.
fn of_gone(error: &clap::Error) -> Option<Failure> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let kind = match error.kind() {
        ErrorKind::UnknownArgument => ContextKind::InvalidArg,
        _ => ContextKind::InvalidSubcommand,
    };
    let Some(ContextValue::String(word)) = error.get(kind) else { return None };
    let gone = crate::cli::gone::find(word)?;
    let page = if word.starts_with('-') { Page::Pm2Options } else { Page::Pm2Commands };
    Some(Failure::new(Exit::WrongUse, format!("`{word}` {}", gone.why)).hint(gone.instead).see(page))
}

/// An error with its causes, the failed worker's last lines of stderr, and what to do.
pub(crate) fn text(
    paint: Paint,
    error: &str,
    causes: &[String],
    stderr_tail: &[String],
    hint: Option<(&str, See)>,
) -> String {
    use std::fmt::Write as _;
    let mut text = format!("{} {}\n", paint.red("error:"), quoted(error));
    let mut add = |line: std::fmt::Arguments| writeln!(text, "{line}").expect("a String takes everything");
    for cause in causes {
        add(format_args!("{} {}", paint.red("caused by:"), visible(cause)));
    }
    if !stderr_tail.is_empty() {
        add(format_args!("{}", paint.bold("last lines of stderr:")));
        for line in stderr_tail {
            add(format_args!("{}", format!("    {}", quoted(line)).trim_end()));
        }
    }
    if let Some((hint, see)) = hint {
        add(format_args!("\n{}", hint_lines(paint, hint, see).trim_end()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{by_similarity, is_near};

    #[test]
    fn a_word_is_not_suggested_for_a_different_one() {
        for (word, other) in
            [("--instance", "--instances"), ("--sortt", "--sort"), ("strat", "start"), ("sta", "status")]
        {
            assert!(is_near(word, other), "{word} {other}");
        }
        assert!(!is_near("--since", "--silent"));
    }

    #[test]
    fn the_most_similar_word_comes_first() {
        let found =
            vec!["startOrRestart", "startOrReload", "unstartup", "status", "restart", "startup", "start"];
        assert_eq!(by_similarity("strat", found), ("start", vec![]));
        assert_eq!(by_similarity("relod", vec!["reset", "reload"]), ("reload", vec![]));
        assert_eq!(by_similarity("sta", vec!["stop", "start"]), ("start", vec!["stop"]));
    }
}
