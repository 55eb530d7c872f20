//! Transcripts with everything replaced that differs between runs, and waiting with a timeout.

use regex::Regex;

/// A text without process ids, times and amounts; tables independent of column widths.
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
        // A worker without a core has not answered in time.
        (r"blocked \d+s", "online"),
        (r"pid  .*\d+", "pid              [pid]"),
        (r"uptime  .*\d+s,", "uptime           [uptime],"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[time]"),
        (r"/\S+/node ", "[node] "),
        (r#""saved_at_ms": \d+"#, r#""saved_at_ms": [time]"#),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
    }
    text
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_until(holds: impl FnMut() -> bool) {
    forkful_testkit::wait_until("what the test waits for", holds);
}
