//! The routes of the daemon's API. The server serves exactly these, and `openapi.json` describes exactly these:
//! both are made from [`Route::ALL`].

use hyper::Method;

/// Makes the routes from their one list.
macro_rules! routes {
    ($(#[doc = $meaning:literal] $route:ident = $method:ident $path:literal),+ $(,)?) => {
        /// A method and a path.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Route { $(#[doc = $meaning] $route),+ }

        impl Route {
            /// All of them, in the order in which they are described.
            pub const ALL: &[Self] = &[$(Self::$route),+];

            /// Its path; a word in braces stands for one segment of any text.
            pub fn path(self) -> &'static str {
                match self { $(Self::$route => $path),+ }
            }

            /// Its method.
            pub fn method(self) -> Method {
                match self { $(Self::$route => Method::$method),+ }
            }
        }
    };
}

routes! {
    /// Which daemon it is.
    Ping = GET "/v1/ping",
    /// All apps.
    List = GET "/v1/apps",
    /// What the table of workers shows of them.
    Table = GET "/v1/table",
    /// New apps.
    Start = POST "/v1/apps",
    /// Some apps, with the last lines of their workers' stderr.
    Describe = GET "/v1/apps/{target}",
    /// Something for apps that exist; see [`Verb`](crate::types::Verb).
    Action = POST "/v1/actions/{verb}",
    /// A configuration, made true.
    Apply = POST "/v1/apply",
    /// The end of the daemon.
    Kill = POST "/v1/kill",
    /// Lines of output.
    Logs = GET "/v1/logs",
    /// What happens, as it happens.
    Events = GET "/v1/events",
    /// Messages for workers.
    Messages = POST "/v1/messages",
    /// Text for workers' stdin.
    Stdin = POST "/v1/stdin",
    /// Actions of `@pm2/io`.
    Trigger = POST "/v1/trigger",
    /// Environments of apps.
    Environment = GET "/v1/environment/{target}",
    /// Where the event loops of some apps stood still.
    Stalls = GET "/v1/stalls/{target}",
    /// A CPU profile or a heap snapshot of a worker.
    Profile = POST "/v1/profile",
    /// What happened to apps that nobody asked for.
    Incidents = GET "/v1/incidents",
    /// One of these, with all that was known then.
    Incident = GET "/v1/incidents/{id}",
    /// What is measured, for Prometheus.
    Metrics = GET "/v1/metrics",
    /// What was measured in the last week.
    History = GET "/v1/history",
    /// All workers in PM2's shape.
    Jlist = GET "/v1/jlist",
    /// The desired state, to a file of its own.
    Save = POST "/v1/save",
    /// What was saved, started.
    Resurrect = POST "/v1/resurrect",
    /// Saved states, forgotten.
    ClearSaved = POST "/v1/cleardump",
    /// Another program in the daemon's place.
    Update = POST "/v1/update",
    /// The dashboard, opened.
    Dashboard = POST "/v1/dashboard",
}
