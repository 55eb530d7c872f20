//! What a receiver of OTLP answers.
//!
//! <https://opentelemetry.io/docs/specs/otlp/#otlphttp-response>

use std::time::Duration;

use serde::Deserialize;

/// The longest pause that a receiver can ask for.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(3600);
/// Characters of a receiver's message in a note.
const MESSAGE_MAX: usize = 200;

/// Why an export failed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Fault {
    pub why: String,
    /// The receiver wants nothing for so long.
    pub retry_after: Option<Duration>,
}

impl From<String> for Fault {
    fn from(why: String) -> Self {
        Self { why, retry_after: None }
    }
}

/// The pause that a `Retry-After` header asks for. Of its two forms, the number of seconds is read.
pub fn retry_after(header: &str) -> Option<Duration> {
    let seconds = header.trim().parse().ok()?;
    Some(Duration::from_secs(seconds).min(RETRY_AFTER_MAX))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    #[serde(default)]
    partial_success: PartialSuccess,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PartialSuccess {
    rejected_data_points: Count,
    error_message: String,
}

/// 64-bit numbers are texts in the JSON of protocol buffers; receivers send both.
#[derive(Deserialize)]
#[serde(untagged)]
enum Count {
    Number(u64),
    Text(String),
}

impl Default for Count {
    fn default() -> Self {
        Self::Number(0)
    }
}

/// What a receiver that accepted a request has left out of it, in words.
pub fn rejected(body: &[u8]) -> Option<String> {
    let Answer { partial_success } = serde_json::from_slice(body).ok()?;
    let count = match partial_success.rejected_data_points {
        Count::Number(count) => count,
        Count::Text(text) => text.parse().unwrap_or(0),
    };
    let points = crate::words::count(usize::try_from(count).unwrap_or(usize::MAX), "data point");
    let message: String =
        partial_success.error_message.chars().filter(|c| !c.is_control()).take(MESSAGE_MAX).collect();
    let why = if message.is_empty() { String::new() } else { format!(": {message}") };
    (count > 0).then(|| format!("{points} rejected{why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_receiver_rejects_is_told_with_its_reason() {
        let told = |body: &str| rejected(body.as_bytes());
        let both = r#"{"partialSuccess":{"rejectedDataPoints":"12","errorMessage":"too\u001b old"}}"#;
        assert_eq!(told(both).as_deref(), Some("12 data points rejected: too old"));
        assert_eq!(
            told(r#"{"partialSuccess":{"rejectedDataPoints":1}}"#).as_deref(),
            Some("1 data point rejected")
        );
        for fine in
            ["", "{}", r#"{"partialSuccess":{}}"#, r#"{"partialSuccess":{"errorMessage":"use gzip"}}"#, "[1]"]
        {
            assert_eq!(told(fine), None, "{fine}");
        }
    }

    #[test]
    fn a_pause_that_a_receiver_asks_for_has_a_bound() {
        assert_eq!(retry_after(" 30 "), Some(Duration::from_secs(30)));
        assert_eq!(retry_after("999999999"), Some(RETRY_AFTER_MAX));
        assert_eq!(retry_after("Wed, 21 Oct 2026 07:28:00 GMT"), None);
    }
}
