//! Removes terminal control sequences (ECMA-48): colours, cursor movements, titles, links.

/// The byte that begins a control sequence. One-byte forms are left alone, because in UTF-8 these are parts
/// of letters.
pub const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

/// Appends one line without its control sequences. An unterminated sequence extends to the end of the line.
pub fn strip(line: &[u8], out: &mut Vec<u8>) {
    let mut rest = line;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        out.extend_from_slice(&rest[..at]);
        let after = &rest[at + 1..];
        rest = &after[length(after)..];
    }
    out.extend_from_slice(rest);
}

/// One line without its control sequences.
pub fn stripped(line: &str) -> String {
    let mut out = Vec::with_capacity(line.len());
    strip(line.as_bytes(), &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// How many bytes after the escape belong to the sequence.
fn length(after: &[u8]) -> usize {
    match after.first() {
        None => 0,
        // Control sequence: parameters, intermediates, and one final byte.
        Some(b'[') => {
            let end = after[1..].iter().position(|byte| !(0x20..=0x3f).contains(byte));
            match end {
                None => after.len(),
                Some(end) if (0x40..=0x7e).contains(&after[1 + end]) => end + 2,
                // Interrupted by a byte that cannot be part of a sequence.
                Some(end) => end + 1,
            }
        }
        // Strings: until the string terminator, or a bell, as terminals accept it.
        Some(b']' | b'P' | b'X' | b'^' | b'_') => match memchr::memchr2(BELL, ESCAPE, after) {
            None => after.len(),
            Some(end) if after[end] == BELL => end + 1,
            Some(end) if after.get(end + 1) == Some(&b'\\') => end + 2,
            Some(end) => end,
        },
        // Intermediates and a final byte.
        Some(0x20..=0x7e) => {
            let end = after.iter().position(|byte| !(0x20..=0x2f).contains(byte));
            end.map_or(after.len(), |end| end + usize::from((0x30..=0x7e).contains(&after[end])))
        }
        Some(_) => 0,
    }
}
