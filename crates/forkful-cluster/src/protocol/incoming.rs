//! What a worker says to its primary. Hostile input: whatever does not parse is [`Incoming::Ignored`].

pub use forkful_core::metrics::AgentReport;
use forkful_core::metrics::{GC_KINDS, GcPauses, Histogram, Latency, Readings};
use forkful_core::stalls::{STALLS_TOLD_MAX, Stall};
use forkful_core::steering::evenness::Connections;
use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

/// A line from a worker, understood.
#[derive(Debug)]
pub enum Incoming {
    /// The worker's cluster module is loaded; user code has not run yet.
    Online,
    /// The app calls `listen` or `bind`; every query needs exactly one reply.
    QueryServer {
        /// What to listen on.
        query: Query,
        /// To be named in the reply's `ack`.
        seq: u64,
    },
    /// A query that makes no sense; it gets an error reply, because `listen` would wait for ever.
    BadQuery {
        /// To be named in the reply's `ack`.
        seq: u64,
    },
    /// The listen succeeded; the members are those of its query, with the actual port.
    Listening(Query),
    /// The app closed the server that was given this key.
    Close {
        /// The key from our reply.
        key: String,
    },
    /// The worker leaves on its own account and waits for an ack.
    ExitedAfterDisconnect {
        /// To be named in the ack.
        seq: u64,
    },
    /// Answer to a pushed connection.
    Accepted {
        /// The push's `seq`.
        ack: u64,
        /// False: refused (server closed or full); the handle was closed by the worker.
        accepted: bool,
    },
    /// A handle that we sent arrived.
    HandleAck,
    /// A `NODE_HANDLE` line arrived without a handle: lost, or a probe's answer.
    HandleNack,
    /// The worker sent a handle of its own; it waits for an ack.
    HandleSent,
    /// A server whose connections the worker has sent to us wants to be closed, and waits until none of them is open.
    SocketsClosed {
        /// Names the server; to be named in the answer.
        key: String,
    },
    /// Such a server wants to know how many of them are open.
    SocketsCounted {
        /// Names the server; to be named in the answer.
        key: String,
    },
    /// The agent's own messages.
    Agent(AgentMessage),
    /// `process.send('ready')`.
    Ready,
    /// Another message of the app.
    User,
    /// An internal line that a primary has no use for, or one that makes no sense.
    Ignored,
}

/// What the preloaded agent says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentMessage {
    /// It is loaded, into this version of Node.js if it says so.
    Hello(Option<NodeVersion>),
    /// No request is under way and the grace for idle connections is over.
    Drained,
    /// What it was asked to report on.
    /// The event loop stood still, so many times; at most [`STALLS_TOLD_MAX`], each within its bounds.
    Stalls(Vec<Stall>),
    Report(Box<AgentReport>),
    /// prom-client has asked for the workers of a primary, of which a worker has none.
    LacksWorkers,
    /// What its prom-client has, see [`Primary::ask_for_metrics`](crate::Primary::ask_for_metrics).
    Metrics(MetricsAnswer),
    /// The connections that stay with it.
    Count(Connections),
    /// It has got everything that was sent before the line that it echoes.
    Echo,
}

/// An agent's answer to the question for the app's own metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetricsAnswer {
    /// No prom-client is loaded.
    None,
    /// What its prom-client has could not be read.
    Failed,
    /// JSON, not read yet.
    Text(Box<str>),
}

/// A version of Node.js, without what may follow the three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVersion {
    /// The line of releases.
    pub major: u16,
    /// Features within it.
    pub minor: u16,
    /// Corrections.
    pub patch: u16,
}

impl NodeVersion {
    /// Reads `22.11.0`; what follows the numbers, as in a nightly build, is left out.
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
    /// The agent's word: the app wants the address for this worker alone (`exclusive`).
    pub exclusive: bool,
    /// Length of the queue; 0 means not given.
    pub backlog: u32,
    /// Unix socket readable by everyone.
    pub readable_all: bool,
    /// Unix socket writable by everyone.
    pub writable_all: bool,
    /// Opaque data of the server (TLS ticket keys), to be echoed to every worker.
    pub data: Option<Box<RawValue>>,
}

impl Query {
    /// Whether the app lets others listen on the port, too.
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

/// The most server data that is kept and echoed; TLS ticket keys are 96 characters.
pub const DATA_BYTES_MAX: usize = 4096;

/// libuv's `UV_TCP_IPV6ONLY` and `UV_UDP_IPV6ONLY`.
pub const FLAG_IPV6_ONLY: u32 = 1;
/// libuv's `UV_TCP_REUSEPORT`: the app lets other processes of its user listen on the same port.
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
    /// Node sends `false` for a backlog that was not given in some forms of `listen`.
    backlog: Option<serde_json::Value>,
    readable_all: Option<bool>,
    writable_all: Option<bool>,
    // The agent's, in its own spelling.
    #[serde(borrow)]
    node: Option<Cow<'a, str>>,
    requests: Option<u64>,
    values: Option<Values>,
    stalls: Option<Vec<Stall>>,
    latency: Option<Numbers<LATENCY_NUMBERS>>,
    gc: Option<Numbers<GC_NUMBERS>>,
    ms: Option<f64>,
    quiet: Option<bool>,
    staying: Option<u32>,
    movable: Option<u32>,
    #[serde(borrow)]
    metrics: Option<&'a RawValue>,
    none: Option<bool>,
}

/// The values of a report by their names. Those that the table of metrics does not have are passed over.
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

/// What a report has of latencies: a count for each bucket, and the sum.
const LATENCY_NUMBERS: usize = size_of::<Latency>() / 8;
/// The same of the pauses of the garbage collector, of each kind.
const GC_NUMBERS: usize = GC_KINDS.len() * (size_of::<GcPauses>() / 8);
/// The longest time between two reports that is believed: a day.
const PERIOD_MS_MAX: f64 = 86_400_000.0;

/// At most `N` numbers of a list; the others are passed over, and what is missing is 0.
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

/// As much of a query as is needed to refuse it.
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

/// Understands one line (without its newline).
pub fn parse(line: &[u8]) -> Incoming {
    // Bun marks its internal lines with a 0x02 byte.
    let line = line.strip_prefix(b"\x02").unwrap_or(line);
    if line == b"\"ready\"" {
        return Incoming::Ready;
    }
    // Only objects that name a NODE_ command can be internal; everything else is the app's, and is not parsed.
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

/// The internal message at the end of a line that is no JSON: somebody has written to the channel without ending the
/// line, and what Node or the agent says next must not be lost with it (a lost `drained` would hold a reload up).
fn behind_unfinished(line: &[u8]) -> Option<&[u8]> {
    const BEGIN: &[u8] = b"{\"cmd\":\"NODE_";
    let at = line.windows(BEGIN.len()).rposition(|window| window == BEGIN).filter(|at| *at > 0)?;
    serde_json::from_slice::<IgnoredAny>(line).is_err().then_some(&line[at..])
}

/// What stands for a line that is too long to be kept, by its head: a message with a handle waits for its answer
/// whatever else it says.
pub(crate) fn in_short(head: &[u8]) -> Option<&'static [u8]> {
    // Node writes the members in this order.
    let head = head.strip_prefix(b"\x02").unwrap_or(head);
    head.starts_with(b"{\"cmd\":\"NODE_HANDLE\",").then_some(b"{\"cmd\":\"NODE_HANDLE\"}")
}

/// How far into a line its type is looked for; `@pm2/io` writes it first.
const REPORT_HEAD_BYTES: usize = 128;

/// Whether a line is one of `@pm2/io`'s messages to the process manager (`{"type":"axm:monitor","data":…}`): metrics,
/// actions, and answers to them.
pub fn is_report(line: &[u8]) -> bool {
    let head = &line[..line.len().min(REPORT_HEAD_BYTES)];
    head.starts_with(b"{") && contains(head, b"\"type\":\"axm:")
}

/// Whether a line is one of log4js for a process that writes for all (`{"topic":"log4js:message","data":"…"}`).
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
            (Some("NODE_FORKFUL"), Some("echo")) => Incoming::Agent(AgentMessage::Echo),
            (Some("NODE_FORKFUL"), Some("metrics")) => {
                Incoming::Agent(AgentMessage::Metrics(match (self.metrics, self.none) {
                    (Some(metrics), _) => MetricsAnswer::Text(metrics.get().into()),
                    (None, Some(true)) => MetricsAnswer::None,
                    (None, Some(false) | None) => MetricsAnswer::Failed,
                }))
            }
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
