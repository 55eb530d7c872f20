//! What apps say to their primary by `process.send`, and what they are told in return. The primary passes
//! both on; only the frame of a line is its business.

use forkful_core::Time;
use thiserror::Error;

use super::{Primary, PrimaryEvent, WorkerId};
/// The longest message to an app. Half of what may wait for one worker, see `crate::channel`.
pub const MESSAGE_BYTES_MAX: usize = 500 * 1024;

/// Why a message did not go to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MessageRefused {
    /// The worker is not there, or its channel is closed.
    #[error("it has no channel to send messages by")]
    NoChannel,
    /// Too much that it has not read waits already.
    #[error("it does not read its messages, and no more can wait")]
    NotReading,
    /// It is longer than [`MESSAGE_BYTES_MAX`], or no single line.
    #[error("a message is one line of JSON of at most {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
}

impl Primary {
    /// Says whether every message of the app is wanted; those about metrics and actions always are.
    pub fn hear_messages(&mut self, wanted: bool) {
        self.hears_messages = wanted;
        for channel in self.channels.values_mut() {
            channel.hear(wanted);
        }
    }

    /// Sends a message, one line of JSON without its newline, to the app in a worker: it arrives as `'message'`.
    /// What Node keeps for itself (a `cmd` that begins with `NODE_`) must not be sent.
    pub fn send_message(&mut self, id: WorkerId, line: &[u8], now: Time) -> Result<(), MessageRefused> {
        if line.len() > MESSAGE_BYTES_MAX || line.contains(&b'\n') {
            return Err(MessageRefused::TooLong);
        }
        let Some(channel) = self.channels.get(&id) else { return Err(MessageRefused::NoChannel) };
        let mut framed = Vec::with_capacity(line.len() + 1);
        framed.extend_from_slice(line);
        framed.push(b'\n');
        let is_broken = self.dispatcher.channel(id).is_none_or(forkful_dispatch::Channel::is_broken);
        if is_broken || !channel.fits_message(framed.len()) {
            return Err(MessageRefused::NotReading);
        }
        self.send(id, framed, now);
        self.perform_all(now);
        Ok(())
    }

    pub(super) fn note_said(&mut self, id: WorkerId, said: Vec<Vec<u8>>) {
        self.events.extend(said.into_iter().map(|line| PrimaryEvent::Message { worker: id, line }));
    }
}
