//! Escaping for systemd's files: words of command lines, and variable assignments.

/// One word of a command line (systemd.service(5), "COMMAND LINES").
pub fn word(text: &str) -> String {
    in_quotes(&escaped(text).replace('$', "$$"))
}

/// An `Environment=` assignment, in which `$` has no meaning (systemd.exec(5)).
pub fn variable(name: &str, value: &str) -> String {
    in_quotes(&format!("{name}={}", escaped(value)))
}

/// Escapes what systemd would interpret as a specifier, the end of a word, or the end of a line.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '%' => out.push_str("%%"),
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\'' => out.push_str("\\'"),
            '\n' => out.push_str("\\n"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

/// Adds quotes if needed.
fn in_quotes(text: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-+:=@,%$".contains(c);
    if text.chars().all(is_plain) { text.to_owned() } else { format!("\"{text}\"") }
}

/// A path as the value of a setting, in which `%` begins a specifier and quotes have no meaning.
pub fn path(text: &str) -> String {
    text.replace('%', "%%")
}

/// A setting below a comment with the source of its value.
pub(crate) fn setting(key: &str, value: &str, source: &str) -> String {
    let source = source.replace(char::is_control, " ");
    if source.is_empty() { format!("{key}={value}\n") } else { format!("# {source}\n{key}={value}\n") }
}
