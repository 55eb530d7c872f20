//! Cleans output lines for a pane: removes colours and other control sequences.

use crate::output::format::visible;

/// Maximum width of a tab.
const TAB: usize = 4;

/// The longest line that is kept; the file has the rest.
const CHARACTERS_MAX: usize = 4096;

/// See the module's documentation.
pub(super) fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len().min(CHARACTERS_MAX));
    let mut length = 0;
    for c in forkful_core::ansi::stripped(line).chars() {
        match c {
            '\t' => {
                let width = TAB - length % TAB;
                text.extend(std::iter::repeat_n(' ', width));
                length += width;
            }
            _ => {
                text.push(c);
                length += 1;
            }
        }
        if length >= CHARACTERS_MAX {
            text.push('…');
            break;
        }
    }
    visible(text.trim_end_matches('\r')).replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moves_the_cursor_or_colours_goes() {
        assert_eq!(plain("\u{1b}[1;31merror\u{1b}[0m: no"), "error: no");
        assert_eq!(plain("\u{1b}]0;title\u{7}text"), "text");
        assert_eq!(plain("\u{1b}]8;;file:///a\u{1b}\\a.ts\u{1b}]8;;\u{1b}\\: no"), "a.ts: no");
        assert_eq!(plain("a\tb\r"), "a   b");
        assert_eq!(plain("50%\r100%"), "50%\\r100%");
        assert_eq!(plain("\u{1b}[12"), "");
        assert_eq!(plain(&"x".repeat(9000)).chars().count(), CHARACTERS_MAX + 1);
    }
}
