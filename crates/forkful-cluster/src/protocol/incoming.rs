//! Messages of a worker to its primary. Untrusted input: invalid lines become [`Incoming::Ignored`].

mod agent;

use std::borrow::Cow;

pub use agent::{AgentMessage, AgentReport, MetricsAnswer, NodeVersion};
use agent::{GC_NUMBERS, LATENCY_NUMBERS, Numbers, Values};
use forkful_core::metrics::Inventory;
use forkful_core::outgoing::Peers;
use forkful_core::stalls::Stall;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// A parsed line of a worker.
#[derive(Debug)]
pub enum Incoming {
    /// The worker's cluster module is loaded; user code has not run yet.
    Online,
    /// The app calls `listen` or `bind`; every query needs exactly one reply.
    QueryServer {
        /// What to listen on.
        query: Query,
        /// For the reply's `ack`.
        seq: u64,
    },
    /// An invalid query; it gets an error reply, because otherwise `listen` would wait for ever.
    BadQuery {
        /// For the reply's `ack`.
        seq: u64,
    },
    /// The listen succeeded; the members are those of its query, with the actual port.
    Listening(Query),
    /// The app closed the server with this key.
    Close {
        /// The key from our reply.
        key: String,
    },
    /// The worker leaves by itself and waits for an acknowledgement.
    ExitedAfterDisconnect {
        /// For the acknowledgement.
        seq: u64,
    },
    /// The reply to a pushed connection.
    Accepted {
        /// The push's `seq`.
        ack: u64,
        /// False: refused (server closed or full); the worker has closed the handle.
        accepted: bool,
    },
    /// A handle that we sent arrived.
    HandleAck,
    /// A `NODE_HANDLE` line arrived without a handle: it was lost, or this is a probe's reply.
    HandleNack,
    /// The worker sent a handle of its own, and waits for an acknowledgement.
    HandleSent,
    /// A server whose connections the worker has sent to us is closing, and waits until all of them are
    /// closed.
    SocketsClosed {
        /// Identifies the server, also in the answer.
        key: String,
    },
    /// Such a server asks how many of them are open.
    SocketsCounted {
        /// Identifies the server, also in the answer.
        key: String,
    },
    /// A message of the agent.
    Agent(AgentMessage),
    /// `process.send('ready')`.
    Ready,
    /// Another message of the app.
    User,
    /// An internal line without a meaning for a primary, or an invalid line.
    Ignored,
}

/// The members of `queryServer` and `listening`.
#[derive(Debug, Clone)]
pub struct Query {
    /// Host as resolved by the worker, or the path of a unix socket.
    pub address: Option<String>,
    /// Port; 0 for any; −1 for a unix socket; `None` for a descriptor.
    pub port: Option<i64>,
    /// Kind of address.
    pub kind: AddressKind,
    /// Descriptor number in the primary's table (`listen({fd})`).
    pub fd: Option<i64>,
    /// Counts listens of the same address within the worker.
    pub index: u64,
    /// libuv bind flags: 1 is IPv6 only; for TCP 2 is reuse port, for UDP 4 is reuse address.
    pub flags: u32,
    /// Set by the agent: the app wants the address only for this worker (`exclusive`).
    pub exclusive: bool,
    /// Backlog; 0 means not given.
    pub backlog: u32,
    /// Unix socket readable by everyone.
    pub readable_all: bool,
    /// Unix socket writable by everyone.
    pub writable_all: bool,
    /// Opaque data of the server (TLS ticket keys), to be echoed to every worker.
    pub data: Option<Box<RawValue>>,
}

impl Query {
    /// Whether the app allows others to listen on the port too.
    pub fn reuses_port(&self) -> bool {
        matches!(self.kind, AddressKind::Tcp4 | AddressKind::Tcp6) && self.flags & FLAG_TCP_REUSE_PORT != 0
    }
}

/// `addressType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum AddressKind {
    /// 4.
    Tcp4,
    /// 6.
    Tcp6,
    /// −1: unix socket.
    Unix,
    /// `"udp4"`.
    Udp4,
    /// `"udp6"`.
    Udp6,
    /// `null`: a descriptor.
    Descriptor,
}

/// Maximum server data that is kept and echoed; TLS ticket keys have 96 characters.
pub const DATA_BYTES_MAX: usize = 4096;

/// libuv's `UV_TCP_IPV6ONLY` and `UV_UDP_IPV6ONLY`.
pub const FLAG_IPV6_ONLY: u32 = 1;
/// libuv's `UV_TCP_REUSEPORT`: the app allows other processes of its user to listen on the same port.
pub const FLAG_TCP_REUSE_PORT: u32 = 2;
/// libuv's `UV_UDP_REUSEADDR`.
pub const FLAG_UDP_REUSE_ADDRESS: u32 = 4;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Raw<'a> {
    #[serde(borrow)]
    cmd: Option<Cow<'a, str>>,
    #[serde(borrow)]
    act: Option<Cow<'a, str>>,
    seq: Option<u64>,
    ack: Option<u64>,
    accepted: Option<bool>,
    key: Option<String>,
    index: Option<u64>,
    data: Option<Box<RawValue>>,
    address: Option<String>,
    port: Option<i64>,
    #[serde(default)]
    address_type: RawKind,
    fd: Option<i64>,
    flags: Option<u32>,
    exclusive: Option<bool>,
    /// In some forms of `listen`, Node sends `false` for a backlog that was not given.
    backlog: Option<serde_json::Value>,
    readable_all: Option<bool>,
    writable_all: Option<bool>,
    // The agent's own field.
    #[serde(borrow)]
    node: Option<Cow<'a, str>>,
    requests: Option<u64>,
    values: Option<Values>,
    stalls: Option<Vec<Stall>>,
    peers: Option<Peers>,
    latency: Option<Numbers<LATENCY_NUMBERS>>,
    gc: Option<Numbers<GC_NUMBERS>>,
    ms: Option<f64>,
    quiet: Option<bool>,
    sampled: Option<bool>,
    staying: Option<u32>,
    movable: Option<u32>,
    #[serde(borrow)]
    metrics: Option<&'a RawValue>,
    none: Option<bool>,
    inventory: Option<Box<Inventory>>,
    question: Option<u64>,
    left_out: Option<u32>,
    stops: Option<bool>,
}

/// The part of a query that is needed to refuse it.
#[derive(Deserialize)]
struct Head<'a> {
    cmd: &'a str,
    act: &'a str,
    seq: u64,
}

#[derive(Deserialize, Default)]
#[serde(untagged)]
enum RawKind {
    Number(i64),
    Text(String),
    #[default]
    Null,
}

/// Parses one line (without its newline).
pub fn parse(line: &[u8]) -> Incoming {
    // Bun marks its internal lines with a 0x02 byte.
    let line = line.strip_prefix(b"\x02").unwrap_or(line);
    if line == b"\"ready\"" {
        return Incoming::Ready;
    }
    // Only objects that contain a NODE_ command can be internal; everything else belongs to the app and is
    // not parsed.
    if !contains(line, b"\"NODE_") {
        return Incoming::User;
    }
    if !line.starts_with(b"{") {
        return behind_unfinished(line).map_or(Incoming::User, parse);
    }
    match serde_json::from_slice::<Raw<'_>>(line) {
        Ok(raw) => raw.understand(),
        Err(_) => match serde_json::from_slice::<Head<'_>>(line) {
            Ok(Head { cmd: "NODE_CLUSTER", act: "queryServer", seq }) => Incoming::BadQuery { seq },
            Ok(_) | Err(_) => behind_unfinished(line).map_or(Incoming::Ignored, parse),
        },
    }
}

/// The internal message at the end of a line that is not JSON: some code has written to the channel without
/// ending its line, and the next message of Node or the agent must not be lost with it (a lost `drained`
/// would delay a reload).
fn behind_unfinished(line: &[u8]) -> Option<&[u8]> {
    const BEGIN: &[u8] = b"{\"cmd\":\"NODE_";
    let at = line.windows(BEGIN.len()).rposition(|window| window == BEGIN).filter(|at| *at > 0)?;
    serde_json::from_slice::<IgnoredAny>(line).is_err().then_some(&line[at..])
}

/// The replacement for a line that is too long to keep, determined from its beginning: a message with a
/// handle waits for its reply, whatever else it contains.
pub(crate) fn in_short(head: &[u8]) -> Option<&'static [u8]> {
    // Node writes the members in this order.
    let head = head.strip_prefix(b"\x02").unwrap_or(head);
    head.starts_with(b"{\"cmd\":\"NODE_HANDLE\",").then_some(b"{\"cmd\":\"NODE_HANDLE\"}")
}

/// How far into a line to search for its type; `@pm2/io` writes it first.
const REPORT_HEAD_BYTES: usize = 128;

/// Whether a line is a message of `@pm2/io` to the process manager (`{"type":"axm:monitor","data":…}`):
/// metrics, actions, and replies to them.
pub fn is_report(line: &[u8]) -> bool {
    let head = &line[..line.len().min(REPORT_HEAD_BYTES)];
    head.starts_with(b"{") && contains(head, b"\"type\":\"axm:")
}

/// Whether a line is a message of log4js for the process that writes for all
/// (`{"topic":"log4js:message","data":"…"}`).
pub fn is_log4js(line: &[u8]) -> bool {
    line.starts_with(b"{\"topic\":\"log4js:message\",")
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    haystack.windows(needle.len()).any(|window| window == needle)
}

impl Raw<'_> {
    fn understand(mut self) -> Incoming {
        let (cmd, act) = (self.cmd.take(), self.act.take());
        match (cmd.as_deref(), act.as_deref()) {
            (Some("NODE_HANDLE_ACK"), _) => Incoming::HandleAck,
            (Some("NODE_HANDLE_NACK"), _) => Incoming::HandleNack,
            (Some("NODE_HANDLE"), _) => Incoming::HandleSent,
            (Some("NODE_SOCKET_NOTIFY_CLOSE"), _) => {
                self.key.map_or(Incoming::Ignored, |key| Incoming::SocketsClosed { key })
            }
            (Some("NODE_SOCKET_GET_COUNT"), _) => {
                self.key.map_or(Incoming::Ignored, |key| Incoming::SocketsCounted { key })
            }
            (Some("NODE_FORKFUL"), act) => self.of_agent(act),
            (Some("NODE_CLUSTER"), act) => self.cluster(act),
            (Some(cmd), _) if cmd.starts_with("NODE_") && cmd.len() > 5 => Incoming::Ignored,
            _ => Incoming::User,
        }
    }

    fn cluster(self, act: Option<&str>) -> Incoming {
        match act {
            Some("online") => Incoming::Online,
            Some("queryServer") => match (self.seq, self.kind()) {
                (Some(seq), Some(_))
                    if self.data.as_ref().is_some_and(|data| data.get().len() > DATA_BYTES_MAX) =>
                {
                    Incoming::BadQuery { seq }
                }
                (Some(seq), Some(kind)) => Incoming::QueryServer { query: self.query(kind), seq },
                (Some(seq), None) => Incoming::BadQuery { seq },
                (None, _) => Incoming::Ignored,
            },
            Some("listening") => match self.kind() {
                Some(kind) => Incoming::Listening(self.query(kind)),
                None => Incoming::Ignored,
            },
            Some("close") => self.key.map_or(Incoming::Ignored, |key| Incoming::Close { key }),
            Some("exitedAfterDisconnect") => {
                self.seq.map_or(Incoming::Ignored, |seq| Incoming::ExitedAfterDisconnect { seq })
            }
            Some(_) => Incoming::Ignored,
            None => match (self.ack, self.accepted) {
                (Some(ack), Some(accepted)) => Incoming::Accepted { ack, accepted },
                _ => Incoming::Ignored,
            },
        }
    }

    fn kind(&self) -> Option<AddressKind> {
        match &self.address_type {
            RawKind::Number(4) => Some(AddressKind::Tcp4),
            RawKind::Number(6) => Some(AddressKind::Tcp6),
            RawKind::Number(-1) => Some(AddressKind::Unix),
            RawKind::Text(text) if text == "udp4" => Some(AddressKind::Udp4),
            RawKind::Text(text) if text == "udp6" => Some(AddressKind::Udp6),
            RawKind::Null => Some(AddressKind::Descriptor),
            RawKind::Number(_) | RawKind::Text(_) => None,
        }
    }

    fn query(self, kind: AddressKind) -> Query {
        Query {
            address: self.address,
            port: self.port,
            kind,
            fd: self.fd.filter(|fd| *fd >= 0),
            index: self.index.unwrap_or(0),
            flags: self.flags.unwrap_or(0),
            exclusive: self.exclusive.unwrap_or(false),
            backlog: self.backlog.and_then(|n| n.as_u64()).and_then(|n| u32::try_from(n).ok()).unwrap_or(0),
            readable_all: self.readable_all.unwrap_or(false),
            writable_all: self.writable_all.unwrap_or(false),
            data: self.data.filter(|data| data.get() != "null"),
        }
    }
}

#[cfg(test)]
mod tests;
