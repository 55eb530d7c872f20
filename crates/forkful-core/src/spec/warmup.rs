//! Requests to a new worker before it counts as ready.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum paths requested from a new worker.
pub const WARMUP_PATHS_MAX: usize = 64;
/// Maximum requests to each path.
pub const WARMUP_REQUESTS_MAX: u32 = 10_000;

/// Requests that load and compile code before clients need it. Any answer counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "WarmupDefinition", deny_unknown_fields)
)]
pub struct Warmup {
    /// Paths with their queries, each beginning with `/`; at least one.
    pub paths: Vec<String>,
    /// Requests to each path; at least 1.
    pub requests: u32,
    /// Time limit for all requests together. After that the worker is ready regardless.
    #[serde(rename = "timeout_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub timeout: Duration,
}

impl Warmup {
    /// Requests to each path, by default.
    pub const REQUESTS_DEFAULT: u32 = 10;
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

    /// Whether a text is a valid request path; a line break would begin another request.
    pub fn is_path(text: &str) -> bool {
        text.starts_with('/') && !text.contains(|c: char| c.is_whitespace() || c.is_control())
    }

    /// The path of the next request when `answered` requests have been answered. `None` after the last request.
    pub fn path_after(&self, answered: u32) -> Option<&str> {
        let paths = u32::try_from(self.paths.len()).ok()?;
        let total = paths.saturating_mul(self.requests);
        let next = usize::try_from(answered.checked_rem(paths)?).ok()?;
        self.paths.get(next).filter(|_| answered < total).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_take_turns() {
        let paths = vec!["/a".to_owned(), "/b".to_owned()];
        let warmup = Warmup { paths, requests: 2, timeout: Warmup::TIMEOUT_DEFAULT };
        let asked: Vec<_> = (0..6).map(|answered| warmup.path_after(answered)).collect();
        assert_eq!(asked, [Some("/a"), Some("/b"), Some("/a"), Some("/b"), None, None]);
        let nothing = Warmup { paths: Vec::new(), ..warmup };
        assert_eq!(nothing.path_after(0), None);
    }
}
