//! Opening the dashboard. The page's own requests to the daemon are not part of this API.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `POST /v1/dashboard`: opens the dashboard and returns a link to it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DashboardRequest {
    /// Whether the page may restart, reload, scale and stop apps.
    #[serde(default)]
    pub control: bool,
    /// The absolute path of a folder: the page may list and read its reports of the lab (`*.json`, `*.html`).
    #[serde(default)]
    pub reports: Option<PathBuf>,
}

/// A link that works once.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct DashboardReply {
    /// The address for a browser of this machine. It has the token, so it is as secret as a password until it is used.
    pub url: String,
    /// How long the link works.
    pub expires_in_ms: u64,
}

/// Without the token.
impl std::fmt::Debug for DashboardReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DashboardReply").field("expires_in_ms", &self.expires_in_ms).finish_non_exhaustive()
    }
}
