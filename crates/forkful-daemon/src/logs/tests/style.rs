//! How lines look in files.

use std::io::Write;

use forkful_api::types::LogStream::{Err, Out};
use forkful_core::ansi;
use forkful_core::date_format::DateFormat;
use forkful_core::logs::{AnsiPolicy, LineFormat};
use proptest::prelude::*;
use serde_json::Value;

use super::support::{Bench, spec};
use crate::logs::{LineStyle, Stamp, StreamSpec, json};

fn stripped(line: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    ansi::strip(line, &mut out);
    out
}

#[test]
fn control_sequences_go_and_text_stays() {
    for (line, expected) in [
        ("plain", "plain"),
        ("\u{1b}[31mred\u{1b}[0m and \u{1b}[1;38;5;200mpink\u{1b}[m", "red and pink"),
        ("\u{1b}]0;title\u{7}text", "text"),
        ("\u{1b}]8;;https://example.org\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
        ("\u{1b}(Bascii \u{1b}7saved\u{1b}c", "ascii saved"),
        ("\u{1b}[2K\u{1b}[1Gprogress 10 %", "progress 10 %"),
        ("broken \u{1b}[31", "broken "),
        ("broken \u{1b}]0;tit", "broken "),
        ("end \u{1b}", "end "),
        ("\u{1b}[31\u{1b}[32mgreen", "green"),
        ("\u{1b}ünicode", "ünicode"),
        ("naïve – 日本", "naïve – 日本"),
    ] {
        assert_eq!(String::from_utf8(stripped(line.as_bytes())).unwrap(), expected, "{line:?}");
    }
}

fn styled(style: LineStyle, stream: forkful_api::types::LogStream, input: &[u8]) -> String {
    let bench = Bench::new();
    let path = bench.path("out.log");
    let mut worker = bench.attach(StreamSpec { style, ..spec(3, stream, &path) });
    worker.write_all(input).unwrap();
    bench.text(&path)
}

#[test]
fn json_lines_have_the_keys_that_pm2_gives_them() {
    let style = LineStyle { format: LineFormat::Json, ..LineStyle::default() };
    let text = styled(style, Err, b"say \"hi\"\t\x1b[1m\n\n\xff\n");
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let messages: Vec<&str> = lines.iter().map(|line| line["message"].as_str().unwrap()).collect();
    assert_eq!(messages, ["say \"hi\"\t\u{1b}[1m", "", "\u{fffd}"]);
    for line in &lines {
        assert_eq!(
            (&line["type"], &line["process_id"], &line["app_name"]),
            (&"err".into(), &3.into(), &"api".into())
        );
        assert!(
            line["timestamp"].as_str().is_some_and(|time| time.ends_with('Z') && time.len() == 24),
            "{line}"
        );
        assert_eq!(line.as_object().unwrap().len(), 5);
    }
}

#[test]
fn json_lines_take_the_users_form_of_time_and_lose_colours_when_asked() {
    let stamp = Stamp::Local(DateFormat::new("[\"]YYYY").unwrap());
    let style = LineStyle { format: LineFormat::Json, stamp, ansi: AnsiPolicy::Strip };
    let line: Value = serde_json::from_str(&styled(style, Out, b"\x1b[31mred\x1b[0m\n")).unwrap();
    assert_eq!((&line["message"], &line["type"]), (&"red".into(), &"out".into()));
    assert!(line["timestamp"].as_str().is_some_and(|time| time.starts_with("\"20")), "{line}");
}

#[test]
fn text_takes_the_users_form_of_time_and_loses_colours_when_asked() {
    let stamp = Stamp::Local(DateFormat::new("[at]").unwrap());
    let style = LineStyle { format: LineFormat::Raw, stamp, ansi: AnsiPolicy::Strip };
    assert_eq!(styled(style, Out, b"\x1b[31mred\x1b[0m\nplain\n"), "at: red\nat: plain\n");
    let style = LineStyle { ansi: AnsiPolicy::Strip, ..LineStyle::default() };
    assert_eq!(styled(style, Out, b"\x1b[31mred\x1b[0m\n"), "red\n");
    assert_eq!(styled(LineStyle::default(), Out, b"\x1b[31mred\n"), "\u{1b}[31mred\n");
}

#[test]
fn both_streams_go_to_the_combined_file_too_in_their_order() {
    let bench = Bench::new();
    let (out, err, both) = (bench.path("out.log"), bench.path("err.log"), bench.path("both.log"));
    let attach = |stream, own: &std::path::Path| {
        bench.attach(StreamSpec { paths: vec![own.to_owned(), both.clone()], ..spec(0, stream, own) })
    };
    let (mut stdout, mut stderr) = (attach(Out, &out), attach(Err, &err));
    for number in 0..50 {
        writeln!(stdout, "out {number}").unwrap();
        bench.settle();
        writeln!(stderr, "err {number}").unwrap();
        bench.settle();
    }
    let expected: String = (0..50).map(|number| format!("out {number}\nerr {number}\n")).collect();
    assert_eq!(bench.text(&both), expected);
    assert_eq!(bench.text(&out).lines().count(), 50);
    assert_eq!(bench.text(&err).lines().count(), 50);
}

proptest! {
    #[test]
    fn any_bytes_become_the_json_that_a_reader_takes_for_the_same_text(bytes in any::<Vec<u8>>()) {
        let mut out = Vec::new();
        json::string(&bytes, &mut out);
        let text: String = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn stripping_leaves_no_escape_and_changes_nothing_without_one(line in any::<Vec<u8>>()) {
        let found = stripped(&line);
        prop_assert!(!found.contains(&ansi::ESCAPE));
        prop_assert!(found.len() <= line.len());
        if !line.contains(&ansi::ESCAPE) {
            prop_assert_eq!(found, line);
        }
    }
}
