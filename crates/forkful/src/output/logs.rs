//! Lines of apps, with or without who wrote them.

use forkful_api::types::{LogLine, LogStream};

use super::format::visible;
use super::paint::Paint;

/// How lines are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LogStyle {
    /// `3|api | text`, the prefix coloured by worker, or red for stderr.
    Prefixed,
    /// As the app wrote them.
    Raw,
    /// A JSON object each.
    Json,
}

/// One line with its newline, ready for stdout.
pub(crate) fn line(line: &LogLine, style: LogStyle, paint: Paint) -> String {
    match style {
        LogStyle::Raw => format!("{}\n", line.line),
        LogStyle::Json => match serde_json::to_string(line) {
            Ok(json) => format!("{json}\n"),
            Err(error) => unreachable!("a log line always has a JSON form: {error}"),
        },
        LogStyle::Prefixed => {
            let who = match line.pm_id {
                Some(pm_id) => format!("{pm_id}|{}", visible(&line.app)),
                None => visible(&line.app),
            };
            let who = match line.stream {
                LogStream::Err => paint.red(&who),
                LogStream::Out => paint.nth(line.pm_id.unwrap_or(0), &who),
            };
            format!("{who} | {}\n", line.line)
        }
    }
}
