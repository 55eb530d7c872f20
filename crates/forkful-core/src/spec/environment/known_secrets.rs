//! The values of secrets, which texts such as lines of output must not contain.

use super::REDACTED;

/// Shorter values are not looked for: a password such as `1` would take every digit away.
const BYTES_MIN: usize = 4;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct KnownSecrets(Vec<String>);

impl KnownSecrets {
    /// Those with these values. Of a value of several lines, such as a key in PEM form, each line is looked for as well.
    pub fn new(values: impl IntoIterator<Item = String>) -> Self {
        let mut parts = Vec::new();
        for value in values {
            parts.extend(value.lines().map(str::trim).map(str::to_owned));
            parts.push(value);
        }
        parts.retain(|part| part.len() >= BYTES_MIN);
        // The longest first: one may be a part of another.
        parts.sort_unstable_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        parts.dedup();
        Self(parts)
    }

    /// The text without these values.
    pub fn redact(&self, mut text: String) -> String {
        for part in &self.0 {
            if text.contains(part) {
                text = text.replace(part, REDACTED);
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redacted(text: &str, secrets: &[&str]) -> String {
        KnownSecrets::new(secrets.iter().map(|&secret| secret.to_owned())).redact(text.to_owned())
    }

    #[test]
    fn secrets_are_redacted_the_longest_first() {
        assert_eq!(
            redacted("token abcdef-more and abcdef", &["abcdef", "abcdef-more"]),
            "token [redacted] and [redacted]"
        );
        assert_eq!(redacted("nothing of the kind", &["abcdef"]), "nothing of the kind");
    }

    #[test]
    fn very_short_secrets_stay_because_they_would_match_anywhere() {
        assert_eq!(
            redacted("login with four at 10:11", &["four", "1", "log"]),
            "login with [redacted] at 10:11"
        );
    }

    #[test]
    fn a_secret_of_several_lines_is_found_whole_and_line_by_line() {
        let key = "-----BEGIN KEY-----\n  MIIEvQ==\nend\n";
        assert_eq!(redacted("key: MIIEvQ==", &[key]), "key: [redacted]");
        assert_eq!(redacted(&format!("key: {key}"), &[key]), "key: [redacted]");
    }
}
