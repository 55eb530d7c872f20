//! The maximum length of a function.

use crate::{files, none, reading};

/// Longer functions must be split. Blank lines and comments do not count, as in `eslint.config.mjs`.
const LINES_MAX: usize = 70;

/// Exceptions, with a reason. When a function gets shorter, remove its line.
const LONG: [(&str, &str, &str); 2] = [
    ("crates/forkful-api/src/tests/openapi/operations.rs", "words", "one arm for each operation"),
    (
        "crates/forkful-load/src/report/trust/tests.rs",
        "each_way_to_spoil_a_run_is_named_and_weighed",
        "a table",
    ),
];

/// The functions of a source: line, name, and the number of code lines from `fn` to the closing brace.
fn functions(source: &str) -> Vec<(usize, String, usize)> {
    let code = reading::bare(source);
    let mut found = Vec::new();
    for (at, _) in code.match_indices("fn ") {
        let is_word =
            !code[..at].ends_with(|character: char| character.is_alphanumeric() || character == '_');
        let name: String = code[at + 3..]
            .chars()
            .take_while(|character| character.is_alphanumeric() || *character == '_')
            .collect();
        let Some(body) = is_word.then(|| body(&code[at..])).flatten() else { continue };
        if name.is_empty() {
            continue;
        }
        let lines = code[at..at + body].lines().filter(|line| !line.trim().is_empty()).count();
        found.push((code[..at].matches('\n').count() + 1, name, lines));
    }
    found
}

/// The end of a function's body; `None` for a declaration without a body.
fn body(code: &str) -> Option<usize> {
    let mut depth = 0;
    let mut brackets = 0;
    for (at, character) in code.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            '(' | '[' => brackets += 1,
            ')' | ']' => brackets -= 1,
            ';' if depth == 0 && brackets == 0 => return None,
            _ => (),
        }
        if character == '}' && depth == 0 {
            return Some(at + 1);
        }
        // The end of the block that contains a declaration.
        if depth < 0 || brackets < 0 {
            return None;
        }
    }
    None
}

#[test]
fn no_function_is_too_long() {
    let sources = files().into_iter().filter(|(name, _)| name.ends_with(".rs"));
    let mut listed: Vec<_> = LONG.iter().map(|(file, function, _)| (*file, *function)).collect();
    let mut faults = Vec::new();
    for (file, text) in sources {
        for (line, name, lines) in functions(&text) {
            if lines <= LINES_MAX {
                continue;
            }
            match listed.iter().position(|long| *long == (file.as_str(), name.as_str())) {
                Some(place) => _ = listed.remove(place),
                None => faults.push(format!("{file}:{line}: {name} has {lines} lines")),
            }
        }
    }
    let short = listed.iter().map(|(file, name)| format!("{file}: {name} is not too long; LONG names it"));
    faults.extend(short);
    none(faults, &format!("a function has at most {LINES_MAX} lines"));
}

#[test]
fn functions_are_measured_without_blank_lines_and_comments() {
    let source = "trait T { fn declared(&self) -> [u8; 2]; }\nfn one() {}\n\nimpl A {\n    /// fn not_this() {\n    \
                  pub fn two(&self, f: fn(u8)) {\n\n        // A comment.\n        g(\"}\");\n    }\n}\n";
    let found = functions(source);
    assert_eq!(found, [(2, "one".to_owned(), 1), (6, "two".to_owned(), 3)]);
}
