//! JSON as people write it: comments, trailing commas, single quotes and bare keys are fine,
//! because PM2 took such files too.

use jsonc_parser::ast::{ObjectPropName, Value as Ast};
use jsonc_parser::common::Ranged;
use jsonc_parser::{CollectOptions, CommentCollectionStrategy, ParseOptions, parse_to_ast};

use super::SyntaxFault;
use crate::tree::{Entry, Lines, Node, Number, Value};

/// Parses a text; an empty one is `null`.
pub(crate) fn parse(text: &str) -> Result<Node, SyntaxFault> {
    let collect = CollectOptions { comments: CommentCollectionStrategy::Off, tokens: false };
    let options = ParseOptions { allow_missing_commas: false, ..ParseOptions::default() };
    let lines = Lines::new(text);
    let parsed = parse_to_ast(text, &collect, &options).map_err(|error| SyntaxFault {
        at: Some(lines.spot(error.range().start..error.range().end)),
        message: lowercase_first(&error.kind().to_string()),
    })?;
    Ok(match parsed.value {
        Some(ast) => node(&ast, &lines),
        None => Node { at: None, value: Value::Null },
    })
}

fn node(ast: &Ast<'_>, lines: &Lines<'_>) -> Node {
    let value = match ast {
        Ast::StringLit(text) => Value::Text(text.value.to_string()),
        Ast::NumberLit(number) => Value::Number(Number::new(number_value(number.value), number.value)),
        Ast::BooleanLit(flag) => Value::Bool(flag.value),
        Ast::NullKeyword(_) => Value::Null,
        Ast::Array(array) => Value::List(array.elements.iter().map(|item| node(item, lines)).collect()),
        Ast::Object(object) => Value::Table(
            object
                .properties
                .iter()
                .map(|property| Entry {
                    key: match &property.name {
                        ObjectPropName::String(text) => text.value.to_string(),
                        ObjectPropName::Word(word) => word.value.to_owned(),
                    },
                    at: Some(lines.spot(property.name.start()..property.name.end())),
                    node: node(&property.value, lines),
                })
                .collect(),
        ),
    };
    Node { at: Some(lines.spot(ast.start()..ast.end())), value }
}

/// The value of a number as the scanner lets it through: signs, `0x`, a bare point, `Infinity`.
fn number_value(written: &str) -> f64 {
    let (sign, digits) = match written.strip_prefix('-') {
        Some(digits) => (-1.0, digits),
        None => (1.0, written.strip_prefix('+').unwrap_or(written)),
    };
    let hexadecimal = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"));
    let value = match hexadecimal {
        Some(digits) => u64::from_str_radix(digits, 16).map_or(f64::NAN, |value| value as f64),
        None => digits.parse().unwrap_or(f64::NAN),
    };
    sign * value
}

/// The parser's sentences begin with a capital; ours do not.
pub(crate) fn lowercase_first(sentence: &str) -> String {
    let mut characters = sentence.chars();
    match characters.next() {
        Some(first) => first.to_lowercase().chain(characters).collect(),
        None => String::new(),
    }
}
