//! `otlp`.

use forkful_core::otlp::OtlpPolicy;
use serde_json::Value as Json;

use super::{Checked, Refusal, flag, period, shown_address};
use crate::keys::Kind;
use crate::tree::{Node, Value};

/// A URL, or an object; null for none.
pub(super) fn otlp(node: &Node) -> Checked<Json> {
    let mut interval = OtlpPolicy::INTERVAL_DEFAULT;
    let endpoint = match &node.value {
        _ if flag(node) == Ok(false) => return Ok(Json::Null),
        Value::Text(_) => endpoint(node)?,
        Value::Table(entries) => {
            let mut found = None;
            for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
                let below = |refusal: Refusal| refusal.below(&format!(".{}", entry.key));
                match crate::keys::snake_case(&entry.key).as_str() {
                    "endpoint" => found = Some(endpoint(&entry.node).map_err(below)?),
                    "interval" => interval = at_least(&entry.node).map_err(below)?,
                    _ => return Err(below(Refusal::unknown_key(entry, Kind::Otlp))),
                }
            }
            found.ok_or_else(|| Refusal::new(node, "an `endpoint`"))?
        }
        _ => return Err(Refusal::new(node, "a URL, or an object")),
    };
    Ok(serde_json::to_value(OtlpPolicy { endpoint, interval }).expect("texts and numbers are JSON"))
}

fn endpoint(node: &Node) -> Checked<String> {
    match &node.value {
        Value::Text(url) if OtlpPolicy::is_endpoint(url) => Ok(url.clone()),
        _ => {
            let expected = "an http or https URL without a password and a query";
            Err(Refusal::of_url(node, expected, shown_address))
        }
    }
}

fn at_least(node: &Node) -> Checked<std::time::Duration> {
    let interval = period(node)?;
    let is_enough = interval >= OtlpPolicy::INTERVAL_MIN;
    if is_enough { Ok(interval) } else { Err(Refusal::new(node, "at least 1s")) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_refused_url_is_shown_without_its_secrets() {
        let refused = |value: Json| otlp(&Node::from_json(&value)).unwrap_err().value;
        assert_eq!(
            refused(json!("https://user:s3cret@example.com/a")),
            r#""https://example.com/[redacted]""#
        );
        assert_eq!(refused(json!("localhost:4318")), r#""localhost:4318""#);
        for url in
            ["https://example.com/?token=s3cret", "user:s3cret@example.com", "https://u:s3/cret@example.com"]
        {
            for value in [json!(url), json!({ "endpoint": url }), json!({ "endpoint": [url] })] {
                let told = refused(value);
                assert!(!told.contains("s3"), "{told}");
            }
        }
    }

    #[test]
    fn a_url_and_an_object_are_taken() {
        let read = |value: Json| otlp(&Node::from_json(&value));
        let url = "http://localhost:4318";
        assert_eq!(read(json!(url)), Ok(json!({ "endpoint": url, "interval_ms": 60_000 })));
        let object = json!({ "endpoint": url, "interval": "1s" });
        assert_eq!(read(object), Ok(json!({ "endpoint": url, "interval_ms": 1000 })));
        assert_eq!(read(json!(false)), Ok(Json::Null));
        for (bad, below) in [
            (json!(true), ""),
            (json!("localhost:4318"), ""),
            (json!("https://key@x"), ""),
            (json!({ "interval": "5s" }), ""),
            (json!({ "endpoint": url, "interval": "999ms" }), ".interval"),
            (json!({ "endpoint": "x" }), ".endpoint"),
            (json!({ "endpoint": url, "headers": {} }), ".headers"),
        ] {
            assert_eq!(read(bad.clone()).map_err(|refusal| refusal.below), Err(below.to_owned()), "{bad}");
        }
    }
}
