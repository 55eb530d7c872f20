//! `alerts`.

use forkful_core::alerts::{AlertKind, AlertPolicy};
use forkful_core::incidents::IncidentKind;
use forkful_core::spec::Named as _;
use serde_json::Value as Json;

use super::{Checked, Refusal, flag, names, period, words};
use crate::keys::Kind;
use crate::tree::{Entry, Node, Value};

/// A URL, a command, or an object; null for none.
pub(super) fn alerts(node: &Node) -> Checked<Json> {
    let mut alerts = AlertPolicy::of_all_faults();
    match &node.value {
        _ if flag(node) == Ok(false) => return Ok(Json::Null),
        Value::Text(text) if text.contains("://") => alerts.webhook = Some(webhook(node)?),
        Value::Text(_) | Value::List(_) => alerts.command = words(node)?,
        Value::Table(entries) => {
            for entry in entries.iter().filter(|entry| !entry.node.is_null()) {
                set(&mut alerts, entry).map_err(|refusal| refusal.below(&format!(".{}", entry.key)))?;
            }
        }
        _ => return Err(Refusal::new(node, "a URL, a command, or an object")),
    }
    if alerts.webhook.is_none() && alerts.command.is_empty() {
        return Err(Refusal::new(node, "a `webhook` or a `command`"));
    }
    Ok(serde_json::to_value(&alerts).expect("texts and numbers are JSON"))
}

fn set(alerts: &mut AlertPolicy, entry: &Entry) -> Checked<()> {
    let Entry { key, node, .. } = entry;
    match crate::keys::snake_case(key).as_str() {
        "webhook" => alerts.webhook = Some(webhook(node)?),
        "command" => alerts.command = words(node)?,
        "on" => {
            let kinds = names(node)?;
            let known = kinds
                .iter()
                .map(|name| IncidentKind::named(name).map(AlertKind::Known))
                .collect::<Option<_>>();
            let all = IncidentKind::NAMES.join(", ");
            alerts.on = known
                .filter(|_| !kinds.is_empty())
                .ok_or_else(|| Refusal::new(node, format!("some of {all}")))?;
        }
        "every" => {
            alerts.every = period(node)?;
            if alerts.every < AlertPolicy::EVERY_LEAST {
                let least = AlertPolicy::EVERY_LEAST.as_secs();
                return Err(Refusal::new(node, format!("at least {least}s")));
            }
        }
        "timeout" => {
            alerts.timeout = period(node)?;
            if alerts.timeout > AlertPolicy::TIMEOUT_MAX {
                let most = AlertPolicy::TIMEOUT_MAX.as_secs();
                return Err(Refusal::new(node, format!("at most {most}s")));
            }
        }
        _ => return Err(Refusal::unknown_key(entry, Kind::Alerts)),
    }
    Ok(())
}

fn webhook(node: &Node) -> Checked<String> {
    match &node.value {
        Value::Text(url) if AlertPolicy::is_webhook(url) => Ok(url.clone()),
        _ => {
            let expected = "an https URL, or an http URL of this machine, without user and password";
            Err(Refusal::of_url(node, expected, AlertPolicy::shown_webhook))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_url_a_command_and_an_object_are_taken() {
        let read = |value: Json| alerts(&Node::from_json(&value));
        let hook = "https://hooks.example.com/a";
        assert_eq!(read(json!(hook)).unwrap()["webhook"], json!(hook));
        assert_eq!(read(json!("./notify.sh 'a b'")).unwrap()["command"], json!(["./notify.sh", "a b"]));
        assert_eq!(read(json!(["notify", "x"])).unwrap()["command"], json!(["notify", "x"]));
        let object = json!({ "webhook": hook, "on": "crash_loop", "every": "1m", "timeout": "2s" });
        assert_eq!(
            read(object),
            Ok(
                json!({ "command": [], "webhook": hook, "on": ["crash_loop"], "every_ms": 60_000, "timeout_ms": 2000 })
            )
        );
        assert_eq!(read(json!(false)), Ok(Json::Null));
        for (bad, below) in [
            (json!("http://example.com/"), ""),
            (json!(true), ""),
            (json!({ "on": ["crash"] }), ""),
            (json!({ "webhook": "ftp://x" }), ".webhook"),
            (json!({ "webhook": hook, "on": ["fire"] }), ".on"),
            (json!({ "webhook": hook, "on": [] }), ".on"),
            (json!({ "webhook": hook, "timeout": "2m" }), ".timeout"),
            (json!({ "webhook": hook, "every": "9s" }), ".every"),
            (json!({ "webhook": hook, "every": 1 }), ".every"),
            (json!({ "webhook": hook, "times": 3 }), ".times"),
        ] {
            assert_eq!(read(bad.clone()).map_err(|refusal| refusal.below), Err(below.to_owned()), "{bad}");
        }
    }
    #[test]
    fn a_refused_url_is_shown_without_its_secrets() {
        for url in
            ["https://user:s3cret@example.com/", "http://example.com/s3cret", "example.com/s3cret?k=s3cret"]
        {
            for value in
                [json!({ "webhook": url }), json!({ "webhook": [url] }), json!({ "webhook": { "url": url } })]
            {
                let refusal = alerts(&Node::from_json(&value)).unwrap_err();
                assert!(!format!("{refusal:?}").contains("s3cret"), "{refusal:?}");
            }
        }
        let refusal = alerts(&Node::from_json(&json!("http://user:s3cret@example.com/s3cret"))).unwrap_err();
        assert_eq!(refusal.value, r#""http://example.com/[redacted]""#);
    }
}
