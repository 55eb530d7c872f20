//! Edits texts in which each key has its own line: YAML and TOML. The configuration's reader reports the line
//! of each key.

use forkful_config::AppOptions;

use super::{Change, POOL_VARIABLE};

/// The differences between the two formats.
#[derive(Debug)]
pub(super) struct Grammar {
    /// The separator between a key and its value.
    separator: &'static str,
    /// Formats an object with one key on one line.
    object: fn(&str, &str) -> String,
    /// A key without a value may be followed by an indented block (YAML).
    has_blocks: bool,
}

pub(super) const YAML: Grammar =
    Grammar { separator: ":", object: |key, value| format!("{{ {key}: {value} }}"), has_blocks: true };

pub(super) const TOML: Grammar =
    Grammar { separator: "=", object: |key, value| format!("{{ {key} = {value} }}"), has_blocks: false };

pub(super) fn edit(text: &str, app: &AppOptions, change: Change, grammar: &Grammar) -> Option<String> {
    let mut lines: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let line_of = |key: &str| app.origin.as_ref()?.keys.get(key)?.at.map(|at| at.line - 1);
    // The pool first if it is further down, so that the line numbers above stay valid.
    let instances = line_of("instances");
    let env = line_of("env");
    let script = line_of("script")?;
    if let Some(pool) = change.pool {
        let value = format!("\"{pool}\"");
        match env {
            Some(line) => set_in_object(&mut lines, line, POOL_VARIABLE, &value, grammar)?,
            None => {
                insert_after(&mut lines, script, "env", &(grammar.object)(POOL_VARIABLE, &value), grammar)?;
            }
        }
    }
    // Lines below the script may have moved by one; the lines of `instances` are searched again by their
    // text.
    let workers = change.workers.to_string();
    match instances {
        Some(line) => {
            let moved = lines.len() - text.split('\n').count();
            let at = [line, line + moved]
                .into_iter()
                .find(|at| value_range(&lines, *at, "instances", grammar).is_some())?;
            replace_value(&mut lines, at, "instances", &workers, grammar)?;
        }
        None => insert_after(&mut lines, script, "instances", &workers, grammar)?,
    }
    Some(lines.join("\n"))
}

/// The range of a key's value in its line: from its first character to the comment or the end.
fn value_range(lines: &[String], at: usize, key: &str, grammar: &Grammar) -> Option<std::ops::Range<usize>> {
    let line = lines.get(at)?;
    let key_at = line.find(key)?;
    let is_start = line[..key_at].chars().all(|c| c.is_whitespace() || matches!(c, '-' | '"' | '\''));
    let after = key_at + key.len();
    let separator = after + line[after..].find(grammar.separator)?;
    let is_adjacent = line[after..separator].chars().all(|c| c.is_whitespace() || matches!(c, '"' | '\''));
    if !is_start || !is_adjacent {
        return None;
    }
    let rest = separator + grammar.separator.len();
    let start = rest + line[rest..].len() - line[rest..].trim_start().len();
    let value = &line[start..];
    let end = value.find(" #").or_else(|| value.starts_with('#').then_some(0)).unwrap_or(value.len());
    Some(start..start + value[..end].trim_end().len())
}

fn replace_value(lines: &mut [String], at: usize, key: &str, value: &str, grammar: &Grammar) -> Option<()> {
    let range = value_range(lines, at, key, grammar)?;
    if range.is_empty() {
        return None;
    }
    lines[at].replace_range(range, value);
    Some(())
}

/// Inserts a line below another key, with its indentation. After `- script: x`, which starts a list element,
/// keys are indented by two more columns.
fn insert_after(
    lines: &mut Vec<String>,
    after: usize,
    key: &str,
    value: &str,
    grammar: &Grammar,
) -> Option<()> {
    let line = lines.get(after)?;
    let indent: String = line
        .chars()
        .take_while(|c| c.is_whitespace() || (grammar.has_blocks && *c == '-'))
        .map(|c| if c == '-' { ' ' } else { c })
        .collect();
    let is_block = line.trim_end().ends_with(grammar.separator);
    if is_block {
        return None;
    }
    let space = if grammar.separator == "=" { " " } else { "" };
    lines.insert(after + 1, format!("{indent}{key}{space}{} {value}", grammar.separator));
    Some(())
}

/// A key in the object whose key is on line `at`: in braces on the same line, in a table, or in the indented
/// lines below.
fn set_in_object(
    lines: &mut Vec<String>,
    at: usize,
    key: &str,
    value: &str,
    grammar: &Grammar,
) -> Option<()> {
    let line = lines.get(at)?.clone();
    if let Some(open) = line.find('{') {
        let close = line.rfind('}')?;
        let space = if grammar.separator == "=" { " " } else { "" };
        let inner = line[open + 1..close].trim();
        if inner.contains(key) {
            return None;
        }
        let rest = if inner.is_empty() { String::new() } else { format!(", {inner}") };
        lines[at] =
            format!("{} {key}{space}{} {value}{rest} {}", &line[..=open], grammar.separator, &line[close..]);
        return Some(());
    }
    let is_header = line.trim_start().starts_with('[');
    if !is_header && !line.trim_end().ends_with(grammar.separator) {
        return None;
    }
    let depth = |line: &str| line.len() - line.trim_start().len();
    let first = lines.get(at + 1)?;
    let indent = if is_header { String::new() } else { " ".repeat(depth(first)) };
    let belongs = |line: &String| {
        let is_empty = line.trim().is_empty();
        if is_header { !line.trim_start().starts_with('[') } else { is_empty || depth(line) >= indent.len() }
    };
    let block = at + 1..at + 1 + lines[at + 1..].iter().take_while(|line| belongs(line)).count();
    if let Some(line) = block.clone().find(|line| value_range(lines, *line, key, grammar).is_some()) {
        replace_value(lines, line, key, value, grammar)
    } else {
        let space = if grammar.separator == "=" { " " } else { "" };
        lines.insert(at + 1, format!("{indent}{key}{space}{} {value}", grammar.separator));
        Some(())
    }
}
