//! The settings for an app's output: files, line format, rotation. Only values; the daemon's log service uses
//! them.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::date_format::DateFormat;

/// Where a worker's output goes, and its format.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogSpec {
    /// stdout; `None` is the default path under the home.
    pub out_file: Option<PathBuf>,
    /// stderr; `None` is the default path under the home.
    pub error_file: Option<PathBuf>,
    /// One more file, for both streams in the order in which they were read.
    pub combined_file: Option<PathBuf>,
    /// No files. Followers still get the lines.
    pub disabled: bool,
    /// One file for all workers of the app instead of one per worker.
    pub merge: bool,
    /// Prefix each line with the time it was read, as ISO 8601 in UTC.
    pub time: bool,
    /// Prefix each line with the local time in this format; overrides `time`.
    pub date_format: Option<DateFormat>,
    /// Lines as they are, or as JSON.
    pub line_format: LineFormat,
    /// What to do with colours and other terminal control sequences.
    pub ansi: AnsiPolicy,
    /// When files are rotated and removed; `None` is never.
    pub rotation: Option<LogRotation>,
}

/// The format of a line in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum LineFormat {
    /// As the app wrote it, prefixed with the time if configured.
    #[default]
    Raw,
    /// An object with PM2's keys: `message`, `timestamp`, `type`, `process_id`, `app_name`.
    Json,
}

/// What to do with terminal control sequences (ECMA-48) in files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum AnsiPolicy {
    /// They stay.
    #[default]
    Keep,
    /// They are removed from files. Followers still get them.
    Strip,
}

/// When a log file is rotated, and how many rotated files are kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "LogRotateDefinition", deny_unknown_fields)
)]
pub struct LogRotation {
    /// A file that would exceed this size is rotated first; `None`: unlimited.
    #[serde(rename = "max_size_bytes")]
    pub max_size: Option<u64>,
    /// A file whose first line is older than this is rotated before the next line; `None` is never.
    #[serde(default, rename = "max_age_ms", with = "crate::millis::optional")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub max_age: Option<Duration>,
    /// Rotated files to keep for each log file.
    pub keep: u32,
    /// Maximum bytes of all files of the app, including rotated ones, of which the oldest are removed first;
    /// `None`: unlimited.
    #[serde(rename = "total_bytes")]
    pub total: Option<u64>,
    /// Whether rotated files are compressed.
    pub compress: bool,
    /// Lines are dropped and counted while the file system has less free space than this; `None` depends on
    /// its size, 0 disables it.
    #[serde(default, rename = "min_free_bytes")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub min_free: MinFree,
}

/// The minimum free space of a file system for writing logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Option<u64>", into = "Option<u64>")]
pub enum MinFree {
    /// 2 % of the file system, at most [`MinFree::BY_DISK_MAX`].
    #[default]
    ByDisk,
    /// This many bytes; 0 disables the limit.
    Bytes(u64),
}

impl From<Option<u64>> for MinFree {
    fn from(bytes: Option<u64>) -> Self {
        bytes.map_or(Self::ByDisk, Self::Bytes)
    }
}

impl From<MinFree> for Option<u64> {
    fn from(least: MinFree) -> Self {
        match least {
            MinFree::ByDisk => None,
            MinFree::Bytes(bytes) => Some(bytes),
        }
    }
}

impl MinFree {
    /// The maximum of [`MinFree::ByDisk`].
    pub const BY_DISK_MAX: u64 = 1 << 30;

    /// The minimum free space for a file system of this size.
    pub fn floor(self, disk_bytes: u64) -> u64 {
        match self {
            Self::ByDisk => (disk_bytes / 50).min(Self::BY_DISK_MAX),
            Self::Bytes(bytes) => bytes,
        }
    }
}

impl LogRotation {
    /// The minimum of `max_size`: smaller files would mean more renaming than writing.
    pub const MAX_SIZE_MIN: u64 = 4 << 10;
    /// Maximum rotated files of a log file, to limit the size of the folder.
    pub const KEEP_MAX: u32 = 10_000;
    /// The minimum of `max_age`.
    pub const MAX_AGE_MIN: Duration = Duration::from_secs(1);
}

impl Default for LogSpec {
    fn default() -> Self {
        Self {
            out_file: None,
            error_file: None,
            combined_file: None,
            disabled: false,
            merge: false,
            time: false,
            date_format: None,
            line_format: LineFormat::Raw,
            ansi: AnsiPolicy::Keep,
            rotation: Some(LogRotation::default()),
        }
    }
}

impl Default for LogRotation {
    fn default() -> Self {
        Self {
            max_size: Some(10 << 20),
            max_age: Some(Duration::from_secs(24 * 60 * 60)),
            keep: 14,
            total: Some(500 << 20),
            compress: true,
            min_free: MinFree::ByDisk,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_disk_has_a_small_floor_and_a_large_one_no_more_than_a_gibibyte() {
        assert_eq!(MinFree::ByDisk.floor(100 << 20), 2 << 20);
        assert_eq!(MinFree::ByDisk.floor(10 << 40), 1 << 30);
        assert_eq!(MinFree::Bytes(7).floor(10 << 40), 7);
    }
}
