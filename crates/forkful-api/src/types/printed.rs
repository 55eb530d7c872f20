//! What commands print with `--json` that does not cross the socket.

use std::collections::BTreeMap;

use serde::Serialize;

use super::AppDefinition;

/// A line of `forkful logs --json`, with PM2's keys.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ShownLine<'a> {
    /// The line, without its newline.
    pub message: &'a str,
    /// When the line was read, in the format of `--log-date-format`; `null` for lines from disk.
    pub timestamp: Option<String>,
    /// `out` or `err`.
    pub r#type: &'static str,
    /// The worker's id; `null` for a file of several workers.
    pub process_id: Option<u32>,
    /// The app.
    pub app_name: &'a str,
}

/// What `forkful get --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Settings<'a> {
    /// The value of the setting that was named.
    One(&'a str),
    /// Several settings; values that look secret are redacted.
    All(BTreeMap<&'a str, &'a str>),
}

/// What `forkful validate --json` prints.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Validated {
    /// The apps, without their environments.
    Apps(Vec<AppDefinition>),
    /// Something is wrong.
    Faults {
        /// Everything that is.
        faults: Vec<ConfigFault>,
    },
}

/// A fault of a configuration.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ConfigFault {
    /// What is wrong.
    pub message: String,
    /// What to do.
    pub hint: Option<String>,
    /// Where to read more about the hint.
    pub see: Option<String>,
    /// The file.
    pub file: Option<String>,
    /// From 1.
    pub line: Option<usize>,
    /// From 1.
    pub column: Option<usize>,
    /// The key, as a path: `apps[0].instances`.
    pub key: Option<String>,
}
