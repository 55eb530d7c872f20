//! The daemon's side of its keeper: the process above it that holds descriptors for it, and whose children the workers are,
//! so that a daemon that dies loses neither (`forkful-keeper` is the other side).
//!
//! - [`frame`]: what the two say to each other
//! - [`link`]: [`Keeping`], by which descriptors are kept, and [`Hold`], which lets go of one when it is dropped · [`outbox`]: what waits for a keeper that does not read · [`loss`]: why a daemon goes on without its keeper

mod frame;
mod link;
mod loss;
mod outbox;

pub use frame::{End, FRAME_BYTES, Frame, Kind, Name, PLACES_MAX, TEXT_BYTES_MAX, Text, Update};
pub use link::{Handover, Hold, Keeping, Kept, receive_frame, seat, send_frame};
pub use loss::Loss;
