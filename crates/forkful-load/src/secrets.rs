//! Masks secrets in requests shown in reports: values whose names suggest a secret (`token`, `password`,
//! `api_key`) in queries, forms and JSON, as in headers. Pure.

use forkful_core::spec::environment::has_secret_name;
use serde_json::Value;

/// Replaces a secret.
pub const MASK: &str = "…";

/// A URL or path with the secrets in its query masked.
pub fn url(text: &str) -> String {
    let Some((before, rest)) = text.split_once('?') else { return text.to_owned() };
    let (query, fragment) = rest.find('#').map_or((rest, ""), |at| rest.split_at(at));
    format!("{before}?{}{fragment}", form(query))
}

/// A body with its secrets masked: JSON or a form; anything else is unchanged.
pub fn body(text: &str) -> String {
    if let Ok(mut json @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str::<Value>(text) {
        return if hide(&mut json) { json.to_string() } else { text.to_owned() };
    }
    form(text)
}

/// `a=1&token=…`.
fn form(text: &str) -> String {
    let masked = text.split('&').map(|pair| match pair.split_once('=') {
        Some((name, value)) if !value.is_empty() && is_secret(name) => format!("{name}={MASK}"),
        _ => pair.to_owned(),
    });
    masked.collect::<Vec<_>>().join("&")
}

/// Names may be percent-encoded, as in `user%5Bpassword%5D`; the telling word stays readable.
fn is_secret(name: &str) -> bool {
    const MORE: [&str; 4] = ["sig", "sid", "session", "code"];
    has_secret_name(name) || MORE.iter().any(|more| name.eq_ignore_ascii_case(more))
}

/// Masks strings and numbers under such names. Returns whether there were any.
fn hide(json: &mut Value) -> bool {
    match json {
        // Counts instead of `any`, so that every item is masked.
        Value::Array(items) => items.iter_mut().map(hide).filter(|found| *found).count() > 0,
        Value::Object(entries) => entries.iter_mut().fold(false, |found, (name, value)| {
            if is_secret(name) && !value.is_null() {
                *value = Value::from(MASK);
                return true;
            }
            hide(value) || found
        }),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_queries_are_masked_by_name() {
        for (given, expected) in [
            ("/a", "/a"),
            ("/a?b=c", "/a?b=c"),
            ("/a?token=xyz&page=2", "/a?token=…&page=2"),
            ("http://h/?api_key=1&API-KEY=2#top", "http://h/?api_key=…&API-KEY=…#top"),
            ("/a?access_token=x&password=y&q=token", "/a?access_token=…&password=…&q=token"),
            ("/a?token=&token", "/a?token=&token"),
            ("/a?user%5Bpassword%5D=x", "/a?user%5Bpassword%5D=…"),
            ("/a?sig=1&code=2&design=3", "/a?sig=…&code=…&design=3"),
            ("/login?back=/x?token=y", "/login?back=/x?token=y"),
        ] {
            assert_eq!(url(given), expected);
        }
    }

    #[test]
    fn secrets_of_bodies_are_masked_by_name() {
        for (given, expected) in [
            (r#"{ "n": 1 }"#, r#"{ "n": 1 }"#),
            (r#"{"password":"x"}"#, r#"{"password":"…"}"#),
            (r#"[{"a":{"token":5}},7]"#, r#"[{"a":{"token":"…"}},7]"#),
            ("user=me&password=x", "user=me&password=…"),
            ("plain text", "plain text"),
            ("@body.json", "@body.json"),
        ] {
            assert_eq!(body(given), expected);
        }
    }
}
