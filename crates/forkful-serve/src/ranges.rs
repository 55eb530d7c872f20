//! Ranges of files: what RFC 9110 wants of `Range` and `If-Range` beyond what tower-http does.

use hyper::header::{self, HeaderMap, HeaderValue};

/// Prepares `Range` for tower-http: positions beyond the largest number become that number, because the end of a range may be beyond
/// the end of the file (section 14.1.2), and a range in another unit than bytes is ignored (section 14.2).
pub(crate) fn clip(headers: &mut HeaderMap) {
    let Some(range) = headers.get(header::RANGE) else { return };
    let clipped = range.to_str().ok().filter(|text| text.starts_with("bytes=")).map(clipped);
    match clipped.and_then(|text| HeaderValue::from_str(&text).ok()) {
        Some(clipped) => headers.insert(header::RANGE, clipped),
        None => headers.remove(header::RANGE),
    };
}

fn clipped(range: &str) -> String {
    let clip = |word: &str| {
        let is_too_large =
            word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_digit()) && word.parse::<u64>().is_err();
        if is_too_large { u64::MAX.to_string() } else { word.to_owned() }
    };
    let separators = |c: char| !c.is_ascii_digit();
    range
        .split_inclusive(separators)
        .map(|part| match part.strip_suffix(separators) {
            Some(digits) => clip(digits) + &part[digits.len()..],
            None => clip(part),
        })
        .collect()
}

/// Whether the response must be the whole file instead of the range that was asked for: the file is not the version that
/// `If-Range` names, it is empty and so has no ranges, or it is shorter than the last bytes that were asked for.
pub(crate) fn is_refused(response: &HeaderMap, request: &HeaderMap) -> bool {
    let Some(sent) = response.get(header::CONTENT_RANGE).map(HeaderValue::as_bytes) else { return false };
    let is_other = request.get(header::IF_RANGE).is_some_and(|condition| !is_version(response, condition));
    let is_short = || sent.starts_with(b"bytes */") && request.get(header::RANGE).is_some_and(is_suffix);
    is_other || sent.ends_with(b"/0") || is_short()
}

/// Whether a range is the last bytes of a file, at least one.
fn is_suffix(range: &HeaderValue) -> bool {
    let bytes = range.to_str().ok().and_then(|text| text.strip_prefix("bytes=-")?.parse::<u64>().ok());
    bytes.is_some_and(|bytes| bytes > 0)
}

/// A strong comparison of the `ETag`, or the exact date (section 13.1.5). The `ETag`s of tower-http are strong.
fn is_version(response: &HeaderMap, condition: &HeaderValue) -> bool {
    [header::ETAG, header::LAST_MODIFIED].iter().any(|name| response.get(name) == Some(condition))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_numbers_that_are_too_large_are_clipped() {
        for (range, expected) in [
            ("bytes=0-18446744073709551615", "bytes=0-18446744073709551615"),
            ("bytes=0-18446744073709551616", "bytes=0-18446744073709551615"),
            ("bytes=-99999999999999999999", "bytes=-18446744073709551615"),
            ("bytes=0-1, 4-99999999999999999999", "bytes=0-1, 4-18446744073709551615"),
            ("bytes=00-5", "bytes=00-5"),
            ("bytes=", "bytes="),
        ] {
            assert_eq!(clipped(range), expected);
        }
    }
}
