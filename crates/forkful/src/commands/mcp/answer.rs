//! Limits answers and masks secrets. Pure.

use std::collections::BTreeMap;

use forkful_core::spec::environment::KnownSecrets;
use serde::Serialize;
use serde_json::Value;

/// Maximum bytes of an answer.
pub(super) const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// Space for what stands around a list.
const REST_BYTES: usize = 1024;

/// Values that answers must not contain.
#[derive(Debug, Default)]
pub(super) struct Secrets(KnownSecrets);

impl Secrets {
    /// The values that differ between the real and the shown environments.
    pub(super) fn between(
        whole: &BTreeMap<String, BTreeMap<String, String>>,
        shown: &BTreeMap<String, BTreeMap<String, String>>,
    ) -> Self {
        let is_shown = |app, name, value| shown.get(app).and_then(|shown| shown.get(name)) == Some(value);
        let all = whole
            .iter()
            .flat_map(|(app, variables)| variables.iter().map(move |(name, value)| (app, name, value)));
        let hidden = all.filter(|(app, name, value)| !is_shown(*app, *name, *value));
        Self(KnownSecrets::new(hidden.map(|(_, _, value)| value.clone())))
    }

    /// A text with these values masked.
    pub(super) fn mask(&self, text: String) -> String {
        self.0.redact(text)
    }

    /// A JSON value with these values masked, also in keys.
    pub(super) fn mask_value(&self, value: Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.mask(text)),
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.mask_value(item)).collect())
            }
            Value::Object(entries) => {
                let masked =
                    entries.into_iter().map(|(name, value)| (self.mask(name), self.mask_value(value)));
                Value::Object(masked.collect())
            }
            other => other,
        }
    }
}

/// A text within the limit, with a note if it was truncated.
pub(super) fn bounded(text: String, advice: &str) -> String {
    if text.len() <= ANSWER_BYTES_MAX {
        return text;
    }
    let end = (0..=ANSWER_BYTES_MAX).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    format!("{}\n… cut here: {} of {} bytes. {advice}", &text[..end], end, text.len())
}

/// The last `limit` values of a list, fewer if they would not fit into an answer (one at least), and the number of
/// those before them: what [`bounded`] cuts off would be the newest.
pub(super) fn newest<T: Serialize>(mut list: Vec<T>, limit: usize) -> (Vec<T>, usize) {
    let mut left = ANSWER_BYTES_MAX - REST_BYTES;
    let fitting = list.iter().rev().take(limit).take_while(|value| {
        let text = serde_json::to_string_pretty(value).unwrap_or_default();
        // In the answer each line stands four columns further to the right.
        let bytes = text.len() + 5 * text.lines().count();
        left.checked_sub(bytes).is_some_and(|less| {
            left = less;
            true
        })
    });
    let kept = fitting.count().max(1).min(list.len());
    let left_out = list.len() - kept;
    list.drain(..left_out);
    (list, left_out)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment(entries: &[(&str, &str)]) -> BTreeMap<String, BTreeMap<String, String>> {
        let variables = entries.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        [("api".to_owned(), variables.collect())].into()
    }

    #[test]
    fn what_is_shown_redacted_is_found_wherever_it_stands() {
        let whole = environment(&[
            ("PATH", "/usr/bin"),
            ("TOKEN", "s3cret"),
            ("LONG", "s3cret-and-more"),
            ("PIN", "12"),
            ("KEY", "-----BEGIN\nabcdef\n"),
        ]);
        let shown = environment(&[
            ("PATH", "/usr/bin"),
            ("TOKEN", "***"),
            ("LONG", "***"),
            ("PIN", "*"),
            ("KEY", "*"),
        ]);
        let secrets = Secrets::between(&whole, &shown);
        let answer = json!({ "a": ["x s3cret-and-more y", 12], "b s3cret": { "c": "/usr/bin abcdef" } });
        assert_eq!(
            secrets.mask_value(answer),
            json!({ "a": ["x [redacted] y", 12], "b [redacted]": { "c": "/usr/bin [redacted]" } })
        );
    }

    #[test]
    fn an_answer_is_cut_between_characters_and_says_so() {
        let long = "é".repeat(ANSWER_BYTES_MAX);
        let cut = bounded(long, "Ask for less.");
        assert!(cut.len() < ANSWER_BYTES_MAX + 200 && cut.ends_with("Ask for less."), "{}", cut.len());
        assert_eq!(bounded("short".to_owned(), ""), "short");
    }

    #[test]
    fn of_a_long_list_the_newest_are_kept_and_the_others_counted() {
        let reasons =
            |bytes: usize| (0..200).map(|id| json!({ "id": id, "reason": "x".repeat(bytes) })).collect();
        let (all, left_out) = newest(reasons(10), 200);
        assert_eq!((all.len(), left_out), (200, 0));
        let (few, left_out) = newest(reasons(10), 3);
        assert_eq!((few.len(), left_out, &few[2]["id"]), (3, 197, &json!(199)));
        let (fitting, left_out) = newest(reasons(2000), 200);
        assert_eq!((fitting.len() + left_out, &fitting[fitting.len() - 1]["id"]), (200, &json!(199)));
        let answer =
            serde_json::to_string_pretty(&json!({ "incidents": fitting, "left_out": left_out })).unwrap();
        assert!(answer.len() <= ANSWER_BYTES_MAX && answer.len() > ANSWER_BYTES_MAX / 2, "{}", answer.len());
        assert_eq!(newest(reasons(ANSWER_BYTES_MAX), 200).0.len(), 1, "one at least");
        assert_eq!(newest(Vec::<Value>::new(), 200), (Vec::new(), 0));
    }
}
