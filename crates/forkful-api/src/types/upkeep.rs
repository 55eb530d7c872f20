//! The parts of an [`AppDefinition`](super::AppDefinition) that have parts of their own; see
//! `forkful_core::spec` for their meaning.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Where the values of an environment came from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(default)]
pub struct EnvSourcesDefinition {
    /// Variables that came with the caller's environment.
    pub inherited: Vec<String>,
    /// Variables that came from `files`.
    pub from_files: Vec<String>,
    /// The `.env` files, absolute.
    pub files: Vec<String>,
    /// Whether inherited values are saved too.
    pub keep_inherited: bool,
    /// What the app can be given instead.
    pub blocks: EnvBlocksDefinition,
}

/// The blocks of an app's configuration, one of which can be laid over its environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
#[serde(default)]
pub struct EnvBlocksDefinition {
    /// What was written for the app whichever block is chosen. Empty in replies.
    pub common: BTreeMap<String, String>,
    /// `env_<name>`, by name. The blocks are empty in replies: values never leave the daemon.
    pub named: BTreeMap<String, BTreeMap<String, String>>,
}

/// Whom workers run as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct RunAsDefinition {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
    /// Supplementary groups.
    #[serde(default)]
    pub groups: Vec<u32>,
}

/// Which changes of files make workers be replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct WatchDefinition {
    /// Files and folders, absolute.
    pub paths: Vec<String>,
    /// What is not looked at.
    #[serde(default)]
    pub ignore: Vec<WatchIgnoreDefinition>,
    /// For how long nothing more may change.
    pub delay_ms: u64,
    /// Whether symbolic links are followed.
    pub follow_links: bool,
    /// Pause between two looks, where the kernel does not tell.
    #[serde(default)]
    pub polling_ms: Option<u64>,
}

/// Files that are not looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum WatchIgnoreDefinition {
    /// A line as in `.gitignore`.
    Glob(String),
    /// A regular expression.
    Regex(String),
}

/// How it is found out whether a worker still works.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(deny_unknown_fields))]
pub struct HealthDefinition {
    /// What is asked.
    pub probe: ProbeDefinition,
    /// Pause between two questions.
    pub interval_ms: u64,
    /// How long an answer may take.
    pub timeout_ms: u64,
    /// After a start nothing is asked for so long.
    pub start_period_ms: u64,
    /// Failures in a row before the worker is replaced.
    pub failures_max: u32,
    /// A worker that is stuck for longer is killed.
    #[serde(default)]
    pub stuck_limit_ms: Option<u64>,
}

/// What a health check asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ProbeDefinition {
    /// `GET` of a path.
    Http {
        /// The port, when it is not the app's own.
        port: Option<u16>,
        /// The path with its query.
        path: String,
    },
    /// A connection that is accepted.
    Tcp {
        /// The port, when it is not the app's own.
        port: Option<u16>,
    },
    /// A program that ends with 0.
    Command {
        /// Program and arguments.
        words: Vec<String>,
    },
    /// Whether the event loop turns.
    Loop,
}
