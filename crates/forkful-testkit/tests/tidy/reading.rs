//! Rust sources without comments and literals, so that braces in them are not counted.

/// The source with a space for each character of comments, strings and character literals. Line numbers are
/// unchanged.
pub(crate) fn bare(source: &str) -> String {
    let mut left = source;
    let mut bare = String::with_capacity(source.len());
    while let Some(first) = left.chars().next() {
        let before = bare.chars().next_back();
        let (length, is_code) = match hidden(left, before) {
            Some(length) => (length, false),
            None => (first.len_utf8(), true),
        };
        for character in left[..length].chars() {
            bare.push(if is_code || character == '\n' { character } else { ' ' });
        }
        left = &left[length..];
    }
    bare
}

/// The length of a comment, string or character literal at the start of `text`.
fn hidden(text: &str, before: Option<char>) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if text.starts_with("/*") {
        return Some(block_comment(text));
    }
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    if text.starts_with('\'') {
        // Otherwise it is a lifetime.
        let mut rest = text.chars().skip(1);
        let is_literal = rest.next() == Some('\\') || rest.next() == Some('\'');
        return is_literal.then(|| quoted(text, '\''));
    }
    let is_in_word = before.is_some_and(|character| character.is_alphanumeric() || character == '_');
    if is_in_word && !matches!(before, Some('b' | 'c')) || !text.starts_with('r') {
        return None;
    }
    let hashes = text[1..].chars().take_while(|character| *character == '#').count();
    let rest = text[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(2 + hashes + rest.find(&end).map_or(rest.len(), |at| at + end.len()))
}

fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if character == quote => return at + 1,
            _ => (),
        }
    }
    text.len()
}

fn block_comment(text: &str) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    text.len()
}

#[test]
fn texts_and_comments_are_blanked_and_code_stays() {
    let source = r##"fn f<'a>(x: &'a str) { // }
        let (a, b, c) = ("}\"}", '}', '\''); /* } /* } */ } */ let d = r#"}"}"#; g('\u{7d}', b'}', br"}", "ä}")
    }"##;
    let expected = "fn f<'a>(x: &'a str) { let (a, b, c) = ( , , ); let d = ; g( , b , b , ) }";
    let code = bare(source);
    assert_eq!(code.lines().count(), source.lines().count());
    // The `b` prefix of a literal stays; it is not a brace.
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&code), words(expected), "{code}");
}
