//! Words of messages.

use std::borrow::Cow;

/// `1 worker`, `2 workers`.
pub fn count(number: usize, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

/// A duration as a user would write it: `500ms`, `5s`, `2m`, `36h`, `7d`.
pub fn bound(milliseconds: u64) -> String {
    const UNITS: [(u64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    let unit = UNITS.iter().find(|(length, _)| milliseconds.is_multiple_of(*length));
    match unit {
        _ if milliseconds == 0 => "0s".to_owned(),
        Some((length, name)) => format!("{}{name}", milliseconds / length),
        None => format!("{milliseconds}ms"),
    }
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
    fn a_duration_has_its_largest_whole_unit() {
        let times = [0, 1, 1500, 5000, 90_000, 120_000, 5_400_000, 129_600_000, 604_800_000];
        assert_eq!(times.map(bound), ["0s", "1ms", "1500ms", "5s", "90s", "2m", "90m", "36h", "7d"]);
    }

    #[test]
    fn names_are_listed() {
        assert_eq!(one_of(&["a"]), "a");
        assert_eq!(one_of(&["a", "b"]), "a or b");
        assert_eq!(one_of(&["a", "b", "c"]), "a, b or c");
    }
}
