//! A client of the daemon's API: one [`Client`] is one connection, used for one request after another.
//!
//! Only connecting has a time limit ([`CONNECT_TIMEOUT`], which includes the answer to the first ping). Other
//! requests have none: a reload of 50 slow workers is no error.

mod log_lines;
mod profile;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forkful_core::spec::Named as _;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};

use crate::apply::{ApplyReply, ApplyRequest};
use crate::conversation::{EnvironmentReply, MessageRequest, StdinRequest, TriggerRequest, WorkersReply};
use crate::dashboard::{DashboardReply, DashboardRequest};
use crate::incidents::{Incident, IncidentList, IncidentsQuery};
use crate::jlist::JlistEntry;
use crate::profile::ProfileRequest;
use crate::routes::Route;
use crate::saved::{ClearReply, ResurrectRequest, SaveReply, SaveRequest};
use crate::stalls::StallsReply;
use crate::types::{
    API_VERSION, ActionReply, ActionRequest, AppList, AppTable, ErrorCode, ErrorReply, HistoryQuery,
    HistoryReply, LogsQuery, MetricsQuery, Ping, StartRequest, UpdateReply, UpdateRequest, Verb,
};
pub use log_lines::LogReader;
pub use profile::ProfileReader;

/// Time limit for a daemon to accept a connection and to answer its first ping. Both take under a millisecond
/// unless the daemon is stuck, the machine is busy, or hundreds of clients are waiting.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between attempts while the daemon's accept queue is full.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(10);

/// Maximum bytes of a reply; a list of 1024 apps with tails has a few megabytes.
const REPLY_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Why a request failed.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No socket exists, or no process listens on it: a socket left by a daemon that has ended.
    #[error("no daemon is running at {}", socket.display())]
    NotRunning {
        /// The expected path.
        socket: PathBuf,
        /// Whether the socket's file exists (then it is stale).
        stale: bool,
    },
    /// The socket cannot be connected to.
    #[error("cannot connect to the daemon at {}", socket.display())]
    Connect {
        /// The socket.
        socket: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A daemon exists, but has not answered within [`CONNECT_TIMEOUT`].
    #[error("the daemon at {} has not answered for {} s", socket.display(), CONNECT_TIMEOUT.as_secs())]
    NotAnswering {
        /// The socket.
        socket: PathBuf,
    },
    /// The daemon has another version than this program.
    #[error(
        "the daemon (pid {pid}) is version {daemon} (API {daemon_api}), but this program is {program} (API {API_VERSION})"
    )]
    OtherVersion {
        /// The daemon's process id.
        pid: u32,
        /// The daemon's version.
        daemon: String,
        /// The daemon's API version.
        daemon_api: u32,
        /// This program's version.
        program: String,
    },
    /// The daemon refused the request.
    #[error("{}", reply.error)]
    Refused {
        /// Its reply.
        reply: ErrorReply,
    },
    /// The connection ended before the reply was complete.
    #[error("the daemon closed the connection before its reply to {request} was complete")]
    Lost {
        /// The request.
        request: String,
        /// The cause.
        source: hyper::Error,
    },
    /// The reply is not valid.
    #[error("the reply to {request} makes no sense: {what}")]
    Broken {
        /// The request.
        request: String,
        /// What is wrong with it.
        what: String,
    },
}

impl ClientError {
    /// The kind of refusal, if it is one.
    pub fn refusal(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { reply } => Some(reply.code),
            _ => None,
        }
    }
}

/// A connection to the daemon.
#[derive(Debug)]
pub struct Client {
    sender: SendRequest<Full<Bytes>>,
    socket: PathBuf,
    /// The daemon's version.
    version: String,
}

impl Client {
    /// Connects, and returns the daemon's ping reply. Must run inside a tokio runtime with I/O and time.
    ///
    /// A daemon that is just ending closes connections that it never accepted; then a second attempt finds no
    /// daemon, or its successor.
    pub async fn connect(socket: &Path) -> Result<(Self, Ping), ClientError> {
        match Self::connect_once(socket).await {
            Err(ClientError::Lost { source, .. }) if !source.is_parse() => Self::connect_once(socket).await,
            other => other,
        }
    }

    async fn connect_once(socket: &Path) -> Result<(Self, Ping), ClientError> {
        let mut client = Self::open(socket).await?;
        let ping = client.ping().await?;
        client.version.clone_from(&ping.version);
        Ok((client, ping))
    }

    async fn open(socket: &Path) -> Result<Self, ClientError> {
        let stream = match timeout(CONNECT_TIMEOUT, connect_patiently(socket)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(source)) => return Err(connect_error(socket, source)),
            Err(_) => return Err(ClientError::NotAnswering { socket: socket.to_owned() }),
        };
        let (sender, connection) = handshake(TokioIo::new(stream))
            .await
            .map_err(|source| ClientError::Lost { request: "the handshake".to_owned(), source })?;
        // Errors of the connection surface as errors of its requests.
        tokio::spawn(async move { drop(connection.await) });
        Ok(Self { sender, socket: socket.to_owned(), version: String::new() })
    }

    /// The daemon's version.
    pub fn daemon_version(&self) -> &str {
        &self.version
    }

    /// Connects, and checks that the daemon has version `program` and our [`API_VERSION`].
    pub async fn connect_same_version(socket: &Path, program: &str) -> Result<Self, ClientError> {
        let (client, ping) = Self::connect(socket).await?;
        if ping.version == program && ping.api == API_VERSION {
            return Ok(client);
        }
        Err(ClientError::OtherVersion {
            pid: ping.pid,
            daemon: ping.version,
            daemon_api: ping.api,
            program: program.to_owned(),
        })
    }

    /// `GET /v1/ping`; the only request with a time limit.
    pub async fn ping(&mut self) -> Result<Ping, ClientError> {
        let socket = self.socket.clone();
        match timeout(CONNECT_TIMEOUT, self.get(Route::Ping.path())).await {
            Ok(reply) => reply,
            Err(_) => Err(ClientError::NotAnswering { socket }),
        }
    }

    /// `GET /v1/apps`.
    pub async fn list(&mut self) -> Result<AppList, ClientError> {
        self.get(Route::List.path()).await
    }

    /// `GET /v1/table`.
    pub async fn table(&mut self) -> Result<AppTable, ClientError> {
        self.get(Route::Table.path()).await
    }

    /// The same as [`Self::list`], while agents measure; see [`ListQuery`](crate::types::ListQuery).
    pub async fn list_measured(&mut self) -> Result<AppList, ClientError> {
        self.get(&format!("{}?measure=true", Route::List.path())).await
    }

    /// `GET /v1/apps/{target}`; a name, an id or `all`.
    pub async fn describe(&mut self, target: &str) -> Result<AppList, ClientError> {
        self.get(&path_with(Route::Describe, target)).await
    }

    /// The same as [`Self::describe`], with only what is already known; see
    /// [`DescribeQuery`](crate::types::DescribeQuery).
    pub async fn find(&mut self, target: &str) -> Result<AppList, ClientError> {
        self.get(&format!("{}?brief=true", path_with(Route::Describe, target))).await
    }

    /// `POST /v1/apps`.
    pub async fn start(&mut self, request: &StartRequest) -> Result<ActionReply, ClientError> {
        self.post(Route::Start.path(), request).await
    }

    /// `POST /v1/actions/{verb}`.
    pub async fn action(&mut self, verb: Verb, request: &ActionRequest) -> Result<ActionReply, ClientError> {
        self.post(&path_with(Route::Action, verb.name()), request).await
    }

    /// `POST /v1/apply`.
    pub async fn apply(&mut self, request: &ApplyRequest) -> Result<ApplyReply, ClientError> {
        self.post(Route::Apply.path(), request).await
    }

    /// `POST /v1/kill`: stops all apps and the daemon.
    pub async fn kill(&mut self) -> Result<ActionReply, ClientError> {
        self.post(Route::Kill.path(), &serde_json::json!({})).await
    }

    /// `POST /v1/save`.
    pub async fn save(&mut self, request: &SaveRequest) -> Result<SaveReply, ClientError> {
        self.post(Route::Save.path(), request).await
    }

    /// `POST /v1/resurrect`.
    pub async fn resurrect(&mut self, request: &ResurrectRequest) -> Result<ActionReply, ClientError> {
        self.post(Route::Resurrect.path(), request).await
    }

    /// `POST /v1/cleardump`.
    pub async fn clear_saved(&mut self) -> Result<ClearReply, ClientError> {
        self.post(Route::ClearSaved.path(), &()).await
    }

    /// `POST /v1/update`: another program replaces the daemon.
    pub async fn update(&mut self, request: &UpdateRequest) -> Result<UpdateReply, ClientError> {
        self.post(Route::Update.path(), request).await
    }

    /// `POST /v1/dashboard`: a link to the dashboard.
    pub async fn dashboard(&mut self, request: &DashboardRequest) -> Result<DashboardReply, ClientError> {
        self.post(Route::Dashboard.path(), request).await
    }

    /// `POST /v1/messages`.
    pub async fn send_message(&mut self, request: &MessageRequest) -> Result<WorkersReply, ClientError> {
        self.post(Route::Messages.path(), request).await
    }

    /// `POST /v1/stdin`.
    pub async fn stdin(&mut self, request: &StdinRequest) -> Result<WorkersReply, ClientError> {
        self.post(Route::Stdin.path(), request).await
    }

    /// `POST /v1/trigger`.
    pub async fn trigger(&mut self, request: &TriggerRequest) -> Result<WorkersReply, ClientError> {
        self.post(Route::Trigger.path(), request).await
    }

    /// `GET /v1/environment/{target}`; a name, an id or `all`.
    pub async fn environment(
        &mut self,
        target: &str,
        show_secrets: bool,
    ) -> Result<EnvironmentReply, ClientError> {
        self.get(&format!("{}?show_secrets={show_secrets}", path_with(Route::Environment, target))).await
    }

    /// `GET /v1/stalls/{target}`; a name, an id or `all`.
    pub async fn stalls(&mut self, target: &str) -> Result<StallsReply, ClientError> {
        self.get(&path_with(Route::Stalls, target)).await
    }

    /// `GET /v1/incidents`: unexpected events of apps.
    pub async fn incidents(&mut self, query: &IncidentsQuery) -> Result<IncidentList, ClientError> {
        let IncidentsQuery { targets, since_ms, after } = query;
        let path = Route::Incidents.path();
        self.get(&format!("{path}?targets={}&since_ms={since_ms}&after={after}", escape(targets))).await
    }

    /// `GET /v1/incidents/{id}`: one incident.
    pub async fn incident(&mut self, id: u64) -> Result<Incident, ClientError> {
        self.get(&path_with(Route::Incident, &id.to_string())).await
    }

    /// `GET /v1/jlist`: all workers in PM2's format.
    pub async fn jlist(&mut self, show_secrets: bool) -> Result<Vec<JlistEntry>, ClientError> {
        self.get(&format!("{}?show_secrets={show_secrets}", Route::Jlist.path())).await
    }

    /// `GET /v1/history`: the stored measurements of an app.
    pub async fn history(&mut self, query: &HistoryQuery) -> Result<HistoryReply, ClientError> {
        self.get(&history_path(query)).await
    }

    /// `GET /v1/metrics`: the page of all apps, or of the apps that `app` names.
    pub async fn metrics(&mut self, query: &MetricsQuery) -> Result<String, ClientError> {
        let path = metrics_path(query);
        let response = self.send(Method::GET, &path, Bytes::new()).await?;
        let request = format!("GET {path}");
        if response.status() != StatusCode::OK {
            return Err(refusal(&request, response).await);
        }
        let broken = |what: String| ClientError::Broken { request: request.clone(), what };
        let body = response.into_body().collect().await.map_err(|error| broken(error.to_string()))?;
        String::from_utf8(body.to_bytes().into()).map_err(|error| broken(error.to_string()))
    }

    /// `GET /v1/logs`; the connection is used for the stream.
    pub async fn logs(mut self, query: &LogsQuery) -> Result<LogReader, ClientError> {
        let path = logs_path(query);
        let response = self.send(Method::GET, &path, Bytes::new()).await?;
        let request = format!("GET {path}");
        if response.status() != StatusCode::OK {
            return Err(refusal(&request, response).await);
        }
        Ok(LogReader::new(response.into_body(), request, self))
    }

    /// `POST /v1/profile`; the connection is taken for the stream.
    pub async fn profile(mut self, request: &ProfileRequest) -> Result<ProfileReader, ClientError> {
        let path = Route::Profile.path();
        let name = format!("POST {path}");
        let body = serde_json::to_vec(request)
            .map_err(|e| ClientError::Broken { request: name.clone(), what: e.to_string() })?;
        let response = self.send(Method::POST, path, body.into()).await?;
        if response.status() != StatusCode::OK {
            return Err(refusal(&name, response).await);
        }
        Ok(ProfileReader::new(response.into_body(), name, self))
    }

    /// A GET request is repeated once if the daemon has ended meanwhile and another daemon has replaced it.
    async fn get<R: DeserializeOwned>(&mut self, path: &str) -> Result<R, ClientError> {
        match self.get_once(path).await {
            Err(ClientError::Lost { request, source }) if !source.is_parse() => {
                let Ok(next) = Self::open(&self.socket.clone()).await else {
                    return Err(ClientError::Lost { request, source });
                };
                *self = next;
                self.get_once(path).await
            }
            other => other,
        }
    }

    async fn get_once<R: DeserializeOwned>(&mut self, path: &str) -> Result<R, ClientError> {
        let response = self.send(Method::GET, path, Bytes::new()).await?;
        reply(&format!("GET {path}"), response).await
    }

    async fn post<R: DeserializeOwned>(
        &mut self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<R, ClientError> {
        let request = format!("POST {path}");
        let body = serde_json::to_vec(body)
            .map_err(|e| ClientError::Broken { request: request.clone(), what: e.to_string() })?;
        let response = self.send(Method::POST, path, body.into()).await?;
        reply(&request, response).await
    }

    async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Bytes,
    ) -> Result<Response<Incoming>, ClientError> {
        let name = format!("{method} {path}");
        let mut request = Request::builder().method(&method).uri(path).header("host", "forkful");
        if method == Method::POST {
            request = request.header("content-type", "application/json");
        }
        let request = request
            .body(Full::new(body))
            .map_err(|e| ClientError::Broken { request: name.clone(), what: e.to_string() })?;
        let lost = |source| ClientError::Lost { request: name.clone(), source };
        self.sender.ready().await.map_err(lost)?;
        self.sender.send_request(request).await.map_err(lost)
    }
}

/// Connects, and waits while the accept queue is full: then a non-blocking connect to a unix socket returns
/// `EAGAIN` instead of waiting.
async fn connect_patiently(socket: &Path) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect(socket).await {
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => sleep(QUEUE_FULL_PAUSE).await,
            other => return other,
        }
    }
}

fn connect_error(socket: &Path, source: io::Error) -> ClientError {
    let socket = socket.to_owned();
    match source.kind() {
        io::ErrorKind::NotFound => ClientError::NotRunning { socket, stale: false },
        io::ErrorKind::ConnectionRefused => ClientError::NotRunning { socket, stale: true },
        _ => ClientError::Connect { socket, source },
    }
}

async fn body(request: &str, response: Response<Incoming>) -> Result<Bytes, ClientError> {
    match Limited::new(response.into_body(), REPLY_BYTES_MAX).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) => Err(match error.downcast::<hyper::Error>() {
            Ok(source) => ClientError::Lost { request: request.to_owned(), source: *source },
            Err(other) => ClientError::Broken { request: request.to_owned(), what: other.to_string() },
        }),
    }
}

async fn reply<R: DeserializeOwned>(request: &str, response: Response<Incoming>) -> Result<R, ClientError> {
    if response.status() != StatusCode::OK {
        return Err(refusal(request, response).await);
    }
    let bytes = body(request, response).await?;
    serde_json::from_slice(&bytes)
        .map_err(|e| ClientError::Broken { request: request.to_owned(), what: e.to_string() })
}

async fn refusal(request: &str, response: Response<Incoming>) -> ClientError {
    let status = response.status();
    match body(request, response).await {
        Err(error) => error,
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(reply) => ClientError::Refused { reply },
            Err(_) => ClientError::Broken {
                request: request.to_owned(),
                what: format!("status {status} without an explanation"),
            },
        },
    }
}

fn logs_path(query: &LogsQuery) -> String {
    let stream = query.stream.map(|stream| format!("&stream={stream}")).unwrap_or_default();
    let targets = escape(&query.targets);
    let path = Route::Logs.path();
    format!("{path}?targets={targets}&lines={}&follow={}{stream}", query.lines, query.follow)
}

fn history_path(query: &HistoryQuery) -> String {
    let HistoryQuery { app, from, to, step, metrics } = query;
    let numbers = [("from", from), ("to", to), ("step", step)];
    let numbers = numbers.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", (*value)?)));
    let metrics = metrics.iter().map(|names| format!("metrics={}", escape(names)));
    let parameters: Vec<String> =
        [format!("app={}", escape(app))].into_iter().chain(numbers).chain(metrics).collect();
    format!("{}?{}", Route::History.path(), parameters.join("&"))
}

fn metrics_path(query: &MetricsQuery) -> String {
    let app = query.app.iter().map(|app| format!("app={}", escape(app)));
    let format = query.format.iter().map(|format| format!("format={format}"));
    let parameters: Vec<String> = app.chain(format).collect();
    format!("{}?{}", Route::Metrics.path(), parameters.join("&"))
}

/// The path of a route, with a text for the word in braces.
fn path_with(route: Route, segment: &str) -> String {
    let (before, _word) = route.path().split_once('{').expect("its path has a word in braces");
    format!("{before}{}", escape(segment))
}

/// Everything but RFC 3986's unreserved characters is percent-encoded.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

fn escape(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::LogStream;

    #[test]
    fn a_verb_has_the_name_in_the_path_that_it_has_in_json() {
        for (verb, name, _) in Verb::ALL {
            assert_eq!(serde_json::to_value(verb).unwrap(), *name);
        }
        assert_eq!(path_with(Route::Action, Verb::ReloadLogs.name()), "/v1/actions/reload_logs");
    }

    #[test]
    fn names_are_escaped_in_paths_and_queries() {
        let query =
            LogsQuery { targets: "a b,ü".to_owned(), lines: 15, follow: true, stream: Some(LogStream::Err) };
        assert_eq!(logs_path(&query), "/v1/logs?targets=a%20b%2C%C3%BC&lines=15&follow=true&stream=err");
    }
}
