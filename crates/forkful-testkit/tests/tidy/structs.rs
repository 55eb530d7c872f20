//! Limits the number of fields of a struct, and the number of files that implement the engine: a struct that
//! every file changes cannot be understood file by file.

use crate::{files, none, reading};

/// A larger struct must be split into several owners or groups of fields.
const FIELDS_MAX: usize = 15;
/// The crates of the supervisor.
const FOLDERS: [&str; 4] = ["core", "dispatch", "cluster", "daemon"];

/// Exceptions: structs of plain data, with a reason.
const LARGE: [(&str, &str, &str); 3] = [
    ("crates/forkful-cluster/src/protocol/incoming.rs", "Raw", "the keys of a message, as serde reads them"),
    ("crates/forkful-core/src/doctor/signs.rs", "Signs", "a value for each metric that the doctor reads"),
    ("crates/forkful-core/src/spec.rs", "AppSpec", "the definition of an app: values without behaviour"),
];

/// The loop, commands, the saved state, effects, start and exit of processes, time. Everything else has its
/// own owner.
const FILES_OF_ENGINE: usize = 6;

/// The structs of a source with named fields: name and number of fields.
fn structs(source: &str) -> Vec<(String, usize)> {
    let code = reading::bare(source);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("struct ") {
        let is_word =
            !code[..at].ends_with(|character: char| character.is_alphanumeric() || character == '_');
        let name: String = code[at + "struct ".len()..]
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect();
        let rest = &code[at..];
        let Some(begin) = rest.find(['{', ';', '(']).filter(|_| is_word && !name.is_empty()) else {
            continue;
        };
        if rest[begin..].starts_with('{') {
            found.push((name, fields(&rest[begin + 1..])));
        }
    }
    found
}

/// The colons between names and types, up to the closing brace.
fn fields(body: &str) -> usize {
    let (mut depth, mut fields, mut before) = (0, 0, ' ');
    let mut characters = body.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '{' | '(' | '[' => depth += 1,
            '}' | ')' | ']' if depth == 0 => break,
            '}' | ')' | ']' => depth -= 1,
            ':' if depth == 0 && before != ':' && characters.peek() != Some(&':') => fields += 1,
            _ => {}
        }
        before = character;
    }
    fields
}

#[test]
fn no_struct_of_the_supervisor_holds_too_much() {
    let folders = FOLDERS.map(|name| format!("crates/forkful-{name}/src/"));
    let sources = files().into_iter().filter(|(name, _)| {
        name.ends_with(".rs") && folders.iter().any(|folder| name.starts_with(folder.as_str()))
    });
    let large: Vec<(String, String, usize)> = sources
        .flat_map(|(name, text)| {
            structs(&text).into_iter().map(move |(of, fields)| (name.clone(), of, fields))
        })
        .filter(|(_, _, fields)| *fields > FIELDS_MAX)
        .collect();
    let is_listed = |file: &str, of: &str| LARGE.iter().any(|(name, data, _)| *name == file && *data == of);
    let mut faults: Vec<String> = large
        .iter()
        .filter(|(file, of, _)| !is_listed(file, of))
        .map(|(file, of, fields)| format!("{file}: {of} has {fields} fields"))
        .collect();
    let is_large = |file: &str, of: &str| large.iter().any(|(name, found, _)| name == file && found == of);
    let stale = LARGE.iter().filter(|(file, of, _)| !is_large(file, of));
    faults.extend(stale.map(|(file, of, _)| format!("{file}: {of} is short enough: take it off the list")));
    none(faults, &format!("a struct has at most {FIELDS_MAX} fields, or is plain data and in LARGE"));
}

#[test]
fn the_engine_is_a_router_of_few_files() {
    let files: Vec<String> = files()
        .into_iter()
        .filter(|(name, text)| {
            name.starts_with("crates/forkful-daemon/src/") && reading::bare(text).contains("impl Engine ")
        })
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        files.len(),
        FILES_OF_ENGINE,
        "`impl Engine` is in as few files as there are; what has state is an owner of its own: {files:?}"
    );
}

#[test]
fn fields_are_counted_whatever_their_types_are() {
    let source = "struct Unit; struct Pair(u8, u8);\n\
                  pub struct Some<'a> { a: &'a str, pub(crate) b: Vec<std::io::Result<u8>>, /// c: no\n\
                  d: fn(&HashSet<u32>) -> io::Result<()>, e: [u8; 4] }";
    assert_eq!(structs(source), [("Some".to_owned(), 4)]);
}
