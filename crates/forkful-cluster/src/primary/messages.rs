//! Reads and parses messages from workers' channels.

use forkful_core::Time;
use forkful_dispatch::{Event, WorkerId};

use super::{EINVAL, OtherEnd, Primary, PrimaryEvent};
use crate::channel::listening_of;
use crate::protocol::incoming::{AgentMessage, Incoming};
use crate::protocol::outgoing;

impl Primary {
    /// Reads a turn's worth of a worker's messages. Returns whether there may be more.
    pub(super) fn read_channel(&mut self, id: WorkerId, now: Time) -> bool {
        let Some(channel) = self.channels.get_mut(&id).filter(|channel| !channel.is_muted()) else {
            return false;
        };
        let received = channel.read();
        if received.more
            && let Some(state) = self.dispatcher.channel_mut(id)
        {
            state.crowd(now);
        }
        if received.app_spoke {
            self.dispatcher.spoke(id, now);
        }
        self.note_said(id, received.said);
        for message in received.messages {
            self.on_message(id, message, now);
            self.perform_all(now);
        }
        if received.closed && self.dispatcher.has(id) {
            self.events.push_back(PrimaryEvent::Disconnected(id));
            if self.lives_on(id) { self.mute(id, now) } else { self.remove(id, OtherEnd::Closed, now) }
        }
        self.watch_write(id);
        received.more
    }

    fn on_message(&mut self, worker: WorkerId, message: Incoming, now: Time) {
        let event = match message {
            Incoming::QueryServer { query, seq } => return self.on_query(worker, &query, seq, now),
            Incoming::BadQuery { seq } => return self.refuse_query(worker, seq, EINVAL, None, now),
            Incoming::Listening(query) => return self.on_listening(worker, &query, now),
            Incoming::HandleSent => {
                return self.send(worker, outgoing::handle_acknowledge().to_vec(), now);
            }
            Incoming::SocketsClosed { key } => {
                return self.send(worker, outgoing::sockets_all_closed(&key), now);
            }
            Incoming::SocketsCounted { key } => return self.send(worker, outgoing::sockets_count(&key), now),
            Incoming::Agent(AgentMessage::Hello(node)) => return self.on_hello(worker, node, now),
            Incoming::Agent(AgentMessage::Report(report)) => return self.on_report(worker, report),
            Incoming::Agent(AgentMessage::Stalls(stalls)) => {
                return self.events.push_back(PrimaryEvent::Stalled { worker, stalls });
            }
            Incoming::Agent(AgentMessage::Peers(peers)) => {
                return self.events.push_back(PrimaryEvent::Peers { worker, peers });
            }
            Incoming::Agent(AgentMessage::Metrics { answer, inventory }) => {
                return self.events.push_back(PrimaryEvent::Metrics { worker, answer, inventory });
            }
            Incoming::Agent(AgentMessage::Echo) => Event::Echoed(worker),
            Incoming::Agent(AgentMessage::WantsMerged(question)) => {
                return self.events.push_back(PrimaryEvent::WantsMerged { worker, question });
            }
            Incoming::Agent(AgentMessage::Unmerged) => {
                return self.events.push_back(PrimaryEvent::Unmerged(worker));
            }
            Incoming::Agent(AgentMessage::LacksWorkers) => {
                return self.events.push_back(PrimaryEvent::LacksWorkers(worker));
            }
            Incoming::Online => return self.events.push_back(PrimaryEvent::Online(worker)),
            Incoming::Ready => return self.events.push_back(PrimaryEvent::Ready(worker)),
            Incoming::User | Incoming::Ignored => return,
            Incoming::Close { key } => {
                let Some(listening) = listening_of(&key) else { return };
                Event::Closed { worker, listening }
            }
            Incoming::ExitedAfterDisconnect { seq } => Event::Leaves { worker, ack: seq },
            Incoming::Accepted { ack, accepted } => Event::Answered { worker, seq: ack, accepted },
            Incoming::HandleAck => Event::HandleTaken(worker),
            Incoming::HandleNack => Event::HandleMissed(worker),
            Incoming::Agent(AgentMessage::Count(connections)) => Event::Counted { worker, connections },
            Incoming::Agent(AgentMessage::Drained { stops }) => {
                self.events.push_back(PrimaryEvent::Drained { worker, stops });
                Event::Drained { worker, stops }
            }
        };
        self.step(event, now);
    }
}
