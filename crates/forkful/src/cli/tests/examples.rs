//! Every example of the help texts and of the pages for users is a command line that clap accepts.

use std::path::{Path, PathBuf};

use clap::Command;

use crate::cli::later::with_options_later;
use crate::cli::overview;

/// Words after which a command begins.
const BEFORE_COMMAND: [&str; 16] = [
    "|", "||", "&&", "&", ";", "{", "!", "if", "then", "else", "do", "while", "until", "sudo", "npx", "time",
];

/// Words that end a command in a line of a shell, or that stand before its redirections.
fn ends_command(word: &str) -> bool {
    matches!(word, "|" | "||" | "&&" | "&" | ";" | "}" | "do" | "then")
        || word.trim_start_matches(['1', '2', '&']).starts_with(['>', '<'])
}

/// Whether the next word may be a command too, after `word` where a command may begin: `PORT=3000`.
fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
}

/// The Forkful commands of a shell line, each with its words after `forkful`.
fn commands_of(line: &str) -> Result<Vec<Vec<String>>, shell_words::ParseError> {
    let mut found = Vec::new();
    let mut open: Option<Vec<String>> = None;
    let (mut may_begin, mut is_remote) = (true, false);
    for word in shell_words::split(line)? {
        let is_start = (may_begin || is_remote) && word == "forkful" || word.ends_with("$(forkful");
        is_remote = !ends_command(&word) && (is_remote || may_begin && word == "ssh");
        may_begin = BEFORE_COMMAND.contains(&word.as_str())
            || word.ends_with(';')
            || may_begin && is_assignment(&word);
        let (word, is_last) = match word.strip_suffix([';', ')']) {
            Some(rest) if !rest.contains(['(', ' ']) => (rest.to_owned(), true),
            _ => (word, false),
        };
        if is_start {
            found.extend(open.replace(Vec::new()));
        } else if ends_command(&word) {
            found.extend(open.take());
        } else if let Some(words) = &mut open {
            words.push(word);
        }
        if is_last {
            found.extend(open.take());
        }
    }
    found.extend(open);
    Ok(found)
}

/// What clap refuses of a line, if it refuses something; otherwise how many commands there are.
fn check(line: &str) -> Result<usize, String> {
    let commands = commands_of(line).map_err(|fault| format!("{line}: {fault}"))?;
    for words in &commands {
        let typed = std::iter::once("forkful").chain(words.iter().map(String::as_str));
        if let Err(fault) = with_options_later(overview::command).try_get_matches_from(typed) {
            use clap::error::ErrorKind::{DisplayHelp, DisplayVersion};
            if !matches!(fault.kind(), DisplayHelp | DisplayVersion) {
                return Err(format!("{line}: {}", fault.to_string().lines().next().unwrap_or_default()));
            }
        }
    }
    Ok(commands.len())
}

/// The lines of the examples of a command and of those below it, without what is said beside them.
fn examples(command: &Command, lines: &mut Vec<String>) {
    let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let (_, text) = after.split_once("Examples:\n").unwrap_or_default();
    let text = text.replace("\\\n", " ");
    lines.extend(text.lines().map(|line| line.trim().split("   ").next().unwrap_or_default().to_owned()));
    command.get_subcommands().for_each(|inner| examples(inner, lines));
}

#[test]
fn the_examples_of_each_help_text_are_accepted() {
    let mut command = overview::command();
    command.build();
    let mut lines = Vec::new();
    examples(&command, &mut lines);
    lines.retain(|line| !line.is_empty());
    assert!(lines.len() > 100, "{} examples", lines.len());
    let faults: Vec<String> = lines
        .iter()
        .filter_map(|line| match check(line) {
            Ok(0) => Some(format!("{line}: no command")),
            Ok(_) => None,
            Err(fault) => Some(fault),
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// The Markdown files for users: README.md, those of the examples and of the npm package, and docs/.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages = vec![root.join("README.md"), root.join("npm/forkful/README.md")];
    for entry in fs_err::read_dir(root.join("examples")).unwrap() {
        pages.push(entry.unwrap().path().join("README.md"));
    }
    for entry in fs_err::read_dir(root.join("docs")).unwrap() {
        pages.push(entry.unwrap().path());
    }
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md") && page.exists());
    pages
}

/// The lines of the blocks of a page that a shell runs.
fn shell_lines(text: &str) -> Vec<String> {
    let (mut lines, mut language) = (Vec::new(), None);
    let text = text.replace("\\\n", " ");
    for line in text.lines() {
        match (line.trim_start().strip_prefix("```"), &language) {
            (Some(name), None) => language = Some(name.to_owned()),
            (Some(_), Some(_)) => language = None,
            (None, Some(name)) if name == "sh" => lines.push(line.to_owned()),
            (None, _) => {}
        }
    }
    lines
}

#[test]
fn the_commands_of_the_pages_are_accepted() {
    let (mut count, mut faults) = (0, Vec::new());
    for page in pages() {
        let text = fs_err::read_to_string(&page).unwrap();
        for line in shell_lines(&text).iter().filter(|line| line.contains("forkful ")) {
            match check(line) {
                Ok(commands) => count += commands,
                Err(fault) => faults.push(format!("{}: {fault}", page.display())),
            }
        }
    }
    assert!(count > 200, "{count} commands");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn commands_are_found_in_lines_of_a_shell() {
    let found = |line: &str| -> Vec<String> {
        commands_of(line).unwrap().iter().map(|words| words.join(" ")).collect()
    };
    assert_eq!(found("PORT=1 forkful start app.js -i 2 # both"), ["start app.js -i 2"]);
    assert_eq!(found("forkful list > a.txt && sudo forkful kill; wait"), ["list", "kill"]);
    assert_eq!(found("forkful deploy a exec 'forkful list; true'"), ["deploy a exec forkful list; true"]);
    assert_eq!(found("kill $(forkful pid api)"), ["pid api"]);
    assert_eq!(found("ssh -t server forkful monit"), ["monit"]);
    assert_eq!(found("npm install --global forkful && forkful update"), ["update"]);
    assert!(check("forkful strat app.js").is_err() && check("forkful start --nope").is_err());
}
