//! Bytes of lines as JSON strings.

/// Appends a text as a JSON string with its quotes; what is not UTF-8 is replaced.
pub(super) fn string(bytes: &[u8], out: &mut Vec<u8>) {
    let written = serde_json::to_writer(out, &String::from_utf8_lossy(bytes));
    debug_assert!(written.is_ok(), "a Vec takes everything, and a text has a JSON form");
}
