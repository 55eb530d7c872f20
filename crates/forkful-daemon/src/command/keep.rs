//! Commands about the saved state.

use std::os::fd::OwnedFd;

use forkful_api::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest};
use forkful_api::types::{ActionReply, UpdateReply, UpdateRequest};

use super::Reply;

/// A command about the saved state.
#[derive(Debug)]
pub enum Keep {
    /// `POST /v1/save`.
    Save {
        request: SaveRequest,
        /// Sent when the file is written.
        reply: Reply<SaveReply>,
    },
    /// `POST /v1/resurrect`.
    Resurrect {
        /// The source.
        request: ResurrectRequest,
        /// Sent when the apps are started.
        reply: Reply<ActionReply>,
    },
    /// The home was created again: write its contents again.
    Rewrite,
    /// `POST /v1/update`.
    Update {
        request: UpdateRequest,
        /// Sent when the program has agreed, or was refused.
        reply: Reply<UpdateReply>,
    },
    /// The program has agreed to take over.
    MakeWay {
        /// A descriptor instead of its path, which may name another file by now.
        program: OwnedFd,
        reply: Reply<UpdateReply>,
    },
    /// `POST /v1/cleardump`.
    Clear { reply: Reply<ClearReply> },
}
