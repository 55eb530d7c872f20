//! Framing: whatever the pieces, the same lines.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::logs::frame::Framer;

/// Feeds the pieces; gives all that came out and how many cuts were counted.
fn frame(pieces: &[&[u8]], line_bytes_max: usize) -> (Vec<u8>, u64) {
    let mut framer = Framer::new(line_bytes_max);
    let (mut all, mut cuts) = (Vec::new(), 0);
    for piece in pieces {
        let out = framer.push(piece);
        for lines in [out.head.as_slice(), &piece[out.body.clone()]] {
            assert!(lines.is_empty() || lines.ends_with(b"\n"), "{lines:?} is not whole");
            all.extend_from_slice(lines);
        }
        assert!(framer.partial().len() <= line_bytes_max && !framer.partial().contains(&b'\n'));
        cuts += out.cuts;
    }
    all.extend(framer.finish().unwrap_or_default());
    (all, cuts)
}

#[test]
fn lines_come_out_whole_and_in_order() {
    type Case = (&'static [&'static [u8]], &'static [u8], u64);
    let table: [Case; 14] = [
        (&[], b"", 0),
        (&[b""], b"", 0),
        (&[b"\n"], b"\n", 0),
        (&[b"a\n"], b"a\n", 0),
        (&[b"a"], b"a\n", 0),
        (&[b"a", b"b", b"\n"], b"ab\n", 0),
        (&[b"a\nb", b"c\nd"], b"a\nbc\nd\n", 0),
        (&[b"a\r\nb\0", b"\xff\n"], b"a\r\nb\0\xff\n", 0),
        (&[b"\n\n", b"\n"], b"\n\n\n", 0),
        // The bound is 4 bytes without the newline.
        (&[b"abcd\n"], b"abcd\n", 0),
        (&[b"abcd", b"\n"], b"abcd\n", 0),
        (&[b"abcde\n"], b"abcd\ne\n", 1),
        (&[b"abcd", b"e", b"fghij"], b"abcd\nefgh\nij\n", 2),
        (&[b"a\nbcdefghij\nk\n"], b"a\nbcde\nfghi\nj\nk\n", 2),
    ];
    for (pieces, expected, cuts) in table {
        assert_eq!(frame(pieces, 4), (expected.to_vec(), cuts), "{pieces:?}");
    }
}

#[test]
fn nothing_is_held_between_lines_and_no_more_than_needed_within_one() {
    let mut framer = Framer::new(1 << 20);
    let mut chunk = vec![b'x'; 100_000];
    chunk.extend_from_slice(b"\nrest");
    let out = framer.push(&chunk);
    assert_eq!((out.head.len(), out.body), (0, 0..100_001));
    assert_eq!(framer.partial(), b"rest");
    assert_eq!(framer.capacity(), 4);
    assert_eq!(framer.push(b"\n").head, b"rest\n");
    assert_eq!(framer.capacity(), 0);
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    vec(prop_oneof![4 => Just(b'a'), 2 => Just(b'\n'), 1 => any::<u8>()], 0..300)
}

proptest! {
    #[test]
    fn any_split_gives_the_same_lines(
        text in text(), cuts in vec(0..300_usize, 0..20), line_bytes_max in 1..40_usize,
    ) {
        let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(text.len())).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
        let in_pieces = frame(&pieces, line_bytes_max);
        prop_assert_eq!(&in_pieces, &frame(&[&text], line_bytes_max));
        let bytes: Vec<&[u8]> = text.chunks(1).collect();
        prop_assert_eq!(&in_pieces, &frame(&bytes, line_bytes_max));

        // What it must be: long lines cut, the last one ended, nothing else changed.
        let mut expected = Vec::new();
        let lines = text.strip_suffix(b"\n").unwrap_or(&text).split(|byte| *byte == b'\n');
        for line in lines.filter(|_| !text.is_empty()) {
            let parts: Vec<&[u8]> = line.chunks(line_bytes_max).collect();
            expected.extend_from_slice(&parts.join(&b'\n'));
            expected.push(b'\n');
        }
        prop_assert_eq!(in_pieces.0, expected);
    }
}
