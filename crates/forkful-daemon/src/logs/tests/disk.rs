//! Disks that are full, slow, or lose their files.

use std::io::Write;
use std::path::Path;

use forkful_api::types::LogStream::Out;

use super::support::Bench;

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
