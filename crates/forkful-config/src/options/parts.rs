//! Options that are more than one value.

use std::path::PathBuf;
use std::time::Duration;

use forkful_core::spec::{HealthProbe, WatchIgnore};

/// What of the caller's environment is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilterEnv {
    Nothing,
    Everything,
    /// The variable of this name.
    Named(String),
    /// Every variable whose name contains one of these texts.
    Containing(Vec<String>),
}

/// `true`, `false` or a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FlagOrPath {
    /// The usual place, or none.
    Flag(bool),
    Path(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WatchOption {
    Off,
    Directory,
    /// These files and folders.
    Paths(Vec<PathBuf>),
}

/// Options of chokidar that have a meaning for a watcher of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WatchOptions {
    /// `followSymlinks`.
    pub follow_links: Option<bool>,
    /// `usePolling`.
    pub use_polling: bool,
    /// `interval`, of polling.
    pub interval: Option<Duration>,
    /// `ignored`, added to `ignore_watch`.
    pub ignored: Vec<WatchIgnore>,
}

/// A health check as far as it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthOptions {
    pub probe: HealthProbe,
    /// Pause between questions.
    pub interval: Option<Duration>,
    /// How long an answer may take.
    pub timeout: Option<Duration>,
    /// After a start nothing is asked for so long.
    pub start_period: Option<Duration>,
    /// Failures in a row.
    pub failures: Option<u32>,
    /// A worker that is stuck for longer is killed.
    pub stuck_limit: Option<Duration>,
}
