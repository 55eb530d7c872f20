//! Messages between apps and their primary through `process.send`. The primary only passes them on.

use forkful_core::Time;
use thiserror::Error;

use super::{Primary, PrimaryEvent, WorkerId};
/// The longest message to an app: half of what may be queued for a worker, see `crate::channel`.
pub const MESSAGE_BYTES_MAX: usize = 500 * 1024;

/// Why a message was not sent to a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum MessageRefused {
    /// The worker does not exist, or its channel is closed.
    #[error("it has no channel to send messages by")]
    NoChannel,
    /// Too much unread data is queued already.
    #[error("it does not read its messages, and no more can wait")]
    NotReading,
    /// It is longer than [`MESSAGE_BYTES_MAX`], or not a single line.
    #[error("a message is one line of JSON of at most {MESSAGE_BYTES_MAX} bytes")]
    TooLong,
}

impl Primary {
    /// Sets whether all of the app's messages are wanted; messages about metrics and actions always are.
    pub fn hear_messages(&mut self, wanted: bool) {
        self.hears_messages = wanted;
        for channel in self.channels.values_mut() {
            channel.hear(wanted);
        }
    }

    /// Sends a message, one line of JSON without its newline, to the app in a worker, which receives it as
    /// `'message'`. Messages reserved for Node (a `cmd` that begins with `NODE_`) must not be sent.
    pub fn send_message(&mut self, id: WorkerId, line: &[u8], now: Time) -> Result<(), MessageRefused> {
        let mut framed = Vec::with_capacity(line.len() + 1);
        framed.extend_from_slice(line);
        framed.push(b'\n');
        self.send_line(id, framed, now)
    }

    /// The same with the newline, and with what Node keeps for itself.
    pub(super) fn send_line(
        &mut self,
        id: WorkerId,
        framed: Vec<u8>,
        now: Time,
    ) -> Result<(), MessageRefused> {
        let Some((b'\n', line)) = framed.split_last() else { return Err(MessageRefused::TooLong) };
        if line.len() > MESSAGE_BYTES_MAX || line.contains(&b'\n') {
            return Err(MessageRefused::TooLong);
        }
        let Some(channel) = self.channels.get(&id) else { return Err(MessageRefused::NoChannel) };
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
