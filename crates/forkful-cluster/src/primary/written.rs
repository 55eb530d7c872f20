//! The saved state of a primary, from which a daemon that replaces another one creates its primary. The
//! keeper holds the sockets, under the names from [`PrimaryConfig::socket_name`].

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::rc::Rc;

use forkful_core::Time;
use forkful_dispatch::{Action, ListeningId, Watch, WorkerId, Written};
use forkful_os::channel::RemoteEnd;
use forkful_os::keeper::{Hold, Kind, Name};
use forkful_os::listener::{SocketFile, TcpGroup};
use forkful_os::reactor::{Interest, Reactor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::listening::{ListenKey, Listening, Source};
use super::token::{TOKEN_BITS, Token};
use super::{Primary, PrimaryConfig};
use crate::channel::Channel;
use crate::output::WrittenOutput;

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WrittenPrimary {
    dispatcher: Written,
    listenings: Vec<WrittenListening>,
    next_reply: u64,
    /// What waits to be written to workers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    outputs: Vec<(WorkerId, WrittenOutput)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct WrittenListening {
    id: ListeningId,
    key: ListenKey,
    source: WrittenSource,
    /// JSON.
    data: Option<String>,
    address: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum WrittenSource {
    Group {
        ipv6_only: bool,
        backlog: u32,
    },
    Single {
        /// For a unix socket: path, device and inode.
        file: Option<(PathBuf, u64, u64)>,
    },
}

/// A kept descriptor with its hold.
pub type KeptSocket = (OwnedFd, Hold);

impl PrimaryConfig {
    /// The name under which a socket of an address is kept.
    pub fn socket_name(&self, listening: ListeningId, member: usize) -> Name {
        let app = (self.token_base >> TOKEN_BITS) as u32;
        Name { kind: Kind::Listener, app, of: listening.0 as u32, part: member as u32 }
    }
}

impl Primary {
    /// Whether the state for another daemon has changed since the last call.
    pub fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// Returns the state for another daemon.
    pub fn write_down(&self) -> WrittenPrimary {
        let listenings = self.listenings.iter().map(|(id, listening)| WrittenListening {
            id: *id,
            key: listening.key.clone(),
            source: match &listening.source {
                Source::Group(group) => {
                    let (ipv6_only, backlog) = group.options();
                    WrittenSource::Group { ipv6_only, backlog }
                }
                Source::Single { file, .. } => {
                    let named =
                        |file: &SocketFile| (file.path().to_owned(), file.identity().0, file.identity().1);
                    WrittenSource::Single { file: file.as_ref().map(named) }
                }
            },
            data: listening.data.as_ref().map(|data| data.get().to_owned()),
            address: listening.address.clone(),
        });
        let outputs = self.channels.iter().filter_map(|(id, channel)| Some((*id, channel.written_output()?)));
        WrittenPrimary {
            dispatcher: self.dispatcher.write_down(),
            listenings: listenings.collect(),
            next_reply: self.next_reply,
            outputs: outputs.collect(),
        }
    }

    /// Restores the saved state, with the sockets that `take` returns by name. Workers follow by
    /// [`Self::attach_again`], then call [`Self::taken_up`].
    pub fn take_up(
        config: PrimaryConfig,
        reactor: Rc<Reactor>,
        written: &WrittenPrimary,
        mut take: impl FnMut(Name) -> Option<KeptSocket>,
        now: Time,
    ) -> io::Result<Self> {
        let mut primary = Self::new(config, reactor, false);
        primary.next_reply = written.next_reply;
        for of in &written.listenings {
            let wanted = written.dispatcher.listenings.iter().find(|listening| listening.id == of.id);
            let count = wanted.map_or(1, |listening| listening.sockets.max(1));
            let sockets: Option<Vec<KeptSocket>> =
                (0..count).map(|member| take(primary.config.socket_name(of.id, member))).collect();
            let sockets =
                sockets.ok_or_else(|| io::Error::other(format!("a socket of {} is missing", of.address)))?;
            primary.by_key.insert(of.key.clone(), of.id);
            primary.listenings.insert(of.id, of.taken_up(sockets)?);
        }
        primary.dispatcher.take_up(&written.dispatcher, now);
        Ok(primary)
    }

    /// Attaches a worker of the previous daemon; returns `false` if its channel is not in the saved state.
    pub fn attach_again(
        &mut self,
        id: WorkerId,
        written: &WrittenPrimary,
        channel: KeptSocket,
        (remote, pid): (Option<RemoteEnd>, u32),
        now: Time,
    ) -> io::Result<bool> {
        let Some(worker) = written.dispatcher.workers.iter().find(|worker| worker.id == id) else {
            return Ok(false);
        };
        let recalls = remote.is_some();
        let mut channel = Channel::new(channel, remote, self.hears_messages);
        channel.pid = Some(pid);
        // A line that is in progress is completed before anything else is sent.
        if let Some((_, output)) = written.outputs.iter().find(|(of, _)| *of == id) {
            channel.resume_output(output);
            self.outbox.push(Action::Flush(id));
        }
        let token = Token::Channel(id).encode(self.config.token_base);
        self.reactor.add(channel.fd(), token, Interest::READ)?;
        self.channels.insert(id, channel);
        self.dispatcher.attach_again(worker, recalls, now, &mut self.outbox);
        Ok(true)
    }

    /// All existing workers are attached again.
    pub fn taken_up(&mut self, now: Time) {
        self.dispatcher.taken_up(now, &mut self.outbox);
        self.perform_all(now);
        self.has_changed = true;
    }
}

impl WrittenListening {
    fn taken_up(&self, sockets: Vec<KeptSocket>) -> io::Result<Listening> {
        let (mut descriptors, holds): (Vec<OwnedFd>, Vec<Hold>) = sockets.into_iter().unzip();
        let watched = vec![Watch::Not; descriptors.len()];
        let source = match &self.source {
            WrittenSource::Group { ipv6_only, backlog } => {
                Source::Group(TcpGroup::handed_over(descriptors, *ipv6_only, *backlog)?)
            }
            WrittenSource::Single { file } => {
                let handed_over = |(path, device, inode): &(PathBuf, u64, u64)| {
                    SocketFile::handed_over(path, (*device, *inode))
                };
                // If the folder is gone, there is no file to remove.
                let file = file.as_ref().and_then(|file| handed_over(file).ok());
                let socket = descriptors.pop().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
                Source::Single { file, socket }
            }
        };
        let data = self.data.clone().map(RawValue::from_string).transpose().map_err(io::Error::other)?;
        Ok(Listening { key: self.key.clone(), source, data, address: self.address.clone(), watched, holds })
    }
}
