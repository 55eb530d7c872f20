//! A parsed document of any format: values with their locations. Not a general JSON type: it preserves the
//! spelling of numbers and all locations, for messages.

use std::cell::Cell;
use std::fmt;
use std::ops::Range;

/// A value and its location, if the format has lines.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) at: Option<Spot>,
    pub(crate) value: Value,
}

/// The value of a node.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Table(Vec<Entry>),
}

/// A number as a value and as text.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    pub(crate) value: f64,
    /// The original spelling if it is plain decimal (`1.10` and long integers stay as they are), otherwise
    /// the value as JavaScript prints it.
    pub(crate) text: String,
}

/// One key of a table.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Option<Spot>,
    pub(crate) node: Node,
}

/// Maximum length of a text that a message quotes in full.
const SHOWN_CHARACTERS_MAX: usize = 60;

impl Number {
    pub(crate) fn new(value: f64, written: &str) -> Self {
        let digits = written.strip_prefix('-').unwrap_or(written);
        let mut parts = digits.splitn(2, '.');
        let plain = parts.next().is_some_and(all_digits) && parts.next().is_none_or(all_digits);
        let text = if plain { written.to_owned() } else { print_number(value) };
        Self { value, text }
    }

    /// The value if it is a whole number that `f64` represents exactly.
    pub(crate) fn whole(&self) -> Option<i64> {
        const EXACT_MAX: f64 = 9_007_199_254_740_991.0;
        (self.value.fract() == 0.0 && self.value.abs() <= EXACT_MAX).then_some(self.value as i64)
    }
}

fn all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn print_number(value: f64) -> String {
    if value.is_nan() {
        "NaN".to_owned()
    } else if value.is_infinite() {
        if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() }
    } else if value != 0.0 && !(1e-6..1e21).contains(&value.abs()) {
        let printed = format!("{value:e}");
        // JavaScript writes the sign of every exponent.
        if printed.contains("e-") { printed } else { printed.replace('e', "e+") }
    } else {
        // Adding zero turns -0 into 0, as JavaScript prints it.
        format!("{}", value + 0.0)
    }
}

impl Node {
    pub(crate) fn is_null(&self) -> bool {
        self.value == Value::Null
    }

    /// The value of a key in a table.
    pub(crate) fn get(&self, key: &str) -> Option<&Entry> {
        match &self.value {
            Value::Table(entries) => entries.iter().find(|entry| entry.key == key),
            _ => None,
        }
    }

    /// The value as compact JSON, for environment variables given as objects.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(flag) => Json::Bool(*flag),
            Value::Number(number) => match number.whole() {
                Some(whole) => Json::from(whole),
                None => serde_json::Number::from_f64(number.value).map_or(Json::Null, Json::Number),
            },
            Value::Text(text) => Json::String(text.clone()),
            Value::List(nodes) => Json::Array(nodes.iter().map(Self::to_json).collect()),
            Value::Table(entries) => {
                Json::Object(entries.iter().map(|e| (e.key.clone(), e.node.to_json())).collect())
            }
        }
    }

    /// A tree without lines.
    pub(crate) fn from_json(json: &serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let value = match json {
            Json::Null => Value::Null,
            Json::Bool(flag) => Value::Bool(*flag),
            Json::Number(number) => {
                Value::Number(Number::new(number.as_f64().unwrap_or(f64::NAN), &number.to_string()))
            }
            Json::String(text) => Value::Text(text.clone()),
            Json::Array(items) => Value::List(items.iter().map(Self::from_json).collect()),
            Json::Object(map) => Value::Table(
                map.iter()
                    .map(|(key, item)| Entry { key: key.clone(), at: None, node: Self::from_json(item) })
                    .collect(),
            ),
        };
        Self { at: None, value }
    }
}

/// The value in a message: `"two"`, `0.5`, `true`, `a list`, `an object`.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Value::Null => f.write_str("null"),
            Value::Bool(flag) => write!(f, "{flag}"),
            Value::Number(number) => f.write_str(&number.text),
            Value::Text(text) => f.write_str(&quoted(text)),
            Value::List(_) => f.write_str("a list"),
            Value::Table(_) => f.write_str("an object"),
        }
    }
}

/// A text in quotes, with control characters escaped, cut to a length for a message.
pub(crate) fn quoted(text: &str) -> String {
    let mut shown: String = text.chars().take(SHOWN_CHARACTERS_MAX).collect();
    if shown.len() < text.len() {
        shown.push('…');
    }
    format!("{shown:?}")
}

/// A part of a text, within one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot {
    /// The line, counted from 1.
    pub line: usize,
    /// The column of its first character, counted from 1; `None` if only the line is known.
    pub column: Option<usize>,
    /// Its first byte in the whole text.
    pub start: usize,
    /// The byte after its last one, in the same line; `start` if the length is unknown.
    pub end: usize,
}

impl Spot {
    /// A line without a known column.
    pub(crate) fn of_line(line: usize) -> Self {
        Self { line, column: None, start: 0, end: 0 }
    }
}

/// `4:18`, or `4` if only the line is known.
impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.column {
            Some(column) => write!(f, "{}:{column}", self.line),
            None => write!(f, "{}", self.line),
        }
    }
}

/// Converts byte offsets to lines and columns.
pub(crate) struct Lines<'a> {
    pub(crate) text: &'a str,
    starts: Vec<usize>,
    /// The most recent location: its line, its byte, and the number of characters before it in its line.
    counted: Cell<(usize, usize, usize)>,
}

impl<'a> Lines<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        let starts = std::iter::once(0)
            .chain(text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1))
            .collect();
        Self { text, starts, counted: Cell::default() }
    }

    /// The part of these bytes that is in their first line.
    pub(crate) fn spot(&self, bytes: Range<usize>) -> Spot {
        let start = self.character_start(bytes.start);
        let line = self.starts.partition_point(|first| *first <= start);
        let whole = self.bytes_of(line);
        let end = self.character_start(bytes.end).min(whole.end).max(start);
        Spot { line, column: Some(self.characters_before(start, line, whole.start) + 1), start, end }
    }

    /// Number of characters of a line before this byte, counted from the last location: a file may be one
    /// long line.
    fn characters_before(&self, at: usize, line: usize, line_start: usize) -> usize {
        let (of, byte, count) = self.counted.get();
        let (known, count) = if of == line { (byte, count) } else { (line_start, 0) };
        let between = |bytes: Range<usize>| self.text.get(bytes).unwrap_or_default().chars().count();
        let count =
            if at >= known { count + between(known..at) } else { count.saturating_sub(between(at..known)) };
        self.counted.set((line, at, count));
        count
    }

    /// The part of a line from this column on, counted from 1.
    pub(crate) fn since_column(&self, line: usize, column: usize) -> Spot {
        self.columns(line, column, None)
    }

    /// So many characters of a line from this column on, counted from 1; without a length all.
    pub(crate) fn columns(&self, line: usize, column: usize, length: Option<usize>) -> Spot {
        let bytes = self.bytes_of(line);
        let text = self.text.get(bytes.clone()).unwrap_or_default();
        let from = column.saturating_sub(1);
        let byte = |character: usize| text.char_indices().nth(character).map_or(text.len(), |(at, _)| at);
        let end = length.map_or(text.len(), |length| byte(from.saturating_add(length)));
        self.spot(bytes.start + byte(from)..bytes.start + end)
    }

    /// A line without its indentation, if the relevant part is unknown.
    pub(crate) fn whole(&self, line: usize) -> Spot {
        let bytes = self.bytes_of(line);
        let text = self.text.get(bytes.clone()).unwrap_or_default();
        let start = bytes.start + (text.len() - text.trim_start().len());
        Spot { line, column: None, start, end: bytes.end.max(start) }
    }

    /// The start of the character with this byte.
    fn character_start(&self, byte: usize) -> usize {
        (0..=byte.min(self.text.len())).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }

    /// The bytes of a line without its end.
    fn bytes_of(&self, line: usize) -> Range<usize> {
        let at = |line: usize| self.starts.get(line).copied();
        let start = line.checked_sub(1).and_then(at).unwrap_or(self.text.len());
        let end = at(line).unwrap_or(self.text.len());
        let text = self.text.get(start..end).unwrap_or_default();
        start..start + text.trim_end().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_the_same_in_whichever_order_places_are_asked_for() {
        let text = "{ \"ä\": 1, \"b\": [2, 3] }\nzweite — Zeile\n";
        let places: Vec<usize> = (0..=text.len()).collect();
        let alone: Vec<Spot> = places.iter().map(|&at| Lines::new(text).spot(at..at + 1)).collect();
        let lines = Lines::new(text);
        let forwards: Vec<Spot> = places.iter().map(|&at| lines.spot(at..at + 1)).collect();
        let mut backwards: Vec<Spot> = places.iter().rev().map(|&at| lines.spot(at..at + 1)).collect();
        backwards.reverse();
        assert_eq!(forwards, alone);
        assert_eq!(backwards, alone);
        assert_eq!(text.find('1').map(|at| lines.spot(at..at + 1).column), Some(Some(8)));
    }
}
