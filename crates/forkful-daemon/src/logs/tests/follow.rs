//! Reading along.

use std::collections::BTreeSet;
use std::io::Write;
use std::thread;

use forkful_api::types::LogStream;
use forkful_api::types::LogStream::{Err, Out};
use forkful_core::logs::LineFormat;

use super::support::{Bench, everything, spec, tail_file};
use crate::logs::follow::FOLLOWER_LINES_MAX;
use crate::logs::{FollowFilter, FollowRequest, Followed, LineStyle, LogLines, Stamp, StreamSpec};

#[test]
fn the_last_lines_of_each_file_come_first_and_then_the_end() {
    let bench = Bench::new();
    let (one, two) = (bench.path("one.log"), bench.path("two.log"));
    fs_err::write(&one, "1\n2\n3\n").unwrap();
    fs_err::write(&two, b"4\n\xff5").unwrap();
    let mut lines = bench.subscribe(&[&one, &two, &bench.path("none.log")], 2, false);
    let mut found = Vec::new();
    // They were there before.
    assert_eq!(lines.blocking_recv().unwrap().line, FILE_BY_FILE);
    while let Some(line) = lines.blocking_recv() {
        assert_eq!((line.pm_id, line.at_ms, line.stream), (None, None, Out));
        found.push(line.line);
    }
    assert_eq!(found, ["2", "3", "4", "\u{fffd}5"]);
}

const FILE_BY_FILE: &str = "older lines come file by file, for their order is not known";

#[test]
fn last_lines_of_both_streams_come_in_their_order_with_their_times() {
    let bench = Bench::new();
    let (out_path, err_path) = (bench.path("out.log"), bench.path("err.log"));
    fs_err::write(&out_path, "old out\n").unwrap();
    fs_err::write(&err_path, "old err\n").unwrap();
    let last = |lines: u32| -> Vec<(bool, String)> {
        let mut lines = bench.subscribe(&[&out_path, &err_path], lines, false);
        let line = |line: forkful_api::types::LogLine| {
            (line.at_ms.is_some(), format!("{:?} {}", line.stream, line.line))
        };
        std::iter::from_fn(|| lines.blocking_recv()).map(line).collect()
    };
    let known = |texts: &[&str]| -> Vec<(bool, String)> {
        texts.iter().map(|text| (true, (*text).to_owned())).collect()
    };
    let (mut out, mut err) = (bench.worker(0, Out, &out_path), bench.worker(0, Err, &err_path));
    for number in 0..3 {
        writeln!(out, "{number}\n{number}").unwrap();
        bench.settle();
        writeln!(err, "{number}").unwrap();
        bench.settle();
    }
    let all = known(&["Out 0", "Out 0", "Err 0", "Out 1", "Out 1", "Err 1", "Out 2", "Out 2", "Err 2"]);
    assert_eq!(last(1), known(&["Out 2", "Err 2"]));
    assert_eq!(last(2), known(&["Err 1", "Out 2", "Out 2", "Err 2"]));
    let before = [(false, format!("Err {FILE_BY_FILE}")), (false, "Out old out".to_owned())];
    let before = [&before[..], &[(false, "Out old err".to_owned())]].concat();
    assert_eq!(last(99), [before.clone(), all.clone()].concat());
    // The worker has ended, as it has when somebody wants to know why.
    drop((out, err));
    bench.settle();
    assert_eq!(last(99), [before, all].concat());
    // Somebody else has appended, so that nothing is known of the file.
    let text = fs_err::read_to_string(&err_path).unwrap();
    fs_err::write(&err_path, text + "stranger\n").unwrap();
    assert_eq!(last(1), [&[(false, "Out stranger".to_owned())], &known(&["Out 2"])[..]].concat());
    assert_eq!(
        bench.service.flush(vec![out_path.clone(), err_path.clone()]).blocking_recv().unwrap(),
        Ok(())
    );
    writeln!(bench.worker(0, Err, &err_path), "new").unwrap();
    assert_eq!(last(9), known(&["Err new"]));
}

#[test]
fn lines_of_before_that_begin_with_their_time_come_in_its_order() {
    let bench = Bench::new();
    let (out, err) = (bench.path("out.log"), bench.path("err.log"));
    let line = |second: u32, text: &str| format!("2026-01-31T23:59:0{second}.000Z: {text}\n");
    fs_err::write(&out, line(1, "a") + &line(3, "c") + &line(4, "d")).unwrap();
    fs_err::write(&err, line(2, "b") + &line(4, "e")).unwrap();
    let texts = || -> Vec<String> {
        let mut lines = bench.subscribe(&[&out, &err], 9, false);
        std::iter::from_fn(|| lines.blocking_recv()).map(|line| line.line).collect()
    };
    let ends: Vec<_> = texts().iter().map(|line| line[line.len() - 1..].to_owned()).collect();
    assert_eq!(ends, ["a", "b", "c", "d", "e"]);
    fs_err::write(&err, "without a time\n").unwrap();
    assert_eq!(texts()[0], FILE_BY_FILE);
}

#[test]
fn lines_with_a_time_look_the_same_when_they_are_read_back_and_when_they_are_new() {
    let bench = Bench::new();
    for (name, format) in [("raw.log", LineFormat::Raw), ("json.log", LineFormat::Json)] {
        let path = bench.path(name);
        let style = LineStyle { stamp: Stamp::Iso, format, ..LineStyle::default() };
        let mut worker = bench.attach(StreamSpec { style, ..spec(0, Out, &path) });
        let mut live = bench.subscribe(&[], 0, true);
        bench.settle();
        writeln!(worker, "a line").unwrap();
        let live = live.blocking_recv().unwrap();
        let back = bench.subscribe(&[&path], 1, false).blocking_recv().unwrap();
        assert_eq!(live, back);
        assert_eq!(bench.text(&path), format!("{}\n", live.line));
        assert!(live.line.contains("a line") && live.line.len() > 24, "{live:?}");
    }
}

#[test]
fn a_file_that_cannot_be_written_is_told_to_its_readers_and_of_its_worker() {
    let bench = Bench::new();
    let path = bench.path("link.log");
    fs_err::os::unix::fs::symlink("/dev/full", &path).unwrap();
    let mut worker = bench.worker(3, Out, &path);
    bench.settle();
    assert_eq!(bench.service.fault(3), None);
    writeln!(worker, "lost").unwrap();
    bench.settle();
    let fault =
        format!("the log file {} cannot be written: No space left on device (os error 28)", path.display());
    assert_eq!(bench.service.fault(3).as_deref(), Some(fault.as_str()));
    let told = bench.subscribe(&[&path], 9, false).blocking_recv().unwrap();
    assert_eq!((told.app.as_str(), told.line), ("forkful", format!("lines are lost: {fault}")));
    // There is room again.
    fs_err::remove_file(&path).unwrap();
    assert_eq!(bench.service.reopen().blocking_recv().unwrap(), Ok(()));
    writeln!(worker, "kept").unwrap();
    assert_eq!(bench.text(&path), "kept\n");
    assert_eq!(bench.service.fault(3), None);
    assert_eq!(bench.subscribe(&[&path], 9, false).blocking_recv().unwrap().line, "kept");
}

#[test]
fn tail_and_follow_give_each_line_once() {
    const ROUNDS: usize = 12;
    const LINES: usize = FOLLOWER_LINES_MAX / 2;
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    let mut followers = Vec::new();
    // In every round a reader comes while lines flow; each sees all lines, from the first to the last. All
    // have caught up before the next round, so that nobody may be skipped.
    for round in 0..ROUNDS {
        let (from, to) = (round * LINES, (round + 1) * LINES);
        thread::scope(|scope| {
            let worker = &mut worker;
            scope.spawn(move || {
                for number in from..to {
                    writeln!(worker, "{number}").unwrap();
                }
            });
            followers.push((bench.subscribe(&[&path], 100_000, true), 0));
        });
        for (lines, next) in &mut followers {
            while *next < to {
                assert_eq!(lines.blocking_recv().unwrap().line, next.to_string());
                *next += 1;
            }
        }
    }
    assert_eq!(bench.text(&path).lines().count(), ROUNDS * LINES);
}

#[test]
fn a_follower_gets_the_apps_workers_and_streams_that_it_asked_for() {
    let bench = Bench::new();
    let path = bench.path("merged.log");
    let mut writers =
        [(0, Out), (0, Err), (1, Out)].map(|(pm_id, stream)| bench.worker(pm_id, stream, &path));
    let follow = |who, stream| {
        let filter = FollowFilter { who, stream };
        bench.service.subscribe(FollowRequest { files: Vec::new(), lines: 0, follow: true, filter })
    };
    let mut all_err = follow(Followed::All, Some(Err));
    let mut first = follow(Followed::Some { apps: BTreeSet::new(), workers: [0].into() }, Some(Out));
    let mut app = follow(Followed::Some { apps: ["api".to_owned()].into(), workers: BTreeSet::new() }, None);
    let mut other =
        follow(Followed::Some { apps: ["other".to_owned()].into(), workers: BTreeSet::new() }, None);
    bench.settle();
    for (number, writer) in writers.iter_mut().enumerate() {
        writeln!(writer, "{number}").unwrap();
    }
    bench.settle();
    let all = |receiver: &mut LogLines| {
        let mut found: Vec<(Option<u32>, LogStream, String)> = Vec::new();
        while let Some(line) = receiver.try_recv() {
            assert!(line.at_ms.is_some() && line.app == "api");
            found.push((line.pm_id, line.stream, line.line));
        }
        found.sort_by(|one, two| one.2.cmp(&two.2));
        found
    };
    let expected =
        [(Some(0), Out, "0".to_owned()), (Some(0), Err, "1".to_owned()), (Some(1), Out, "2".to_owned())];
    assert_eq!(all(&mut all_err), expected[1..2]);
    assert_eq!(all(&mut first), expected[..1]);
    assert_eq!(all(&mut app), expected);
    assert_eq!(all(&mut other), []);
}

#[test]
fn a_slow_follower_misses_lines_is_told_how_many_and_holds_up_nobody() {
    const LINES: usize = FOLLOWER_LINES_MAX * 3;
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    let mut slow = bench.subscribe(&[], 0, true);
    bench.settle();
    for number in 0..LINES {
        writeln!(worker, "{number}").unwrap();
    }
    assert_eq!(bench.text(&path).lines().count(), LINES);
    // Whole batches in their order; then a notice, which comes by itself though no line follows.
    let mut received = 0;
    let notice = loop {
        let line = slow.blocking_recv().unwrap();
        if line.app == "forkful" {
            break line;
        }
        assert_eq!(line.line, received.to_string());
        received += 1;
    };
    assert!(received > 0);
    let skipped = LINES - received;
    assert_eq!(
        notice.line,
        format!("{skipped} lines were skipped here: they came faster than they were read")
    );
    assert_eq!((notice.app.as_str(), notice.pm_id), ("forkful", None));
    writeln!(worker, "and on").unwrap();
    assert_eq!(slow.blocking_recv().unwrap().line, "and on");
    assert_eq!(bench.service.dropped_lines(0), 0);
}

#[test]
fn a_followers_bytes_are_bounded_but_one_long_line_passes() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    let mut slow = bench.subscribe(&[], 0, true);
    bench.settle();
    let long = "z".repeat(9 << 20);
    for _ in 0..3 {
        writeln!(worker, "{long}").unwrap();
    }
    bench.settle();
    assert!(slow.blocking_recv().unwrap().line == long);
    assert!(slow.blocking_recv().unwrap().line.starts_with("2 lines were skipped here"));
}

#[test]
fn many_last_lines_are_not_skipped_however_slow_the_reader() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    let numbers: Vec<String> = (0..50_000).map(|number| number.to_string()).collect();
    fs_err::write(&path, numbers.join("\n")).unwrap();
    let request =
        FollowRequest { files: vec![tail_file(&path)], lines: 40_000, follow: true, filter: everything() };
    let mut lines = bench.service.subscribe(request);
    bench.settle();
    for number in 50_000..50_010 {
        writeln!(worker, "{number}").unwrap();
    }
    bench.settle();
    for number in 10_000..50_010 {
        assert_eq!(lines.blocking_recv().unwrap().line, number.to_string());
    }
}
