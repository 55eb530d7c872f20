//! Converts app names to names that other platforms accept.

/// The longest label of a DNS name (RFC 1123).
const LABEL_MAX: usize = 63;

/// A name that starts with a letter and contains only lower-case letters, digits and single dashes (RFC
/// 1035); `None` if nothing remains. Names that start with a digit get the prefix `app-`.
pub(crate) fn label(name: &str) -> Option<String> {
    let mut label = String::new();
    for c in name.chars().map(|c| c.to_ascii_lowercase()) {
        match c {
            'a'..='z' | '0'..='9' => label.push(c),
            _ if !label.is_empty() && !label.ends_with('-') => label.push('-'),
            _ => {}
        }
    }
    if label.starts_with(|c: char| c.is_ascii_digit()) {
        label.insert_str(0, "app-");
    }
    label.truncate(LABEL_MAX);
    let label = label.trim_end_matches('-').to_owned();
    (!label.is_empty()).then_some(label)
}

#[cfg(test)]
mod tests {
    use super::label;

    #[test]
    fn names_become_labels_of_dns() {
        let cases = [
            ("api", "api"),
            ("My App", "my-app"),
            ("a__b--c.", "a-b-c"),
            ("2nd", "app-2nd"),
            ("äpi@2", "pi-2"),
        ];
        for (name, expected) in cases {
            assert_eq!(label(name).as_deref(), Some(expected), "{name}");
        }
        assert_eq!(label("ü ö"), None);
        let long = label(&"ab-".repeat(40)).unwrap();
        assert!(long.len() <= LABEL_MAX && !long.ends_with('-'), "{long}");
    }

    use super::LABEL_MAX;
}
