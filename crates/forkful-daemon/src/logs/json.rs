//! Bytes of lines as the inside of JSON strings.

/// What stands for a byte after `\`; 0 for a byte that stands for itself, 1 for `\u00XX`.
const ESCAPES: [u8; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 0x20 {
        table[byte] = 1;
        byte += 1;
    }
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'\n' as usize] = b'n';
    table[b'\r' as usize] = b'r';
    table[b'\t' as usize] = b't';
    table
};

/// Appends a text as it stands between the quotes of a JSON string; what is not UTF-8 is replaced.
pub(super) fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(text) => escape_text(text.as_bytes(), out),
        Err(_) => escape_text(String::from_utf8_lossy(bytes).as_bytes(), out),
    }
}

fn escape_text(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 16);
    let mut rest = text;
    while let Some(at) = rest.iter().position(|byte| ESCAPES[usize::from(*byte)] != 0) {
        out.extend_from_slice(&rest[..at]);
        match ESCAPES[usize::from(rest[at])] {
            1 => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                let (high, low) = (rest[at] >> 4, rest[at] & 15);
                out.extend_from_slice(&[
                    b'\\',
                    b'u',
                    b'0',
                    b'0',
                    HEX[usize::from(high)],
                    HEX[usize::from(low)],
                ]);
            }
            short => out.extend_from_slice(&[b'\\', short]),
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}
