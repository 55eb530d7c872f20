//! When a running worker is replaced: its files changed, it grew too large or too old, a schedule matched, or
//! it no longer works.

use std::cell::RefCell;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::str::FromStr as _;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::environment::{shown_arguments, shown_path};

/// Maximum length of a cron pattern, which limits the parser's work.
pub const CRON_BYTES_MAX: usize = 256;

/// Failed checks in a row before a worker counts as unhealthy, by default.
pub const HEALTH_FAILURES_DEFAULT: u32 = 3;

/// Which file changes replace the workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "WatchDefinition", deny_unknown_fields)
)]
pub struct Watch {
    /// Files and folders (with their contents), as absolute paths; at least one. A path that does not exist may be a pattern with
    /// `*`, `**`, `?`, `[…]` or `{…}`, which names files.
    pub paths: Vec<PathBuf>,
    /// Ignored files, in addition to those of `.gitignore` files, `node_modules`, dotfiles and the app's own
    /// logs.
    #[serde(default)]
    pub ignore: Vec<WatchIgnore>,
    /// Debounce: how long there must be no further changes before the workers are replaced.
    #[serde(rename = "delay_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub delay: Duration,
    /// Whether symbolic links are followed.
    pub follow_links: bool,
    /// The polling interval, for file systems without notifications; `None` uses the kernel's notifications.
    #[serde(default, rename = "polling_ms", with = "crate::millis::optional")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub polling: Option<Duration>,
}

impl Watch {
    /// The default debounce: an editor's save consists of several changes.
    pub const DELAY: Duration = Duration::from_millis(100);

    /// What is watched, and what is not: of a list in which `!` before a path leaves it out (alone: all else of the working
    /// directory is watched). `absolute` makes a path absolute.
    pub fn sort<'a>(
        paths: impl IntoIterator<Item = &'a str>,
        absolute: impl Fn(&str) -> PathBuf,
    ) -> (Vec<PathBuf>, Vec<WatchIgnore>) {
        let (mut watched, mut left_out) = (Vec::new(), Vec::new());
        for path in paths {
            match path.strip_prefix('!') {
                Some(path) => left_out.push(WatchIgnore::Glob(absolute(path).to_string_lossy().into_owned())),
                None => watched.push(absolute(path)),
            }
        }
        if watched.is_empty() && !left_out.is_empty() {
            watched.push(absolute("."));
        }
        (watched, left_out)
    }

    /// The folder in which the files of a pattern are; `None` for a path without a wildcard.
    pub fn folder_of_pattern(path: &Path) -> Option<PathBuf> {
        let has_wildcard = |part: &Component<'_>| {
            part.as_os_str().as_encoded_bytes().iter().any(|byte| matches!(byte, b'*' | b'?' | b'[' | b'{'))
        };
        let fixed = path.components().take_while(|part| !has_wildcard(part)).collect();
        path.components().any(|part| has_wildcard(&part)).then_some(fixed)
    }

    /// The debounce that was asked for; 0 asks for the default.
    pub fn delay_or_default(asked: Option<Duration>) -> Duration {
        asked.filter(|delay| !delay.is_zero()).unwrap_or(Self::DELAY)
    }
}

/// An ignored pattern.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WatchIgnoreDefinition"))]
#[serde(rename_all = "snake_case")]
pub enum WatchIgnore {
    /// A line as in `.gitignore`, relative to the app's working directory; an absolute path is used
    /// unchanged.
    Glob(String),
    /// A regular expression, in the syntax of Rust's `regex`, searched in the absolute path.
    Regex(String),
}

/// When a running worker is replaced by a new one, as in a reload: one slot after the other, and the old
/// worker stays if the new one does not become ready.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Renewal {
    /// Resident bytes of the worker's whole process tree.
    pub max_memory_bytes: Option<u64>,
    /// Number of answered requests; varied by a tenth per worker, so that workers are not replaced at the
    /// same time.
    pub max_requests: Option<u64>,
    /// Time since the worker's start; varied in the same way.
    pub max_age: Option<Duration>,
    /// At these times of the daemon's time zone.
    pub cron: Option<CronPattern>,
}

/// Points in time: five fields from minute to day of the week, or six beginning with the second.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct CronPattern {
    text: String,
    parsed: croner::Cron,
}

thread_local! {
    /// The pattern that was parsed last. Parsing takes longer than reading all the rest of a definition, and a saved state has an app's
    /// pattern twice, one after the other.
    static LAST: RefCell<Option<CronPattern>> = const { RefCell::new(None) };
}

/// Why a text is not a valid cron pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronFault(String);

impl CronPattern {
    /// Parses a pattern.
    pub fn new(text: impl Into<String>) -> Result<Self, CronFault> {
        let text = text.into();
        if let Some(last) = LAST.with_borrow(|last| last.clone().filter(|last| last.text == text)) {
            return Ok(last);
        }
        if text.len() > CRON_BYTES_MAX {
            return Err(CronFault(format!("a cron pattern has at most {CRON_BYTES_MAX} characters")));
        }
        let fields = text.split_whitespace().count();
        if !text.trim_start().starts_with('@') && !(5..=6).contains(&fields) {
            return Err(CronFault(format!("a cron pattern has 5 or 6 fields, not {fields}")));
        }
        match croner::Cron::from_str(text.trim()) {
            Ok(parsed) => {
                let pattern = Self { text, parsed };
                LAST.set(Some(pattern.clone()));
                Ok(pattern)
            }
            Err(error) => Err(wrong_field(&text)
                .unwrap_or_else(|| CronFault(error.to_string().trim_end_matches('.').to_owned()))),
        }
    }

    /// Whether any point in time fits: `0 0 31 2 *` has none.
    pub fn has_points(&self) -> bool {
        self.parsed.find_next_occurrence(&chrono::DateTime::<chrono::Utc>::UNIX_EPOCH, true).is_ok()
    }

    /// The pattern as the user wrote it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The parsed pattern; a schedule uses `find_next_occurrence`.
    pub fn pattern(&self) -> &croner::Cron {
        &self.parsed
    }
}

/// The first field of a cron pattern that is wrong where all others are `*`.
fn wrong_field(text: &str) -> Option<CronFault> {
    const FIELDS: [(&str, &str); 6] = [
        ("second", "0 to 59"),
        ("minute", "0 to 59"),
        ("hour", "0 to 23"),
        ("day of the month", "1 to 31"),
        ("month", "1 to 12"),
        ("day of the week", "0 to 7"),
    ];
    let written: Vec<&str> = text.split_whitespace().collect();
    if !(5..=6).contains(&written.len()) {
        return None;
    }
    let known = &FIELDS[FIELDS.len() - written.len()..];
    let is_wrong = |at: &usize| {
        let alone: Vec<&str> =
            written.iter().enumerate().map(|(i, field)| if i == *at { field } else { "*" }).collect();
        croner::Cron::from_str(&alone.join(" ")).is_err()
    };
    let at = (0..written.len()).find(is_wrong)?;
    let (name, range) = known[at];
    Some(CronFault(format!("{:?} is no {name}, which is {range}", written[at])))
}

impl TryFrom<String> for CronPattern {
    type Error = CronFault;
    fn try_from(text: String) -> Result<Self, CronFault> {
        Self::new(text)
    }
}

impl From<CronPattern> for String {
    fn from(pattern: CronPattern) -> Self {
        pattern.text
    }
}

impl PartialEq for CronPattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for CronPattern {}

impl fmt::Debug for CronPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CronPattern").field(&self.text).finish()
    }
}

impl fmt::Display for CronFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CronFault {}

/// How to check whether a running worker still works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "HealthDefinition", deny_unknown_fields)
)]
pub struct HealthCheck {
    /// The probe.
    pub probe: HealthProbe,
    /// Interval between two checks of a worker.
    #[serde(rename = "interval_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub interval: Duration,
    /// Time limit of an answer.
    #[serde(rename = "timeout_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub timeout: Duration,
    /// No checks are made for this time after a start.
    #[serde(rename = "start_period_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub start_period: Duration,
    /// Failures in a row before the worker is replaced; at least 1.
    pub failures_max: u32,
    /// A worker whose event loop has been blocked for this long is killed, after a report of where it is
    /// stuck. `None` is the default and never kills a worker.
    #[serde(default, rename = "stuck_limit_ms", with = "crate::millis::optional")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<u64>"))]
    pub stuck_limit: Option<Duration>,
}

/// How a worker is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ProbeDefinition"))]
#[serde(rename_all = "snake_case")]
pub enum HealthProbe {
    /// `GET` of a path; a status from 200 to 399 is healthy. Without a port, the worker's own port is used.
    Http {
        /// The port, if it differs from the app's own.
        port: Option<u16>,
        /// The path with its query, beginning with `/`.
        path: String,
    },
    /// A connection that is accepted.
    Tcp {
        /// The port, if it differs from the app's own.
        port: Option<u16>,
    },
    /// A program that exits with 0, in the app's directory and with the worker's environment.
    Command {
        /// Program and arguments; at least one word.
        words: Vec<String>,
    },
    /// Only whether the event loop runs (`stuck_limit`).
    Loop,
}

impl HealthProbe {
    /// Redacts secrets in the path's query and in the program's arguments, for output.
    pub fn redact(&mut self) {
        match self {
            Self::Http { path, .. } => *path = shown_path(path),
            Self::Command { words } => *words = shown_arguments(words),
            Self::Tcp { .. } | Self::Loop => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cron_patterns_of_five_and_six_fields_are_taken() {
        for good in ["0 3 * * *", "*/30 * * * * *", "0 0 1 JAN SUN", "@daily", " 5 4 * * mon-fri "] {
            assert_eq!(
                CronPattern::new(good).map(|pattern| pattern.as_str().to_owned()),
                Ok(good.to_owned())
            );
        }
        for bad in ["", "* * * *", "61 * * * *", "a b c d e", "* * * * * * *", "*/0 * * * *"] {
            let fault = CronPattern::new(bad).expect_err(bad).to_string();
            assert!(!fault.is_empty() && !fault.ends_with('.'), "{bad}: {fault}");
        }
        assert!(CronPattern::new("1,".repeat(200)).is_err());
    }

    #[test]
    fn a_date_that_never_comes_is_known() {
        for (pattern, has_points) in [
            ("0 0 31 2 *", false),
            ("0 0 30 2 *", false),
            ("0 0 31 4,6 *", false),
            ("0 0 29 2 *", true),
            ("0 0 31 2 mon", true),
            ("* * * * * *", true),
        ] {
            assert_eq!(CronPattern::new(pattern).unwrap().has_points(), has_points, "{pattern}");
        }
    }

    #[test]
    fn the_field_of_a_cron_pattern_that_is_wrong_is_named() {
        for (bad, fault) in [
            ("61 * * * *", r#""61" is no minute, which is 0 to 59"#),
            ("61 * * * * *", r#""61" is no second, which is 0 to 59"#),
            ("0 24 * * *", r#""24" is no hour, which is 0 to 23"#),
            ("0 0 * 13 8", r#""13" is no month, which is 1 to 12"#),
        ] {
            assert_eq!(CronPattern::new(bad).expect_err(bad).to_string(), fault);
        }
    }
}
