//! Edits texts with braces: JSON with comments, and object literals in JavaScript. A scanner that recognises
//! strings, templates and comments finds the app's object and the key in it; everything else stays unchanged.

use std::ops::Range;

use super::{Change, POOL_VARIABLE};

/// A token.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    /// `{`, `}`, `[`, `]`, `(`, `)`, `,` or `:`.
    Mark(u8),
    /// A string, including its quotes.
    Text,
    /// A word or number.
    Word,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Token {
    piece: Piece,
    at: Range<usize>,
}

/// Applies the change to app number `index`.
pub(super) fn edit(text: &str, index: usize, change: Change, is_json: bool) -> Option<String> {
    let mut text = set(text, index, None, "instances", &change.workers.to_string(), is_json)?;
    if let Some(pool) = change.pool {
        let quote = if is_json || !text.contains('\'') { '"' } else { '\'' };
        let value = format!("{quote}{pool}{quote}");
        text = set(&text, index, Some("env"), POOL_VARIABLE, &value, is_json)?;
    }
    Some(text)
}

/// Sets `key` of the app, or of an object in it.
fn set(
    text: &str,
    index: usize,
    inside: Option<&str>,
    key: &str,
    value: &str,
    is_json: bool,
) -> Option<String> {
    let tokens = scan(text)?;
    let app = app_object(text, &tokens, index)?;
    let quoted = |key: &str| if is_json { format!("\"{key}\"") } else { key.to_owned() };
    let Some(object_key) = inside else {
        return Some(set_in(text, &tokens, app, key, &quoted(key), value));
    };
    match property(text, &tokens, &app, object_key) {
        Some(found) if tokens[found.start].piece == Piece::Mark(b'{') => {
            Some(set_in(text, &tokens, found, key, &quoted(key), value))
        }
        // A computed value cannot be replaced.
        Some(_) => None,
        None => {
            let object = format!("{{ {}: {value} }}", quoted(key));
            Some(set_in(text, &tokens, app, object_key, &quoted(object_key), &object))
        }
    }
}

/// `object` is the range of tokens from the opening to the closing brace.
fn set_in(
    text: &str,
    tokens: &[Token],
    object: Range<usize>,
    key: &str,
    written: &str,
    value: &str,
) -> String {
    if let Some(found) = property(text, tokens, &object, key) {
        let old = tokens[found.start].at.start..tokens[found.end - 1].at.end;
        return format!("{}{value}{}", &text[..old.start], &text[old.end..]);
    }
    let open = tokens[object.start].at.end;
    let is_empty = object.end - object.start == 2;
    let next = tokens[object.start + 1].at.start;
    // On its own line if the other keys are.
    let between = &text[open..next];
    let (lead, end) = match between.rfind('\n') {
        Some(line) if !is_empty => (format!("\n{}", &between[line + 1..]), ","),
        _ => (" ".to_owned(), if is_empty { " " } else { "," }),
    };
    format!("{}{lead}{written}: {value}{end}{}", &text[..open], &text[open..])
}

/// The object of app number `index`: an element of the list at the key `apps`, of a list that is the whole document, or
/// the only object with a `script`.
fn app_object(text: &str, tokens: &[Token], index: usize) -> Option<Range<usize>> {
    let list = (0..tokens.len()).find(|at| {
        tokens[*at].piece == Piece::Mark(b'[')
            && *at >= 2
            && tokens[at - 1].piece == Piece::Mark(b':')
            && bare(text, &tokens[at - 2]) == "apps"
    });
    let list = list.or_else(|| (tokens.first()?.piece == Piece::Mark(b'[')).then_some(0));
    if let Some(list) = list {
        return elements(tokens, list)?
            .into_iter()
            .nth(index)
            .filter(|element| tokens[element.start].piece == Piece::Mark(b'{'));
    }
    let has_script = |at: usize| {
        let object = at..closing(tokens, at)? + 1;
        property(text, tokens, &object, "script").map(|_| object)
    };
    let mut found =
        (0..tokens.len()).filter(|at| tokens[*at].piece == Piece::Mark(b'{')).filter_map(has_script);
    let first = found.next()?;
    (index == 0 && found.next().is_none()).then_some(first)
}

/// The token ranges of the elements of the list, or the members of the object, that starts at `open`.
fn elements(tokens: &[Token], open: usize) -> Option<Vec<Range<usize>>> {
    let end = closing(tokens, open)?;
    let mut found = Vec::new();
    let (mut at, mut start) = (open + 1, open + 1);
    while at <= end {
        match &tokens[at].piece {
            Piece::Mark(b'{' | b'[' | b'(') => at = closing(tokens, at)? + 1,
            piece if at == end || *piece == Piece::Mark(b',') => {
                if at > start {
                    found.push(start..at);
                }
                start = at + 1;
                at += 1;
            }
            _ => at += 1,
        }
    }
    Some(found)
}

/// The tokens of a key's value in an object.
fn property(text: &str, tokens: &[Token], object: &Range<usize>, key: &str) -> Option<Range<usize>> {
    for member in elements(tokens, object.start)? {
        let is_it = member.len() >= 3
            && tokens[member.start + 1].piece == Piece::Mark(b':')
            && bare(text, &tokens[member.start]) == key;
        if is_it {
            return Some(member.start + 2..member.end);
        }
    }
    None
}

/// The token that closes the bracket at `open`.
fn closing(tokens: &[Token], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.piece {
            Piece::Mark(b'{' | b'[' | b'(') => depth += 1,
            Piece::Mark(b'}' | b']' | b')') => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
            _ => {}
        }
    }
    None
}

/// A key without its quotes.
fn bare<'a>(text: &'a str, token: &Token) -> &'a str {
    let word = &text[token.at.clone()];
    if token.piece == Piece::Text { word.get(1..word.len() - 1).unwrap_or("") } else { word }
}

/// Splits a text into tokens; `None` if a string or comment is unterminated. All other characters count as
/// parts of words, which is good enough to find objects in a literal; the comparison after the edit detects
/// errors.
fn scan(text: &str) -> Option<Vec<Token>> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let begin = at;
        match bytes[at] {
            b'/' if bytes.get(at + 1) == Some(&b'/') => {
                at = text[at..].find('\n').map_or(bytes.len(), |line| at + line);
            }
            b'/' if bytes.get(at + 1) == Some(&b'*') => {
                at += 2 + text[at + 2..].find("*/")? + 2;
            }
            mark @ (b'{' | b'}' | b'[' | b']' | b'(' | b')' | b',' | b':') => {
                at += 1;
                tokens.push(Token { piece: Piece::Mark(mark), at: begin..at });
            }
            quote @ (b'"' | b'\'' | b'`') => {
                at = end_of_string(bytes, at, quote)?;
                tokens.push(Token { piece: Piece::Text, at: begin..at });
            }
            byte if byte.is_ascii_whitespace() => at += 1,
            _ => {
                let is_part = |byte: &u8| !byte.is_ascii_whitespace() && !b"{}[](),:\"'`/".contains(byte);
                at += bytes[at + 1..].iter().take_while(|byte| is_part(byte)).count() + 1;
                tokens.push(Token { piece: Piece::Word, at: begin..at });
            }
        }
    }
    Some(tokens)
}

fn end_of_string(bytes: &[u8], open: usize, quote: u8) -> Option<usize> {
    let mut at = open + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            byte if byte == quote => return Some(at + 1),
            b'\n' if quote != b'`' => return None,
            _ => at += 1,
        }
    }
    None
}
