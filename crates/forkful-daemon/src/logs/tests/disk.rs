//! Disks that are full, slow, or lose their files.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::thread;
use std::time::Duration;

use forkful_api::types::LogStream::{Err, Out};
use forkful_core::slot::Generation;

use super::support::{Bench, pipe, spec};
use crate::logs::echo::Echo;
use crate::logs::{EchoPrefix, StreamSpec};

#[test]
fn a_full_disk_drops_and_counts_lines_says_so_once_and_the_app_goes_on() {
    let bench = Bench::new();
    let mut worker = bench.worker(5, Out, Path::new("/dev/full"));
    let mut beside = bench.worker(6, Out, &bench.path("fine.log"));
    for _ in 0..100 {
        writeln!(worker, "{}", "x".repeat(10_000)).unwrap();
        writeln!(beside, "fine").unwrap();
    }
    assert_eq!(bench.text(&bench.path("fine.log")), "fine\n".repeat(100));
    assert_eq!((bench.service.dropped_lines(5), bench.service.dropped_lines(6)), (100, 0));
    let reports = bench.reports();
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("/dev/full") && reports[0].contains("No space left"), "{reports:?}");
}

#[test]
fn a_folder_that_cannot_be_made_is_reported_when_the_stream_begins() {
    let bench = Bench::new();
    fs_err::write(bench.path("file"), "").unwrap();
    let mut worker = bench.worker(0, Out, &bench.path("file/out.log"));
    assert_eq!(bench.reports().len(), 1);
    writeln!(worker, "lost").unwrap();
    assert_eq!(bench.reports().len(), 1);
    assert_eq!(bench.service.dropped_lines(0), 1);
}

#[test]
fn a_file_that_cannot_be_opened_again_is_reported_with_the_next_line_that_is_lost() {
    let bench = Bench::new();
    let path = bench.path("folder/out.log");
    let mut worker = bench.worker(0, Out, &path);
    writeln!(worker, "before").unwrap();
    assert_eq!(bench.text(&path), "before\n");
    fs_err::rename(bench.path("folder"), bench.path("moved")).unwrap();
    fs_err::write(bench.path("folder"), "").unwrap();
    assert!(bench.service.reopen().blocking_recv().unwrap().is_err());
    writeln!(worker, "lost").unwrap();
    assert_eq!(bench.text(&bench.path("moved/out.log")), "before\n");
    assert_eq!(bench.reports().len(), 1);
    assert_eq!(bench.service.dropped_lines(0), 1);
    writeln!(worker, "lost too").unwrap();
    bench.settle();
    assert_eq!(bench.reports().len(), 1);
}

#[test]
fn a_disk_that_hangs_holds_up_no_app_and_its_lines_are_counted() {
    const LINES: usize = 80_000;
    // An echo that nobody reads hangs as a dead network disk would.
    let ((hung_reader, hung), (_err_reader, err)) = (pipe(), pipe());
    let bench = Bench::with(|options| {
        options.echo = Echo::to(hung, err);
        options.disk_wait_max = Duration::from_millis(1);
    });
    let path = bench.path("out.log");
    let echo = Some(EchoPrefix::default());
    bench.service.begin_process(0, Generation(1));
    let mut worker = bench.attach(StreamSpec { echo, ..spec(0, Out, &path) });
    let line = "x".repeat(999);
    for _ in 0..LINES {
        writeln!(worker, "{line}").unwrap();
    }
    // Answered though the writer hangs, and after all of the pipe was read.
    writeln!(bench.worker(0, Err, &path), "why it died").unwrap();
    assert_eq!(bench.service.stderr_tail(0, None).blocking_recv().unwrap().lines, ["why it died"]);
    let dropped = bench.service.dropped_lines(0);
    assert!(dropped > 0);
    // Awake again: what was not dropped arrives, and the loss is told.
    let hung_reader = thread::spawn(move || io::copy(&mut File::from(hung_reader), &mut io::sink()));
    let text = bench.text(&path);
    assert!(text.lines().all(|found| found == line || found == "why it died"));
    assert_eq!(text.lines().count() as u64 + bench.service.dropped_lines(0), LINES as u64 + 1);
    assert!(bench.reports()[0].contains("log lines were dropped: "));
    drop((worker, bench));
    hung_reader.join().unwrap().unwrap();
}

#[test]
fn flush_empties_files_with_and_without_writers_and_writing_goes_on() {
    let bench = Bench::new();
    let (open, closed) = (bench.path("open.log"), bench.path("closed.log"));
    fs_err::write(&closed, "old\n").unwrap();
    let mut worker = bench.worker(0, Out, &open);
    worker.write_all(b"before\n").unwrap();
    let flushed = bench.service.flush(vec![open.clone(), closed.clone(), bench.path("none.log")]);
    assert_eq!(flushed.blocking_recv().unwrap(), Ok(()));
    worker.write_all(b"after\n").unwrap();
    assert_eq!(bench.text(&open), "after\n");
    assert_eq!(bench.text(&closed), "");
    assert!(!bench.path("none.log").exists());
    let refused = bench.service.flush(vec![bench.path("")]).blocking_recv().unwrap();
    assert!(refused.is_err_and(|fault| fault.starts_with("cannot empty ")));
}
