//! The API types of log lines.

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::LOG_TAIL_LINES_MAX;

/// One line of `GET /v1/logs`, a stream of JSON texts, one per line (`application/x-ndjson`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogLine {
    /// The app.
    pub app: String,
    /// The worker's id; `None` for a merged file read from disk, and for a line of Forkful itself, whose app is `forkful`.
    pub pm_id: Option<u32>,
    /// Which stream.
    pub stream: LogStream,
    /// When the line was read; `None` for lines from disk.
    pub at_ms: Option<u64>,
    /// The line, without its newline; invalid UTF-8 replaced.
    pub line: String,
}

forkful_core::named! {
    /// stdout or stderr.
    #[cfg_attr(test, derive(schemars::JsonSchema))]
    pub enum LogStream {
        /// Standard output.
        Out = "out",
        /// Standard error.
        Err = "err",
    }
}

/// Query of `GET /v1/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct LogsQuery {
    /// Targets, separated by commas, with a backslash before a comma or a backslash of a name; empty means all.
    #[serde(default)]
    pub targets: String,
    /// Lines from the end of each file.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(max = LOG_TAIL_LINES_MAX)))]
    pub lines: u32,
    /// Continue with new lines.
    #[serde(default)]
    pub follow: bool,
    /// Only this stream.
    #[serde(default)]
    pub stream: Option<LogStream>,
}
