//! `warmup`.

use forkful_core::spec::{WARMUP_PATHS_MAX, WARMUP_REQUESTS_MAX, Warmup};
use serde_json::Value as Json;

use super::{Checked, Refusal, count, flag, names, period};
use crate::keys::Kind;
use crate::tree::{Entry, Node, Value};

/// A path, a list of paths, or an object; null for none.
pub(super) fn warmup(node: &Node) -> Checked<Json> {
    let mut warmup =
        Warmup { paths: Vec::new(), requests: Warmup::REQUESTS_DEFAULT, timeout: Warmup::TIMEOUT_DEFAULT };
    match &node.value {
        _ if flag(node) == Ok(false) => return Ok(Json::Null),
        Value::Text(_) | Value::List(_) => warmup.paths = paths(node)?,
        Value::Table(entries) => {
            for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
                set(&mut warmup, entry).map_err(|refusal| refusal.below(&format!(".{}", entry.key)))?;
            }
        }
        _ => return Err(Refusal::new(node, r#"a path such as "/", a list of paths, or an object"#)),
    }
    if warmup.paths.is_empty() {
        return Err(Refusal::new(node, r#"at least one path such as "/""#));
    }
    Ok(serde_json::to_value(&warmup).expect("texts and numbers are JSON"))
}

fn set(warmup: &mut Warmup, entry: &Entry) -> Checked<()> {
    let Entry { key, node, .. } = entry;
    match crate::keys::snake_case(key).as_str() {
        "path" | "paths" => warmup.paths = paths(node)?,
        "requests" => {
            let number = count(node).ok().filter(|number| (1..=WARMUP_REQUESTS_MAX).contains(number));
            let expected = format!("a whole number from 1 to {WARMUP_REQUESTS_MAX}");
            warmup.requests = number.ok_or_else(|| Refusal::new(node, expected))?;
        }
        "timeout" => warmup.timeout = period(node)?,
        _ => return Err(Refusal::unknown_key(entry, Kind::Warmup)),
    }
    Ok(())
}

fn paths(node: &Node) -> Checked<Vec<String>> {
    let paths = names(node)?;
    if paths.len() > WARMUP_PATHS_MAX {
        return Err(Refusal::new(node, format!("at most {WARMUP_PATHS_MAX} paths")));
    }
    if paths.iter().all(|path| Warmup::is_path(path)) {
        Ok(paths)
    } else {
        Err(Refusal::new(node, r#"paths such as "/items?page=1""#))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_a_list_and_an_object_are_taken() {
        let read = |value: Json| warmup(&Node::from_json(&value));
        let with = |paths: &[&str], requests, timeout_ms| {
            Ok(json!({ "paths": paths, "requests": requests, "timeout_ms": timeout_ms }))
        };
        assert_eq!(read(json!("/")), with(&["/"], 10, 10_000));
        assert_eq!(read(json!(["/a", "/b?c=1"])), with(&["/a", "/b?c=1"], 10, 10_000));
        assert_eq!(read(json!({ "path": "/", "requests": 3, "timeout": "2s" })), with(&["/"], 3, 2000));
        assert_eq!(read(json!(false)), Ok(Json::Null));
        for (bad, below) in [
            (json!("a"), ""),
            (json!("/a b"), ""),
            (json!(true), ""),
            (json!([]), ""),
            (json!({ "requests": 3 }), ""),
            (json!({ "path": "/", "requests": 0 }), ".requests"),
            (json!({ "path": "/", "times": 3 }), ".times"),
        ] {
            assert_eq!(read(bad.clone()).map_err(|refusal| refusal.below), Err(below.to_owned()), "{bad}");
        }
    }
}
