//! The desired state as it is kept on disk, and the requests about it.
//!
//! A saved state is a JSON text, readable by its owner alone. Values of variables that came with a
//! caller's environment are not in it unless they are harmless or the user asked for it; values from
//! `.env` files never are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version of this format.
pub const SAVED_FORMAT: u32 = 1;

/// A saved state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedState {
    /// [`SAVED_FORMAT`].
    pub format: u32,
    /// The version of the program that wrote it.
    pub program: String,
    /// When it was written.
    pub saved_at_ms: u64,
    /// The apps, in the order in which they are started: [`SavedApp`]s, read one by one so that one that
    /// cannot be read does not take the others with it.
    pub apps: Vec<Value>,
}

/// A saved app.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedApp {
    /// What the user asked for, its environment without what is not kept.
    pub definition: crate::types::AppDefinition,
    /// Slots that are stopped by wish, counted without the gaps that deleted ones have left.
    #[serde(default)]
    pub stopped: Vec<u16>,
}

/// `POST /v1/save`: write the desired state to a file of its own, to come back to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SaveRequest {
    /// From now on keep values that came with callers' environments too.
    #[serde(default)]
    pub with_env: bool,
    /// Save even if there is no app.
    #[serde(default)]
    pub force: bool,
}

/// What was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SaveReply {
    /// The file.
    pub path: String,
    /// The apps in it.
    pub apps: Vec<SavedName>,
}

/// An app that was saved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct SavedName {
    /// Its name.
    pub name: String,
    /// Variables whose values were not saved.
    pub left_out: Vec<String>,
}

/// `POST /v1/resurrect`: start what was saved and does not exist.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ResurrectRequest {
    /// What `save` wrote, instead of what the last daemon left.
    #[serde(default)]
    pub saved: bool,
    /// Where values come from that were not saved.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// The same for some apps, by name; these values come first.
    #[serde(default)]
    pub env_of: BTreeMap<String, BTreeMap<String, String>>,
    /// Reply only when each app is ready or has failed.
    #[serde(default)]
    pub wait: bool,
}

/// `POST /v1/cleardump`: forget saved states.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct ClearReply {
    /// The files that are gone.
    pub removed: Vec<String>,
}
