//! Masks secrets in command lines that are repeated in reports, pages and JSON. Pure.

use forkful_load::secrets::{self, MASK};

/// Short options without a value, which may precede another one: `-ku me:secret`.
const PLAIN_LETTERS: &str = "ksqhV";

/// The kind of value that follows an option or its `=`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// `name:password`.
    Credentials,
    /// `Name: value`.
    Header,
    /// `KEY=value`, or a name alone.
    Variable,
    /// A body of a request.
    Body,
}

impl Value {
    fn of_long(name: &str) -> Option<Self> {
        match name {
            "user" => Some(Self::Credentials),
            "header" => Some(Self::Header),
            "env" => Some(Self::Variable),
            "body" | "message" | "expect-body" | "data" => Some(Self::Body),
            _ => None,
        }
    }

    fn of_short(letter: char) -> Option<Self> {
        match letter {
            'u' => Some(Self::Credentials),
            'H' => Some(Self::Header),
            _ => None,
        }
    }

    fn masked(self, text: &str) -> String {
        let name_and = |separator: &str, between: &str| match text.split_once(separator) {
            Some((name, _)) => format!("{name}{separator}{between}{MASK}"),
            None => text.to_owned(),
        };
        match self {
            Self::Credentials => MASK.to_owned(),
            Self::Header => name_and(":", " "),
            Self::Variable => name_and("=", ""),
            Self::Body => secrets::body(&plain(text)),
        }
    }
}

/// The words without passwords, values of headers and variables, and the user info of URLs. The names of
/// headers and variables stay. In queries and bodies, values whose names suggest a secret are masked.
pub(crate) fn masked(words: impl IntoIterator<Item = String>) -> Vec<String> {
    let mut expected = None;
    let mut shown = Vec::new();
    for word in words {
        shown.push(match expected.take() {
            Some(value) => Value::masked(value, &word),
            None => {
                let (text, value) = option(&word);
                expected = value;
                text
            }
        });
    }
    shown
}

/// A word that is not the value of the previous one, and the kind of the next word.
fn option(word: &str) -> (String, Option<Value>) {
    if let Some(long) = word.strip_prefix("--") {
        return match long.split_once('=') {
            Some((name, text)) => match Value::of_long(name) {
                Some(value) => (format!("--{name}={}", value.masked(text)), None),
                None => (format!("--{name}={}", plain(text)), None),
            },
            None => (word.to_owned(), Value::of_long(long)),
        };
    }
    if let Some(letters) = word.strip_prefix('-')
        && let Some(place) = letters.find(|letter| !PLAIN_LETTERS.contains(letter))
        && let Some(value) = letters[place..].chars().next().and_then(Value::of_short)
    {
        let (before, text) = letters.split_at(place + 1);
        return match text.strip_prefix('=') {
            _ if text.is_empty() => (word.to_owned(), Some(value)),
            Some(text) => (format!("-{before}={}", value.masked(text)), None),
            None => (format!("-{before}{}", value.masked(text)), None),
        };
    }
    (plain(word), None)
}

/// A word of which only the form is known: a URL, a path with a query, a JSON body.
fn plain(text: &str) -> String {
    let text = without_userinfo(text);
    if text.starts_with(['{', '[']) { secrets::body(&text) } else { secrets::url(&text) }
}

/// Removes `me:secret` from `http://me:secret@host/` anywhere in the text, and from a URL without its scheme.
fn without_userinfo(text: &str) -> String {
    let mut shown = String::new();
    let mut rest = text;
    if !text.contains("://") {
        let (authority, _) = authority(text);
        return if authority.contains(':') { hidden(text) } else { text.to_owned() };
    }
    while let Some((before, after)) = rest.split_once("://") {
        shown.push_str(before);
        shown.push_str("://");
        let (of_url, others) = authority(after);
        shown.push_str(&hidden(of_url));
        rest = others;
    }
    shown + rest
}

/// The part before the path of a URL without its scheme, and the rest.
fn authority(text: &str) -> (&str, &str) {
    let end = text.find(|letter: char| matches!(letter, '/' | '?' | '#') || letter.is_whitespace());
    text.split_at(end.unwrap_or(text.len()))
}

fn hidden(text: &str) -> String {
    let (authority, tail) = authority(text);
    match authority.rsplit_once('@') {
        Some((userinfo, host)) if !userinfo.is_empty() => format!("{MASK}@{host}{tail}"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_secret_is_repeated_and_everything_else_is() {
        for (given, expected) in [
            ("-u me:secret", "-u …"),
            ("-ume:secret", "-u…"),
            ("-u=me:secret", "-u=…"),
            ("-ku me:secret", "-ku …"),
            ("-kume:secret", "-ku…"),
            ("--user me:secret", "--user …"),
            ("--user=me:secret", "--user=…"),
            ("--user -secret x", "--user … x"),
            ("-H Authorization:secret -k", "-H Authorization: … -k"),
            ("-HAuthorization:secret", "-HAuthorization: …"),
            ("-H=Cookie:a:secret", "-H=Cookie: …"),
            ("--header X:secret", "--header X: …"),
            ("--header=X:secret", "--header=X: …"),
            ("-H nonsense", "-H nonsense"),
            ("--env KEY=secret=2", "--env KEY=…"),
            ("--env=KEY=secret", "--env=KEY=…"),
            ("--env production", "--env production"),
            ("http://me:secret@host:80/a?b=c@d", "http://…@host:80/a?b=c@d"),
            ("https://secret@host", "https://…@host"),
            ("me:secret@host:80/a", "…@host:80/a"),
            ("--html=http://me:secret@host/", "--html=http://…@host/"),
            ("see,http://a:secret@b/http://c:secret@d", "see,http://…@b/http://…@d"),
            ("http://host/?to=http://a:secret@b", "http://host/?to=http://…@b"),
            ("old@1.js @scope/app.js /p?mail=a:b@c", "old@1.js @scope/app.js /p?mail=a:b@c"),
            ("http://host/a?token=secret&n=1", "http://host/a?token=…&n=1"),
            ("--path /a?api_key=secret", "--path /a?api_key=…"),
            ("--path=/a?password=secret#x", "--path=/a?password=…#x"),
            ("--body a=1&token=secret", "--body a=1&token=…"),
            ("--body {\"password\":\"secret\"}", "--body {\"password\":\"…\"}"),
            ("--message {\"token\":\"secret\"}", "--message {\"token\":\"…\"}"),
            ("-- -b {\"token\":\"secret\"}", "-- -b {\"token\":\"…\"}"),
            ("--body @file -c 50 -d10s --users 3", "--body @file -c 50 -d10s --users 3"),
            ("-- --port 80 -u me:secret", "-- --port 80 -u …"),
        ] {
            let words = given.split(' ').map(str::to_owned);
            // A header has a space after its colon.
            assert_eq!(masked(words).join(" "), expected, "{given}");
        }
    }

    #[test]
    fn blanks_within_a_word_hide_nothing() {
        let words = ["-H", "Authorization: Bearer secret", "--body", "to http://me:secret@host now"];
        let shown = masked(words.map(str::to_owned));
        assert_eq!(shown, ["-H", "Authorization: …", "--body", "to http://…@host now"]);
    }
}
