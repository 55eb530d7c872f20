//! Which variables of the caller's environment an app inherits.

use serde::{Deserialize, Serialize};

use super::is_for_other_users;

/// Which variables of the caller's environment an app inherits; by default all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(
    feature = "schema",
    derive(schemars::JsonSchema),
    schemars(rename = "EnvFilterDefinition", deny_unknown_fields)
)]
#[serde(default)]
pub struct EnvFilter {
    /// Only those that an app of another user gets: the locale, PATH and a few others.
    pub for_other_users: bool,
    /// Those that the app does not get.
    pub excluded: Excluded,
}

/// Variables that an app does not inherit (`filter_env`).
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Excluded {
    /// None of them.
    #[default]
    Nothing,
    /// All of them.
    All,
    /// The one of this name.
    Name(String),
    /// Those whose names contain one of these texts.
    Parts(Vec<String>),
}

impl EnvFilter {
    /// Whether the app inherits all variables.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the app inherits the variable of this name.
    pub fn admits(&self, name: &str) -> bool {
        let is_excluded = match &self.excluded {
            Excluded::Nothing => false,
            Excluded::All => true,
            Excluded::Name(excluded) => excluded == name,
            Excluded::Parts(parts) => parts.iter().any(|part| name.contains(part)),
        };
        !is_excluded && (!self.for_other_users || is_for_other_users(name))
    }
}
