//! Words of messages.

use std::borrow::Cow;

/// `1 worker`, `2 workers`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// `a, b or c`.
pub fn one_of<T: AsRef<str>>(names: &[T]) -> String {
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    match names.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A text as one word of a shell: quoted unless it is plain.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(format!("'{}'", text.replace('\'', r"'\''")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_not_plain_is_quoted_for_a_shell() {
        for (text, expected) in [
            ("web", "web"),
            ("@org/web_1.js", "@org/web_1.js"),
            ("", "''"),
            ("my app", "'my app'"),
            ("a;rm", "'a;rm'"),
            ("~a", "'~a'"),
            ("it's", r"'it'\''s'"),
        ] {
            assert_eq!(shell_word(text), expected);
        }
    }

    #[test]
    fn names_are_listed() {
        assert_eq!(one_of(&["a"]), "a");
        assert_eq!(one_of(&["a", "b"]), "a or b");
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
    }
}
