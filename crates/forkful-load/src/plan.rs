//! What to send, how, how often and until when. A plan is data; [`crate::run()`] checks and performs it.

mod url;

use std::path::PathBuf;
use std::time::Duration;

use forkful_core::random::Random;

use crate::LoadError;

pub use url::Url;

/// Everything that a run is told.
#[derive(Debug, Clone)]
pub struct Plan {
    /// At least one; all to one server (scheme, host and port).
    pub requests: Vec<Request>,
    /// How the next request is chosen.
    pub order: Order,
    /// Connections. Closed loop: exactly so many. Open loop: so many at the start; see [`Load::Open`].
    pub connections: usize,
    /// Threads of the generator.
    pub threads: Threads,
    /// When a request starts.
    pub load: Load,
    /// When the measurement ends.
    pub stop: Stop,
    /// With [`Stop::Requests`]: it ends no later than this, exactly, with what was sent by then.
    pub time_limit: Option<Duration>,
    /// Full load before the measurement, not counted.
    pub warmup: Duration,
    /// Before the warm-up: connections (closed loop) or rate (open loop) grow evenly from none to all. Not counted.
    pub ramp: Duration,
    /// From the moment a request is meant to start, or a connection is begun, to the complete answer.
    pub timeout: Duration,
    /// How long answers are awaited after the measurement's end. At most `timeout` is used.
    pub drain: Duration,
    /// How long a connection is used.
    pub reuse: Reuse,
    /// Requests that may be unanswered on one connection; 1 is no pipelining. HTTP/2: concurrent streams.
    pub pipelining: usize,
    /// Let answers gather in a closed loop whose target is the limit: see `http1/engine/gathering.rs`.
    pub gathering: bool,
    /// Connect to this path and not to the URL's host and port.
    pub unix_socket: Option<PathBuf>,
    /// For `https` URLs.
    pub tls: TlsOptions,
    /// Which protocol, and so which engine.
    pub http: HttpVersion,
    /// What makes an answer a good one.
    pub expect: Expect,
    /// A response header whose value names the worker that answered, in any case of letters.
    pub worker_header: Option<String>,
    /// Length of the windows of [`crate::Report::windows`]; doubled as often as a long run needs.
    pub window: Duration,
    /// End the run once so many errors occurred.
    pub errors_max: Option<u64>,
}

impl Plan {
    /// `GET url` for 10 seconds, closed loop, 50 kept connections, HTTP/1.1.
    pub fn get(url: &str) -> Result<Self, LoadError> {
        Ok(Self::of(vec![Request::get(url)?]))
    }

    /// The same load with these requests.
    pub fn of(requests: Vec<Request>) -> Self {
        Self {
            requests,
            order: Order::InOrder,
            connections: 50,
            threads: Threads::Auto,
            load: Load::Closed { think: Think::None },
            stop: Stop::Duration(Duration::from_secs(10)),
            time_limit: None,
            warmup: Duration::ZERO,
            ramp: Duration::ZERO,
            timeout: Duration::from_secs(30),
            drain: Duration::from_secs(5),
            reuse: Reuse::Always,
            pipelining: 1,
            gathering: true,
            unix_socket: None,
            tls: TlsOptions::default(),
            http: HttpVersion::Http11,
            expect: Expect::default(),
            worker_header: None,
            window: Duration::from_millis(100),
            errors_max: None,
        }
    }
}

/// One request. The engine adds `Host`, `Content-Length`, `Connection` and `User-Agent` where they are not given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, …; any token.
    pub method: String,
    pub url: Url,
    /// In order, as written.
    pub headers: Vec<(String, String)>,
    /// Sent with a `Content-Length`; empty: no body.
    pub body: Vec<u8>,
    /// [`Order::Weighted`]: its share, against the sum of all weights. 0 is never sent.
    pub weight: u32,
    /// Replace each `{id}` in URL, header values and body by the number of the request, from 0.
    pub counter: bool,
    /// `Authorization: Basic …`.
    pub basic_auth: Option<BasicAuth>,
}

impl Request {
    /// `GET url` with weight 1; `{id}` is a counter.
    pub fn get(url: &str) -> Result<Self, LoadError> {
        Ok(Self { counter: true, ..Self::to(Url::parse(url)?) })
    }

    /// `GET` with weight 1, as it is.
    pub fn to(url: Url) -> Self {
        Self {
            method: "GET".to_owned(),
            url,
            headers: Vec::new(),
            body: Vec::new(),
            weight: 1,
            counter: false,
            basic_auth: None,
        }
    }
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub struct BasicAuth {
    /// Without a colon.
    pub user: String,
    pub password: String,
}

impl BasicAuth {
    /// Of `user:password`, or of a user alone.
    pub fn of(text: &str) -> Self {
        let (user, password) = text.split_once(':').unwrap_or((text, ""));
        Self { user: user.to_owned(), password: password.to_owned() }
    }
}

impl std::fmt::Debug for BasicAuth {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("BasicAuth").field("user", &self.user).finish_non_exhaustive()
    }
}

/// How the next request is chosen from several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Request number i is `requests[i % len]`, over all connections and threads together.
    InOrder,
    /// At random by weight; the same seed gives the same sequence of numbers.
    Weighted {
        /// Any number.
        seed: u64,
    },
}

/// Threads of the generator, each with its own connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One for each eight cores, at least one, never more than connections.
    Auto,
    /// So many.
    Count(usize),
}

/// When a request starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A connection sends its next request when it has the answer to the last.
    Closed {
        /// Pause in between.
        think: Think,
    },
    /// Requests start on an absolute schedule, whatever the server does.
    Open {
        /// Requests per second of the whole run.
        rate: f64,
        /// The engine opens more connections than [`Plan::connections`] when all are busy, up to this many. A
        /// request that finds all of them busy starts late; its latency counts from when it was meant to start.
        connections_max: usize,
        arrivals: Arrivals,
    },
}

/// Pause of a connection between an answer and its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    None,
    /// Always the same.
    Fixed(Duration),
    /// Evenly distributed from none to this.
    UpTo(Duration),
}

impl Think {
    /// The next pause.
    pub(crate) fn pause(self, random: &mut Random) -> Duration {
        match self {
            Self::None => Duration::ZERO,
            Self::Fixed(pause) => pause,
            Self::UpTo(most) => most.mul_f64(random.unit()),
        }
    }
}

/// The spacing of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Exactly one interval apart.
    Even,
    /// A Poisson process: independent, exponentially distributed gaps, as from many independent users.
    Poisson {
        /// Any number; the same seed gives the same arrivals.
        seed: u64,
    },
}

/// When the measurement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// After exactly so many requests, failed ones included; warm-up not.
    Requests(u64),
    /// After exactly this time; requests under way are then awaited ([`Plan::drain`]) and told apart.
    Duration(Duration),
}

/// How long a connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// As long as the server allows.
    Always,
    /// A connection for each request, which says `Connection: close`.
    Never,
    /// For so many requests.
    Requests(u32),
}

impl Reuse {
    /// Kept, or a connection for each request.
    pub fn keep_alive(keep: bool) -> Self {
        if keep { Self::Always } else { Self::Never }
    }

    /// No connection has a second request.
    pub(crate) fn is_one_each(self) -> bool {
        matches!(self, Self::Never | Self::Requests(1))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0: no chunks, no keep-alive unless asked for by [`Reuse`].
    Http10,
    /// HTTP/1.1, the raw engine.
    Http11,
    /// HTTP/2, the second engine: over TLS with ALPN, in the clear with prior knowledge.
    Http2,
    /// Messages on WebSockets, the second engine: a request is a message, its answer the next message that comes.
    WebSocket,
    /// Server-sent events, the second engine: a request waits for the next event of its connection.
    EventStream,
}

impl HttpVersion {
    /// Whether the second engine performs it.
    pub(crate) fn is_on_tasks(self) -> bool {
        matches!(self, Self::Http2 | Self::WebSocket | Self::EventStream)
    }

    /// What several requests under way on one connection are called.
    pub(crate) fn together(self) -> &'static str {
        match self {
            Self::Http10 | Self::Http11 => "pipelined requests",
            Self::Http2 => "streams",
            Self::WebSocket => "messages under way on a connection",
            Self::EventStream => "events awaited on a connection",
        }
    }

    /// What is counted.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Http10 | Self::Http11 | Self::Http2 => "request",
            Self::WebSocket => "message",
            Self::EventStream => "event",
        }
    }
}

/// How to trust, and to be trusted, over TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Do not check the server's certificate.
    pub insecure: bool,
    /// Trust only the authorities in this PEM file; the system's otherwise.
    pub authorities: Option<PathBuf>,
    /// PEM file of the client's certificate chain.
    pub client_certificate: Option<PathBuf>,
    /// PEM file of the client's key.
    pub client_key: Option<PathBuf>,
    /// Name to ask for and to check; the URL's host otherwise.
    pub server_name: Option<String>,
}

/// What makes an answer a good one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expect {
    /// These statuses; empty: every one below 400.
    pub statuses: Vec<u16>,
    /// The statuses are those that another tool counts as answers, and not what the user wishes: a run of error pages is
    /// told as one.
    pub is_habit: bool,
    /// This body. Bodies above [`Expect::BODY_BYTES_MAX`] never match.
    pub body: Option<BodyCheck>,
}

impl Expect {
    /// A longer body is not kept for comparison: 1 MiB for each connection would be much already.
    pub const BODY_BYTES_MAX: usize = 1 << 20;

    /// The statuses that another tool counts as answers.
    pub fn habit(statuses: impl IntoIterator<Item = u16>) -> Self {
        Self { statuses: statuses.into_iter().collect(), is_habit: true, body: None }
    }

    /// Whether a status is a good one.
    pub fn accepts(&self, status: u16) -> bool {
        if self.statuses.is_empty() { status < 400 } else { self.statuses.contains(&status) }
    }

    /// Whether a status says that the request went wrong, unless the user has asked for this very status.
    pub fn is_error_page(&self, status: u16) -> bool {
        status >= 400 && (self.is_habit || !self.accepts(status))
    }
}

/// What a body must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyCheck {
    /// These bytes exactly.
    Equals(Vec<u8>),
    /// These bytes somewhere.
    Contains(Vec<u8>),
}
