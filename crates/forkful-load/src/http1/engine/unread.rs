//! Connections whose sockets may hold more bytes than one turn of the loop reads.

use std::collections::VecDeque;

use super::Engine;
use super::connection::Connection;

/// Connections to read in the next turn, oldest first; at most one entry for each descriptor. Their events
/// have been delivered, and edge-triggered descriptors report nothing twice.
#[derive(Debug, Default)]
pub(super) struct Unread {
    places: VecDeque<Entry>,
}

#[derive(Debug)]
struct Entry {
    index: u32,
    /// The place may have another connection meanwhile.
    generation: u32,
}

impl Unread {
    pub(super) fn add(&mut self, index: usize, connection: &mut Connection) {
        if connection.fd.is_some() && !std::mem::replace(&mut connection.unread, true) {
            self.places.push_back(Entry { index: index as u32, generation: connection.generation });
        }
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }
}

impl Engine<'_> {
    /// Reads the first connections of the list once more. Connections that hold even more go to its end, for
    /// the next turn.
    pub(super) fn read_unread(&mut self, count: usize, buffer: &mut [u8]) {
        for _ in 0..count {
            let Some(Entry { index, generation }) = self.unread.places.pop_front() else { return };
            let index = index as usize;
            if self.connections[index].generation == generation {
                self.connections[index].unread = false;
                self.now = self.receive(index, buffer);
            }
        }
    }
}
