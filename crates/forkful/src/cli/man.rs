//! The man pages: one for each visible command, generated from the text of `--help`. Only the sections about
//! files, variables and exit codes have their own text.

use clap::{Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::Cli;
use crate::exit::MEANINGS;

const DESCRIPTION: &str = "\
forkful starts Node.js apps as one or more workers that share their ports, restarts what ends unexpectedly, reloads without a lost request, and
load-tests servers. The first command that needs the daemon starts it.

Options of all commands: -s, --silent prints only errors and results, --no-color leaves colours out, --json, where a command has it, prints JSON
to stdout and nothing else.";

/// Environment variables and their meanings.
const VARIABLES: [(&str, &str); 5] = [
    (
        "FORKFUL_DEPLOYMENT",
        "The version that a deployment brings, such as a commit: `reload`, `restart` and `apply` record it as an event of the apps, which is marked on plots.",
    ),
    ("FORKFUL_HOME", "The folder of the daemon's files and its socket; ~/.forkful by default."),
    ("FORKFUL_KEEPER", "With 0 the daemon starts without a keeper, which would start it again."),
    (
        "FORKFUL_PORTABLE",
        "With 1 the daemon uses on Linux only what it uses on macOS, for tests. It applies to a daemon from its start.",
    ),
    ("NO_COLOR", "When set, output has no colours."),
];

/// Files and their meanings.
const FILES: [(&str, &str); 2] = [
    ("~/.forkful", "The daemon's files, unless FORKFUL_HOME names another folder."),
    ("forkful.config.*, ecosystem.config.*", "Configurations that commands find in the current folder."),
];

/// A man page.
#[derive(Debug)]
pub(crate) struct Page {
    /// `forkful-start.1`.
    pub(crate) file_name: String,
    /// The roff source.
    pub(crate) text: Vec<u8>,
}

/// The pages of all visible commands, `forkful.1` first.
pub(crate) fn pages() -> std::io::Result<Vec<Page>> {
    let mut command = Cli::command().disable_help_subcommand(true).long_about(DESCRIPTION);
    command.build();
    let mut pages = Vec::new();
    add(&mut pages, &command, None)?;
    Ok(pages)
}

fn add(pages: &mut Vec<Page>, command: &Command, parent: Option<&str>) -> std::io::Result<()> {
    pages.push(page(command, parent)?);
    let name = command.get_display_name().unwrap_or_else(|| command.get_name());
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        add(pages, inner, Some(name))?;
    }
    Ok(())
}

fn page(command: &Command, parent: Option<&str>) -> std::io::Result<Page> {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (words, examples) = after.split_once("Examples:\n").unwrap_or((after.as_str(), ""));
    let usage = command.clone().render_usage().to_string();
    let described = command.clone().override_usage(usage.trim_start_matches("Usage: ").to_owned());
    let version = env!("CARGO_PKG_VERSION");
    // Without a date, roff would print the source in its place; a space keeps pages of the same version
    // equal.
    let man = Man::new(described).date(" ").source(format!("forkful {version}")).manual("Forkful manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    let mut description = Roff::new();
    add_description(&mut description, command, words);
    description.to_writer(&mut text)?;
    if command.get_arguments().any(|argument| !argument.is_hide_set()) {
        man.render_options_section(&mut text)?;
    }
    if command.get_subcommands().any(|inner| !inner.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    let mut more = Roff::new();
    add_examples(&mut more, examples);
    match parent {
        None => {
            add_list(&mut more, "ENVIRONMENT", &VARIABLES);
            add_list(&mut more, "FILES", &FILES);
            add_list(&mut more, "EXIT STATUS", &MEANINGS);
        }
        Some(parent) => {
            more.control("SH", ["SEE ALSO"]).text([bold(parent), roman("(1)")]);
        }
    }
    more.to_writer(&mut text)?;
    Ok(Page { file_name: man.get_filename(), text })
}

/// Paragraphs are filled; each list item starts a line.
fn add_description(roff: &mut Roff, command: &Command, words: &str) {
    let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
    roff.control("SH", ["DESCRIPTION"]);
    for line in format!("{}.\n\n{}", about.trim_end_matches('.'), words.trim()).trim_end().lines() {
        if line.trim().is_empty() {
            roff.control("PP", []);
        } else if let Some(item) = line.trim_start().strip_prefix("- ") {
            roff.control("IP", ["\\(bu", "2"]).text([roman(item)]);
        } else {
            roff.text([roman(line.trim())]);
        }
    }
}

/// Examples keep their line breaks.
fn add_examples(roff: &mut Roff, examples: &str) {
    if examples.trim().is_empty() {
        return;
    }
    roff.control("SH", ["EXAMPLES"]).control("nf", []);
    for line in examples.trim_end().lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
}

fn add_list(roff: &mut Roff, heading: &str, entries: &[(&str, &str)]) {
    roff.control("SH", [heading]);
    for (name, meaning) in entries {
        roff.control("TP", []).text([bold(*name)]).text([roman(*meaning)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text_of(name: &str) -> String {
        let page = pages().unwrap().into_iter().find(|page| page.file_name == name).unwrap();
        String::from_utf8(page.text).unwrap()
    }

    #[test]
    fn every_visible_command_has_a_page_and_no_hidden_one() {
        let names: Vec<String> = pages().unwrap().into_iter().map(|page| page.file_name).collect();
        for verb in Cli::command().get_subcommands() {
            let name = format!("forkful-{}.1", verb.get_name());
            assert_eq!(names.contains(&name), !verb.is_hide_set(), "{name}: {names:?}");
        }
        assert_eq!(names[0], "forkful.1");
    }

    #[test]
    fn examples_keep_their_lines() {
        let text = text_of("forkful-list.1");
        let examples = text.split(".SH EXAMPLES\n.nf\n").nth(1).unwrap().split(".fi").next().unwrap();
        assert_eq!(examples.lines().count(), 4, "{examples}");
        assert!(examples.starts_with("forkful list\n"), "{examples}");
    }

    #[test]
    fn items_of_a_list_begin_a_line() {
        let text = text_of("forkful-start.1");
        assert!(text.contains(".IP \\(bu 2\n`exact`:"), "{text}");
    }

    #[test]
    fn the_first_page_has_the_exit_codes_and_names_the_others() {
        let text = text_of("forkful.1");
        assert!(text.contains(".SH \"EXIT STATUS\""), "{text}");
        assert!(text.contains("forkful\\-start(1)"), "{text}");
        assert!(text.contains("FORKFUL_HOME"), "{text}");
    }
}
