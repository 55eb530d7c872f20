//! From pipes into files: whole lines, however they come.

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::thread;

use forkful_api::types::LogStream::{Err, Out};
use forkful_core::slot::Generation;
use forkful_testkit::wait_until;
use proptest::collection::vec;
use proptest::prelude::*;

use super::support::{Bench, pipe, spec};
use crate::logs::echo::Echo;
use crate::logs::{EchoPrefix, LineStyle, Stamp, StreamSpec};

#[test]
fn lines_reach_the_file_and_a_line_waits_for_its_end() {
    let bench = Bench::new();
    let path = bench.path("logs/api-out.log");
    let mut worker = bench.worker(0, Out, &path);
    worker.write_all(b"one\ntwo\nthr").unwrap();
    assert_eq!(bench.text(&path), "one\ntwo\n");
    worker.write_all(b"ee\n").unwrap();
    assert_eq!(bench.text(&path), "one\ntwo\nthree\n");
    let mode = |path: &std::path::Path| fs_err::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path) & !0o640, 0);
    assert_eq!(mode(&bench.path("logs")), 0o700);
}

#[test]
fn the_file_exists_before_the_first_line() {
    let bench = Bench::new();
    let path = bench.path("api-out.log");
    let _worker = bench.worker(0, Out, &path);
    assert_eq!(bench.text(&path), "");
}

#[test]
fn a_last_line_without_newline_is_ended_when_the_stream_ends() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    worker.write_all(b"last words").unwrap();
    drop(worker);
    // A process that another test starts at this moment holds the pipe until its program runs.
    wait_until("the line is ended", || bench.text(&path) == "last words\n");
}

#[test]
fn dropping_the_service_writes_what_is_in_the_pipes() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    worker.write_all(b"a line\nand a half").unwrap();
    let Bench { service, folder, .. } = bench;
    let clone = service.clone();
    drop(service);
    drop(clone);
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "a line\nand a half\n");
    drop(folder);
}

#[test]
fn a_file_that_ends_within_a_line_gets_a_newline_first() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    fs_err::write(&path, "torn by a power cut").unwrap();
    bench.worker(0, Out, &path).write_all(b"new\n").unwrap();
    assert_eq!(bench.text(&path), "torn by a power cut\nnew\n");
}

#[test]
fn of_many_lines_without_an_end_the_largest_is_cut_when_all_together_are_too_much() {
    let bench = Bench::with(|options| options.partial_bytes_max = 10_000);
    let mut workers: Vec<_> = (0..8)
        .map(|id| {
            let path = bench.path(&format!("{id}.log"));
            (bench.worker(id, Out, &path), path)
        })
        .collect();
    let (small, large) = ("s".repeat(500), "L".repeat(5000));
    for (id, (pipe, _)) in workers.iter_mut().enumerate() {
        pipe.write_all(if id < 6 { &small } else { &large }.as_bytes()).unwrap();
        bench.settle();
    }
    let cuts = |id| bench.service.cut_lines(id);
    assert_eq!((0..6).map(cuts).sum::<u64>(), 0);
    assert_eq!(cuts(6) + cuts(7), 1);
    for (id, (mut pipe, path)) in workers.into_iter().enumerate() {
        pipe.write_all(b"end\n").unwrap();
        let expected = if id < 6 { &small } else { &large };
        let text = bench.text(&path);
        assert_eq!(text.replace('\n', ""), format!("{expected}end"));
        assert_eq!(text.lines().count() as u64, 1 + cuts(id as u32));
    }
}

#[test]
fn four_writers_into_one_file_tear_no_line_and_keep_their_order() {
    const LINES: usize = 20_000;
    let bench = Bench::new();
    let path = bench.path("merged.log");
    thread::scope(|scope| {
        for writer in 0..4_u32 {
            let mut pipe = bench.worker(writer, Out, &path);
            scope.spawn(move || {
                for number in 0..LINES {
                    let filler = "x".repeat((number * 7919 + writer as usize) % 600);
                    // In two writes, so that lines come in pieces.
                    write!(pipe, "{writer} {number} ").unwrap();
                    writeln!(pipe, "{filler}").unwrap();
                }
            });
        }
    });
    let text = bench.text(&path);
    let mut next = [0; 4];
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let writer: usize = words.next().unwrap().parse().unwrap();
        let number: usize = words.next().unwrap().parse().unwrap();
        assert_eq!(number, next[writer]);
        assert_eq!(words.next().unwrap(), "x".repeat((number * 7919 + writer) % 600));
        next[writer] += 1;
    }
    assert_eq!(next, [LINES; 4]);
    assert_eq!(bench.service.dropped_lines(0), 0);
}

#[test]
fn a_line_of_10_mb_arrives_whole_beside_another_writer() {
    let bench = Bench::new();
    let path = bench.path("merged.log");
    let long: Vec<u8> = (0..10_000_000_u32).map(|index| b'a' + (index % 26) as u8).collect();
    let (mut one, mut two) = (bench.worker(0, Out, &path), bench.worker(1, Out, &path));
    for piece in long.chunks(1_000_000) {
        one.write_all(piece).unwrap();
        two.write_all(b"short\n").unwrap();
    }
    one.write_all(b"\n").unwrap();
    let content = bench.content(&path);
    let (short, found): (Vec<_>, Vec<_>) =
        content.split_inclusive(|byte| *byte == b'\n').partition(|line| *line == b"short\n");
    assert_eq!(short.len(), 10);
    assert!(found.len() == 1 && found[0][..found[0].len() - 1] == long);
}

#[test]
fn a_line_beyond_the_bound_is_cut_and_counted() {
    let bench = Bench::with(|options| options.line_bytes_max = 1000);
    let path = bench.path("out.log");
    let mut worker = bench.worker(7, Out, &path);
    worker.write_all(&[b'x'; 2500]).unwrap();
    worker.write_all(b"\nnext\n").unwrap();
    let x = |count| "x".repeat(count);
    assert_eq!(bench.text(&path), format!("{}\n{}\n{}\nnext\n", x(1000), x(1000), x(500)));
    assert_eq!(bench.service.cut_lines(7), 2);
    assert_eq!(bench.service.dropped_lines(7), 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn any_pieces_of_any_bytes_give_the_same_file(
        pieces in vec((vec(prop_oneof![3 => Just(b'\n'), 40 => any::<u8>()], 0..150), any::<bool>()), 0..12),
    ) {
        let bench = Bench::new();
        let path = bench.path("out.log");
        let mut worker = bench.worker(0, Out, &path);
        let mut expected = Vec::new();
        for (piece, read_now) in &pieces {
            worker.write_all(piece).unwrap();
            expected.extend_from_slice(piece);
            if *read_now {
                let whole = expected.iter().rposition(|byte| *byte == b'\n').map_or(0, |newline| newline + 1);
                prop_assert_eq!(bench.content(&path), &expected[..whole]);
            }
        }
        drop(worker);
        if expected.last().is_some_and(|last| *last != b'\n') {
            expected.push(b'\n');
        }
        // A process that another test starts at this moment holds the pipe until its program runs.
        wait_until("all of it is there", || bench.content(&path) == expected);
    }
}

#[test]
fn bytes_that_are_not_utf_8_stay_as_they_are_in_the_file() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    bench.worker(0, Out, &path).write_all(b"\xff\xfe\0\n").unwrap();
    assert_eq!(bench.content(&path), b"\xff\xfe\0\n");
}

#[test]
fn each_line_gets_its_time_when_asked_for() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.attach(StreamSpec {
        style: LineStyle { stamp: Stamp::Iso, ..LineStyle::default() },
        ..spec(0, Out, &path)
    });
    let before = forkful_os::wall_clock::now_ms();
    worker.write_all(b"one\ntwo\n").unwrap();
    let text = bench.text(&path);
    let after = forkful_os::wall_clock::now_ms();
    let times: Vec<String> = (before..=after).map(forkful_core::date_format::iso_8601).collect();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 2);
    for (line, content) in lines.iter().zip(["one", "two"]) {
        let (time, found) = line.split_once(": ").unwrap();
        assert_eq!(found, content);
        assert!(times.iter().any(|expected| expected == time), "{time} is not in {times:?}");
    }
}

#[test]
fn stderr_tail_reads_what_is_in_the_pipe_and_belongs_to_one_process() {
    let bench = Bench::new();
    let path = bench.path("err.log");
    let tail_of = |process| bench.service.stderr_tail(3, process).blocking_recv().unwrap().lines;
    let tail = || tail_of(None);
    assert_eq!(tail(), Vec::<String>::new());
    bench.service.begin_process(3, Generation(1));
    let mut old = bench.worker(3, Err, &path);
    let mut out = bench.worker(3, Out, &bench.path("out.log"));
    for number in 0..30 {
        writeln!(old, "line {number}").unwrap();
    }
    writeln!(out, "not stderr").unwrap();
    let expected: Vec<String> = (10..30).map(|number| format!("line {number}")).collect();
    assert_eq!(tail(), expected);
    old.write_all(b"and no newline").unwrap();
    assert_eq!(tail()[18..], ["line 29", "and no newline"]);
    bench.service.begin_process(3, Generation(2));
    assert_eq!(tail(), Vec::<String>::new());
    let mut new = bench.attach(StreamSpec { process: Generation(2), ..spec(3, Err, &path) });
    old.write_all(b": late\n").unwrap();
    writeln!(new, "{}", "y".repeat(5000)).unwrap();
    assert_eq!(tail(), [format!("{}…", "y".repeat(1024))]);
    assert_eq!(tail_of(Some(Generation(1)))[18..], ["line 29", "and no newline: late"]);
    for process in 3..5 {
        bench.service.begin_process(3, Generation(process));
    }
    assert_eq!(tail_of(Some(Generation(1))), Vec::<String>::new());
    assert_eq!(tail_of(Some(Generation(2))).len(), 1);
    assert!(bench.text(&path).contains("\nand no newline: late\n"));
    bench.service.forget(3);
    assert_eq!(tail(), Vec::<String>::new());
}

#[test]
fn echo_writes_whole_lines_with_a_prefix_and_stops_when_its_reader_has_gone() {
    let ((out_reader, out), (err_reader, err)) = (pipe(), pipe());
    let bench = Bench::with(|options| options.echo = Echo::to(out, err));
    let path = bench.path("out.log");
    let echo = Some(EchoPrefix("0|api | ".to_owned()));
    let mut stdout = bench.attach(StreamSpec { echo: echo.clone(), ..spec(0, Out, &path) });
    let mut stderr = bench.attach(StreamSpec {
        echo: Some(EchoPrefix::default()),
        paths: Vec::new(),
        ..spec(0, Err, &path)
    });
    stdout.write_all(b"one\ntwo\nthr").unwrap();
    stderr.write_all(b"fault\n").unwrap();
    bench.settle();
    let read = |fd: std::os::fd::OwnedFd| {
        let mut text = [0; 100];
        let mut file = std::fs::File::from(fd);
        let count = file.read(&mut text).unwrap();
        (String::from_utf8(text[..count].to_vec()).unwrap(), file)
    };
    let (text, out_reader) = read(out_reader);
    assert_eq!(text, "0|api | one\n0|api | two\n");
    assert_eq!(read(err_reader).0, "fault\n");
    drop(out_reader);
    stdout.write_all(b"ee\n").unwrap();
    stderr.write_all(b"nobody reads this\n").unwrap();
    stdout.write_all(b"four\n").unwrap();
    assert_eq!(bench.text(&path), "one\ntwo\nthree\nfour\n");
    assert_eq!(bench.service.dropped_lines(0), 0);
}

#[test]
fn what_comes_after_a_rest_stays_in_its_pipe_for_another_daemon() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    let before: String = (0..1000).map(|number| format!("line {number}\n")).collect();
    worker.write_all(before.as_bytes()).unwrap();
    bench.settle();
    assert_eq!(bench.service.rest().blocking_recv(), Ok(()));
    worker.write_all(b"after\n").unwrap();
    assert_eq!(fs_err::read_to_string(&path).unwrap(), before);
    assert_eq!(rustix::io::ioctl_fionread(&worker).unwrap(), 6);
}

#[test]
fn the_beginning_of_a_line_is_in_the_file_after_a_rest() {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.worker(0, Out, &path);
    worker.write_all(b"whole\nbeginning-").unwrap();
    bench.settle();
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "whole\n");
    assert_eq!(bench.service.rest().blocking_recv(), Ok(()));
    assert_eq!(fs_err::read_to_string(&path).unwrap(), "whole\nbeginning-\n");
    worker.write_all(b"end\n").unwrap();
    assert_eq!(rustix::io::ioctl_fionread(&worker).unwrap(), 4, "this is for the next daemon");
}
