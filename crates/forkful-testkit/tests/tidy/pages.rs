//! Pages of docs/ that messages link to, and messages that pages of docs/ quote.

use std::collections::BTreeSet;

use crate::{files, none, read};

/// The base address of the published docs/, as in links of messages.
fn site() -> String {
    let source = read("crates/forkful-core/src/pages.rs");
    let line =
        source.lines().find(|line| line.starts_with("pub const SITE")).expect("the address of the site");
    line.split('"').nth(1).expect("a text").to_owned()
}

/// The id of a heading, as GitHub and the site generate it.
fn slug(heading: &str) -> String {
    let kept = heading.trim().to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, '_' | '-' | ' '));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Every page as in an address, alone and with each of its headings: `cli`, `cli#exit-codes`.
fn places() -> BTreeSet<String> {
    let mut places = BTreeSet::new();
    for (name, text) in files() {
        let Some(page) = name.strip_prefix("docs/").and_then(|name| name.strip_suffix(".md")) else {
            continue;
        };
        let page = page.to_lowercase();
        let mut in_code = false;
        for line in text.lines() {
            in_code ^= line.starts_with("```");
            let heading = line.trim_start_matches('#');
            if !in_code && heading.len() < line.len() && heading.starts_with(' ') {
                places.insert(format!("{page}#{}", slug(heading)));
            }
        }
        places.insert(page);
    }
    places
}

#[test]
fn every_page_that_a_message_names_exists() {
    let places = places();
    let (site, mut named) = (site(), 0);
    let mut faults = Vec::new();
    let mut check = |file: &str, place: &str| {
        named += 1;
        if !places.contains(place) {
            faults.push(format!("{file}: {place}"));
        }
    };
    // The table in the program.
    let table = read("crates/forkful-core/src/pages.rs");
    for line in
        table.lines().filter(|line| line.contains(".md") && line.starts_with("    ") && line.ends_with("\","))
    {
        let place = line.split('"').nth(1).unwrap_or_default();
        let (page, anchor) = place.split_once(".md").unwrap_or((place, ""));
        check("pages.rs", &format!("{}{anchor}", page.to_lowercase()));
    }
    // The table in the JavaScript client.
    let errors = read("npm/forkful/lib/errors.cjs");
    let rows =
        errors.split("const PAGES = {").nth(1).and_then(|rest| rest.split('}').next()).expect("its pages");
    for row in rows.lines().filter(|row| row.contains(':')) {
        check("errors.cjs", row.split('\'').nth(1).unwrap_or_default());
    }
    // Full addresses, in snapshots and elsewhere.
    for (name, text) in files() {
        for (at, _) in text.match_indices(site.as_str()) {
            let end = |letter: char| !(letter.is_alphanumeric() || matches!(letter, '-' | '#' | '_'));
            let place = text[at + site.len()..].split(end).next().unwrap_or_default();
            if !place.is_empty() {
                check(&name, place);
            }
        }
    }
    assert!(named > 45, "pages were found: {named}");
    none(faults, "pages and places that messages name are in docs/");
}

#[test]
fn what_prints_a_hint_prints_its_page() {
    let mut printers = Vec::new();
    let mut faults = Vec::new();
    for (name, text) in files() {
        let is_product = (name.starts_with("crates/") && name.contains("/src/") && !name.contains("/tests"))
            || name.starts_with("npm/forkful/")
            || name.starts_with("packaging/");
        let prints = ["hint: {", "\"hint:\"", "hint: $", "nhint: %s", "nhint: set"]
            .iter()
            .any(|form| text.lines().any(|line| line.contains(form) && !line.trim_start().starts_with("//")));
        let is_shell_or_rust = [".rs", ".cjs", ".sh", "bin/forkful"].iter().any(|end| name.ends_with(end));
        if !is_product || !is_shell_or_rust || !prints {
            continue;
        }
        if !text.contains("see: ") && !text.contains("\"see:\"") {
            faults.push(name.clone());
        }
        printers.push(name);
    }
    assert!(printers.len() >= 6, "the files that print hints were found: {printers:?}");
    none(faults, "a file that prints a hint prints the page that says more");
}

#[test]
fn the_site_is_published_where_messages_say() {
    let site = site();
    let base = read("site/.vitepress/config.mjs");
    let path =
        base.split("SITE_BASE ?? '").nth(1).and_then(|rest| rest.split('\'').next()).expect("the base");
    let cargo = read("Cargo.toml");
    let repository = cargo.split("repository = \"https://github.com/").nth(1).expect("the repository");
    let owner = repository.split('/').next().expect("its owner");
    assert_eq!(site, format!("https://{owner}.github.io{path}"));
    assert!(read("npm/forkful/lib/errors.cjs").contains(&format!("const SITE = '{site}'")));
}

/// Messages of other programs, and table labels, that the page quotes.
const FOREIGN: [&str; 5] = [
    "Cannot find module 'express'",
    "SyntaxError",
    "was compiled against a different Node.js version",
    "DATABASE_URL is not set",
    "JavaScript heap out of memory",
];

#[test]
fn messages_that_the_troubleshooting_quotes_exist() {
    let sources: String = files()
        .into_iter()
        .filter(|(name, _)| {
            let is_code = name.ends_with(".rs") || name.ends_with(".cjs");
            is_code && (name.starts_with("crates/") || name.starts_with("npm/")) && !name.contains("/tests/")
        })
        .map(|(_, text)| squeezed(&text))
        .collect();
    let page = read("docs/TROUBLESHOOTING.md");
    let mut quoted = 0;
    let mut faults = Vec::new();
    let mut in_messages = false;
    for line in page.lines() {
        if !line.starts_with('|') {
            in_messages = false;
        } else if line.starts_with("| message |") {
            in_messages = true;
        }
        let Some(message) = line.strip_prefix("| `").and_then(|rest| rest.split('`').next()) else {
            continue;
        };
        if !in_messages || FOREIGN.contains(&message) {
            continue;
        }
        quoted += 1;
        let parts =
            message.split('…').map(|part| part.trim_matches(|letter: char| letter == ' ' || letter == ','));
        let lacks = parts.filter(|part| part.len() > 2 && !is_said(&sources, &squeezed(part)));
        faults.extend(lacks.map(|part| format!("`{message}`: no source says `{part}`")));
    }
    assert!(quoted > 25, "messages were found: {quoted}");
    none(faults, "messages that docs/TROUBLESHOOTING.md quotes are in the code");
}

/// Whether the sources contain a text, as one literal or as two joined ones.
fn is_said(sources: &str, text: &str) -> bool {
    let mut halves = text.match_indices(' ').map(|(at, _)| text.split_at(at));
    sources.contains(text)
        || halves.any(|(first, second)| {
            let is_long = first.len() >= 6 && second.trim().len() >= 6;
            is_long && sources.contains(first) && sources.contains(second)
        })
}

/// A text without quotes, escapes and repeated spaces, because literals may span several lines.
fn squeezed(text: &str) -> String {
    let kept = text.replace("\\n", " ").replace(['\\', '"', '`'], "");
    kept.split_whitespace().collect::<Vec<_>>().join(" ")
}
