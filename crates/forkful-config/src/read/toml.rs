//! TOML, with the line of every key.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::SyntaxFault;
use super::json::lowercase_first;
use crate::tree::{Entry, Lines, Node, Number, Value};

/// Parses a text.
pub(crate) fn parse(text: &str) -> Result<Node, SyntaxFault> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| match error.span() {
        Some(span) => SyntaxFault {
            at: Some(lines.spot(span)),
            message: lowercase_first(&error.message().replace('\n', ", ")),
        },
        // The parser has one fault without a place: a key with too many parts, all of which are on one line.
        None => SyntaxFault {
            at: text
                .lines()
                .zip(1..)
                .max_by_key(|(line, _)| line.matches('.').count())
                .map(|(_, line)| lines.whole(line)),
            message: "a key has more parts than any configuration needs".to_owned(),
        },
    })?;
    let at = Some(lines.spot(table.span()));
    Ok(Node { at, value: entries(table.get_ref(), &lines) })
}

fn entries(table: &DeTable<'_>, lines: &Lines<'_>) -> Value {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            at: Some(lines.spot(key.span())),
            node: node(value, lines),
        })
        .collect();
    // The table is sorted by key; messages follow the order of the file.
    entries.sort_by_key(|entry| entry.at.map(|at| at.start));
    Value::Table(entries)
}

fn node(value: &Spanned<DeValue<'_>>, lines: &Lines<'_>) -> Node {
    let at = Some(lines.spot(value.span()));
    let value = match value.get_ref() {
        DeValue::String(text) => Value::Text(text.to_string()),
        DeValue::Integer(integer) => {
            let parsed = i64::from_str_radix(integer.as_str(), integer.radix());
            Value::Number(Number::new(parsed.map_or(f64::NAN, |whole| whole as f64), &integer.to_string()))
        }
        DeValue::Float(float) => {
            Value::Number(Number::new(float.as_str().parse().unwrap_or(f64::NAN), float.as_str()))
        }
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(datetime) => Value::Text(datetime.to_string()),
        DeValue::Array(items) => Value::List(items.iter().map(|item| self::node(item, lines)).collect()),
        DeValue::Table(table) => entries(table, lines),
    };
    Node { at, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_too_many_parts_has_its_line() {
        let text = format!("[[apps]]\nscript = 'a.js'\n{} = 1\n", ["env"; 1000].join("."));
        let fault = parse(&text).map(|_| ()).expect_err("it is too deep");
        assert_eq!(fault.at.map(|at| at.line), Some(3));
        assert_eq!(fault.message, "a key has more parts than any configuration needs");
    }
}
