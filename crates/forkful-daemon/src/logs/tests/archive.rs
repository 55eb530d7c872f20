//! What was set aside: names, bounds, compression, reading back. Then the whole service.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use forkful_api::types::LogStream::{Err, Out};
use forkful_core::logs::LogRotation;
use forkful_os::behalf::{Entry, Find, Identity};
use forkful_testkit::wait_until;

use super::support::{Bench, archive_path, archives_of, path_of, spec};
use crate::logs::StreamSpec;
use crate::logs::archive_name::{Archive, Retention, superfluous, with_ending};

fn archive(log: &str, stamp: u64, bytes: u64) -> Archive {
    Archive {
        folder: Identity { device: 1, inode: 1 },
        log: log.into(),
        name: format!("{log}.{stamp}").into(),
        stamp: stamp.to_string(),
        is_compressed: false,
        bytes,
    }
}

fn names(archives: &[&Archive]) -> Vec<String> {
    archives.iter().map(|archive| archive.name.to_string_lossy().into_owned()).collect()
}

#[test]
fn the_newest_of_each_log_stay_and_within_the_total_the_newest_of_all() {
    let archives = [archive("a", 1, 10), archive("b", 2, 10), archive("a", 3, 10), archive("a", 4, 10)];
    let gone = |keep, total, active| names(&superfluous(&archives, active, Retention { keep, total }));
    assert_eq!(gone(9, None, 0), Vec::<String>::new());
    assert_eq!(gone(1, None, 0), ["a.3", "a.1"]);
    assert_eq!(gone(0, None, 0), ["a.4", "a.3", "b.2", "a.1"]);
    assert_eq!(gone(9, Some(40), 0), Vec::<String>::new());
    assert_eq!(gone(9, Some(39), 0), ["a.1"]);
    assert_eq!(gone(9, Some(40), 11), ["b.2", "a.1"]);
    assert_eq!(gone(9, Some(40), 100), ["a.4", "a.3", "b.2", "a.1"]);
}

#[test]
fn only_files_of_that_log_count_as_set_aside_of_it() {
    let folder = tempfile::TempDir::new().unwrap();
    let log = folder.path().join("api-out.log");
    let gz = |path: &Path| PathBuf::from(with_ending(path.as_os_str(), ".gz"));
    let (first, second) = (archive_path(&log, 1), archive_path(&log, 86_400_000));
    for path in [&second, &gz(&first), &log] {
        fs_err::write(path, "x\n").unwrap();
    }
    for name in [
        "api-out.log.1",
        "api-out.log.gz",
        "other.log.19700101T000000.001Z",
        "api-out.log.19700101T000000.0x1Z",
        "api-out.logx19700101T000000.001Z",
        ".19700101T000000.001Z",
        "api-out.log.19700101T000000.009Z.gz.tmp",
    ] {
        fs_err::write(folder.path().join(name), "x\n").unwrap();
    }
    // Being compressed: only its old form counts.
    fs_err::write(gz(&second), "half").unwrap();
    let found: Vec<OsString> = archives_of(&log).into_iter().map(|archive| archive.name).collect();
    assert_eq!(found, ["api-out.log.19700101T000000.001Z.gz", "api-out.log.19700102T000000.000Z"]);
    let gone = Entry::find(&log, Find::TO_READ).unwrap();
    drop(folder);
    assert_eq!(crate::logs::archive_name::archives_of(&gone).unwrap(), []);
}

fn rotating(path: &Path, rotation: LogRotation) -> StreamSpec {
    StreamSpec { rotation: Some(rotation), ..spec(0, Out, path) }
}

/// Rotation that never removes a file.
fn keep_all() -> LogRotation {
    LogRotation {
        max_size: Some(4 << 10),
        max_age: None,
        keep: 10_000,
        total: None,
        ..LogRotation::default()
    }
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    match path.extension().is_some_and(|extension| extension == "gz") {
        true => {
            MultiGzDecoder::new(fs_err::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        }
        false => text = fs_err::read_to_string(path).unwrap(),
    }
    text
}

fn numbered(lines: std::ops::Range<usize>) -> String {
    lines.fold(String::new(), |mut text, number| {
        writeln!(text, "{number:>99}").unwrap();
        text
    })
}

fn all_compressed(path: &Path) -> bool {
    archives_of(path).iter().all(|archive| archive.is_compressed)
}

#[test]
fn what_is_set_aside_is_compressed_and_every_line_is_there_once() {
    let bench = Bench::new();
    let path = bench.path("logs/out.log");
    let mut worker = bench.attach(rotating(&path, keep_all()));
    let text = numbered(0..1000);
    worker.write_all(text.as_bytes()).unwrap();
    bench.settle();
    let archives = archives_of(&path);
    assert_eq!(archives.len(), 24, "{archives:?}");
    wait_until("all is compressed", || all_compressed(&path));
    let archives = archives_of(&path);
    let found: String = archives.iter().map(|archive| unpacked(&path_of(&path, archive))).collect();
    assert_eq!(found + &bench.text(&path), text);
    wait_until("nothing else is left", || fs_err::read_dir(bench.path("logs")).unwrap().count() == 25);
    assert_eq!(bench.reports(), Vec::<String>::new());
}

#[test]
fn the_last_lines_reach_back_through_what_was_set_aside() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.attach(rotating(&path, keep_all()));
    let lines = |text: &str| -> Vec<String> { text.lines().map(str::to_owned).collect() };
    let last = |count: u32| -> Vec<String> {
        let mut lines = bench.subscribe(&[&path], count, false);
        std::iter::from_fn(|| lines.blocking_recv()).map(|line| line.line).collect()
    };
    for round in 0..4_usize {
        // Some are compressed, and some are not yet.
        worker.write_all(numbered(round * 250..(round + 1) * 250).as_bytes()).unwrap();
        let end = (round + 1) * 250;
        for count in [1, 39, 40, 41, 100, 250] {
            assert_eq!(last(count), lines(&numbered(end - count as usize..end)), "{count} of {end}");
        }
        wait_until("all is compressed", || all_compressed(&path));
    }
    assert_eq!(last(100_000), lines(&numbered(0..1000)));
}

#[test]
fn number_and_bytes_stay_within_their_bounds_while_lines_flow() {
    let bench = Bench::new();
    let (out, err) = (bench.path("out.log"), bench.path("err.log"));
    let rotation = LogRotation { keep: 5, total: Some(40 << 10), compress: false, ..keep_all() };
    let mut writers = [(Out, &out), (Err, &err)]
        .map(|(stream, path)| bench.attach(StreamSpec { stream, ..rotating(path, rotation.clone()) }));
    for round in 0..50 {
        for writer in &mut writers {
            writer.write_all(numbered(round * 40..(round + 1) * 40).as_bytes()).unwrap();
        }
    }
    bench.settle();
    let sizes = |path: &Path| -> Vec<u64> { archives_of(path).iter().map(|found| found.bytes).collect() };
    let active = |path: &PathBuf| fs_err::metadata(path).unwrap().len();
    wait_until("the bounds hold", || {
        let (outs, errs) = (sizes(&out), sizes(&err));
        let bytes = outs.iter().chain(&errs).sum::<u64>() + active(&out) + active(&err);
        outs.len() <= 5 && errs.len() <= 5 && bytes <= 40 << 10
    });
    assert!(sizes(&out).len() + sizes(&err).len() >= 4);
    // The newest is what stays.
    assert!(unpacked(&path_of(&out, archives_of(&out).last().unwrap())).contains(" 19"));
}

#[test]
fn what_a_daemon_before_left_is_compressed_and_bounded_too() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    for at_ms in 1..=6 {
        fs_err::write(archive_path(&path, at_ms), "left\n").unwrap();
    }
    let _worker = bench.attach(rotating(&path, LogRotation { keep: 4, ..keep_all() }));
    wait_until("four are kept, compressed", || {
        let archives = archives_of(&path);
        archives.len() == 4 && archives.iter().all(|archive| archive.is_compressed)
    });
    assert_eq!(archives_of(&path)[0].name, "out.log.19700101T000000.003Z.gz");
}

#[test]
fn flush_removes_what_was_set_aside_too() {
    let bench = Bench::new();
    let path = bench.path("logs/out.log");
    let mut worker = bench.attach(rotating(&path, keep_all()));
    worker.write_all(numbered(0..1000).as_bytes()).unwrap();
    bench.settle();
    assert!(!archives_of(&path).is_empty());
    assert_eq!(bench.service.flush(vec![path.clone()]).blocking_recv().unwrap(), Ok(()));
    wait_until("only the empty file is left", || {
        archives_of(&path).is_empty() && fs_err::read_dir(bench.path("logs")).unwrap().count() == 1
    });
    worker.write_all(b"after\n").unwrap();
    assert_eq!(bench.text(&path), "after\n");
}

#[test]
fn a_follower_sees_each_line_once_while_files_are_set_aside() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.attach(rotating(&path, keep_all()));
    let mut followers = Vec::new();
    for round in 0..20_usize {
        worker.write_all(numbered(round * 100..(round + 1) * 100).as_bytes()).unwrap();
        followers.push((bench.subscribe(&[&path], 100_000, true), 0));
        for (lines, next) in &mut followers {
            while *next < (round + 1) * 100 {
                assert_eq!(lines.blocking_recv().unwrap().line.trim_start(), next.to_string());
                *next += 1;
            }
        }
    }
}

#[test]
fn files_are_opened_anew_when_asked() {
    let bench = Bench::new();
    let (path, moved) = (bench.path("out.log"), bench.path("moved.log"));
    let mut worker = bench.worker(0, Out, &path);
    worker.write_all(b"one\n").unwrap();
    bench.settle();
    fs_err::rename(&path, &moved).unwrap();
    worker.write_all(b"two\n").unwrap();
    assert_eq!(bench.service.reopen().blocking_recv().unwrap(), Ok(()));
    worker.write_all(b"three\n").unwrap();
    assert_eq!((bench.text(&path).as_str(), bench.text(&moved).as_str()), ("three\n", "one\ntwo\n"));
}
