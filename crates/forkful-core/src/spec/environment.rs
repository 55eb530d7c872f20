//! Environment variables: the origin of a value, and which values may be stored on disk. `names.rs` judges
//! names, `secrets.rs` decides which values are never shown, and `filter.rs` which of them an
//! app inherits, and `env_file.rs` has the grammar of `.env` files.

mod env_file;
mod filter;
mod known_secrets;
mod names;
mod secrets;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use env_file::{ENV_FILE_BYTES_MAX, EnvFileFault, parse_env_file};
pub use filter::{EnvFilter, Excluded};
pub use known_secrets::KnownSecrets;
pub use names::{belongs_to_login, is_for_other_users, is_harmless, is_of_shell, looks_app_specific};
pub use secrets::{REDACTED, has_secret_name, looks_secret, shown_arguments, shown_path, shown_value};

/// The origin of the values of an app's environment. Variables in neither set were written for the app: in
/// its configuration, or on the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "EnvSourcesDefinition", deny_unknown_fields)
)]
#[serde(default)]
pub struct EnvSources {
    /// Variables from the caller's environment.
    pub inherited: BTreeSet<String>,
    /// Variables that came from `files`.
    pub from_files: BTreeSet<String>,
    /// The `.env` files, as absolute paths; later files override earlier ones.
    pub files: Vec<PathBuf>,
    /// Whether inherited values are saved.
    pub keep_inherited: bool,
    /// The alternative blocks of the app.
    pub blocks: EnvBlocks,
    /// Which variables the app inherits.
    #[serde(skip_serializing_if = "EnvFilter::is_open")]
    pub filter: EnvFilter,
    /// The name by which the app's program was found in the PATH of its environment; none for a program of another origin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub in_path: Option<String>,
}

/// The blocks `env_*` of an app's configuration. One of them can be applied to its environment.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "EnvBlocksDefinition", deny_unknown_fields)
)]
#[serde(default)]
pub struct EnvBlocks {
    /// Variables that were written for the app independently of the block. Empty in replies, and if there is
    /// no block.
    pub common: BTreeMap<String, String>,
    /// `env_<name>`, by name. The blocks are empty in replies: values never leave the daemon.
    pub named: BTreeMap<String, BTreeMap<String, String>>,
}

impl EnvSources {
    /// Whether a variable's value may be written to the saved state.
    pub fn may_be_kept(&self, name: &str) -> bool {
        if self.from_files.contains(name) {
            return false;
        }
        self.keep_inherited || !self.inherited.contains(name) || is_harmless(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_values_are_kept_only_when_harmless_or_asked_for() {
        let mut sources = EnvSources {
            inherited: ["PATH".to_owned(), "AWS_X".to_owned()].into(),
            from_files: ["F".to_owned()].into(),
            ..EnvSources::default()
        };
        let kept = |sources: &EnvSources| ["PATH", "AWS_X", "F", "OWN"].map(|name| sources.may_be_kept(name));
        assert_eq!(kept(&sources), [true, false, false, true]);
        sources.keep_inherited = true;
        assert_eq!(kept(&sources), [true, true, false, true]);
    }
}
