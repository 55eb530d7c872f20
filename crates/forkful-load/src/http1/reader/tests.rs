//! The reader with answers of all shapes, split anywhere, and with invalid input.

use proptest::prelude::*;

use super::*;

/// Status, body bytes, keep-alive and interim answers of each answer; then the result at the end.
type Outcome = (Vec<(u16, u64, bool, u32)>, Result<(), ErrorCause>);

/// Feeds `pieces` to a fresh reader as a connection would; `None` at the end stands for a closed connection.
fn read_all(pieces: &[&[u8]], is_head: bool, close: bool) -> Outcome {
    let mut reader = Reader::default();
    let mut cache = HeadCache::new(None);
    let mut answers = Vec::new();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            let mut context = ReaderContext { cache: &mut cache, is_head, keep_body: false };
            match reader.read(rest, &mut context) {
                Ok((used, answer)) => {
                    assert!(answer.is_some() || used == rest.len(), "without an answer all input is used");
                    assert!(used > 0, "an answer takes bytes");
                    rest = &rest[used..];
                    answers.extend(answer);
                }
                Err(fault) => return (summary(&answers), Err(fault.cause)),
            }
        }
    }
    let end = if close && !reader.is_at_start() {
        reader.end_of_input().map(|answer| answers.push(answer))
    } else {
        Ok(())
    };
    (summary(&answers), end)
}

fn summary(answers: &[Answer]) -> Vec<(u16, u64, bool, u32)> {
    answers
        .iter()
        .map(|answer| (answer.head.status, answer.body_bytes, answer.head.keep_alive, answer.interim))
        .collect()
}

#[test]
fn answers_of_all_shapes() {
    let long = format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 1\r\n\r\nx", "y".repeat(200_000));
    let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 0\r\n\r\n", "a: b\r\n".repeat(3_000));
    for (input, expected) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", (200, 5, true, 0)),
        ("HTTP/1.1 200 OK\nContent-Length: 5\n\nhello", (200, 5, true, 0)),
        ("HTTP/1.1 200\r\ncontent-length:0\r\n\r\n", (200, 0, true, 0)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nok", (200, 2, true, 0)),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", (200, 2, false, 0)),
        ("HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 2\r\n\r\nok", (200, 2, true, 0)),
        ("HTTP/1.1 200 OK\r\nConnection: foo, close\r\nContent-Length: 2\r\n\r\nok", (200, 2, false, 0)),
        ("HTTP/1.1 204 No Content\r\n\r\n", (204, 0, true, 0)),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 500\r\n\r\n", (304, 0, true, 0)),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\n\r\nHTTP/1.1 500 x\r\nContent-Length: 1\r\n\r\nx",
            (500, 1, true, 2),
        ),
        ("HTTP/1.1 101 Switching\r\nUpgrade: x\r\n\r\n", (101, 0, false, 0)),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", (200, 5, true, 0)),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\nContent-Length: 9\r\n\r\n5;a=b\r\nhello\r\nA\r\n0123456789\r\n0\r\nT: v\r\nU: w\r\n\r\n",
            (200, 15, true, 0),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nuntil the end", (200, 13, false, 0)),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", (200, 13, false, 0)),
        (long.as_str(), (200, 1, true, 0)),
        (many.as_str(), (200, 0, true, 0)),
    ] {
        let whole = read_all(&[input.as_bytes()], false, true);
        assert_eq!(whole, (vec![expected], Ok(())), "{}", &input[..input.len().min(100)]);
        let twice = read_all(&[input.as_bytes(), input.as_bytes()], false, false);
        if expected.2 {
            assert_eq!(twice.0, vec![expected, expected], "the cached head means the same");
        }
    }
}

#[test]
fn an_answer_to_head_has_no_body() {
    let input: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
    assert_eq!(read_all(&[input, input], true, false).0, vec![(200, 0, true, 0); 2]);
    let chunked: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    assert_eq!(read_all(&[chunked, chunked], true, false).0, vec![(200, 0, true, 0); 2]);
}

#[test]
fn a_server_that_misbehaves_is_named() {
    let huge = format!("HTTP/1.1 200 OK\r\nX: {}", "y".repeat(1 << 20));
    let interim = "HTTP/1.1 100 Continue\r\n\r\n".repeat(20);
    let trailers =
        format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}", "a: b\r\n".repeat(5_000));
    for (input, expected) in [
        ("SSH-2.0-OpenSSH_9.6\r\n", ErrorCause::NotHttp),
        ("<html>", ErrorCause::NotHttp),
        ("H", ErrorCause::ClosedInAnswer),
        ("HTTP/2.0 200 OK\r\n\r\n", ErrorCause::NotHttp),
        ("HTTP/1.1 2x0 OK\r\n\r\n", ErrorCause::NotHttp),
        ("HTTP/1.1 099 OK\r\n\r\n", ErrorCause::NotHttp),
        ("HTTP/1.1 200 OK\r\nbad header\r\n\r\n", ErrorCause::NotHttp),
        ("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhel", ErrorCause::ClosedInAnswer),
        ("HTTP/1.1 200 OK\r\nContent-Length", ErrorCause::ClosedInAnswer),
        ("HTTP/1.1 100 Continue\r\n\r\n", ErrorCause::ClosedInAnswer),
        ("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", ErrorCause::BadLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", ErrorCause::BadLength),
        ("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", ErrorCause::BadLength),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFF\r\n", ErrorCause::BadChunk),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", ErrorCause::BadChunk),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokk\r\n", ErrorCause::BadChunk),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", ErrorCause::ClosedInAnswer),
        (trailers.as_str(), ErrorCause::BadChunk),
        (huge.as_str(), ErrorCause::HeadTooLarge),
        (interim.as_str(), ErrorCause::TooManyInterim),
    ] {
        for pieces in [vec![input.as_bytes()], input.as_bytes().chunks(1 + input.len() / 7).collect()] {
            let (answers, end) = read_all(&pieces, false, true);
            assert_eq!((answers.len(), end), (0, Err(expected)), "{}", &input[..input.len().min(90)]);
        }
    }
    assert_eq!(read_all(&[], false, true).1, Ok(()), "nothing asked, nothing wrong");
    assert_eq!(Reader::default().end_of_input(), Err(ErrorCause::ClosedBeforeAnswer));
}

#[test]
fn the_first_bytes_of_rubbish_are_shown() {
    let mut cache = HeadCache::new(None);
    let mut context = ReaderContext { cache: &mut cache, is_head: false, keep_body: false };
    let fault = Reader::default().read(b"\x15\x03\x01\x00\x02\x02", &mut context).unwrap_err();
    assert_eq!(
        fault.detail,
        "an answer begins with \"HTTP/1.\"; it begins with \"\\x15\\x03\\x01\\x00\\x02\\x02\""
    );
}

#[test]
fn workers_are_told_by_their_header() {
    let mut cache = HeadCache::new(Some("X-Worker"));
    let mut reader = Reader::default();
    let mut seen = Vec::new();
    for worker in [3, 1, 3, 7, 1] {
        let input =
            format!("HTTP/1.1 200 OK\r\nServer: s\r\nx-worker: {worker}\r\nContent-Length: 0\r\n\r\n");
        let mut context = ReaderContext { cache: &mut cache, is_head: false, keep_body: false };
        let answer = reader.read(input.as_bytes(), &mut context).unwrap().1.unwrap();
        seen.push(answer.head.worker);
    }
    assert_eq!(seen, [0, 1, 0, 2, 1]);
    assert_eq!(cache.workers(), ["3", "1", "7"]);
    assert_eq!(cache.server.as_deref(), Some("s"));
}

/// One well-formed answer, with its status and body length.
fn answer() -> impl Strategy<Value = (Vec<u8>, u16, u64)> {
    let body = proptest::collection::vec(any::<u8>(), 0..300);
    let shape = prop_oneof![Just(None), (1usize..60, any::<bool>()).prop_map(Some)];
    (200u16..600, body, shape, 0usize..3, 0usize..6).prop_map(|(status, body, shape, interim, headers)| {
        let mut bytes = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(interim);
        bytes.extend(format!("HTTP/1.1 {status} Some Words\r\n").bytes());
        for number in 0..headers {
            bytes.extend(format!("X-{number}: value {number}\r\n").bytes());
        }
        let bodiless = status == 204 || status == 304;
        match shape {
            _ if bodiless => bytes.extend(b"\r\n"),
            None => {
                bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
                bytes.extend(&body);
            }
            Some((size, trailer)) => {
                bytes.extend(b"Transfer-Encoding: chunked\r\n\r\n");
                for chunk in body.chunks(size) {
                    bytes.extend(format!("{:x}\r\n", chunk.len()).bytes());
                    bytes.extend(chunk);
                    bytes.extend(b"\r\n");
                }
                bytes.extend(if trailer { &b"0\r\nX-Sum: 1\r\n\r\n"[..] } else { b"0\r\n\r\n" });
            }
        }
        (bytes, status, if bodiless { 0 } else { body.len() as u64 })
    })
}

proptest! {
    #[test]
    fn however_the_bytes_are_cut_the_answers_are_the_same(
        answers in proptest::collection::vec(answer(), 1..5),
        cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let bytes: Vec<u8> = answers.iter().flat_map(|(bytes, ..)| bytes.clone()).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
        cuts.extend([0, bytes.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect();
        let (read, end) = read_all(&pieces, false, true);
        prop_assert_eq!(end, Ok(()));
        let expected: Vec<(u16, u64)> = answers.iter().map(|(_, status, length)| (*status, *length)).collect();
        prop_assert_eq!(read.iter().map(|(status, length, ..)| (*status, *length)).collect::<Vec<_>>(), expected);
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        prop_assert_eq!(read_all(&single, false, true), (read, end));
    }

    #[test]
    fn rubbish_ends_in_a_fault_or_waits_for_more(bytes in proptest::collection::vec(any::<u8>(), 0..400), size in 1usize..50) {
        // Either result is fine; the test is that reading ends.
        let (_read, _end) = read_all(&bytes.chunks(size).collect::<Vec<_>>(), false, true);
    }

    #[test]
    fn a_damaged_answer_harms_nothing(
        (mut bytes, ..) in answer(),
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        size in 1usize..50,
    ) {
        for (index, byte) in damage {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        let whole = read_all(&[&bytes], false, true);
        let cut = read_all(&bytes.chunks(size).collect::<Vec<_>>(), false, true);
        // A split head is checked when its end arrives, so the cause may differ.
        prop_assert_eq!((whole.0, whole.1.is_ok()), (cut.0, cut.1.is_ok()));
    }
}
