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
        /// Answered when the file is there.
        reply: Reply<SaveReply>,
    },
    /// `POST /v1/resurrect`.
    Resurrect {
        /// From what.
        request: ResurrectRequest,
        /// Answered when the apps are started.
        reply: Reply<ActionReply>,
    },
    /// The home was made anew: what belongs into it is written again.
    Rewrite,
    /// `POST /v1/update`.
    Update {
        request: UpdateRequest,
        /// Answered when the program has agreed, or was refused.
        reply: Reply<UpdateReply>,
    },
    /// The program has agreed.
    MakeWay {
        /// Not its path, which may name another file by now.
        program: OwnedFd,
        reply: Reply<UpdateReply>,
    },
    /// `POST /v1/cleardump`.
    Clear { reply: Reply<ClearReply> },
}
