//! Lines of logs, and how log files are set aside, as they travel.

use serde::{Deserialize, Serialize};

#[cfg(test)]
use super::LOG_TAIL_LINES_MAX;

/// When log files are set aside, and how many stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct LogRotateDefinition {
    /// Bytes of one file; `None` is no bound.
    pub max_size_bytes: Option<u64>,
    /// Age of its first line; `None` is never.
    pub max_age_ms: Option<u64>,
    /// Files that stay of each log file.
    pub keep: u32,
    /// Bytes of all files of the app; `None` is no bound.
    pub total_bytes: Option<u64>,
    /// Whether files that were set aside are compressed.
    pub compress: bool,
    /// Room that the file system keeps; `None` is by its size, 0 none.
    pub min_free_bytes: Option<u64>,
}

/// One line of `GET /v1/logs`, a stream of JSON texts, one per line (`application/x-ndjson`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LogLine {
    /// The app.
    pub app: String,
    /// The worker's id; `None` for a merged file read from disk.
    pub pm_id: Option<u32>,
    /// Which stream.
    pub stream: LogStream,
    /// When the line was read; `None` for lines from disk.
    pub at_ms: Option<u64>,
    /// The line, without its newline; invalid UTF-8 replaced.
    pub line: String,
}

/// stdout or stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum LogStream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
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
    /// Go on with new lines.
    #[serde(default)]
    pub follow: bool,
    /// Only this stream.
    #[serde(default)]
    pub stream: Option<LogStream>,
}
