//! What the API server (and the foreground mode) ask of the engine: one message per request, answered
//! through a oneshot. The engine is the only owner of state; nobody else touches it.

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

/// Commands that wait for the engine; a bound so that a flood of clients waits at the socket instead of in memory.
pub const COMMAND_QUEUE: usize = 256;

/// Answer to a command, or why it was refused.
pub type Reply<T> = oneshot::Sender<Result<T, ErrorReply>>;

/// A request to the engine.
#[derive(Debug)]
pub enum Command {
    /// `POST /v1/apps`.
    Start {
        request: StartRequest,
        /// Answered when done, or at once when `request.wait` is false.
        reply: Reply<ActionReply>,
    },
    /// `POST /v1/actions/{verb}`.
    Action { verb: Verb, request: ActionRequest, reply: Reply<ActionReply> },
    /// `POST /v1/apply`.
    Apply {
        /// What the apps are to become.
        request: ApplyRequest,
        /// Answered when it is done, or undone.
        reply: Reply<ApplyReply>,
    },
    /// `GET /v1/apps`.
    List {
        /// How late the event loops are is of interest, for some seconds.
        measure: bool,
        reply: Reply<AppList>,
    },
    /// `GET /v1/table`.
    Table { reply: Reply<AppTable> },
    /// `GET /v1/apps/{target}`: the apps that hold the target, with their workers' stderr tails.
    Describe {
        /// A name, id or `all`.
        target: String,
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
        /// The page, to be finished away from the loop.
        reply: Reply<MetricsOrder>,
    },
    /// `GET /v1/history`.
    History {
        /// A name or an id.
        target: String,
        /// What is to be read, away from the loop.
        reply: Reply<HistoryOrder>,
    },
    /// `GET /v1/logs`.
    Logs { query: LogsQuery, reply: Reply<LogLines> },
    /// What a container's probe asks; only in the foreground.
    Probe { probe: Probe, reply: Reply<Answer> },
    /// About the saved state.
    Keep(Keep),
    /// What changes no app.
    Talk(Talk),
    /// `POST /v1/kill`: stop all apps and end the daemon.
    Kill {
        /// Answered when every worker is gone, just before the daemon ends.
        reply: Reply<ActionReply>,
    },
}
