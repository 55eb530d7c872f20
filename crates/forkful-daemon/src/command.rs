//! Requests from the API server (and the foreground mode) to the engine: one message per request, answered
//! through a oneshot channel. Only the engine owns state.

use forkful_api::apply::{ApplyReply, ApplyRequest};
use forkful_api::stalls::StallsReply;
use forkful_api::types::{
    ActionReply, ActionRequest, AppList, AppTable, ErrorReply, LogsQuery, StartRequest,
};
use forkful_core::metrics::exposition::Format;
use forkful_core::probes::{Answer, Probe};
use tokio::sync::oneshot;

use crate::engine::MetricsOrder;
use crate::history::HistoryOrder;
use crate::logs::LogLines;

mod keep;
mod talk;

pub use forkful_api::types::Verb;
pub use keep::Keep;
pub use talk::Talk;

/// Maximum commands that wait for the engine, so that a flood of clients waits at the socket instead of in
/// memory.
pub const COMMAND_QUEUE: usize = 256;

/// The answer to a command, or its refusal.
pub type Reply<T> = oneshot::Sender<Result<T, ErrorReply>>;

/// A request to the engine.
#[derive(Debug)]
pub enum Command {
    /// `POST /v1/apps`.
    Start {
        request: StartRequest,
        /// Sent when done, or immediately if `request.wait` is false.
        reply: Reply<ActionReply>,
    },
    /// `POST /v1/actions/{verb}`.
    Action { verb: Verb, request: ActionRequest, reply: Reply<ActionReply> },
    /// `POST /v1/apply`.
    Apply {
        /// The requested apps.
        request: ApplyRequest,
        /// Sent when it is done or undone.
        reply: Reply<ApplyReply>,
    },
    /// `GET /v1/apps`.
    List {
        /// Whether event-loop delays are wanted, for some seconds.
        measure: bool,
        /// The workers that are wanted; all if it is missing.
        target: Option<String>,
        reply: Reply<AppList>,
    },
    /// `GET /v1/table`.
    Table { reply: Reply<AppTable> },
    /// `GET /v1/apps/{target}`: the matching apps.
    Describe {
        /// A name, id or `all`.
        target: String,
        /// Without measuring, and without the last lines of stderr.
        brief: bool,
        reply: Reply<AppList>,
    },
    /// `GET /v1/stalls/{target}`.
    Stalls {
        /// A name, id or `all`.
        target: String,
        reply: Reply<StallsReply>,
    },
    /// `GET /v1/metrics`.
    Metrics {
        /// A name, id or `all`.
        target: Option<String>,
        format: Format,
        /// The data of the page, which is completed outside of the event loop.
        reply: Reply<MetricsOrder>,
    },
    /// `GET /v1/history`.
    History {
        /// A name or an id.
        target: String,
        /// The requested data, which is read outside of the event loop.
        reply: Reply<HistoryOrder>,
    },
    /// `GET /v1/logs`.
    Logs { query: LogsQuery, reply: Reply<LogLines> },
    /// A container's probe; only in the foreground.
    Probe { probe: Probe, reply: Reply<Answer> },
    /// Commands about the saved state.
    Keep(Keep),
    /// Commands that change no app.
    Talk(Talk),
    /// `POST /v1/kill`: stop all apps and the daemon.
    Kill {
        /// Sent when all workers have ended, just before the daemon ends.
        reply: Reply<ActionReply>,
    },
}
