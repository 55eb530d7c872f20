//! Transcripts with everything replaced that differs between runs, and waiting with a timeout.

use std::time::{Duration, Instant};

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
        (r"\| \d+ \| \d+[sm] \|", "| [pid] | [uptime] |"),
        // A worker without a core has not answered in time.
        (r"blocked \d+[sm]", "online"),
        (r"pid  .*\d+", "pid              [pid]"),
        (r"uptime  .*\d+[sm],", "uptime           [uptime],"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "[time]"),
        (r"/\S+/node ", "[node] "),
        (r#""saved_at_ms": \d+"#, r#""saved_at_ms": [time]"#),
    ] {
        text = Regex::new(pattern).unwrap().replace_all(&text, replacement).into_owned();
    }
    text
}

/// Asks until the answer is the expected one, for a minute at most, and returns the last answer.
pub(crate) fn eventually<T>(ask: impl Fn() -> T, is_expected: impl Fn(&T) -> bool) -> T {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let answer = ask();
        if is_expected(&answer) || Instant::now() > end {
            return answer;
        }
    }
}

/// Waits until a condition holds.
#[track_caller]
pub(crate) fn wait_until(holds: impl FnMut() -> bool) {
    forkful_testkit::wait_until("what the test waits for", holds);
}
