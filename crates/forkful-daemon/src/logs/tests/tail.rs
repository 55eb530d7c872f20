//! The ends of files.

use std::path::Path;

use forkful_os::behalf::{Entry, Find};
use proptest::prelude::*;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use super::support::{archive_path, archives_of};
use crate::logs::file::snapshot_of;
use crate::logs::stream::lines_of;
use crate::logs::tail::{last_lines, last_of_archive};

fn tail(content: &[u8], lines: usize, bytes_max: usize) -> Vec<Vec<u8>> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    fs_err::write(&path, content).unwrap();
    read(&path, lines, bytes_max).unwrap()
}

fn read(path: &Path, lines: usize, bytes_max: usize) -> std::io::Result<Vec<Vec<u8>>> {
    let bytes = last_lines(snapshot_of(path, u64::MAX), lines, bytes_max)?;
    Ok(lines_of(&bytes).map(|line| line[..line.len() - 1].to_vec()).collect())
}

#[test]
fn gives_the_last_lines_with_and_without_a_final_newline() {
    type Case = (&'static [u8], usize, &'static [&'static [u8]]);
    let table: [Case; 9] = [
        (b"", 5, &[]),
        (b"a\nb\nc\n", 0, &[]),
        (b"a\nb\nc\n", 2, &[b"b", b"c"]),
        (b"a\nb\nc", 2, &[b"b", b"c"]),
        (b"a\nb\nc\n", 3, &[b"a", b"b", b"c"]),
        (b"a\nb\nc\n", 9, &[b"a", b"b", b"c"]),
        (b"\n", 5, &[b""]),
        (b"\n\n", 1, &[b""]),
        (b"a\n\nb", 2, &[b"", b"b"]),
    ];
    for (content, lines, expected) in table {
        assert_eq!(tail(content, lines, 1 << 20), expected, "{lines} of {content:?}");
    }
}

#[test]
fn lines_longer_than_a_block_are_whole() {
    let lines: Vec<Vec<u8>> =
        (0..5).map(|number| vec![b'a' + number; 300_000 + usize::from(number)]).collect();
    assert_eq!(tail(&lines.join(&b'\n'), 3, 1 << 22), lines[2..]);
}

#[test]
fn no_more_bytes_are_read_than_allowed() {
    assert_eq!(tail(b"abc\ndef\nghi\n", 3, 7), [b"ef".to_vec(), b"ghi".to_vec()]);
    assert_eq!(tail(b"abc\ndef\nghi\n", 3, 0), Vec::<Vec<u8>>::new());
}

#[test]
fn what_is_no_regular_file_has_no_lines_and_an_unreadable_one_is_an_error() {
    assert_eq!(read(Path::new("/dev/zero"), 5, 100).unwrap(), Vec::<Vec<u8>>::new());
    assert_eq!(read(Path::new("/no/such/file"), 5, 100).unwrap(), Vec::<Vec<u8>>::new());
    assert!(read(Path::new("/dev/null/below"), 5, 100).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn agrees_with_reading_the_whole_file(
        lengths in proptest::collection::vec(prop_oneof![0..5_usize, 65_530..65_540_usize, 131_070..131_074_usize], 0..6),
        lines in 0..8_usize,
        ended: bool,
    ) {
        let all: Vec<Vec<u8>> = lengths.iter().zip(b'a'..).map(|(length, byte)| vec![byte; *length]).collect();
        let mut content = all.join(&b'\n');
        if ended && !all.is_empty() {
            content.push(b'\n');
        }
        // Without its newline an empty last line is none.
        let mut expected = all;
        if !ended && expected.last().is_some_and(Vec::is_empty) {
            expected.pop();
        }
        let skipped = expected.len().saturating_sub(lines);
        prop_assert_eq!(tail(&content, lines, 1 << 20), &expected[skipped..]);
    }
}

#[test]
fn neither_a_pipe_nor_a_link_in_place_of_a_log_or_of_what_was_set_aside_is_read() {
    let folder = TempDir::new().unwrap();
    let [log, other] = ["out.log", "other"].map(|name| folder.path().join(name));
    let make_fifo = |path: &Path| mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs_err::write(&other, "secret\n").unwrap();
    let plain = archive_path(&log, 1);
    let compressed = archive_path(&log, 1).with_extension("001Z.gz");
    for is_compressed in [false, true] {
        let (target, rest) = if is_compressed { (&compressed, &plain) } else { (&plain, &compressed) };
        fs_err::write(target, "set aside\n").unwrap();
        let archive = archives_of(&log).pop().unwrap();
        assert_eq!(archive.is_compressed, is_compressed);
        let entry = Entry::find(&log, Find::TO_READ).unwrap();
        // After the look, as an app would.
        fs_err::remove_file(target).unwrap();
        make_fifo(target);
        make_fifo(rest);
        assert_eq!(last_of_archive(&entry, &archive, 9, 1 << 20).unwrap(), b"");
        for path in [target, rest] {
            fs_err::remove_file(path).unwrap();
            fs_err::os::unix::fs::symlink(&other, path).unwrap();
        }
        let fault = last_of_archive(&entry, &archive, 9, 1 << 20).unwrap_err();
        assert_eq!(fault.raw_os_error(), Some(rustix::io::Errno::LOOP.raw_os_error()));
        assert_eq!(read(&log, 9, 1 << 20).unwrap(), Vec::<Vec<u8>>::new());
        for path in [target, rest] {
            fs_err::remove_file(path).unwrap();
        }
    }
    make_fifo(&log);
    assert_eq!(read(&log, 9, 1 << 20).unwrap(), Vec::<Vec<u8>>::new());
}
