//! siege's URLs: a URL on the command line or a file of URLs, with `POST` bodies and variables.

use std::collections::HashMap;
use std::path::Path;

use forkful_load::{Request, Url};

use crate::Surroundings;

/// Maximum nesting depth of variables.
const NESTING_MAX: usize = 8;

/// The URLs of a file, one per line; `#` begins a comment, `NAME = value` defines a variable for `$(NAME)`
/// and `${NAME}`.
pub(super) fn lines(text: &str) -> Vec<String> {
    let mut variables: HashMap<String, String> = HashMap::new();
    let mut urls = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let line = replaced(line, &variables);
        match line.split_once('=') {
            Some((name, value)) if is_name(name.trim()) => {
                variables.insert(name.trim().to_owned(), value.trim().to_owned());
            }
            _ => urls.push(line),
        }
    }
    urls
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn replaced(line: &str, variables: &HashMap<String, String>) -> String {
    let mut line = line.to_owned();
    for _ in 0..NESTING_MAX {
        let before = line.clone();
        for (name, value) in variables {
            line = line.replace(&format!("$({name})"), value).replace(&format!("${{{name}}}"), value);
        }
        if line == before {
            break;
        }
    }
    line
}

/// The first word, and what follows it.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim();
    text.split_once(char::is_whitespace).map_or((text, ""), |(word, rest)| (word, rest.trim()))
}

/// `URL`, `URL POST body`, `URL POST <file`, the same with `PUT` and `PATCH`.
pub(super) fn request(line: &str, surroundings: &Surroundings) -> Result<Request, String> {
    let (url, rest) = word(line);
    let (method, rest) = word(rest);
    let method = if method.is_empty() { "GET" } else { method }.to_owned();
    let body = match rest.strip_prefix('<') {
        Some(file) => (surroundings.read)(Path::new(file.trim()))
            .map_err(|error| format!("siege: cannot read the body {}: {error}", file.trim()))?,
        None => rest.as_bytes().to_vec(),
    };
    if !method.chars().all(|c| c.is_ascii_uppercase()) {
        return Err(format!(
            "siege: `{line}`: after the URL stands POST, PUT or another method, not `{method}`"
        ));
    }
    let url = Url::parse(url).map_err(|error| format!("siege: {error}"))?;
    Ok(Request { method, body, ..Request::to(url) })
}

#[cfg(test)]
mod tests {
    use super::lines;

    #[test]
    fn variables_are_filled_in_and_comments_left_out() {
        let text = "HOST=127.0.0.1:80\nBASE = http://$(HOST)\n# no\n\n$(BASE)/a\n${BASE}/b POST x=1\n";
        assert_eq!(lines(text), ["http://127.0.0.1:80/a", "http://127.0.0.1:80/b POST x=1"]);
    }
}
