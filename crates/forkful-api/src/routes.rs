//! The routes of the daemon's API. The server serves exactly these, and `openapi.json` describes exactly these:
//! both are made from [`Route::ALL`].

use hyper::Method;

/// A method and a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Route {
    /// Which daemon it is.
    Ping,
    /// All apps.
    List,
    /// What the table of workers shows of them.
    Table,
    /// Some apps, with the last lines of their workers' stderr.
    Describe,
    /// New apps.
    Start,
    /// Something for apps that exist; see [`Verb`](crate::types::Verb).
    Action,
    /// A configuration, made true.
    Apply,
    /// The end of the daemon.
    Kill,
    /// Lines of output.
    Logs,
    /// What happens, as it happens.
    Events,
    /// Messages for workers.
    Messages,
    /// Text for workers' stdin.
    Stdin,
    /// Actions of `@pm2/io`.
    Trigger,
    /// Environments of apps.
    Environment,
    /// All workers in PM2's shape.
    Jlist,
    /// The desired state, to a file of its own.
    Save,
    /// What was saved, started.
    Resurrect,
    /// Saved states, forgotten.
    ClearSaved,
}

impl Route {
    /// All of them, in the order in which they are described.
    pub const ALL: [Self; 18] = [
        Self::Ping,
        Self::List,
        Self::Table,
        Self::Start,
        Self::Describe,
        Self::Action,
        Self::Apply,
        Self::Kill,
        Self::Logs,
        Self::Events,
        Self::Messages,
        Self::Stdin,
        Self::Trigger,
        Self::Environment,
        Self::Jlist,
        Self::Save,
        Self::Resurrect,
        Self::ClearSaved,
    ];

    /// Its path; a word in braces stands for one segment of any text.
    pub fn path(self) -> &'static str {
        match self {
            Self::Ping => "/v1/ping",
            Self::List | Self::Start => "/v1/apps",
            Self::Table => "/v1/table",
            Self::Describe => "/v1/apps/{target}",
            Self::Action => "/v1/actions/{verb}",
            Self::Apply => "/v1/apply",
            Self::Kill => "/v1/kill",
            Self::Logs => "/v1/logs",
            Self::Events => "/v1/events",
            Self::Messages => "/v1/messages",
            Self::Stdin => "/v1/stdin",
            Self::Trigger => "/v1/trigger",
            Self::Environment => "/v1/environment/{target}",
            Self::Jlist => "/v1/jlist",
            Self::Save => "/v1/save",
            Self::Resurrect => "/v1/resurrect",
            Self::ClearSaved => "/v1/cleardump",
        }
    }

    /// Its method.
    pub fn method(self) -> Method {
        match self {
            Self::Ping
            | Self::List
            | Self::Table
            | Self::Describe
            | Self::Logs
            | Self::Events
            | Self::Environment
            | Self::Jlist => Method::GET,
            Self::Start
            | Self::Action
            | Self::Apply
            | Self::Kill
            | Self::Messages
            | Self::Stdin
            | Self::Trigger
            | Self::Save
            | Self::Resurrect
            | Self::ClearSaved => Method::POST,
        }
    }
}
