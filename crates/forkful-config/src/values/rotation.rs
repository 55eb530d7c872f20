//! `log_rotate`.

use forkful_core::logs::{LogRotation, MinFree};
use serde_json::Value as Json;

use super::{Checked, Refusal, bytes, count, duration, flag, parse_bytes};
use crate::keys::Kind;
use crate::tree::{Entry, Node, Value};

/// `true`, `false`, or an object whose keys change the defaults; a text is `max_size`. Null means never.
pub(super) fn log_rotation(node: &Node) -> Checked<Json> {
    if let Ok(false) = flag(node) {
        return Ok(Json::Null);
    }
    let mut rotation = LogRotation::default();
    match &node.value {
        _ if flag(node).is_ok() => {}
        Value::Table(entries) => {
            for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
                set(&mut rotation, entry).map_err(|refusal| refusal.below(&format!(".{}", entry.key)))?;
            }
        }
        Value::Text(text) if parse_bytes(text).is_some() => rotation.max_size = size(node)?,
        _ => {
            return Err(Refusal::new(
                node,
                r#"true, false, or an object such as { "max_size": "10M", "keep": 5 }"#,
            ));
        }
    }
    Ok(serde_json::to_value(&rotation).expect("numbers are JSON"))
}

/// Sets one key of `log_rotate` from a text; otherwise returns what is wrong, in words that fit after the key.
pub fn set_log_rotation(rotation: &mut LogRotation, key: &str, text: &str) -> Result<(), String> {
    let node = Node { at: None, value: Value::Text(text.to_owned()) };
    set(rotation, &Entry { key: key.to_owned(), at: None, node }).map_err(|refusal| refusal.told())
}

fn set(rotation: &mut LogRotation, entry: &Entry) -> Checked<()> {
    let Entry { key, node, .. } = entry;
    match crate::keys::snake_case(key).as_str() {
        "max_size" => rotation.max_size = size(node)?,
        "max_age" => {
            rotation.max_age = match &node.value {
                Value::Bool(false) => None,
                _ => Some(duration(node)?).filter(|age| !age.is_zero()),
            };
            if rotation.max_age.is_some_and(|age| age < LogRotation::MAX_AGE_MIN) {
                return Err(Refusal::new(node, "at least a second, or false for never"));
            }
        }
        "keep" => {
            rotation.keep = count(node)?;
            if rotation.keep > LogRotation::KEEP_MAX {
                return Err(Refusal::new(node, format!("at most {}", LogRotation::KEEP_MAX)));
            }
        }
        "total" => rotation.total = or_off(node)?,
        "compress" => rotation.compress = flag(node)?,
        "min_free" => {
            rotation.min_free = match &node.value {
                Value::Bool(true) => MinFree::ByDisk,
                Value::Text(text) if text == "auto" => MinFree::ByDisk,
                _ => MinFree::Bytes(or_off(node)?.unwrap_or(0)),
            }
        }
        _ => return Err(Refusal::unknown_key(entry, Kind::LogRotation)),
    }
    Ok(())
}

/// A limit of a file's size.
fn size(node: &Node) -> Checked<Option<u64>> {
    let size = or_off(node)?;
    match size {
        Some(size) if size < LogRotation::MAX_SIZE_MIN => Err(Refusal::new(
            node,
            format!("at least {} bytes, or false for no bound", LogRotation::MAX_SIZE_MIN),
        )),
        size => Ok(size),
    }
}

/// A size; `false` and 0 mean none.
fn or_off(node: &Node) -> Checked<Option<u64>> {
    match &node.value {
        Value::Bool(false) => Ok(None),
        Value::Number(number) if number.value == 0.0 => Ok(None),
        Value::Text(text) if text.trim() == "0" => Ok(None),
        _ => bytes(node).map(Some),
    }
}
