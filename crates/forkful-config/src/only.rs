//! Which apps `--only` chooses. Its text is a list of names, but a name may contain commas and blanks: a text or a
//! part of it that an app has as its name is not split further.

/// The names that texts of `--only` choose among the names of all apps. What is no app's name is part of the result, for
/// the caller to refuse.
pub fn chosen_names(only: &[String], names: &[String]) -> Vec<String> {
    let is_name = |text: &str| names.iter().any(|name| name == text);
    let mut chosen: Vec<String> = Vec::new();
    for text in only {
        if is_name(text) {
            chosen.push(text.clone());
            continue;
        }
        for part in text.split(',') {
            match [part, part.trim()].into_iter().find(|part| is_name(part)) {
                Some(name) => chosen.push(name.to_owned()),
                None => chosen.extend(part.split_whitespace().map(str::to_owned)),
            }
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(only: &[&str]) -> Vec<String> {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        chosen_names(&texts(only), &texts(&["a b", "c,d", "a", "api", "worker"]))
    }

    #[test]
    fn a_whole_name_is_taken_before_the_text_is_split() {
        for (only, expected) in [
            (&["a b"][..], &["a b"][..]),
            (&["c,d"], &["c,d"]),
            (&["api,worker"], &["api", "worker"]),
            (&["api worker"], &["api", "worker"]),
            (&["api, worker"], &["api", "worker"]),
            (&["a b,api"], &["a b", "api"]),
            (&["api, a b ,worker"], &["api", "a b", "worker"]),
            (&["a api"], &["a", "api"]),
            (&["c,d", "a b"], &["c,d", "a b"]),
            (&["c,api"], &["c", "api"]),
            (&["other one"], &["other", "one"]),
            (&["", " ,"], &[]),
            (&[], &[]),
        ] {
            assert_eq!(chosen(only), expected, "{only:?}");
        }
    }
}
