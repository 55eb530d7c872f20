//! What each route takes and gives, in words and types.

use schemars::JsonSchema;
use serde_json::{Value, json};

use super::Schemas;
use crate::apply::{ApplyReply, ApplyRequest};
use crate::conversation::{
    DaemonEvent, Ending, EnvironmentQuery, EnvironmentReply, EventsQuery, MessageEvent, MessageRequest,
    ProcessEvent, SkippedEvents, StdinRequest, TriggerRequest, WorkersReply, log_event_name,
};
use crate::dashboard::{DashboardReply, DashboardRequest};
use crate::incidents::{Incident, IncidentList, IncidentSummary, IncidentsQuery};
use crate::jlist::JlistEntry;
use crate::routes::Route;
use crate::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest};
use crate::stalls::{StallEvent, StallsReply};
use crate::types::{
    ActionReply, ActionRequest, AppList, AppTable, ErrorCode, HistoryQuery, HistoryReply, ListQuery, LogLine,
    LogStream, LogsQuery, MetricsQuery, Ping, StartRequest, UpdateReply, UpdateRequest, Verb,
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
                Route::Logs => schemas.query::<LogsQuery>(),
                Route::Metrics => schemas.query::<MetricsQuery>(),
                Route::History => schemas.query::<HistoryQuery>(),
                Route::Events => schemas.query::<EventsQuery>(),
                Route::Incidents => schemas.query::<IncidentsQuery>(),
                Route::Environment | Route::Jlist => schemas.query::<EnvironmentQuery>(),
                _ => Vec::new(),
            },
            request: match route {
                Route::Start => schemas.request::<StartRequest>(),
                Route::Action => schemas.request::<ActionRequest>(),
                Route::Apply => schemas.request::<ApplyRequest>(),
                Route::Messages => schemas.request::<MessageRequest>(),
                Route::Stdin => schemas.request::<StdinRequest>(),
                Route::Trigger => schemas.request::<TriggerRequest>(),
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
            ("ping", "daemon", "Which daemon it is", "Answered at once, whatever the daemon is doing.")
        }
        Route::List => ("list", "apps", "All apps and their workers", "Without values of environments."),
        Route::Table => (
            "table",
            "apps",
            "The table of workers",
            "What `forkful list` shows: a small part of the list, for hundreds of apps.",
        ),
        Route::Start => (
            "start",
            "apps",
            "Start new apps",
            "All are checked before the first one starts. An app that does not become ready is told in the reply, whose status is 200 nevertheless.",
        ),
        Route::Describe => (
            "describe",
            "apps",
            "Some apps and their workers",
            "As in the list, with the last lines that the workers wrote to stderr.",
        ),
        Route::Action => (
            "act",
            "apps",
            "Stop, restart, reload, delete, scale apps, and more",
            "`scale` needs `instances` (a number, `max`, or a change as `+2`), `signal` needs `signal`; `definitions` and `changes` belong to `restart` and `reload`. What became of each app is in the reply, whose status is 200 even when an app failed.",
        ),
        Route::Kill => (
            "kill",
            "daemon",
            "Stop all apps and end the daemon",
            "The reply comes when every worker is gone, just before the daemon ends. The request's body is not looked at.",
        ),
        Route::Logs => (
            "logs",
            "workers",
            "What workers wrote",
            "The last lines of the log files and, with `follow`, those that come. A reader that is too slow is dropped.",
        ),
        Route::Events => (
            "events",
            "workers",
            "What happens, as it happens",
            "Server-sent events: the name says what it is, the data is JSON. It begins with a comment, and ends with `daemon:ending`. Who reads too slowly misses events, and is told how many.",
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
            "Perform an action that apps registered with `@pm2/io`",
            "Answered when each worker has answered, or its time is over.",
        ),
        Route::Environment => (
            "environment",
            "apps",
            "The environments of apps",
            "As their next worker gets them. Secrets are redacted unless they are asked for.",
        ),
        Route::Stalls => (
            "stalls",
            "apps",
            "Where event loops stood still",
            "Stalls of at least `stall_threshold` since the daemon's start, by function and route, with what they cost.",
        ),
        Route::Incidents => (
            "incidents",
            "apps",
            "What happened to apps that nobody asked for",
            "Crashes, crash loops, failed reloads, failed health checks, workers that were stuck, full disks. The oldest first; those of earlier daemons too.",
        ),
        Route::Incident => (
            "incident",
            "apps",
            "An incident with all that was known then",
            "Of a crash: the reason in words, the last lines of stderr, what was measured last, and what follows. 404 when it is not kept any more.",
        ),
        Route::Metrics => (
            "metrics",
            "apps",
            "What is measured, for Prometheus",
            "Counters go on over the restarts of workers. With `Accept: application/openmetrics-text`, or `format`, it is in OpenMetrics.",
        ),
        Route::History => (
            "history",
            "apps",
            "What was measured of an app in the last week",
            "Each second of the last hour, 10 s of the last day, minutes of the last week. It goes on when the daemon ends unexpectedly and when it is updated, and ends with `kill`.",
        ),
        Route::Jlist => (
            "jlist",
            "apps",
            "All workers in PM2's shape",
            "One entry for each worker. Secrets are redacted unless they are asked for.",
        ),
        Route::Apply => (
            "apply",
            "apps",
            "Make the apps what a configuration says",
            "Missing apps start, changed apps are reloaded, the others stay. All or nothing: a failure undoes the rest.",
        ),
        Route::Save => (
            "save",
            "state",
            "Write what should run to a file",
            "What should run is saved at every change anyway; this is a state to come back to.",
        ),
        Route::Resurrect => (
            "resurrect",
            "state",
            "Start what was saved and does not exist",
            "Each worker comes back in the state that it had. 404 when nothing is saved.",
        ),
        Route::ClearSaved => (
            "clearSaved",
            "state",
            "Forget saved states",
            "What runs now stays saved. The request's body is not looked at.",
        ),
        Route::Update => (
            "update",
            "daemon",
            "Put another program in the daemon's place",
            "The apps go on. The program reads what the daemon has written down and agrees, or the reply is 409 with its reason and nothing has changed. After the reply the API is away for some milliseconds; clients that connect meanwhile wait.",
        ),
        Route::Dashboard => (
            "openDashboard",
            "daemon",
            "Open the dashboard and get a link to it",
            "The daemon listens on a random port of 127.0.0.1 until the page has not been used for 30 minutes. The link works once.",
        ),
    }
}

fn reply(route: Route, schemas: &mut Schemas) -> Reply {
    match route {
        Route::Ping => schemas.reply::<Ping>("The daemon"),
        Route::List => schemas.reply::<AppList>("All apps"),
        Route::Table => schemas.reply::<AppTable>("All apps and workers"),
        Route::Describe => schemas.reply::<AppList>("The apps that the target names"),
        Route::Start | Route::Action | Route::Kill | Route::Resurrect => {
            schemas.reply::<ActionReply>("What became of each app")
        }
        Route::Logs => Reply::Lines {
            description: "One JSON text a line; `x-line` is its schema",
            line: schemas.part::<LogLine>(),
        },
        Route::Events => Reply::Events {
            description: "Events; `x-events` has the schema of each one's data",
            events: events(schemas),
        },
        Route::Messages | Route::Stdin | Route::Trigger => {
            schemas.reply::<WorkersReply>("What came of it at each worker")
        }
        Route::Environment => schemas.reply::<EnvironmentReply>("Variables by app"),
        Route::Stalls => schemas.reply::<StallsReply>("The ledgers of the apps that the target names"),
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
        Route::Jlist => schemas.reply::<Vec<JlistEntry>>("All workers, by id"),
        Route::Apply => schemas.reply::<ApplyReply>("The plan, and what became of it"),
        Route::Save => schemas.reply::<SaveReply>("What was saved, and where"),
        Route::ClearSaved => schemas.reply::<ClearReply>("The files that are gone"),
        Route::Update => {
            schemas.reply::<UpdateReply>("The program has agreed, and the daemon makes way for it")
        }
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
        Route::List | Route::Table | Route::Jlist | Route::Events | Route::Dashboard => PLAIN,
        Route::Kill | Route::ClearSaved => &[ErrorCode::Internal],
        Route::Logs
        | Route::Describe
        | Route::Environment
        | Route::Stalls
        | Route::Incidents
        | Route::Incident
        | Route::Metrics
        | Route::History
        | Route::Messages
        | Route::Stdin => OF_TARGETS,
        Route::Action | Route::Trigger | Route::Resurrect => OF_CHANGES,
        Route::Start | Route::Apply | Route::Save | Route::Update => OF_NEW,
    }
}
