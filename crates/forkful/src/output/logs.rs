//! Formats apps' lines, with or without a prefix.

use std::fmt::Write;

use forkful_api::types::{LogLine, LogStream, ShownLine};
use forkful_core::date_format::DateFormat;
use forkful_core::spec::Named as _;
use forkful_os::clock::utc_offset_seconds;

use super::format::visible;
use super::paint::Paint;

/// The format of lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStyle {
    /// `3|api | text`, with the prefix coloured by worker, or red for stderr.
    Prefixed,
    /// As the app wrote them.
    Raw,
    /// One JSON object per line.
    Json,
    /// `timestamp=… app=… id=… type=… message=…`.
    Format,
}

/// All options for printing lines.
#[derive(Debug, Clone)]
pub(crate) struct LogShape {
    pub(crate) style: LogStyle,
    /// Printed before lines with a known time; in JSON and `--format`, the format of the time.
    pub(crate) timestamp: Option<DateFormat>,
    /// Text to highlight.
    pub(crate) highlight: Option<String>,
    pub(crate) paint: Paint,
}

/// The time format in JSON and in `--format`.
const JSON_TIME: &str = "YYYY-MM-DDTHH:mm:ss.SSSZ";
const FORMAT_TIME: &str = "YYYY-MM-DD-HH:mm:ssZZ";

/// Appends a line and its newline.
pub(crate) fn append(line: &LogLine, shape: &LogShape, out: &mut String) {
    match shape.style {
        LogStyle::Raw => {
            if let Some(time) = time(line, shape, None) {
                out.push_str(&time);
                out.push(' ');
            }
            append_text(&line.line, shape, out);
        }
        LogStyle::Json => {
            let line = ShownLine {
                message: &line.line,
                timestamp: time(line, shape, Some(JSON_TIME)),
                r#type: line.stream.name(),
                process_id: line.pm_id,
                app_name: &line.app,
            };
            match serde_json::to_string(&line) {
                Ok(json) => out.push_str(&json),
                Err(error) => unreachable!("a log line always has a JSON form: {error}"),
            }
        }
        LogStyle::Format => append_format(line, shape, out),
        LogStyle::Prefixed => append_prefixed(line, shape, out),
    }
    out.push('\n');
}

fn append_prefixed(line: &LogLine, shape: &LogShape, out: &mut String) {
    let paint = shape.paint;
    if let Some(time) = time(line, shape, None) {
        out.push_str(&paint.dim(&time));
        out.push(' ');
    }
    let who = match line.pm_id {
        Some(pm_id) => format!("{pm_id}|{}", visible(&line.app)),
        None => visible(&line.app),
    };
    let who = match line.stream {
        LogStream::Err => paint.red(&who),
        LogStream::Out => paint.nth(line.pm_id.unwrap_or(0), &who),
    };
    out.push_str(&who);
    out.push_str(" | ");
    append_text(&line.line, shape, out);
}

fn append_format(line: &LogLine, shape: &LogShape, out: &mut String) {
    if let Some(time) = time(line, shape, Some(FORMAT_TIME)) {
        // Writing to a String cannot fail.
        let _ = write!(out, "timestamp={time} ");
    }
    let _ = write!(out, "app={} ", visible(&line.app));
    if let Some(pm_id) = line.pm_id {
        let _ = write!(out, "id={pm_id} ");
    }
    let _ = write!(out, "type={} message=", line.stream);
    append_text(&line.line, shape, out);
}

/// The line's time in the user's format, or in the default.
fn time(line: &LogLine, shape: &LogShape, default: Option<&str>) -> Option<String> {
    let at_ms = line.at_ms?;
    let offset_s = utc_offset_seconds(at_ms);
    match (&shape.timestamp, default) {
        (Some(form), _) => Some(form.format(at_ms, offset_s)),
        (None, Some(form)) => DateFormat::new(form).ok().map(|form| form.format(at_ms, offset_s)),
        (None, None) => None,
    }
}

fn append_text(text: &str, shape: &LogShape, out: &mut String) {
    match &shape.highlight {
        Some(wanted) if shape.paint.is_enabled() && text.contains(wanted.as_str()) => {
            let mut parts = text.split(wanted.as_str());
            out.push_str(parts.next().unwrap_or_default());
            for part in parts {
                out.push_str(&shape.paint.highlight(wanted));
                out.push_str(part);
            }
        }
        _ => out.push_str(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(style: LogStyle, change: impl FnOnce(&mut LogShape, &mut LogLine)) -> String {
        let mut line = LogLine {
            app: "api".to_owned(),
            pm_id: Some(3),
            stream: LogStream::Err,
            at_ms: Some(1_770_091_506_789),
            line: "a \"b\" a".to_owned(),
        };
        let mut shape = LogShape { style, timestamp: None, highlight: None, paint: Paint::plain() };
        change(&mut shape, &mut line);
        let mut out = String::new();
        append(&line, &shape, &mut out);
        out
    }

    #[test]
    fn each_style_of_a_line() {
        let seconds = |shape: &mut LogShape, _: &mut LogLine| {
            shape.timestamp = DateFormat::new("X").ok();
        };
        let of_disk = |_: &mut LogShape, line: &mut LogLine| {
            line.at_ms = None;
            line.pm_id = None;
        };
        for (style, plain, stamped, past) in [
            (
                LogStyle::Prefixed,
                Some("3|api | a \"b\" a\n"),
                "1770091506 3|api | a \"b\" a\n",
                "api | a \"b\" a\n",
            ),
            (LogStyle::Raw, Some("a \"b\" a\n"), "1770091506 a \"b\" a\n", "a \"b\" a\n"),
            (
                LogStyle::Json,
                None,
                "{\"message\":\"a \\\"b\\\" a\",\"timestamp\":\"1770091506\",\"type\":\"err\",\"process_id\":3,\"app_name\":\"api\"}\n",
                "{\"message\":\"a \\\"b\\\" a\",\"timestamp\":null,\"type\":\"err\",\"process_id\":null,\"app_name\":\"api\"}\n",
            ),
            (
                LogStyle::Format,
                None,
                "timestamp=1770091506 app=api id=3 type=err message=a \"b\" a\n",
                "app=api type=err message=a \"b\" a\n",
            ),
        ] {
            if let Some(plain) = plain {
                assert_eq!(shown(style, |_, _| {}), plain);
            }
            assert_eq!(shown(style, seconds), stamped);
            assert_eq!(shown(style, of_disk), past);
        }
    }

    #[test]
    fn the_time_in_json_and_format_is_local_with_its_offset() {
        let json: serde_json::Value = serde_json::from_str(&shown(LogStyle::Json, |_, _| {})).unwrap();
        let time = json["timestamp"].as_str().unwrap();
        assert!(time.starts_with("2026-02-0") && time.contains(".789") && time.len() == 29, "{time}");
        let text = shown(LogStyle::Format, |_, _| {});
        assert!(text.starts_with("timestamp=2026-02-0"), "{text}");
    }

    #[test]
    fn what_is_sought_is_shown_in_another_colour_where_there_are_colours() {
        let seek = |paint: Paint| {
            shown(LogStyle::Raw, |shape, _| {
                shape.highlight = Some("a".to_owned());
                shape.paint = paint;
            })
        };
        assert_eq!(seek(Paint::plain()), "a \"b\" a\n");
        let coloured = seek(Paint::coloured());
        assert_eq!(coloured.matches("\u{1b}[").count(), 4, "{coloured:?}");
    }
}
