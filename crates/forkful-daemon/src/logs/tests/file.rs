//! One file and a made-up clock.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::logs::file::{Appended, Incident, Limits, LogFile, Now, RETRY_EVERY, Surroundings, WriteFault};
use crate::logs::space::Space;
use crate::testing::alone_with_children;

/// A file, with all that it needs.
pub(super) struct Lone {
    pub(super) file: LogFile,
    start: Instant,
    space: Space,
    pub(super) set_aside: u32,
    pub(super) incidents: Vec<Incident>,
}

/// The wall clock when a made-up clock starts: 2026-02-03T04:05:06.789Z.
pub(super) const START_MS: u64 = 1_770_091_506_789;

impl Lone {
    pub(super) fn open(path: &Path, limits: Limits, start: Instant) -> (Self, Option<std::io::Error>) {
        let now = Now { instant: start, wall_ms: START_MS };
        let (file, fault) = LogFile::open(path.into(), limits, now);
        (Self { file, start, space: Space::default(), set_aside: 0, incidents: Vec::new() }, fault)
    }

    pub(super) fn append(&mut self, slices: &[&[u8]], instant: Instant) -> Result<Appended, WriteFault> {
        let elapsed = instant.saturating_duration_since(self.start);
        let now = Now { instant, wall_ms: START_MS + elapsed.as_millis() as u64 };
        let mut around = Surroundings {
            space: &mut self.space,
            set_aside: &mut self.set_aside,
            incidents: &mut self.incidents,
        };
        self.file.append(slices, now, &mut around)
    }
}

fn open(path: &Path, now: Instant) -> Lone {
    let (file, fault) = Lone::open(path, Limits::NONE, now);
    assert!(fault.is_none(), "{fault:?}");
    file
}

fn read(path: &Path) -> String {
    fs_err::read_to_string(path).unwrap()
}

#[test]
fn a_moved_file_is_left_alone_within_a_second() {
    let folder = TempDir::new().unwrap();
    let (path, moved) = (folder.path().join("log"), folder.path().join("log.1"));
    let start = Instant::now();
    let mut file = open(&path, start);
    file.append(&[b"one\n"], start).unwrap();
    fs_err::rename(&path, &moved).unwrap();
    file.append(&[b"two\n"], start + RETRY_EVERY / 2).unwrap();
    assert!(!path.exists());
    file.append(&[b"three\n"], start + RETRY_EVERY).unwrap();
    assert_eq!((read(&moved).as_str(), read(&path).as_str()), ("one\ntwo\n", "three\n"));
}

#[test]
fn a_replaced_file_is_opened_again() {
    let folder = TempDir::new().unwrap();
    let (path, other) = (folder.path().join("log"), folder.path().join("other"));
    let start = Instant::now();
    let mut file = open(&path, start);
    fs_err::write(&other, "other\n").unwrap();
    fs_err::rename(&other, &path).unwrap();
    file.append(&[b"one\n"], start + RETRY_EVERY).unwrap();
    assert_eq!(read(&path), "other\none\n");
}

#[test]
fn a_deleted_folder_is_made_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("logs/deep/log");
    let start = Instant::now();
    let mut file = open(&path, start);
    file.append(&[b"one\n"], start).unwrap();
    fs_err::remove_dir_all(folder.path().join("logs")).unwrap();
    // At once, so that nothing is written to where nobody can find it.
    file.append(&[b"two\n"], start).unwrap();
    assert_eq!(read(&path), "two\n");
    assert!(matches!(file.incidents[..], [Incident::Removed]), "{:?}", file.incidents);
}

#[test]
fn a_folder_that_cannot_be_made_again_is_one_report_until_it_can() {
    let folder = TempDir::new().unwrap();
    let (logs, path) = (folder.path().join("logs"), folder.path().join("logs/log"));
    let start = Instant::now();
    let at = |seconds: u64| start + RETRY_EVERY + Duration::from_secs(seconds);
    let mut file = open(&path, start);
    fs_err::remove_dir_all(&logs).unwrap();
    fs_err::write(&logs, "in the way").unwrap();
    let fault = file.append(&[b"one\n"], at(0)).unwrap_err();
    assert!(fault.kept == 0 && fault.report.is_some());
    // Not tried again before its time; tried, and silent.
    for now in [at(0) + RETRY_EVERY / 2, at(1), at(2)] {
        let fault = file.append(&[b"two\n"], now).unwrap_err();
        assert!(fault.kept == 0 && fault.report.is_none());
    }
    fs_err::remove_file(&logs).unwrap();
    assert!(file.append(&[b"three\n"], at(2) + RETRY_EVERY / 2).is_err());
    assert_eq!(file.append(&[b"four\n"], at(3)).unwrap(), Appended::Again);
    assert_eq!(read(&path), "four\n");
    // A new episode is reported anew.
    fs_err::remove_dir_all(&logs).unwrap();
    fs_err::write(&logs, "in the way").unwrap();
    assert!(file.append(&[b"five\n"], at(4)).unwrap_err().report.is_some());
}

#[test]
fn devices_take_lines_and_a_fifo_without_a_reader_is_a_fault_and_no_wait() {
    let folder = TempDir::new().unwrap();
    let now = Instant::now();
    let mut null = open(Path::new("/dev/null"), now);
    null.append(&[b"one\n"], now).unwrap();
    null.append(&[b"two\n"], now + RETRY_EVERY).unwrap();
    null.file.truncate(now).unwrap();
    let fifo = folder.path().join("fifo");
    let _alone = alone_with_children();
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let (mut file, fault) = Lone::open(&fifo, Limits::NONE, now);
    assert!(fault.is_some());
    let mut reader = fs_err::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
    file.append(&[b"heard\n"], now + RETRY_EVERY).unwrap();
    let mut heard = [0; 6];
    reader.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"heard\n");
}

#[test]
fn more_slices_than_one_call_takes_arrive_in_order() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("log");
    let now = Instant::now();
    let lines: Vec<String> = (0..2000).map(|number| format!("{number}\n")).collect();
    let slices: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    open(&path, now).append(&slices, now).unwrap();
    assert_eq!(read(&path), lines.concat());
}

/// A small file system, where the tests may mount one.
struct SmallDisk {
    folder: PathBuf,
    _parent: TempDir,
}

impl SmallDisk {
    fn mount() -> Option<Self> {
        let parent = TempDir::new().unwrap();
        let folder = parent.path().join("disk");
        fs_err::create_dir(&folder).unwrap();
        let mount =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(&folder).output();
        mount.is_ok_and(|output| output.status.success()).then_some(Self { folder, _parent: parent })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.folder).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} stays mounted", self.folder.display());
    }
}

#[test]
fn a_disk_that_fills_keeps_whole_lines_and_takes_more_when_there_is_room() {
    // Who may not mount sees a full disk in `disk::a_full_disk_drops_…`, though none that fills within a line.
    let _alone = alone_with_children();
    let Some(disk) = SmallDisk::mount() else { return };
    let (path, ballast) = (disk.folder.join("log"), disk.folder.join("ballast"));
    fs_err::write(&ballast, vec![0; 40 << 10]).unwrap();
    let start = Instant::now();
    let at = |seconds: u64| start + Duration::from_secs(seconds);
    let mut file = open(&path, start);
    let lines: Vec<String> = (0..60).map(|number| format!("{number:0>999}\n")).collect();
    let slices: Vec<&[u8]> = lines.iter().map(String::as_bytes).collect();
    let fault = file.append(&slices, at(0)).unwrap_err();
    assert!(fault.report.is_some_and(|fault| fault.kind() == std::io::ErrorKind::StorageFull));
    assert!((20..25).contains(&(fault.kept / 1000)) && fault.kept.is_multiple_of(1000), "{}", fault.kept);
    let kept = fault.kept / 1000;
    assert_eq!(read(&path), lines[..kept].concat());
    assert!(file.append(&slices[kept..], at(1)).unwrap_err().report.is_none());
    fs_err::remove_file(&ballast).unwrap();
    file.append(&slices[kept..], at(2)).unwrap();
    assert_eq!(read(&path).lines().filter(|line| line.len() != 999).count(), 0);
    assert!(read(&path).ends_with(&lines[kept..].concat()));
}
