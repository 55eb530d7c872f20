//! A saved report: its kind, and access to its values by key. Errors name the path of a missing key.

use serde_json::Value;

use crate::document::VERSION;

/// Why a file cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReportError {
    /// It is not JSON.
    #[error("{path}:{line}:{column}: it is not complete JSON: {reason}")]
    Syntax { path: String, line: usize, column: usize, reason: String },
    /// It is not a report that can be compared.
    #[error("{path}: it is not a report of `bench --json` or `compare --json`: `kind` is {found}")]
    Kind {
        path: String,
        /// The value found, or that there is none.
        found: String,
    },
    /// It has another version of the keys.
    #[error("{path}: `version` is {found}, and this program reads {VERSION}")]
    Version { path: String, found: String },
    /// A key is missing or has another type.
    #[error("{path}: `{key}` is {found}, and should be {expected}")]
    Key {
        path: String,
        /// With dots: `requests.per_second`.
        key: String,
        found: String,
        expected: &'static str,
    },
    #[error(
        "{first} is a report of `{first_kind}` and {second} of `{second_kind}`: only two of one kind can be compared"
    )]
    Kinds { first: String, first_kind: &'static str, second: String, second_kind: &'static str },
    /// Two comparisons without a common arm.
    #[error("{first} and {second} have no arm in common: {first_arms}; {second_arms}")]
    Arms { first: String, second: String, first_arms: String, second_arms: String },
}

/// The kind of a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bench,
    Compare,
}

impl Kind {
    const ALL: [Self; 2] = [Self::Bench, Self::Compare];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Compare => "compare",
        }
    }
}

/// Whether a text looks like a report, judged by its beginning; it may be truncated.
pub fn looks_like_report(text: &str) -> bool {
    let compact: String = text.chars().take(400).filter(|letter| !letter.is_whitespace()).collect();
    compact.starts_with("{\"kind\":\"")
}

#[derive(Debug)]
pub(crate) struct Saved {
    /// The path as the user wrote it.
    pub(crate) path: String,
    pub(crate) kind: Kind,
    value: Value,
}

impl Saved {
    pub(crate) fn read(path: &str, text: &str) -> Result<Self, ReportError> {
        let value: Value = serde_json::from_str(text).map_err(|error| ReportError::Syntax {
            path: path.to_owned(),
            line: error.line(),
            column: error.column(),
            reason: reason_of(&error),
        })?;
        let kind = value.get("kind").and_then(Value::as_str);
        let Some(kind) = Kind::ALL.into_iter().find(|known| Some(known.word()) == kind) else {
            let found = value.get("kind").map_or("missing".to_owned(), shown);
            return Err(ReportError::Kind { path: path.to_owned(), found });
        };
        let version = value.get("version");
        if version.and_then(Value::as_u64) != Some(u64::from(VERSION)) {
            let found = version.map_or("missing".to_owned(), shown);
            return Err(ReportError::Version { path: path.to_owned(), found });
        }
        Ok(Self { path: path.to_owned(), kind, value })
    }

    /// A value by a key with dots.
    pub(crate) fn get(&self, key: &str) -> Option<&Value> {
        at(&self.value, key).filter(|value| !value.is_null())
    }

    pub(crate) fn number(&self, key: &str) -> Result<f64, ReportError> {
        self.typed(key, "a number", Value::as_f64)
    }

    pub(crate) fn list(&self, key: &str) -> Result<&[Value], ReportError> {
        let list = self.get(key).and_then(Value::as_array);
        list.map(Vec::as_slice).ok_or_else(|| self.wrong(key, "a list"))
    }

    pub(crate) fn truth(&self, key: &str) -> Result<bool, ReportError> {
        self.typed(key, "true or false", Value::as_bool)
    }

    /// A string, number or boolean as text; nothing if the key is missing.
    pub(crate) fn told(&self, key: &str) -> Option<String> {
        self.get(key).and_then(plain)
    }

    fn typed<T>(
        &self,
        key: &str,
        expected: &'static str,
        of: fn(&Value) -> Option<T>,
    ) -> Result<T, ReportError> {
        self.get(key).and_then(of).ok_or_else(|| self.wrong(key, expected))
    }

    /// An error about a key.
    pub(crate) fn wrong(&self, key: &str, expected: &'static str) -> ReportError {
        let found = at(&self.value, key).map_or("missing".to_owned(), shown);
        ReportError::Key { path: self.path.clone(), key: key.to_owned(), found, expected }
    }
}

/// A nested value by a key with dots.
pub(crate) fn at<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    key.split('.').try_fold(value, |value, part| match value {
        Value::Array(list) => list.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    })
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(on_one_line(text)),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(truth) => Some(if *truth { "yes" } else { "no" }.to_owned()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// A text of someone else's report with control characters escaped, so that it cannot add a line, move the cursor or reorder text.
fn on_one_line(text: &str) -> String {
    forkful_core::foreign::visible(text, &[])
}

/// A value for a message, truncated if long.
fn shown(value: &Value) -> String {
    const LETTERS_MAX: usize = 40;
    let text = match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
        other => other.to_string(),
    };
    if text.chars().count() <= LETTERS_MAX {
        return text;
    }
    text.chars().take(LETTERS_MAX).chain(['…']).collect()
}

/// The library's message without the position, which is printed separately.
fn reason_of(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.clone(), |(reason, _)| reason.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_report_is_told_with_its_place() {
        let wrong = |text: &str| Saved::read("a.json", text).unwrap_err().to_string();
        assert_eq!(
            wrong("{\"kind\": \"bench\",\n  \"vers"),
            "a.json:2:7: it is not complete JSON: EOF while parsing a string"
        );
        assert_eq!(
            wrong("{\"kind\": \"tune\", \"version\": 1}"),
            "a.json: it is not a report of `bench --json` or `compare --json`: `kind` is \"tune\""
        );
        assert_eq!(
            wrong("[]"),
            "a.json: it is not a report of `bench --json` or `compare --json`: `kind` is missing"
        );
        assert_eq!(
            wrong("{\"kind\": \"bench\", \"version\": 2}"),
            "a.json: `version` is 2, and this program reads 1"
        );
        let saved = Saved::read(
            "a.json",
            "{\"kind\": \"bench\", \"version\": 1, \"requests\": {\"per_second\": []}}",
        )
        .unwrap();
        let key = |key: &str| saved.number(key).unwrap_err().to_string();
        assert_eq!(
            key("requests.per_second"),
            "a.json: `requests.per_second` is a list, and should be a number"
        );
        assert_eq!(key("duration_s"), "a.json: `duration_s` is missing, and should be a number");
    }

    #[test]
    fn a_report_is_known_by_its_beginning_also_when_it_is_cut_off() {
        assert!(looks_like_report("{\n  \"kind\": \"bench\",\n  \"ver"));
        assert!(!looks_like_report("{\"apps\": [{\"script\": \"a.js\"}]}"));
        assert!(!looks_like_report("{\"name\": \"kind\"}"));
        assert!(!looks_like_report(""));
    }
}
