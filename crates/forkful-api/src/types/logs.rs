//! How log files are set aside, as it travels.

use serde::{Deserialize, Serialize};

/// When log files are set aside, and how many stay.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
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
