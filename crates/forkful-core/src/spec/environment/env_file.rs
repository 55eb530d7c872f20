//! The grammar of `.env` files, as Node.js reads them.

use std::collections::BTreeMap;
use std::fmt;

/// Maximum bytes of a `.env` file.
pub const ENV_FILE_BYTES_MAX: u64 = 1 << 20;

/// An error in a `.env` file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvFileFault {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong.
    pub message: &'static str,
}

impl fmt::Display for EnvFileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message)
    }
}

/// Parses a `.env` file like Node.js: `NAME=value`, `export` before it, `#` comments, values in single,
/// double or back quotes over several lines, `\n` in double quotes. Variables are not expanded.
pub fn parse_env_file(text: &str) -> Result<BTreeMap<String, String>, EnvFileFault> {
    let mut variables = BTreeMap::new();
    let mut rest = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut line = 1;
    while !rest.is_empty() {
        let end = rest.find('\n').unwrap_or(rest.len());
        let (first, after) = (&rest[..end], rest.get(end + 1..).unwrap_or_default());
        let trimmed = first.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') {
            (rest, line) = (after, line + 1);
            continue;
        }
        let Some(equals) = first.find('=') else {
            return Err(EnvFileFault { line, message: "expected NAME=value" });
        };
        let name = first[..equals].trim();
        let name = name.strip_prefix("export ").unwrap_or(name).trim();
        if name.is_empty() || name.contains(char::is_whitespace) || name.contains('\0') {
            return Err(EnvFileFault { line, message: "expected a name without spaces before the `=`" });
        }
        let from_value = &rest[equals + 1..];
        let (value, used) = match quoted_value(from_value) {
            Quoted::Value(value, used) => (value, used),
            Quoted::NotClosed => return Err(EnvFileFault { line, message: "a quote is not closed" }),
            Quoted::No => {
                let plain = &first[equals + 1..];
                (plain.split('#').next().unwrap_or_default().trim().to_owned(), plain.len())
            }
        };
        if value.contains('\0') {
            return Err(EnvFileFault { line, message: "a value cannot hold a NUL character" });
        }
        let consumed = &from_value[..used];
        let tail_end = from_value[used..].find('\n').map_or(from_value.len(), |at| used + at + 1);
        line += consumed.matches('\n').count() + 1;
        rest = &from_value[tail_end..];
        variables.insert(name.to_owned(), value);
    }
    Ok(variables)
}

enum Quoted {
    /// The value, and its length in bytes including quotes.
    Value(String, usize),
    NotClosed,
    No,
}

fn quoted_value(text: &str) -> Quoted {
    let blank = text.len() - text.trim_start_matches([' ', '\t']).len();
    let Some(quote) = text[blank..].chars().next().filter(|c| matches!(c, '"' | '\'' | '`')) else {
        return Quoted::No;
    };
    let inner = &text[blank + 1..];
    let Some(end) = inner.find(quote) else { return Quoted::NotClosed };
    let value = if quote == '"' { inner[..end].replace("\\n", "\n") } else { inner[..end].to_owned() };
    Quoted::Value(value, blank + 1 + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn env_files_are_read_as_node_does() {
        let text = "# a comment\nA=1\nexport B = two words # not this\r\nC=\"line one\nline two\\nthree\" # c\n\
                    D='a # b'\nE=\nF=`it's \"x\"`\n\n  G=last";
        let variables = parse_env_file(text).unwrap();
        let pairs: Vec<(&str, &str)> = variables.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            pairs,
            [
                ("A", "1"),
                ("B", "two words"),
                ("C", "line one\nline two\nthree"),
                ("D", "a # b"),
                ("E", ""),
                ("F", "it's \"x\""),
                ("G", "last")
            ]
        );
        let fault = |text| parse_env_file(text).map_err(|fault| (fault.line, fault.message)).unwrap_err();
        assert_eq!(fault("A=\"1\n2\"\nB\n"), (3, "expected NAME=value"));
        assert_eq!(fault("A=\"1\n2"), (1, "a quote is not closed"));
        assert_eq!(fault("a b=1"), (1, "expected a name without spaces before the `=`"));
    }
}
