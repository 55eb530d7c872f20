//! Checks docs/CLI.md against clap's command line. `UPDATE_DOCS=1` writes it.

use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, Command};

use crate::cli::overview;
use crate::exit::MEANINGS;

const INTRODUCTION: &str = "\
# Command reference

Generated from `forkful --help`; `UPDATE_DOCS=1 cargo test -p forkful reference` writes it again. The keys of config files are in
[CONFIG.md](CONFIG.md).

With each command: `-s`, `--silent` prints only errors and results, `--no-color` leaves colours out, `-h` prints a short help and
`--help` all of it. Commands that take `--json` print JSON to stdout and nothing else.

## Which apps a command means
Commands that take `[APP]` or `[APP|CONFIG]` accept these targets, and several of them:

| target | what it means |
| --- | --- |
| `api` | the app of that name; without one, all apps of the namespace `api` |
| `3` | the worker with the id 3 in `forkful list` |
| `all` | every app |
| `'/^api-/'` | every app whose name the regular expression between the slashes matches (no look-around, no references to groups, no flags) |
| `forkful.config.js` | the apps that the file defines; `--only NAME` chooses some of them |
| `./app.js` | every app that runs this script |

When nothing matches, the hint lists the apps that exist. An app that is saved but could not be started is a target of `delete` only.

## Exit codes
| code | meaning |
| --- | --- |
";

fn page() -> String {
    let mut command = overview::command();
    command.build();
    let mut text = INTRODUCTION.to_owned();
    for (code, meaning) in MEANINGS {
        writeln!(text, "| {code} | {meaning} |").unwrap();
    }
    for group in &crate::commands::GROUPS {
        write!(text, "\n## {}\n", group.heading).unwrap();
        for name in group.commands.iter().chain(group.more) {
            section(&mut text, command.find_subcommand_mut(name).unwrap(), name);
        }
    }
    text
}

fn section(text: &mut String, command: &mut Command, path: &str) {
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    write!(text, "\n### forkful {path}\n{about}.\n").unwrap();
    let aliases: Vec<String> = command.get_visible_aliases().map(|alias| format!("`{alias}`")).collect();
    if !aliases.is_empty() {
        write!(text, "\nAlso: {}.\n", aliases.join(", ")).unwrap();
    }
    let usage = command.render_usage().to_string();
    write!(text, "\n```\n{}\n```\n", usage.trim_start_matches("Usage: ")).unwrap();
    let shown = |arg: &&Arg| !arg.is_hide_set() && arg.get_id() != "help";
    let arguments: Vec<&Arg> = command.get_arguments().filter(shown).collect();
    if !arguments.is_empty() {
        text.push_str("\n| argument or option | meaning |\n| --- | --- |\n");
        for argument in arguments {
            writeln!(text, "| {} | {} |", spelling(argument), meaning(argument)).unwrap();
        }
    }
    if let Some(after) = command.get_after_help() {
        let after = after.to_string();
        let (words, examples) = after.split_once("Examples:\n").unwrap_or((after.as_str(), ""));
        if !words.trim().is_empty() {
            write!(text, "\n{}\n", prose(words.trim())).unwrap();
        }
        if !examples.trim().is_empty() {
            let lines: Vec<String> = examples.trim_end().lines().map(as_shell_line).collect();
            write!(text, "\n```sh\n{}\n```\n", lines.join("\n")).unwrap();
        }
    }
    let inner: Vec<String> = command
        .get_subcommands()
        .filter(|sub| !sub.is_hide_set() && sub.get_name() != "help")
        .map(|sub| sub.get_name().to_owned())
        .collect();
    for name in inner {
        let path = format!("{path} {name}");
        section(text, command.find_subcommand_mut(&name).unwrap(), &path);
    }
}

/// A line of the examples, with what is said beside it as a comment, so that it can be pasted into a shell.
fn as_shell_line(line: &str) -> String {
    let line = line.strip_prefix("  ").unwrap_or(line);
    match line.find("   ").map(|at| line.split_at(at)) {
        Some((command, beside)) if !command.trim().is_empty() => {
            let words = beside.trim_start();
            format!("{command}{}# {words}", &beside[..beside.len() - words.len()])
        }
        _ => line.to_owned(),
    }
}

/// `-i, --instances <NUMBER>`, `[APP|CONFIG]...`.
fn spelling(argument: &Arg) -> String {
    let text = argument.to_string().replace('|', "\\|");
    match argument.get_short() {
        Some(short) if argument.get_long().is_some() => format!("`-{short}, {text}`"),
        _ => format!("`{text}`"),
    }
}

fn meaning(argument: &Arg) -> String {
    let mut text = argument.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| argument.get_action().takes_values())
        .filter(|value| !value.is_hide_set())
        .map(|value| format!("`{}`", value.get_name()))
        .collect();
    if !values.is_empty() {
        write!(text, ": {}", values.join(", ")).unwrap();
    }
    let defaults = argument.get_default_values();
    if !defaults.is_empty() && !argument.is_hide_default_value_set() && argument.get_action().takes_values() {
        let defaults: Vec<String> =
            defaults.iter().map(|value| value.to_string_lossy().into_owned()).collect();
        write!(text, " (default `{}`)", defaults.join(" ")).unwrap();
    }
    prose(&text).replace('|', "\\|").replace('\n', " ")
}

/// A text for Markdown. Code spans show their characters as they are.
fn prose(text: &str) -> String {
    let part = |(index, part): (usize, &str)| {
        if index % 2 == 0 { part.replace('<', "&lt;") } else { part.to_owned() }
    };
    text.split('`').enumerate().map(part).collect::<Vec<_>>().join("`")
}

#[test]
fn only_prose_is_escaped() {
    assert_eq!(prose("a<b `p99<50ms` c<d"), "a&lt;b `p99<50ms` c&lt;d");
}

#[test]
fn the_reference_is_what_the_command_says() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CLI.md");
    let page = page();
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs_err::write(&path, &page).unwrap();
    }
    let found = fs_err::read_to_string(&path).unwrap_or_default();
    assert!(found == page, "docs/CLI.md is stale: UPDATE_DOCS=1 cargo test -p forkful reference");
}
