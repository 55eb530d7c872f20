//! YAML 1.2, with the line of every value. Anchors and merge keys work; a document that would
//! unfold into far more than it says (an "anchor bomb") is refused by the budget below.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{Error, Spanned};

use super::SyntaxFault;
use super::json::lowercase_first;
use crate::tree::{Entry, Lines, Node, Number, Spot, Value, quoted};

/// Values in a document, aliases unfolded; a configuration of 1,000 apps has some 10,000.
const NODES_MAX: usize = 100_000;
/// Depth of nesting; a configuration needs 5.
const DEPTH_MAX: usize = 32;

const TOO_LARGE: &str = "the document is nested too deep, or unfolds to more than any configuration needs";

/// Parses a text; an empty one is `null`.
pub(crate) fn parse(text: &str) -> Result<Node, SyntaxFault> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: NODES_MAX,
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: NODES_MAX,
        },
        // `yes`, `on` and `off` are texts in YAML 1.2.
        strict_booleans: true,
        with_snippet: false,
    };
    let lines = Lines::new(text);
    let parsed: Spanned<Raw> =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| SyntaxFault {
            at: error.location().and_then(|location| spot(&location, &lines)),
            message: message(&error),
        })?;
    Ok(node(parsed, &lines))
}

/// The parser's message without its place, and in our words where it speaks of its own options.
fn message(error: &Error) -> String {
    match error {
        Error::MultipleDocuments { .. } | Error::Budget { breach: BudgetBreach::Documents { .. }, .. } => {
            "there is more than one document".to_owned()
        }
        Error::AliasError { error, .. } => message(error),
        Error::Budget { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => TOO_LARGE.to_owned(),
        Error::DuplicateMappingKey { key, .. } => match key {
            Some(key) => format!("the key {} is given twice", quoted(key)),
            None => "a key is given twice".to_owned(),
        },
        other => {
            let text = other.to_string();
            let first = text.lines().next().unwrap_or_default();
            let first = first.rsplit_once(" at line ").map_or(first, |(message, _)| message);
            lowercase_first(first.trim_end_matches('.'))
        }
    }
}

/// A value before its numbers are looked up in the text.
enum Raw {
    Null,
    Bool(bool),
    Number(f64, String),
    Text(String),
    List(Vec<Spanned<Raw>>),
    Table(Vec<(Spanned<String>, Spanned<Raw>)>),
}

fn node(spanned: Spanned<Raw>, lines: &Lines<'_>) -> Node {
    let at = spot(&spanned.referenced, lines);
    let value = match spanned.value {
        Raw::Null => Value::Null,
        Raw::Bool(flag) => Value::Bool(flag),
        Raw::Number(value, printed) => {
            let written = source(&spanned.defined, lines.text).unwrap_or(printed);
            // `1.10` as an environment variable means these four characters.
            Value::Number(Number::new(value, &written))
        }
        Raw::Text(string) => Value::Text(string),
        Raw::List(items) => Value::List(items.into_iter().map(|item| node(item, lines)).collect()),
        Raw::Table(entries) => Value::Table(
            entries
                .into_iter()
                .map(|(key, item)| Entry {
                    at: spot(&key.referenced, lines),
                    key: key.value,
                    node: node(item, lines),
                })
                .collect(),
        ),
    };
    Node { at, value }
}

/// Where something stands; a list or a table that is not in brackets has only a beginning.
fn spot(location: &serde_saphyr::Location, lines: &Lines<'_>) -> Option<Spot> {
    if location.line() == 0 {
        return None;
    }
    let span = location.span();
    let start = span.byte_offset().and_then(|start| usize::try_from(start).ok());
    let length = span.byte_len().and_then(|length| usize::try_from(length).ok()).unwrap_or_default();
    Some(match start {
        Some(start) => lines.spot(start..start + length),
        None if location.column() > 0 => {
            lines.since_column(location.line() as usize, location.column() as usize)
        }
        None => lines.whole(location.line() as usize),
    })
}

/// The characters that a scalar was written with.
fn source(location: &serde_saphyr::Location, text: &str) -> Option<String> {
    let span = location.span();
    let start = usize::try_from(span.byte_offset()?).ok()?;
    let end = start + usize::try_from(span.byte_len()?).ok()?;
    Some(text.get(start..end)?.trim().to_owned())
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_none<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number as f64, number.to_string()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number as f64, number.to_string()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Raw, E> {
        Ok(Raw::Number(number, number.to_string()))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Raw, E> {
        Ok(Raw::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Raw, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Raw::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Raw, A::Error> {
        let mut table = Vec::new();
        while let Some(entry) = entries.next_entry()? {
            table.push(entry);
        }
        Ok(Raw::Table(table))
    }
}
