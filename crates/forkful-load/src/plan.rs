//! What to send, how, at which rate and for how long. A plan is data; [`crate::run()`] checks and performs
//! it.

mod url;

use std::path::PathBuf;
use std::time::Duration;

use forkful_core::random::Random;

use crate::LoadError;

pub use url::Url;

/// The description of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// At least one request; all go to one server (scheme, host and port).
    pub requests: Vec<Request>,
    /// How the next request is chosen.
    pub order: Order,
    /// Connections. Closed loop: exactly this number. Open loop: the number at the start; see [`Load::Open`].
    pub connections: usize,
    /// Threads of the generator.
    pub threads: Threads,
    /// When a request starts.
    pub load: Load,
    /// When the measurement ends.
    pub stop: Stop,
    /// With [`Stop::Requests`]: the measurement ends at this time at the latest, even if not all requests
    /// were sent.
    pub time_limit: Option<Duration>,
    /// Full load before the measurement; not counted.
    pub warmup: Duration,
    /// Before the warm-up: the connections (closed loop) or the rate (open loop) grow linearly from 0. Not
    /// counted.
    pub ramp: Duration,
    /// Counts from the intended start of a request, or the start of a connection attempt, to the complete
    /// answer.
    pub timeout: Duration,
    /// How long the run waits for answers after the end of the measurement. Limited to `timeout`.
    pub drain: Duration,
    /// How long a connection is used.
    pub reuse: Reuse,
    /// Requests without an answer on one connection; 1 means no pipelining. HTTP/2: concurrent streams.
    pub pipelining: usize,
    /// Let answers gather in a closed loop whose target is the bottleneck: see `http1/engine/gathering.rs`.
    pub gathering: bool,
    /// Connect to this path instead of the URL's host and port.
    pub unix_socket: Option<PathBuf>,
    /// For `https` URLs.
    pub tls: TlsOptions,
    /// The protocol, which also selects the engine.
    pub http: HttpVersion,
    /// What counts as a good answer.
    pub expect: Expect,
    /// A response header whose value names the worker; case-insensitive.
    pub worker_header: Option<String>,
    /// Length of the windows of [`crate::Report::windows`]; doubled as needed for a long run.
    pub window: Duration,
    /// End the run after this number of errors.
    pub errors_max: Option<u64>,
}

impl Plan {
    /// `GET url` for 10 seconds, closed loop, 50 kept connections, HTTP/1.1.
    pub fn get(url: &str) -> Result<Self, LoadError> {
        Ok(Self::of(vec![Request::get(url)?]))
    }

    /// The default load with these requests.
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

/// One request. The engine adds `Host`, `Content-Length`, `Connection` and `User-Agent` if they are missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `POST`, …; any token.
    pub method: String,
    pub url: Url,
    /// In order, as written.
    pub headers: Vec<(String, String)>,
    /// Sent with a `Content-Length`; empty: no body.
    pub body: Vec<u8>,
    /// [`Order::Weighted`]: the weight of this request, relative to the sum of all weights. A request with
    /// weight 0 is never sent.
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

    /// `GET` with weight 1, without a counter.
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
    /// From `user:password`, or a user alone.
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
    /// At random by weight; the same seed gives the same sequence.
    Weighted {
        /// Any number.
        seed: u64,
    },
}

/// Threads of the generator, each with its own connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Threads {
    /// One thread for each eight cores, at least one, never more than connections.
    Auto,
    /// This number of threads.
    Count(usize),
}

/// When a request starts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Load {
    /// A connection sends its next request when it has the previous answer.
    Closed {
        /// Pause between an answer and the next request.
        think: Think,
    },
    /// Requests start on an absolute schedule, independent of the server.
    Open {
        /// Requests per second of the whole run.
        rate: f64,
        /// The engine opens more connections than [`Plan::connections`], up to this number, when all are
        /// busy. A request that finds all of them busy starts late; its latency counts from its intended
        /// start.
        connections_max: usize,
        arrivals: Arrivals,
    },
}

/// Pause of a connection between an answer and its next request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Think {
    None,
    /// Always this long.
    Fixed(Duration),
    /// Uniformly distributed between 0 and this.
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

/// The spacing of requests in an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal intervals.
    Even,
    /// A Poisson process: independent, exponentially distributed gaps, as with many independent users.
    Poisson {
        /// Any number; the same seed gives the same arrivals.
        seed: u64,
    },
}

/// When the measurement ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// After exactly this number of requests, including failed ones, excluding the warm-up.
    Requests(u64),
    /// After exactly this time. The run then waits for requests under way ([`Plan::drain`]) and counts them
    /// separately.
    Duration(Duration),
}

/// How long a connection is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// As long as the server allows.
    Always,
    /// One connection for each request, with `Connection: close`.
    Never,
    /// For this number of requests.
    Requests(u32),
}

impl Reuse {
    /// `Always` if connections are kept, otherwise `Never`.
    pub fn keep_alive(keep: bool) -> Self {
        if keep { Self::Always } else { Self::Never }
    }

    /// How many more requests fit on a connection after this number.
    #[inline]
    pub(crate) fn left(self, used: u32) -> usize {
        match self {
            Self::Always => usize::MAX,
            Self::Never => 1_u32.saturating_sub(used) as usize,
            Self::Requests(most) => most.saturating_sub(used) as usize,
        }
    }

    /// Each connection sends only one request.
    pub(crate) fn is_one_each(self) -> bool {
        matches!(self, Self::Never | Self::Requests(1))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HttpVersion {
    /// HTTP/1.0: no chunks; keep-alive only if [`Reuse`] asks for it.
    Http10,
    /// HTTP/1.1, the raw engine.
    Http11,
    /// HTTP/2, the second engine: over TLS with ALPN, or in clear text with prior knowledge.
    Http2,
    /// Messages on WebSockets, the second engine: a request is a message, its answer is the next message
    /// received.
    WebSocket,
    /// Server-sent events, the second engine: a request waits for the next event on its connection.
    EventStream,
}

impl HttpVersion {
    /// Whether the second engine is used.
    pub(crate) fn is_on_tasks(self) -> bool {
        matches!(self, Self::Http2 | Self::WebSocket | Self::EventStream)
    }

    /// The term for several concurrent requests on one connection.
    pub(crate) fn together(self) -> &'static str {
        match self {
            Self::Http10 | Self::Http11 => "pipelined requests",
            Self::Http2 => "streams",
            Self::WebSocket => "messages under way on a connection",
            Self::EventStream => "events awaited on a connection",
        }
    }

    /// The unit that is counted.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Http10 | Self::Http11 | Self::Http2 => "request",
            Self::WebSocket => "message",
            Self::EventStream => "event",
        }
    }
}

/// TLS options: which servers to trust, and the client's certificate.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TlsOptions {
    /// Do not verify the server's certificate.
    pub insecure: bool,
    /// Trust only the authorities in this PEM file; `None`: those of the system.
    pub authorities: Option<PathBuf>,
    /// PEM file of the client's certificate chain.
    pub client_certificate: Option<PathBuf>,
    /// PEM file of the client's key.
    pub client_key: Option<PathBuf>,
    /// The server name to request and verify; `None`: the URL's host.
    pub server_name: Option<String>,
}

/// What counts as a good answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expect {
    /// Accepted statuses; empty: all below 400 but for 101, which changes the protocol that nobody asked to change.
    pub statuses: Vec<u16>,
    /// The statuses are the ones that another tool counts as answers, not the user's choice; a run of error
    /// pages is then still reported.
    pub is_habit: bool,
    /// The expected body. Bodies above [`Expect::BODY_BYTES_MAX`] never match.
    pub body: Option<BodyCheck>,
}

impl Expect {
    /// Longer bodies are not kept for comparing: 1 MiB for each connection is already much.
    pub const BODY_BYTES_MAX: usize = 1 << 20;

    /// The statuses that another tool counts as answers.
    pub fn habit(statuses: impl IntoIterator<Item = u16>) -> Self {
        Self { statuses: statuses.into_iter().collect(), is_habit: true, body: None }
    }

    /// Whether a status is accepted.
    pub fn accepts(&self, status: u16) -> bool {
        if self.statuses.is_empty() { status < 400 && status != 101 } else { self.statuses.contains(&status) }
    }

    /// Whether a status means an error page, unless the user asked for this status.
    pub fn is_error_page(&self, status: u16) -> bool {
        status >= 400 && (self.is_habit || !self.accepts(status))
    }
}

/// What a body must be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BodyCheck {
    /// Exactly these bytes.
    Equals(Vec<u8>),
    /// These bytes somewhere.
    Contains(Vec<u8>),
}
