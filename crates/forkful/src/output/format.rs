//! Numbers and texts for people.

/// A duration in its largest unit: `12s`, `5m`, `3h`, `2d`.
pub(crate) fn span(milliseconds: u64) -> String {
    let seconds = milliseconds / 1000;
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Bytes: `0 B`, `812 KiB`, `44.9 MiB`.
pub(crate) fn bytes(bytes: u64) -> String {
    const KIB: f64 = 1024.0;
    let value = bytes as f64;
    if value < KIB {
        format!("{bytes} B")
    } else if value < KIB * KIB {
        format!("{:.0} KiB", value / KIB)
    } else if value < KIB * KIB * KIB {
        format!("{:.1} MiB", value / KIB / KIB)
    } else {
        format!("{:.2} GiB", value / KIB / KIB / KIB)
    }
}

pub(crate) use forkful_core::words::{bound, count};

/// Maximum names in a note.
const NAMES_SHOWN: usize = 8;

/// A list of names for a note.
pub(crate) fn shortened(names: &[&str]) -> String {
    let shown = names[..names.len().min(NAMES_SHOWN)].join(", ");
    match names.len().saturating_sub(NAMES_SHOWN) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A time as UTC: `2026-03-09 12:30:05`.
pub(crate) fn utc(milliseconds: u64) -> String {
    forkful_core::date_format::utc(milliseconds, "%Y-%m-%d %H:%M:%S")
}

/// An app's output, quoted in a message: without colours, with other control characters made visible.
pub(crate) fn quoted(text: &str) -> String {
    visible(&forkful_core::ansi::stripped(text))
}

/// Foreign text (an app's output, a name) with control characters made visible, and those that change the direction of
/// text, so that it cannot move the cursor, hide or reorder text. Tabs and line breaks stay.
pub(crate) fn visible(text: &str) -> String {
    forkful_core::foreign::visible(text, &['\t', '\n'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_and_bounds_use_the_unit_that_fits() {
        let spans = [0, 59_999, 60_000, 3_599_999, 3_600_000, 86_400_000, 900_000_000].map(span);
        assert_eq!(spans, ["0s", "59s", "1m", "59m", "1h", "1d", "10d"]);
        assert_eq!([0, 1600, 5000, 90_000, 120_000].map(bound), ["0s", "1600ms", "5s", "90s", "2m"]);
    }

    #[test]
    fn bytes_use_the_unit_that_fits() {
        let sizes = [0, 1023, 1024, 47_080_000, 3 << 30].map(bytes);
        assert_eq!(sizes, ["0 B", "1023 B", "1 KiB", "44.9 MiB", "3.00 GiB"]);
    }

    #[test]
    fn times_are_utc() {
        assert_eq!(utc(0), "1970-01-01 00:00:00");
        assert_eq!(utc(951_782_400_000), "2000-02-29 00:00:00");
        assert_eq!(utc(1_773_059_405_999), "2026-03-09 12:30:05");
    }

    #[test]
    fn colours_of_quoted_output_go() {
        // As Deno prints its errors.
        assert_eq!(quoted("\u{1b}[0m\u{1b}[1m\u{1b}[31merror\u{1b}[0m: no\u{7f}"), "error: no\\u{7f}");
        assert_eq!(quoted("\u{1b}]8;;file:///a\u{7}a.ts\u{1b}]8;;\u{7} \u{1b}"), "a.ts ");
        assert_eq!(quoted("\u{1b}]8;;file:///a\u{1b}\\a.ts\u{1b}]8;;\u{1b}\\: no"), "a.ts: no");
    }

    #[test]
    fn control_characters_and_changes_of_direction_become_visible() {
        assert_eq!(visible("a\tb\u{1b}[31mc\r\u{7f}ü"), "a\tb\\u{1b}[31mc\\r\\u{7f}ü");
        assert_eq!(visible("txt.\u{202e}exe\u{2066}\n"), "txt.\\u{202e}exe\\u{2066}\n");
    }
}
