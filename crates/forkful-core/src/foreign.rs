//! Foreign text in output: characters that steer a terminal or reorder the surrounding text, made visible.

/// Whether a character changes how the surrounding text is shown: a control character, or a character that changes the text's direction.
pub fn is_steering(c: char) -> bool {
    c.is_control() || is_bidi_control(c)
}

/// Characters that change the direction of the surrounding text (Unicode's property `Bidi_Control`, UAX #9):
/// with them a table or log would show a text that differs from the real one.
pub fn is_bidi_control(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A text with escapes (`\n`, `\u{1b}`) in place of characters that steer, except those in `kept`.
pub fn visible(text: &str, kept: &[char]) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_steering(c) && !kept.contains(&c) {
            shown.extend(c.escape_default());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A text with U+FFFD in place of each character that steers, so that its length in characters stays.
pub fn replaced(text: &str) -> String {
    text.chars().map(|c| if is_steering(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_that_steer_are_escaped_or_replaced() {
        let text = "a\tb\n\u{1b}[31m\u{7f}\u{9b}\u{202e}\u{2069}\u{200f}\u{61c}ü日";
        assert_eq!(
            visible(text, &['\t', '\n']),
            "a\tb\n\\u{1b}[31m\\u{7f}\\u{9b}\\u{202e}\\u{2069}\\u{200f}\\u{61c}ü日"
        );
        assert_eq!(visible("a\tb\r\n", &[]), "a\\tb\\r\\n");
        assert_eq!(replaced("a\n\u{202a}b"), "a\u{fffd}\u{fffd}b");
    }
}
