//! Fuzz target: two saved reports, which may come from someone else.

use crate::reports::{self, Context};

/// Separates the two reports of an input; without it, a report is compared with itself.
const SEPARATOR: u8 = 0;

/// Two reports are compared and shown in each form, or refused with a reason.
pub fn reports(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (a, b) = text.split_once(char::from(SEPARATOR)).unwrap_or((text, text));
    let _is_report = reports::looks_like_report(a);
    let context =
        Context { forkful: "0.1.0".to_owned(), created_at_ms: 1, command: "forkful compare".to_owned() };
    let document = match reports::compare([("a.json", a), ("b.json", b)], &context) {
        Ok(document) => document,
        Err(error) => {
            assert!(error.to_string().contains(".json"), "{error}");
            return;
        }
    };
    for text in [reports::text(&document), reports::markdown(&document)] {
        let odd = text.chars().find(|letter| letter.is_control() && *letter != '\n');
        assert_eq!(odd, None, "a control character in {text}");
    }
    let json = serde_json::to_string(&document).expect("a document is JSON");
    assert!(serde_json::from_str::<serde_json::Value>(&json).is_ok());
}

#[cfg(test)]
mod tests {
    #[test]
    fn corpus_of_reports() {
        forkful_testkit::replay("reports", super::reports);
    }
}
