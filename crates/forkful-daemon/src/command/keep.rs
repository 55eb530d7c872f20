//! Commands about the saved state.

use forkful_api::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest};
use forkful_api::types::ActionReply;

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
    /// `POST /v1/cleardump`.
    Clear { reply: Reply<ClearReply> },
}
