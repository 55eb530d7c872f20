//! `instances`: a number of workers, or the bounds of a number that follows the load.

use forkful_core::spec::INSTANCES_MAX;

use super::{Checked, Refusal, text, whole};
use crate::keys::Kind;
use crate::tree::{Entry, Node, Value};

/// What `instances` asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Instances {
    Fixed(Number),
    /// The number of workers follows the load within these bounds.
    Between(u16, Number),
}

/// A number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    /// So many.
    Count(u16),
    /// One per usable core.
    Max,
    /// One worker for each usable core, minus this number.
    Less(u32),
}

pub(crate) const INSTANCES_EXPECTED: &str = r#"a number, "max" or a negative number"#;
/// Between the two numbers of a text.
const TO: &str = "..";
const MIN_EXPECTED: &str = "a number from 1";
const MAX_EXPECTED: &str = r#"a number from 1, "max" or a negative number"#;

/// Reads the number of workers; `Err` is what was expected.
pub(crate) fn parse_instances(text: &str) -> Result<Instances, String> {
    match text.split_once(TO) {
        None => number(text, INSTANCES_EXPECTED).map(Instances::Fixed),
        Some((min, max)) => {
            let least = number(min, MIN_EXPECTED);
            let Ok(Number::Count(least)) = least else { return Err(range_expected()) };
            let most = number(max, &range_expected())?;
            let is_zero = max.trim() == "0";
            match most {
                Number::Count(most) if most < least => {
                    Err(format!("a least number that is not above {most}"))
                }
                _ if is_zero => Err(range_expected()),
                most => Ok(Instances::Between(least, most)),
            }
        }
    }
}

fn range_expected() -> String {
    r#"a range such as "1..4" or "1..max""#.to_owned()
}

fn number(text: &str, expected: &str) -> Result<Number, String> {
    match text.trim() {
        "max" => Ok(Number::Max),
        number => match number.parse::<i64>() {
            Ok(0) => Ok(Number::Max),
            Ok(less) if less < 0 => Ok(Number::Less(u32::try_from(less.unsigned_abs()).unwrap_or(u32::MAX))),
            Ok(count) => match u16::try_from(count) {
                Ok(count) if count <= INSTANCES_MAX => Ok(Number::Count(count)),
                _ => Err(format!("at most {INSTANCES_MAX}")),
            },
            Err(_) => Err(expected.to_owned()),
        },
    }
}

/// The number of workers, checked but kept as written; an object as its text.
pub(super) fn instances(node: &Node) -> Checked<String> {
    let written = match &node.value {
        Value::Table(entries) => bounds(node, entries)?,
        _ => text(node).map_err(|_| Refusal::new(node, INSTANCES_EXPECTED))?,
    };
    parse_instances(&written).map_err(|expected| Refusal::new(node, expected))?;
    Ok(written)
}

/// `{ min, max }` as `min..max`; the least number is 1 where it is not given.
fn bounds(node: &Node, entries: &[Entry]) -> Checked<String> {
    let (mut min, mut max) = ("1".to_owned(), None);
    for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
        let Entry { key, node, .. } = entry;
        let refuse = |expected: &str| Err(Refusal::new(node, expected).below(&format!(".{key}")));
        let given = text(node);
        match (key.as_str(), given) {
            ("min", Ok(text)) if whole(node).is_some_and(|number| number >= 1) => min = text,
            ("min", _) => return refuse(MIN_EXPECTED),
            ("max", Ok(text)) if whole(node) != Some(0) => match number(&text, MAX_EXPECTED) {
                Ok(_) => max = Some((text, node)),
                Err(expected) => return refuse(&expected),
            },
            ("max", _) => return refuse(MAX_EXPECTED),
            _ => return Err(Refusal::unknown_key(entry, Kind::Instances).below(&format!(".{key}"))),
        }
    }
    let Some((max, of)) = max else {
        return Err(Refusal::new(node, r#"the key `max`, as in { "min": 1, "max": 4 }"#));
    };
    match (min.trim().parse::<u16>(), max.trim().parse::<u16>()) {
        (Ok(least), Ok(most)) if least > most => {
            Err(Refusal::new(of, format!("at least {least}, which is `min`")).below(".max"))
        }
        _ => Ok(format!("{}{TO}{}", min.trim(), max.trim())),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::*;

    #[test]
    fn a_number_or_bounds() {
        let read = |value: Json| instances(&Node::from_json(&value));
        for (value, expected) in [
            (json!(4), "4"),
            (json!("max"), "max"),
            (json!("1..4"), "1..4"),
            (json!({ "min": 2, "max": 8 }), "2..8"),
            (json!({ "max": "max" }), "1..max"),
            (json!({ "min": "2", "max": -1 }), "2..-1"),
            (json!({ "min": null, "max": 3 }), "1..3"),
        ] {
            assert_eq!(read(value.clone()), Ok(expected.to_owned()), "{value}");
        }
        let refusals: Vec<String> = [
            json!({}),
            json!({ "min": 1 }),
            json!({ "min": 0, "max": 2 }),
            json!({ "min": "max", "max": 2 }),
            json!({ "min": 5, "max": 4 }),
            json!({ "max": 0 }),
            json!({ "max": 5000 }),
            json!({ "max": [2] }),
            json!({ "max": 2, "most": 3 }),
            json!("1.."),
            json!("..4"),
            json!("0..4"),
            json!("5..4"),
            json!("1..0"),
            json!("1..4..5"),
        ]
        .into_iter()
        .map(|value| {
            let refusal = read(value).unwrap_err();
            format!("instances{} {}", refusal.below, refusal.told())
        })
        .collect();
        insta::assert_snapshot!(refusals.join("\n"), @r#"
        instances is an object; expected the key `max`, as in { "min": 1, "max": 4 }
        instances is an object; expected the key `max`, as in { "min": 1, "max": 4 }
        instances.min is 0; expected a number from 1
        instances.min is "max"; expected a number from 1
        instances.max is 4; expected at least 5, which is `min`
        instances.max is 0; expected a number from 1, "max" or a negative number
        instances.max is 5000; expected at most 1024
        instances.max is a list; expected a number from 1, "max" or a negative number
        instances.most is an unknown key; the keys are min, max
        instances is "1.."; expected a range such as "1..4" or "1..max"
        instances is "..4"; expected a range such as "1..4" or "1..max"
        instances is "0..4"; expected a range such as "1..4" or "1..max"
        instances is "5..4"; expected a least number that is not above 4
        instances is "1..0"; expected a range such as "1..4" or "1..max"
        instances is "1..4..5"; expected a range such as "1..4" or "1..max"
        "#);
    }

    #[test]
    fn a_text_is_a_range_of_workers() {
        assert_eq!(parse_instances("1..4"), Ok(Instances::Between(1, Number::Count(4))));
        assert_eq!(parse_instances("2..max"), Ok(Instances::Between(2, Number::Max)));
        assert_eq!(parse_instances(" 1 .. -1 "), Ok(Instances::Between(1, Number::Less(1))));
        assert_eq!(parse_instances("-1"), Ok(Instances::Fixed(Number::Less(1))));
    }
}
