//! Messages of a worker to its primary. Untrusted input: invalid lines become [`Incoming::Ignored`].

pub use forkful_core::metrics::AgentReport;
use forkful_core::metrics::{GC_KINDS, GcPauses, Histogram, Latency, Readings};
use forkful_core::outgoing::Peers;
use forkful_core::stalls::{STALLS_TOLD_MAX, Stall};
use forkful_core::steering::evenness::Connections;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

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

/// A message of the preloaded agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentMessage {
    /// It is loaded, with the version of Node.js if reported.
    Hello(Option<NodeVersion>),
    /// No request is in progress and the grace period for idle connections is over.
    Drained,
    /// The requested stalls of the event loop; at most [`STALLS_TOLD_MAX`], each within its limits.
    Stalls(Vec<Stall>),
    Report(Box<AgentReport>),
    /// The servers that the app has connected to, as far as there is more to say of them than their address.
    Peers(Peers),
    /// prom-client has asked for a primary's workers, and a worker has none.
    LacksWorkers,
    /// The app's prom-client metrics, see [`Primary::ask_for_metrics`](crate::Primary::ask_for_metrics).
    Metrics(MetricsAnswer),
    /// It wants the merged metrics of all workers, see [`Primary::tell_merged`](crate::Primary::tell_merged). The number is its own.
    WantsMerged(u64),
    /// Somebody got the metrics of this worker alone, because the merged ones did not come in time.
    Unmerged,
    /// The number of connections that stay.
    Count(Connections),
    /// It has received everything sent before the line that it echoes.
    Echo,
}

/// An agent's answer to the request for the app's own metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAnswer {
    /// No prom-client is loaded.
    None,
    /// The metrics could not be read.
    Failed,
    /// The metrics as JSON, not parsed yet.
    Report {
        text: Box<str>,
        /// Number of samples that the agent has left out.
        left_out: u32,
    },
}

/// A version of Node.js, without any suffix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVersion {
    /// Major version.
    pub major: u16,
    /// Minor version.
    pub minor: u16,
    /// Patch version.
    pub patch: u16,
}

impl NodeVersion {
    /// Parses `22.11.0`; a suffix, as in a nightly build, is dropped.
    fn parse(text: &str) -> Option<Self> {
        let numbers = text.split(['-', '+']).next()?;
        let mut parts = numbers.split('.').map(|part| part.parse::<u16>().ok());
        let version = Self { major: parts.next()??, minor: parts.next()??, patch: parts.next()?? };
        parts.next().is_none().then_some(version)
    }
}

impl fmt::Display for NodeVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)
    }
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
    question: Option<u64>,
    left_out: Option<u32>,
}

/// The values of a report by name. Names that are not in the table of metrics are skipped.
struct Values(Readings);

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ValuesVisitor)
    }
}

struct ValuesVisitor;

impl<'de> Visitor<'de> for ValuesVisitor {
    type Value = Values;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("numbers by their names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Values, A::Error> {
        let mut readings = Readings::default();
        while let Some((name, value)) = map.next_entry::<Cow<'de, str>, f64>()? {
            readings.take(&name, value);
        }
        Ok(Values(readings))
    }
}

/// Numbers for latencies in a report: a count for each bucket, and the sum.
const LATENCY_NUMBERS: usize = size_of::<Latency>() / 8;
/// The same for garbage collection pauses, for each kind.
const GC_NUMBERS: usize = GC_KINDS.len() * (size_of::<GcPauses>() / 8);
/// The maximum accepted time between two reports: a day.
const PERIOD_MS_MAX: f64 = 86_400_000.0;

/// At most `N` numbers of a list; further numbers are skipped, and missing ones are 0.
struct Numbers<const N: usize>([f64; N]);

impl<'de, const N: usize> Deserialize<'de> for Numbers<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(NumbersVisitor)
    }
}

struct NumbersVisitor<const N: usize>;

impl<'de, const N: usize> Visitor<'de> for NumbersVisitor<N> {
    type Value = Numbers<N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of numbers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Numbers<N>, A::Error> {
        let mut numbers = [0.0; N];
        for place in &mut numbers {
            match list.next_element()? {
                Some(number) => *place = number,
                None => return Ok(Numbers(numbers)),
            }
        }
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Numbers(numbers))
    }
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
    fn understand(self) -> Incoming {
        match (self.cmd.as_deref(), self.act.as_deref()) {
            (Some("NODE_HANDLE_ACK"), _) => Incoming::HandleAck,
            (Some("NODE_HANDLE_NACK"), _) => Incoming::HandleNack,
            (Some("NODE_HANDLE"), _) => Incoming::HandleSent,
            (Some("NODE_SOCKET_NOTIFY_CLOSE"), _) => {
                self.key.map_or(Incoming::Ignored, |key| Incoming::SocketsClosed { key })
            }
            (Some("NODE_SOCKET_GET_COUNT"), _) => {
                self.key.map_or(Incoming::Ignored, |key| Incoming::SocketsCounted { key })
            }
            (Some("NODE_FORKFUL"), Some("hello")) => {
                Incoming::Agent(AgentMessage::Hello(self.node.as_deref().and_then(NodeVersion::parse)))
            }
            (Some("NODE_FORKFUL"), Some("drained")) => Incoming::Agent(AgentMessage::Drained),
            (Some("NODE_FORKFUL"), Some("report")) => match self.report() {
                Some(report) => Incoming::Agent(AgentMessage::Report(Box::new(report))),
                None => Incoming::Ignored,
            },
            (Some("NODE_FORKFUL"), Some("stalls")) => {
                let told = self.stalls.unwrap_or_default().into_iter().take(STALLS_TOLD_MAX);
                Incoming::Agent(AgentMessage::Stalls(told.filter_map(Stall::bounded).collect()))
            }
            (Some("NODE_FORKFUL"), Some("peers")) => {
                Incoming::Agent(AgentMessage::Peers(self.peers.unwrap_or_default()))
            }
            (Some("NODE_FORKFUL"), Some("echo")) => Incoming::Agent(AgentMessage::Echo),
            (Some("NODE_FORKFUL"), Some("metrics")) => {
                Incoming::Agent(AgentMessage::Metrics(match (self.metrics, self.none) {
                    (Some(metrics), _) => MetricsAnswer::Report {
                        text: metrics.get().into(),
                        left_out: self.left_out.unwrap_or_default(),
                    },
                    (None, Some(true)) => MetricsAnswer::None,
                    (None, Some(false) | None) => MetricsAnswer::Failed,
                }))
            }
            (Some("NODE_FORKFUL"), Some("merge")) => match self.question {
                Some(question) => Incoming::Agent(AgentMessage::WantsMerged(question)),
                None => Incoming::Ignored,
            },
            (Some("NODE_FORKFUL"), Some("unmerged")) => Incoming::Agent(AgentMessage::Unmerged),
            (Some("NODE_FORKFUL"), Some("lacks-workers")) => Incoming::Agent(AgentMessage::LacksWorkers),
            (Some("NODE_FORKFUL"), Some("count")) => match (self.staying, self.movable) {
                (Some(staying), Some(movable)) if movable <= staying => {
                    Incoming::Agent(AgentMessage::Count(Connections { staying, movable }))
                }
                _ => Incoming::Ignored,
            },
            (Some("NODE_CLUSTER"), act) => {
                let act = act.map(str::to_owned);
                self.cluster(act.as_deref())
            }
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

    fn report(&self) -> Option<AgentReport> {
        let gc = self.gc.as_ref().map_or([0.0; GC_NUMBERS], |numbers| numbers.0);
        let (kinds, _none) = gc.as_chunks::<{ GC_NUMBERS / GC_KINDS.len() }>();
        let period = self.ms.filter(|ms| (0.0..=PERIOD_MS_MAX).contains(ms));
        Some(AgentReport {
            requests: self.requests?,
            period: period.map(|ms| Duration::from_secs_f64(ms / 1000.0)),
            quiet: self.quiet == Some(true),
            sampled: self.sampled == Some(true),
            readings: self.values.as_ref().map_or_else(Readings::default, |values| values.0),
            latency: self
                .latency
                .as_ref()
                .map_or_else(Latency::default, |numbers| Histogram::read(&numbers.0)),
            gc: std::array::from_fn(|kind| Histogram::read(&kinds[kind])),
        })
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
