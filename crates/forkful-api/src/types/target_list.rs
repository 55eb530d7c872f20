//! Targets in a query: separated by commas, with a backslash before a comma or a backslash in a name.

/// Joins targets to a text.
pub fn join_targets<T: AsRef<str>>(targets: &[T]) -> String {
    let escaped = targets.iter().map(|target| target.as_ref().replace('\\', "\\\\").replace(',', "\\,"));
    escaped.collect::<Vec<_>>().join(",")
}

/// Splits a text into targets; empty ones are omitted.
pub fn split_targets(text: &str) -> Vec<String> {
    let mut targets = vec![String::new()];
    let mut is_escaped = false;
    for character in text.chars() {
        match character {
            '\\' if !is_escaped => is_escaped = true,
            ',' if !is_escaped => targets.push(String::new()),
            other => {
                is_escaped = false;
                if let Some(last) = targets.last_mut() {
                    last.push(other);
                }
            }
        }
    }
    targets.retain(|target| !target.is_empty());
    targets
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_what_it_was() {
        for targets in [vec!["a"], vec!["a,b", "c"], vec![r"a\", ",", r"\,\"], vec!["web/api", "7", "ü"]] {
            assert_eq!(split_targets(&join_targets(&targets)), targets);
        }
        assert_eq!(split_targets(""), Vec::<String>::new());
        assert_eq!(split_targets(",a,,b,"), ["a", "b"]);
    }
}
