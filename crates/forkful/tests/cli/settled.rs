//! Transcripts with everything replaced that differs from run to run, and waiting with a bound.

use regex::Regex;

/// A text without process ids, times and amounts; tables in a form that does not depend on the width
/// of their columns.
pub(crate) fn settled(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with(['┌', '╞', '└'])) {
        let cells: Vec<&str> = line.trim_matches('│').split('┆').map(str::trim).collect();
        lines.push(if cells.len() > 1 { format!("| {} |", cells.join(" | ")) } else { line.to_owned() });
    }
    let mut text = lines.join("\n");
    for (pattern, replacement) in [
        (r"\d+\.\d%", "[cpu]"),
        (r"\d+\.\d MiB|\d+ KiB", "[mem]"),
        (r"\| \d+ \| \d+s \|", "| [pid] | [uptime] |"),
        (r#""saved_at_ms": \d+"#, r#""saved_at_ms": [time]"#),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
    }
    text
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(holds: impl FnMut() -> bool) {
    forkful_testkit::wait_until("what the test waits for", holds);
}
