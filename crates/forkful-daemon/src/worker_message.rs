//! What an app says to its process manager by `process.send`, understood. Hostile input: what makes no sense
//! is no message, and what an app reports about itself is bounded.

use std::collections::BTreeMap;

use forkful_api::conversation::{ActionView, Metric, WorkerReports};
use forkful_core::primary_habits::Log4jsLine;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

/// Metrics kept of one worker; `@pm2/io` has about twenty of its own.
pub(crate) const METRICS_MAX: usize = 256;
/// Actions kept of one worker.
pub(crate) const ACTIONS_MAX: usize = 256;
/// Options kept of one worker.
const OPTIONS_MAX: usize = 64;
/// The longest single metric, action or option that is kept: all of a worker are shown in every list.
const ENTRY_BYTES_MAX: usize = 1024;
/// The longest report that is looked at; a hundred metrics are about 10 KB.
const REPORT_BYTES_MAX: usize = 64 * 1024;

/// A message of an app.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum WorkerMessage {
    /// It reports metrics: those named have these values now.
    Metrics(BTreeMap<String, Metric>),
    /// It registers an action.
    Action(ActionView),
    /// The options of its `@pm2/io`.
    Options(BTreeMap<String, Value>),
    /// An action is done.
    Done {
        action: String,
        /// What it came to.
        result: Value,
        /// The whole message, for clients that watch.
        message: Value,
    },
    /// Any other message, for clients that watch.
    Other(Value),
}

/// Understands a line of JSON; `None` for what is no JSON, or a report without use.
pub(crate) fn interpret(line: &[u8]) -> Option<WorkerMessage> {
    let message: Value = serde_json::from_slice(line).ok()?;
    let kind = message.get("type").and_then(Value::as_str).unwrap_or_default();
    if !kind.starts_with("axm:") {
        return Some(WorkerMessage::Other(message));
    }
    let data = || message.get("data").cloned().unwrap_or_default();
    match kind {
        "axm:monitor" | "axm:action" | "axm:option:configuration" if line.len() > REPORT_BYTES_MAX => None,
        "axm:monitor" => Some(WorkerMessage::Metrics(metrics(data()))),
        "axm:action" => serde_json::from_value(data()).ok().map(WorkerMessage::Action),
        "axm:option:configuration" => serde_json::from_value(data()).ok().map(WorkerMessage::Options),
        // A worker's process id is known.
        "axm:option:setPID" => None,
        "axm:reply" => match serde_json::from_value::<Reply>(data()) {
            Ok(reply) => {
                Some(WorkerMessage::Done { action: reply.action_name, result: reply.result, message })
            }
            Err(_) => Some(WorkerMessage::Other(message)),
        },
        _ => Some(WorkerMessage::Other(message)),
    }
}

#[derive(Deserialize)]
struct Reply {
    action_name: String,
    #[serde(default, rename = "return")]
    result: Value,
}

/// One that is not described as an object is a bare value.
fn metrics(data: Value) -> BTreeMap<String, Metric> {
    let Value::Object(entries) = data else { return BTreeMap::new() };
    let metric = |value: Value| match value {
        Value::Object(mut parts) => {
            let value = parts.remove("value").unwrap_or_default();
            Metric { value, more: parts.into_iter().collect() }
        }
        value => Metric { value, more: BTreeMap::new() },
    };
    entries.into_iter().map(|(name, value)| (name, metric(value))).collect()
}

/// Takes a report over; what is beyond the bounds is left out.
pub(crate) fn note(reports: &mut WorkerReports, message: &WorkerMessage) {
    match message {
        WorkerMessage::Metrics(metrics) => {
            for (name, metric) in metrics {
                let has_room = reports.metrics.len() < METRICS_MAX || reports.metrics.contains_key(name);
                if has_room && is_short(&(name, metric)) {
                    reports.metrics.insert(name.clone(), metric.clone());
                }
            }
        }
        WorkerMessage::Action(action) => {
            reports.actions.retain(|known| known.action_name != action.action_name);
            if reports.actions.len() < ACTIONS_MAX && is_short(action) {
                reports.actions.push(action.clone());
            }
        }
        WorkerMessage::Options(options) => {
            let short = options.iter().filter(is_short).take(OPTIONS_MAX);
            reports.options = short.map(|(k, v)| (k.clone(), v.clone())).collect();
        }
        WorkerMessage::Done { .. } | WorkerMessage::Other(_) => {}
    }
}

fn is_short(entry: &impl serde::Serialize) -> bool {
    serde_json::to_vec(entry).is_ok_and(|text| text.len() <= ENTRY_BYTES_MAX)
}

/// A line that log4js in a worker of this slot has for another process, as that one gets it. It goes to an app, where
/// what is no JSON would be an exception, and nothing but the two members of such a message passes.
pub(crate) fn log4js(line: &[u8], slot: u16) -> Option<(Vec<u8>, Log4jsLine)> {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        data: &'a RawValue,
    }
    let Message { data } = serde_json::from_slice(line).ok()?;
    let data = data.get();
    // The data is an array in a string; its first element is the event, whose members but numbers are indices.
    let event = data.strip_prefix('"')?.split('}').next()?;
    let names_worker = event.contains(r#"\"cluster\":"#);
    let message = format!(r#"{{"topic":"log4js:message","data":{data}}}"#).into_bytes();
    Some((message, Log4jsLine { names_worker, slot }))
}

/// The line that makes an app perform an action, as `@pm2/io` expects it.
pub(crate) fn order(action: &str, params: Option<&Value>) -> Vec<u8> {
    let message = match params {
        None => Value::String(action.to_owned()),
        Some(params) => serde_json::json!({ "msg": action, "opts": params }),
    };
    message.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(lines: &[&str]) -> WorkerReports {
        let mut reports = WorkerReports::default();
        for line in lines {
            note(&mut reports, &interpret(line.as_bytes()).unwrap());
        }
        reports
    }

    #[test]
    fn what_is_too_long_to_be_shown_is_not_kept() {
        let long = "x".repeat(ENTRY_BYTES_MAX);
        let reports = noted(&[
            &format!(r#"{{"type":"axm:monitor","data":{{"{long}":1,"Short":2,"Long":"{long}"}}}}"#),
            &format!(r#"{{"type":"axm:action","data":{{"action_name":"{long}"}}}}"#),
            &format!(r#"{{"type":"axm:option:configuration","data":{{"a":"{long}","b":true}}}}"#),
        ]);
        assert_eq!(reports.metrics.keys().collect::<Vec<_>>(), ["Short"]);
        assert_eq!(reports.actions.len(), 0);
        assert_eq!(reports.options.keys().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn metrics_are_merged_and_keep_what_is_said_of_them() {
        let reports = noted(&[
            r#"{"type":"axm:monitor","data":{"Hits":{"value":1,"historic":true},"Users":3}}"#,
            r#"{"type":"axm:monitor","data":{"Hits":{"value":"2","unit":"req"}}}"#,
        ]);
        assert_eq!(
            serde_json::to_string(&reports.metrics).unwrap(),
            r#"{"Hits":{"value":"2","unit":"req"},"Users":{"value":3}}"#
        );
    }

    #[test]
    fn an_action_that_is_registered_again_takes_the_place_of_the_first() {
        let reports = noted(&[
            r#"{"type":"axm:action","data":{"action_name":"a","action_type":"custom","arity":1}}"#,
            r#"{"type":"axm:action","data":{"action_name":"a","action_type":"custom","arity":2,"opts":null}}"#,
        ]);
        let action = ActionView {
            action_name: "a".to_owned(),
            action_type: Some("custom".to_owned()),
            arity: Some(2),
        };
        assert_eq!(reports.actions, [action]);
    }

    #[test]
    fn what_an_app_reports_is_bounded() {
        let mut reports = WorkerReports::default();
        for number in 0..10_000 {
            let line = format!(r#"{{"type":"axm:monitor","data":{{"m{number}":1}}}}"#);
            note(&mut reports, &interpret(line.as_bytes()).unwrap());
            let line = format!(r#"{{"type":"axm:action","data":{{"action_name":"a{number}"}}}}"#);
            note(&mut reports, &interpret(line.as_bytes()).unwrap());
        }
        assert_eq!((reports.metrics.len(), reports.actions.len()), (METRICS_MAX, ACTIONS_MAX));
        let long = format!(r#"{{"type":"axm:monitor","data":{{"{}":1}}}}"#, "x".repeat(REPORT_BYTES_MAX));
        assert_eq!(interpret(long.as_bytes()), None);
    }

    #[test]
    fn answers_and_other_messages_are_told_apart() {
        let line = br#"{"type":"axm:reply","data":{"at":1,"action_name":"double","return":{"got":42}}}"#;
        let Some(WorkerMessage::Done { action, result, .. }) = interpret(line) else { panic!("no answer") };
        assert_eq!((action.as_str(), result.to_string().as_str()), ("double", r#"{"got":42}"#));
        for other in ["\"ready\"", "17", "null", r#"{"type":"mine"}"#, r#"{"type":"axm:reply","data":7}"#] {
            assert!(matches!(interpret(other.as_bytes()), Some(WorkerMessage::Other(_))), "{other}");
        }
        for nothing in
            ["", "{", r#"{"type":"axm:action","data":{}}"#, r#"{"type":"axm:option:setPID","data":1}"#]
        {
            assert_eq!(interpret(nothing.as_bytes()), None, "{nothing}");
        }
    }

    #[test]
    fn a_line_of_log4js_passes_with_nothing_beside_it() {
        let table = [
            (
                r#"{"topic":"log4js:message","data":"[{\"level\":\"4\",\"cluster\":\"7\"},{\"workerId\":1}]"}"#,
                true,
            ),
            (r#"{"topic":"log4js:message","data":"[{\"level\":\"4\"},{\"cluster\":1}]"}"#, false),
            // What JSON.stringify makes of half a surrogate pair.
            (r#"{"topic":"log4js:message","data":"[{\"level\":1},\"\ud83d\"]"}"#, false),
        ];
        for (line, names_worker) in table {
            let (message, understood) = log4js(line.as_bytes(), 3).unwrap();
            assert_eq!(String::from_utf8(message).unwrap(), line);
            assert_eq!(understood, Log4jsLine { names_worker, slot: 3 }, "{line}");
        }
        let more = br#"{"topic":"log4js:message","cmd":"NODE_X","data":"[]"}"#;
        assert_eq!(log4js(more, 0).unwrap().0, br#"{"topic":"log4js:message","data":"[]"}"#);
        for nothing in [
            r#"{"topic":"log4js:message","data":"#,
            r#"{"topic":"log4js:message","data":"[]"} x"#,
            r#"{"topic":"log4js:message","data":[]}"#,
            r#"{"topic":"log4js:message"}"#,
            r#"{"topic":"log4js:message","data":"a","data":"b"}"#,
        ] {
            assert_eq!(log4js(nothing.as_bytes(), 0), None, "{nothing}");
        }
    }

    #[test]
    fn an_order_is_a_name_or_a_name_with_what_it_is_called_with() {
        assert_eq!(order("plain", None), br#""plain""#);
        let params = serde_json::json!({"a": "x\ny"});
        assert_eq!(order("double", Some(&params)), br#"{"msg":"double","opts":{"a":"x\ny"}}"#);
    }
}
