//! Setting files aside: one file with a made-up clock.

use std::path::Path;
use std::time::{Duration, Instant};

use forkful_core::logs::{LogRotation, MinFree};
use proptest::collection::vec;
use proptest::prelude::*;
use tempfile::TempDir;

use super::file::{Lone, START_MS};
use super::support::{archive_path, archives_of, path_of};
use crate::logs::file::Limits;

fn limits(max_size: u64) -> Limits {
    Limits { max_size, ..Limits::NONE }
}

fn open(path: &Path, limits: Limits, start: Instant) -> Lone {
    let (file, fault) = Lone::open(path, limits, start);
    assert!(fault.is_none(), "{fault:?}");
    file
}

/// The contents of what was set aside, oldest first, and of the file.
fn contents(path: &Path) -> Vec<String> {
    let archives = archives_of(path);
    let paths = archives.iter().map(|archive| path_of(path, archive)).chain([path.to_owned()]);
    paths.map(|path| fs_err::read_to_string(path).unwrap()).collect()
}

#[test]
fn a_file_is_set_aside_before_it_would_grow_beyond_its_bound() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("out.log");
    let start = Instant::now();
    let mut file = open(&path, limits(10), start);
    for line in ["1234\n", "5678\n", "abc\n"] {
        file.append(&[line.as_bytes()], start).unwrap();
    }
    assert_eq!(contents(&path), ["1234\n5678\n", "abc\n"]);
    assert_eq!(file.set_aside, 1);
    let name = archives_of(&path)[0].name.clone();
    assert_eq!(name, "out.log.20260203T040506.789Z");
    // In one go, within one millisecond; a line that is longer than a file may be has one of its own.
    file.append(&[b"d\nlonger than ten\ne", b"f\n"], start).unwrap();
    assert_eq!(contents(&path), ["1234\n5678\n", "abc\nd\n", "longer than ten\n", "ef\n"]);
}

#[test]
fn a_file_is_set_aside_when_its_first_line_is_old() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("out.log");
    let start = Instant::now();
    let hour = Duration::from_secs(3600);
    let mut file = open(&path, Limits { max_age: Some(hour), ..Limits::NONE }, start);
    file.append(&[b"one\n"], start + hour).unwrap();
    file.append(&[b"two\n"], start + hour * 2 - Duration::from_secs(1)).unwrap();
    file.append(&[b"three\n"], start + hour * 2).unwrap();
    assert_eq!(contents(&path), ["one\ntwo\n", "three\n"]);
    // An empty file is never set aside.
    file.append(&[b"four\n"], start + hour * 9).unwrap();
    file.file.truncate(start + hour * 9).unwrap();
    file.append(&[b"five\n"], start + hour * 20).unwrap();
    assert_eq!(contents(&path), ["one\ntwo\n", "three\n", "five\n"]);
}

#[test]
fn a_file_that_was_there_counts_with_its_bytes() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("out.log");
    fs_err::write(&path, "of yesterday\n").unwrap();
    let start = Instant::now();
    open(&path, limits(15), start).append(&[b"today\n"], start).unwrap();
    assert_eq!(contents(&path), ["of yesterday\n", "today\n"]);
}

#[test]
fn a_name_that_is_taken_is_not_written_over() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("out.log");
    let start = Instant::now();
    fs_err::write(archive_path(&path, START_MS), "of another\n").unwrap();
    let mut file = open(&path, limits(4), start);
    file.append(&[b"one\n", b"two\n"], start).unwrap();
    assert_eq!(contents(&path), ["of another\n", "one\n", "two\n"]);
}

#[test]
fn a_link_stays_a_link_and_its_target_is_set_aside() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (path, target) = (folder.path().join("out.log"), elsewhere.path().join("real.log"));
    fs_err::write(&target, "old\n").unwrap();
    fs_err::os::unix::fs::symlink(&target, &path).unwrap();
    let start = Instant::now();
    open(&path, limits(5), start).append(&[b"new\n"], start).unwrap();
    assert!(fs_err::symlink_metadata(&path).unwrap().is_symlink());
    assert_eq!(contents(&target), ["old\n", "new\n"]);
    assert_eq!(archives_of(&path), archives_of(&target));
}

#[test]
fn only_the_file_that_is_open_is_set_aside_whatever_is_put_in_its_place() {
    let start = Instant::now();
    for is_link in [true, false] {
        let folder = TempDir::new().unwrap();
        let (path, kept, victim) =
            (folder.path().join("out.log"), folder.path().join("kept"), folder.path().join("victim"));
        fs_err::create_dir(&victim).unwrap();
        fs_err::write(victim.join("passwd"), "root").unwrap();
        let mut file = open(&path, limits(5), start);
        file.append(&[b"one\n"], start).unwrap();
        fs_err::rename(&path, &kept).unwrap();
        if is_link {
            fs_err::os::unix::fs::symlink(&victim, &path).unwrap();
        } else {
            fs_err::rename(&victim, &path).unwrap();
        }
        let fault = file.append(&[b"two\n"], start).unwrap_err();
        assert_eq!(fault.report.unwrap().kind(), std::io::ErrorKind::IsADirectory);
        assert_eq!((file.set_aside, archives_of(&kept).len()), (0, 0));
        assert_eq!(fs_err::read_to_string(path.join("passwd")).unwrap(), "root");
        assert_eq!(fs_err::read_dir(folder.path()).unwrap().count(), if is_link { 3 } else { 2 });
    }
    // The folder, too.
    let folder = TempDir::new().unwrap();
    let [home, moved, victim] = ["home", "moved", "victim"].map(|name| folder.path().join(name));
    fs_err::create_dir(&victim).unwrap();
    let mut file = open(&home.join("out.log"), limits(5), start);
    file.append(&[b"one\n"], start).unwrap();
    fs_err::rename(&home, &moved).unwrap();
    fs_err::os::unix::fs::symlink(&victim, &home).unwrap();
    file.append(&[b"two\n"], start).unwrap();
    // What was written before is set aside where it is; only the new file is where our own link leads.
    assert_eq!(archives_of(&moved.join("out.log")).len(), 1);
    assert_eq!(fs_err::read_dir(&moved).unwrap().count(), 1);
    assert_eq!(fs_err::read_to_string(victim.join("out.log")).unwrap(), "two\n");
}

#[test]
fn devices_are_never_set_aside_and_have_no_floor() {
    let start = Instant::now();
    let strict =
        Limits { max_size: 1, max_age: Some(Duration::from_secs(1)), min_free: MinFree::Bytes(u64::MAX) };
    let mut null = open(Path::new("/dev/null"), strict, start);
    null.append(&[b"one\n", b"two\n"], start + Duration::from_secs(9)).unwrap();
    assert_eq!(null.set_aside, 0);
}

#[test]
fn lines_are_refused_while_the_disk_has_less_room_than_its_floor() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("out.log");
    let start = Instant::now();
    let mut file = open(&path, Limits { min_free: MinFree::Bytes(1 << 60), ..Limits::NONE }, start);
    let fault = file.append(&[b"one\n"], start).unwrap_err();
    let text = fault.report.unwrap().to_string();
    assert!(
        text.starts_with("its file system has ")
            && text.ends_with("1099511627776 MiB are to stay free (min_free)"),
        "{text}"
    );
    assert_eq!(fault.kept, 0);
    file.file.limits.min_free = MinFree::Bytes(1);
    file.append(&[b"two\n"], start + Duration::from_secs(1)).unwrap();
    assert_eq!(contents(&path), ["two\n"]);
}

#[test]
fn the_files_of_an_app_share_half_of_its_total() {
    let rotation = LogRotation { max_size: Some(10 << 20), total: Some(40 << 20), ..LogRotation::default() };
    assert_eq!(Limits::new(Some(&rotation), 1).max_size, 10 << 20);
    assert_eq!(Limits::new(Some(&rotation), 4).max_size, 5 << 20);
    assert_eq!(Limits::new(Some(&rotation), 1_000_000).max_size, LogRotation::MAX_SIZE_MIN);
    assert_eq!(Limits::new(None, 4), Limits::NONE);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_is_written_no_line_is_lost_torn_or_moved(
        appends in vec(vec(vec(0..12_usize, 0..6), 1..4), 1..8),
        max_size in 1_u64..40,
    ) {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("out.log");
        let start = Instant::now();
        let mut file = open(&path, limits(max_size), start);
        let (mut expected, mut number) = (String::new(), 0);
        for slices in appends {
            let slices: Vec<String> = slices.iter().map(|lengths| {
                lengths.iter().map(|length| {
                    number += 1;
                    format!("{number}{}\n", "x".repeat(*length))
                }).collect()
            }).collect();
            expected.push_str(&slices.concat());
            let slices: Vec<&[u8]> = slices.iter().map(String::as_bytes).collect();
            file.append(&slices, start).unwrap();
        }
        let found = if expected.is_empty() { vec![String::new()] } else { contents(&path) };
        prop_assert_eq!(found.concat(), expected);
        for content in &found {
            let lines = content.lines().count();
            prop_assert!(content.is_empty() || content.ends_with('\n'));
            prop_assert!(content.len() as u64 <= max_size || lines == 1, "{} in {:?}", max_size, content);
        }
    }
}
