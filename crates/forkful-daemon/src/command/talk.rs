//! What clients ask of the engine besides changing apps: to watch them, and to speak with them.

use std::os::fd::OwnedFd;

use forkful_api::conversation::{
    EnvironmentReply, EventsQuery, MessageRequest, StdinRequest, TriggerRequest, WorkersReply,
};

use forkful_api::profile::ProfileRequest;

use forkful_api::incidents::{Incident, IncidentList, IncidentsQuery};

use super::Reply;
use crate::events::Subscription;

/// A request that changes no app.
#[derive(Debug)]
pub enum Talk {
    /// `GET /v1/events`.
    Watch {
        query: EventsQuery,
        /// The events; the stream ends with the engine.
        reply: Reply<Subscription>,
    },
    /// `POST /v1/messages`.
    Message {
        /// What to say to whom.
        request: MessageRequest,
        reply: Reply<WorkersReply>,
    },
    /// `POST /v1/trigger`.
    Trigger {
        /// Which action of whom.
        request: TriggerRequest,
        /// Answered when all have answered, or their time is over.
        reply: Reply<WorkersReply>,
    },
    /// `POST /v1/stdin`.
    Stdin {
        /// What to write to whose stdin.
        request: StdinRequest,
        /// Answered when all have taken it, or their time is over.
        reply: Reply<WorkersReply>,
    },
    /// `POST /v1/profile`.
    Profile {
        request: ProfileRequest,
        /// The socket into which the worker's agent writes the profile, see `forkful_cluster::protocol::profile`.
        reply: Reply<OwnedFd>,
    },
    /// `GET /v1/incidents`.
    Incidents { query: IncidentsQuery, reply: Reply<IncidentList> },
    /// `GET /v1/incidents/{id}`.
    Incident { id: u64, reply: Reply<Incident> },
    /// `GET /v1/environment/{target}`.
    Environment {
        /// A name, id or `all`.
        target: String,
        /// Secrets too.
        show_secrets: bool,
        reply: Reply<EnvironmentReply>,
    },
}
