//! Values as Node.js prints them (`util.inspect` without a depth limit), for readers who know that format.

use std::fmt::Write as _;

use serde_json::{Map, Value};

/// An object with fewer nested levels than this may be printed on one line.
const COMPACT_LEVELS: usize = 3;
/// The maximum width of that line.
const LINE_WIDTH: usize = 80;
/// A longer list has one entry per line.
const ENTRIES_ON_A_LINE_MAX: usize = 6;

/// The text of a value, without a trailing newline.
pub(crate) fn inspect(value: &Value) -> String {
    print(value, 0).text
}

struct Printed {
    text: String,
    /// Levels of nested objects and lists, including itself; empty ones do not count, as in Node.
    levels: usize,
}

fn print(value: &Value, indent: usize) -> Printed {
    match value {
        Value::Array(items) if items.is_empty() => Printed { text: "[]".to_owned(), levels: 0 },
        Value::Object(entries) if entries.is_empty() => Printed { text: "{}".to_owned(), levels: 0 },
        Value::Array(items) => {
            let printed: Vec<Printed> = items.iter().map(|item| print(item, indent + 2)).collect();
            let spread = items.len() > ENTRIES_ON_A_LINE_MAX;
            enclose(["[", "]"], printed, indent, spread)
        }
        Value::Object(entries) => enclose(["{", "}"], members(entries, indent), indent, false),
        Value::String(text) => Printed { text: quote(text), levels: 0 },
        Value::Null | Value::Bool(_) | Value::Number(_) => Printed { text: value.to_string(), levels: 0 },
    }
}

fn members(entries: &Map<String, Value>, indent: usize) -> Vec<Printed> {
    let member = |(name, value): (&String, &Value)| {
        let Printed { text, levels } = print(value, indent + 2);
        Printed { text: format!("{}: {text}", key(name)), levels }
    };
    entries.iter().map(member).collect()
}

fn enclose([open, close]: [&str; 2], parts: Vec<Printed>, indent: usize, spread: bool) -> Printed {
    // The last printed part counts, as in Node.
    let inner = parts.last().map_or(0, |last| last.levels);
    let length: usize = parts.iter().map(|part| part.text.chars().count()).sum();
    let start = parts.len() + indent + open.len() + 10;
    let is_flat = parts.iter().all(|part| !part.text.contains('\n'));
    let texts: Vec<String> = parts.into_iter().map(|part| part.text).collect();
    let text = if !spread && is_flat && inner < COMPACT_LEVELS && length + texts.len() + start <= LINE_WIDTH {
        format!("{open} {} {close}", texts.join(", "))
    } else {
        let pad = " ".repeat(indent);
        format!("{open}\n{pad}  {}\n{pad}{close}", texts.join(&format!(",\n{pad}  ")))
    };
    Printed { text, levels: inner + 1 }
}

/// An identifier needs no quotes as a key.
fn key(name: &str) -> String {
    let bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().next().is_some_and(|c| !c.is_ascii_digit());
    if bare { name.to_owned() } else { quote(name) }
}

/// In single quotes, or in others if that avoids escapes.
fn quote(text: &str) -> String {
    let quote = match (text.contains('\''), text.contains('"'), text.contains('`') || text.contains("${")) {
        (false, _, _) | (true, true, true) => '\'',
        (true, false, _) => '"',
        (true, true, false) => '`',
    };
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push(quote);
    for c in text.chars() {
        match c {
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            '\u{8}' => quoted.push_str("\\b"),
            '\u{b}' => quoted.push_str("\\v"),
            '\u{c}' => quoted.push_str("\\f"),
            '\\' => quoted.push_str("\\\\"),
            '\'' if quote == '\'' => quoted.push_str("\\'"),
            c if c < ' ' || ('\u{7f}'..='\u{9f}').contains(&c) => {
                write!(quoted, "\\x{:02X}", u32::from(c)).expect("a String takes everything");
            }
            c => quoted.push(c),
        }
    }
    quoted.push(quote);
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The expected texts were printed by Node.js 20.
    #[test]
    fn values_look_as_node_prints_them() {
        assert_eq!(inspect(&json!([])), "[]");
        let list = json!([{
            "pid": 1, "name": "it's", "monit": {"memory": 5, "cpu": 0.5}, "my-key": [1, "two"], "empty": {},
            "text": "a\n\"b'c\\ \u{1b}[1m", "path": "/a/rather/long/path/that/needs/its/own/line.log", "none": null
        }]);
        assert_eq!(
            inspect(&list),
            "[\n  {\n    pid: 1,\n    name: \"it's\",\n    monit: { memory: 5, cpu: 0.5 },\n    'my-key': [ 1, 'two' ],\n    \
             empty: {},\n    text: `a\\n\"b'c\\\\ \\x1B[1m`,\n    path: '/a/rather/long/path/that/needs/its/own/line.log',\n    \
             none: null\n  }\n]"
        );
        assert_eq!(inspect(&json!({"a": {"b": {"c": {"d": 1}}}})), "{\n  a: { b: { c: { d: 1 } } }\n}");
        assert_eq!(inspect(&json!({"a": {"b": {"c": {}}}})), "{ a: { b: { c: {} } } }");
        assert_eq!(inspect(&json!({"a": {"b": {}}})), "{ a: { b: {} } }");
    }
}
