//! What each route takes and gives, in words and types.

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::Schemas;
use crate::apply::{ApplyReply, ApplyRequest};
use crate::conversation::{
    DaemonEvent, Ending, EnvironmentQuery, EnvironmentReply, EventsQuery, JlistQuery, MessageEvent,
    MessageRequest, ProcessEvent, SkippedEvents, StdinRequest, TriggerRequest, WorkersReply, log_event_name,
};
use crate::dashboard::{DashboardReply, DashboardRequest};
use crate::incidents::{Incident, IncidentList, IncidentSummary, IncidentsQuery};
use crate::jlist::JlistEntry;
use crate::profile::ProfileRequest;
use crate::routes::Route;
use crate::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest};
use crate::stalls::{StallEvent, StallsReply};
use crate::types::{
    ActionReply, ActionRequest, AppList, AppTable, DescribeQuery, ErrorCode, HistoryQuery, HistoryReply,
    ListQuery, LogLine, LogStream, LogsQuery, MetricsQuery, Ping, StartRequest, UpdateReply, UpdateRequest,
    Verb,
};

/// The refusals of what names no app.
const PLAIN: &[ErrorCode] = &[ErrorCode::BadRequest, ErrorCode::Internal];
/// The refusals of what names apps.
const OF_TARGETS: &[ErrorCode] = &[ErrorCode::BadRequest, ErrorCode::NoSuchTarget, ErrorCode::Internal];
/// The refusals of what changes apps.
const OF_CHANGES: &[ErrorCode] =
    &[ErrorCode::BadRequest, ErrorCode::NoSuchTarget, ErrorCode::Conflict, ErrorCode::Internal];
/// The refusals of what makes apps, or saves them.
const OF_NEW: &[ErrorCode] = &[ErrorCode::BadRequest, ErrorCode::Conflict, ErrorCode::Internal];

/// A route in the document.
pub(super) struct Operation {
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) path: Vec<Value>,
    pub(super) query: Vec<Value>,
    pub(super) request: Option<Value>,
    pub(super) reply: Reply,
    pub(super) refusals: &'static [ErrorCode],
}

/// What comes when all is well.
pub(super) enum Reply {
    Json { description: &'static str, schema: Value },
    Text { description: &'static str, media: &'static [&'static str] },
    Lines { description: &'static str, line: Value },
    Events { description: &'static str, events: Vec<(&'static str, Value)> },
}

impl Schemas {
    fn request<T: JsonSchema>(&mut self) -> Option<Value> {
        Some(self.requests.subschema_for::<T>().to_value())
    }

    fn reply<T: JsonSchema>(&mut self, description: &'static str) -> Reply {
        Reply::Json { description, schema: self.replies.subschema_for::<T>().to_value() }
    }

    fn part<T: JsonSchema>(&mut self) -> Value {
        self.replies.subschema_for::<T>().to_value()
    }

    /// The fields of a type as parameters of a query.
    fn query<T: JsonSchema>(&mut self) -> Vec<Value> {
        let mut schema = T::json_schema(&mut self.requests).to_value();
        let Value::Object(fields) = schema["properties"].take() else { panic!("a query has fields") };
        let parameter = |(name, mut schema): (String, Value)| {
            let description = schema.as_object_mut().and_then(|keys| keys.remove("description"));
            json!({ "name": name, "in": "query", "required": false, "description": description, "schema": schema })
        };
        fields.into_iter().map(parameter).collect()
    }
}

fn target() -> Vec<Value> {
    vec![json!({
        "name": "target", "in": "path", "required": true, "schema": { "type": "string" },
        "description": "A name, the id of a worker, a namespace, a `/pattern/` of names, a script (as an absolute path), or `all`",
    })]
}

impl Operation {
    pub(super) fn of(route: Route, schemas: &mut Schemas) -> Self {
        let (id, tag, summary, description) = words(route);
        Self {
            id,
            tag,
            summary,
            description,
            path: match route {
                Route::Describe | Route::Environment | Route::Stalls => target(),
                Route::Incident => vec![json!({
                    "name": "id", "in": "path", "required": true,
                    "schema": { "type": "integer", "format": "uint64", "minimum": 0 },
                    "description": "The number of an incident, as the list has it",
                })],
                Route::Action => vec![json!({
                    "name": "verb", "in": "path", "required": true, "schema": schemas.request::<Verb>(),
                    "description": "What is done",
                })],
                _ => Vec::new(),
            },
            query: match route {
                Route::List => schemas.query::<ListQuery>(),
                Route::Describe => schemas.query::<DescribeQuery>(),
                Route::Logs => schemas.query::<LogsQuery>(),
                Route::Metrics => schemas.query::<MetricsQuery>(),
                Route::History => schemas.query::<HistoryQuery>(),
                Route::Events => schemas.query::<EventsQuery>(),
                Route::Incidents => schemas.query::<IncidentsQuery>(),
                Route::Environment => schemas.query::<EnvironmentQuery>(),
                Route::Jlist => schemas.query::<JlistQuery>(),
                _ => Vec::new(),
            },
            request: match route {
                Route::Start => schemas.request::<StartRequest>(),
                Route::Action => schemas.request::<ActionRequest>(),
                Route::Apply => schemas.request::<ApplyRequest>(),
                Route::Messages => schemas.request::<MessageRequest>(),
                Route::Stdin => schemas.request::<StdinRequest>(),
                Route::Trigger => schemas.request::<TriggerRequest>(),
                Route::Profile => schemas.request::<ProfileRequest>(),
                Route::Save => schemas.request::<SaveRequest>(),
                Route::Resurrect => schemas.request::<ResurrectRequest>(),
                Route::Update => schemas.request::<UpdateRequest>(),
                Route::Dashboard => schemas.request::<DashboardRequest>(),
                _ => None,
            },
            reply: reply(route, schemas),
            refusals: refusals(route),
        }
    }
}

/// Name, group, sentence and explanation.
fn words(route: Route) -> (&'static str, &'static str, &'static str, &'static str) {
    match route {
        Route::Ping => {
            ("ping", "daemon", "Identify the daemon", "Answered immediately, whatever the daemon is doing.")
        }
        Route::List => ("list", "apps", "All apps and their workers", "Without values of environments."),
        Route::Table => (
            "table",
            "apps",
            "The table of workers",
            "The data of `forkful list`: a small part of the full list, for hundreds of apps.",
        ),
        Route::Start => (
            "start",
            "apps",
            "Start apps",
            "Either new `apps`, or `targets` as of `forkful start`, of which the daemon decides whether each names existing apps or defines some. All are checked before the first one starts. The reply reports apps that did not become ready; its status is 200 all the same.",
        ),
        Route::Describe => (
            "describe",
            "apps",
            "Some apps and their workers",
            "Like the list, with the workers' last stderr lines.",
        ),
        Route::Action => (
            "act",
            "apps",
            "Stop, restart, reload, delete, scale apps, and more",
            "`scale` needs `instances` (a number, `max`, or a change as `+2`), `signal` needs `signal`; `definitions` and `changes` belong to `restart` and `reload`. The reply has the result for each app; its status is 200 even if an app failed.",
        ),
        Route::Kill => (
            "kill",
            "daemon",
            "Stop all apps and the daemon",
            "The reply is sent when all workers have ended, just before the daemon stops. The request's body is ignored.",
        ),
        Route::Logs => (
            "logs",
            "workers",
            "What workers wrote",
            "The last lines of the log files and, with `follow`, new lines. A client that reads too slowly misses lines; a line of the app `forkful` without a worker's id takes their place and says how many. A client that reads nothing for 300 s is disconnected.",
        ),
        Route::Events => (
            "events",
            "workers",
            "A live stream of events",
            "Server-sent events with a name and JSON data. The stream begins with a comment and ends with `daemon:ending`. Clients that read too slowly miss events, and get their number.",
        ),
        Route::Messages => {
            ("sendMessage", "workers", "Send a message to workers", "It arrives at `process.on('message')`.")
        }
        Route::Stdin => (
            "writeStdin",
            "workers",
            "Write to the standard input of workers",
            "Workers in fork mode have one.",
        ),
        Route::Trigger => (
            "trigger",
            "workers",
            "Run an action that apps registered with `@pm2/io`",
            "The reply is sent when each worker has answered or timed out.",
        ),
        Route::Environment => (
            "environment",
            "apps",
            "The environments of apps",
            "As their next workers get them. Secrets are redacted unless requested.",
        ),
        Route::Stalls => (
            "stalls",
            "apps",
            "Where event loops were blocked",
            "Stalls of at least `stall_threshold` since the app was added, by function and route, with their cost.",
        ),
        Route::Profile => (
            "profile",
            "workers",
            "Take a CPU profile or a heap snapshot of a worker",
            "The file itself, as it comes: `.cpuprofile` or `.heapsnapshot` of Chrome's developer tools. The worker stands still while a heap snapshot is taken, which is refused where memory may not do. Where the worker ends meanwhile, the reply ends early. 409 when the worker has no agent, or another profile is under way.",
        ),
        Route::Incidents => (
            "incidents",
            "apps",
            "Unexpected events of apps",
            "Crashes, crash loops, failed reloads, failed health checks, stuck workers, full disks. Oldest first, including those of earlier daemons.",
        ),
        Route::Incident => (
            "incident",
            "apps",
            "An incident with all details",
            "For a crash: the reason in words, the last stderr lines, the last measurements, and what Forkful does next. 404 if it is no longer stored.",
        ),
        Route::Metrics => (
            "metrics",
            "apps",
            "Metrics for Prometheus",
            "Counters continue across restarts of workers. With `Accept: application/openmetrics-text`, or `format`, the page is in OpenMetrics format.",
        ),
        Route::History => (
            "history",
            "apps",
            "Measurements of an app in the last week",
            "Each second of the last hour, 10 s of the last day, minutes of the last week. Open connections and pressure, which are measured every 10 s: 10 s of the last hour, 10 min of the last week. The history survives a crash and an update of the daemon, and ends with `kill`.",
        ),
        Route::Jlist => (
            "jlist",
            "apps",
            "Workers in PM2's format",
            "One entry for each worker. Secrets are redacted unless requested.",
        ),
        Route::Apply => (
            "apply",
            "apps",
            "Apply a configuration",
            "Missing apps start, changed apps are reloaded, the others stay. All or nothing: a failure undoes the rest.",
        ),
        Route::Save => (
            "save",
            "state",
            "Save the desired state to a file",
            "The desired state is saved at every change anyway; this file is for restoring it later.",
        ),
        Route::Resurrect => (
            "resurrect",
            "state",
            "Start saved apps that do not exist",
            "Each worker is restored in its saved state. 404 if nothing is saved.",
        ),
        Route::ClearSaved => (
            "clearSaved",
            "state",
            "Delete saved states",
            "The currently running apps stay saved. The request's body is ignored.",
        ),
        Route::Update => (
            "update",
            "daemon",
            "Replace the daemon by another program",
            "The apps keep running. The new program reads the daemon's state and agrees to take over; otherwise the reply is 409 with the reason, and nothing has changed. After the reply the API is unavailable for some milliseconds; clients that connect meanwhile wait.",
        ),
        Route::Dashboard => (
            "openDashboard",
            "daemon",
            "Open the dashboard and get a link to it",
            "The daemon listens on a random port of 127.0.0.1 until the page is unused for 30 minutes. The link works once.",
        ),
    }
}

fn reply(route: Route, schemas: &mut Schemas) -> Reply {
    match route {
        Route::Ping => schemas.reply::<Ping>("The daemon"),
        Route::List => schemas.reply::<AppList>("All apps"),
        Route::Table => schemas.reply::<AppTable>("All apps and workers"),
        Route::Describe => schemas.reply::<AppList>("The apps matched by the target"),
        Route::Start | Route::Action | Route::Kill | Route::Resurrect => {
            schemas.reply::<ActionReply>("The result for each app")
        }
        Route::Logs => Reply::Lines {
            description: "One JSON text per line; `x-line` is its schema",
            line: schemas.part::<LogLine>(),
        },
        Route::Events => Reply::Events {
            description: "Events; `x-events` has the schemas of their data",
            events: events(schemas),
        },
        Route::Messages | Route::Stdin | Route::Trigger => {
            schemas.reply::<WorkersReply>("The result at each worker")
        }
        Route::Environment => schemas.reply::<EnvironmentReply>("Variables by app"),
        Route::Stalls => schemas.reply::<StallsReply>("The ledgers of the apps matched by the target"),
        Route::Profile => Reply::Text { description: "The profile", media: &["application/octet-stream"] },
        Route::Incidents => schemas.reply::<IncidentList>("Incidents in short, the oldest first"),
        Route::Incident => schemas.reply::<Incident>("The incident"),
        Route::Metrics => Reply::Text {
            description: "The page, in Prometheus' text format or in OpenMetrics",
            media: &[
                "text/plain; version=0.0.4; charset=utf-8",
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ],
        },
        Route::History => schemas.reply::<HistoryReply>("Series by worker"),
        Route::Jlist => schemas.reply::<Vec<JlistEntry>>("The workers, by id"),
        Route::Apply => schemas.reply::<ApplyReply>("The plan and its results"),
        Route::Save => schemas.reply::<SaveReply>("What was saved, and where"),
        Route::ClearSaved => schemas.reply::<ClearReply>("The deleted files"),
        Route::Update => schemas.reply::<UpdateReply>("The program has agreed to replace the daemon"),
        Route::Dashboard => schemas.reply::<DashboardReply>("The link"),
    }
}

fn events(schemas: &mut Schemas) -> Vec<(&'static str, Value)> {
    vec![
        ("process:event", schemas.part::<ProcessEvent>()),
        ("process:msg", schemas.part::<MessageEvent>()),
        ("process:stall", schemas.part::<StallEvent>()),
        ("app:incident", schemas.part::<IncidentSummary>()),
        (log_event_name(LogStream::Out), schemas.part::<LogLine>()),
        (log_event_name(LogStream::Err), schemas.part::<LogLine>()),
        (DaemonEvent::Skipped(SkippedEvents { count: 0 }).name(), schemas.part::<SkippedEvents>()),
        (DaemonEvent::Ending(Ending { at_ms: 0 }).name(), schemas.part::<Ending>()),
    ]
}

fn refusals(route: Route) -> &'static [ErrorCode] {
    match route {
        Route::Ping => &[],
        Route::List | Route::Table | Route::Events | Route::Dashboard => PLAIN,
        Route::Kill | Route::ClearSaved => &[ErrorCode::Internal],
        Route::Logs
        | Route::Jlist
        | Route::Describe
        | Route::Environment
        | Route::Stalls
        | Route::Incidents
        | Route::Incident
        | Route::Metrics
        | Route::History
        | Route::Messages
        | Route::Stdin => OF_TARGETS,
        Route::Start | Route::Action | Route::Trigger | Route::Resurrect | Route::Profile => OF_CHANGES,
        Route::Apply | Route::Save | Route::Update => OF_NEW,
    }
}
