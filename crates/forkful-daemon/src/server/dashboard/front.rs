//! The requests of the dashboard's page.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use axum::Router;
use axum::body::{Body, HttpBody};
use axum::extract::{DefaultBodyLimit, FromRequest as _, Query, Request, State};
use axum::response::{IntoResponse, Response};
use forkful_api::dashboard::DashboardReply;
use forkful_api::types::{ActionRequest, ErrorCode, ErrorReply, LogsQuery, Verb};
use forkful_core::scale::ScaleTarget;
use hyper::body::{Bytes, Frame};
use hyper::header::{CONTENT_TYPE, COOKIE, HeaderName, SET_COOKIE};
use hyper::service::Service as _;
use hyper::{HeaderMap, Method, Uri};
use hyper_util::service::TowerToHyperService;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::super::log_body::LogBody;
use super::super::refusal::{Json, Refusal};
use super::super::routes;
use super::IDLE_MAX;
use super::access::{Access, Grant, LINK_LIFE, Secret};
use super::answers::{Denied, file, guarded};
use super::check;
use super::feed::Feed;
use crate::command::{Command, Reply};

/// The largest body of a request of the page.
const BODY_BYTES_MAX: usize = 16 * 1024;
/// The most lines of each log file that a page asks for.
const LOG_LINES_MAX: u32 = 5000;
/// What a page may ask of the API as it is: it only tells.
const FORWARDED: [(&str, &str); 2] = [("history", "/v1/history"), ("incidents", "/v1/incidents")];
/// The header with a session's second secret.
const PROOF: HeaderName = HeaderName::from_static("x-forkful-session");

/// An open dashboard.
#[derive(Debug)]
pub(super) struct Front {
    port: u16,
    commands: mpsc::Sender<Command>,
    access: Mutex<Access>,
    feed: Arc<Feed>,
    /// The API, for what is forwarded.
    api: Router,
    usage: Arc<Mutex<Usage>>,
}

#[derive(Debug)]
struct Usage {
    /// Streams that are open.
    streams: usize,
    last: Instant,
}

/// Exchanges a link's token for a session.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionRequest {
    token: String,
}

/// What a page does with an app.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AppRequest {
    app: String,
    #[serde(default)]
    instances: Option<u16>,
}

/// Which report a page wants to read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReportQuery {
    name: String,
}

/// Every request, whatever its path: each has to pass the checks first.
pub(super) fn router(front: Arc<Front>) -> Router {
    Router::new().fallback(answer).layer(DefaultBodyLimit::max(BODY_BYTES_MAX)).with_state(front)
}

async fn answer(State(front): State<Arc<Front>>, request: Request) -> Response {
    guarded(front.respond(request).await.unwrap_or_else(|refused| refused))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn secret() -> io::Result<Secret> {
    forkful_os::random::secret().map(Secret::new)
}

impl Front {
    pub(super) fn new(port: u16, commands: mpsc::Sender<Command>) -> Self {
        let usage = Arc::new(Mutex::new(Usage { streams: 0, last: Instant::now() }));
        let api = routes::router(commands.clone());
        Self { port, commands, access: Mutex::default(), feed: Arc::default(), api, usage }
    }

    /// A new link.
    pub(super) fn link(&self, grant: Grant) -> io::Result<DashboardReply> {
        let token = secret()?;
        // In the fragment, which browsers send to no server.
        let url = format!("http://127.0.0.1:{}/#token={}", self.port, token.text());
        locked(&self.usage).last = Instant::now();
        locked(&self.access).add_link(token, grant, Instant::now());
        Ok(DashboardReply { url, expires_in_ms: LINK_LIFE.as_millis() as u64 })
    }

    /// When it will have been unused for too long; `None` while a page is open.
    pub(super) fn idle_at(&self) -> Option<Instant> {
        let usage = locked(&self.usage);
        (usage.streams == 0).then(|| usage.last + IDLE_MAX)
    }

    /// Completes when the daemon ends.
    pub(super) async fn ended(&self) {
        self.commands.closed().await;
    }

    async fn respond(&self, request: Request) -> Result<Response, Response> {
        let denied = IntoResponse::into_response;
        check::sender(request.method(), request.uri(), request.headers()).map_err(denied)?;
        let path = request.uri().path().to_owned();
        let Some(api) = path.strip_prefix("/api/") else {
            return match (request.method(), path.as_str()) {
                (&Method::POST, "/session") => self.begin(request).await,
                (&Method::GET, path) => file(path).ok_or_else(|| Denied::Path.into_response()),
                _ => Err(Denied::Path.into_response()),
            };
        };
        let Grant { control: may_act, reports } = self.admit(request.headers()).map_err(denied)?;
        match (request.method(), api) {
            (&Method::GET, "stream") => self.stream().map_err(denied),
            (&Method::GET, "logs") => self.logs(request.uri()).await,
            (&Method::GET, "reports" | "report") => {
                let reports = reports.ok_or_else(|| denied(Denied::Path))?;
                if api == "reports" { reports.list().await } else { reports.read(name(request.uri())?).await }
            }
            (&Method::GET, _) => {
                self.forward(api, request.uri().query()).await.ok_or_else(|| denied(Denied::Path))
            }
            (&Method::POST, _) => match api.strip_prefix("actions/").and_then(verb) {
                Some(_) if !may_act => Err(denied(Denied::Control)),
                Some(verb) => self.act(verb, request).await,
                None => Err(denied(Denied::Path)),
            },
            _ => Err(denied(Denied::Path)),
        }
    }

    /// Takes a link's token for a session.
    async fn begin(&self, request: Request) -> Result<Response, Response> {
        let Json(SessionRequest { token }) = body(request).await?;
        let secrets = (|| Ok((secret()?, secret()?)))();
        let secrets =
            secrets.map_err(|error: io::Error| refused(&format!("there is no randomness: {error}")))?;
        let session = locked(&self.access).redeem(&token, secrets, Instant::now());
        let session = session.ok_or_else(|| Denied::Token.into_response())?;
        locked(&self.usage).last = Instant::now();
        let cookie =
            format!("{}={}; Path=/; HttpOnly; SameSite=Strict", self.cookie_name(), session.cookie.text());
        let begun = json!({
            "proof": session.proof.text(), "control": session.grant.control, "reports": session.grant.reports.is_some(),
            "version": env!("CARGO_PKG_VERSION"),
        });
        Ok(([(SET_COOKIE, cookie)], Json(begun)).into_response())
    }

    /// Daemons of several homes do not take each other's cookies away.
    fn cookie_name(&self) -> String {
        format!("forkful-dashboard-{}", self.port)
    }

    /// What the sender's session may do.
    fn admit(&self, headers: &HeaderMap) -> Result<Grant, Denied> {
        let proof = headers.get(PROOF).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let name = self.cookie_name();
        let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            cookies.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let cookie = pairs.find(|(key, _)| *key == name).map_or("", |(_, value)| value);
        let now = Instant::now();
        let admitted = locked(&self.access).admit(cookie, proof, now).ok_or(Denied::Session)?;
        locked(&self.usage).last = now;
        Ok(admitted)
    }

    fn stream(&self) -> Result<Response, Denied> {
        let frames = self.feed.join(&self.commands).ok_or(Denied::Busy)?;
        let body = Body::new(Frames { frames, _open: OpenStream::new(&self.usage) });
        Ok(([(CONTENT_TYPE, "text/event-stream")], body).into_response())
    }

    async fn logs(&self, uri: &Uri) -> Result<Response, Response> {
        let query = Query::<LogsQuery>::try_from_uri(uri);
        let Query(query) =
            query.map_err(|rejection| Refusal::bad_request(rejection.body_text()).into_response())?;
        if query.lines > LOG_LINES_MAX {
            return Err(
                Refusal::bad_request(format!("lines must be at most {LOG_LINES_MAX}")).into_response()
            );
        }
        let lines = self.ask(|reply| Command::Logs { query, reply }).await?.begun().await;
        let body = Body::new(LogBody::new(lines, self.commands.clone()));
        Ok(([(CONTENT_TYPE, "application/x-ndjson")], body).into_response())
    }

    /// Asks the API, if a page may.
    async fn forward(&self, name: &str, query: Option<&str>) -> Option<Response> {
        let path = forwarded(name)?;
        let target = query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
        let request = Request::get(target).body(Body::empty()).ok()?;
        TowerToHyperService::new(self.api.clone()).call(request).await.ok()
    }

    /// Does something with one app. Of what the API can do with apps, a page can do nothing else: not define one, for
    /// example, which would run a program.
    async fn act(&self, verb: Verb, request: Request) -> Result<Response, Response> {
        let Json(AppRequest { app, instances }) = body(request).await?;
        let list = self.ask(|reply| Command::List { measure: false, target: None, reply }).await?;
        // A name, and nothing else that a target may be.
        if !list.apps.iter().any(|view| view.definition.name == app) {
            return Err(Refusal(ErrorReply::new(
                ErrorCode::NoSuchTarget,
                format!("there is no app {app:?}"),
                None,
            ))
            .into_response());
        }
        let instances = instances.map(ScaleTarget::Exactly);
        let request = ActionRequest { targets: vec![app], wait: true, instances, ..ActionRequest::default() };
        request.check(verb).map_err(|error| Refusal::bad_request(error).into_response())?;
        let reply = self.ask(|reply| Command::Action { verb, request, reply }).await?;
        Ok(Json(reply).into_response())
    }

    async fn ask<T>(&self, command: impl FnOnce(Reply<T>) -> Command) -> Result<T, Response> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).await.map_err(|_| refused("the daemon is ending"))?;
        let answer = answer.await.map_err(|_| refused("the daemon is ending"))?;
        answer.map_err(|error| Refusal(error).into_response())
    }
}

/// The API's path for a request of the page.
fn forwarded(name: &str) -> Option<String> {
    if let Some(id) = name.strip_prefix("incidents/") {
        let is_number = !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_digit());
        return is_number.then(|| format!("/v1/incidents/{id}"));
    }
    if let Some(app) = name.strip_prefix("stalls/") {
        let is_name = !app.is_empty() && !app.contains('/');
        return is_name.then(|| format!("/v1/stalls/{app}"));
    }
    FORWARDED.iter().find(|(known, _)| *known == name).map(|(_, path)| (*path).to_owned())
}

/// The name of a report, from a query.
fn name(uri: &Uri) -> Result<String, Response> {
    let query = Query::<ReportQuery>::try_from_uri(uri);
    let query = query.map_err(|rejection| Refusal::bad_request(rejection.body_text()).into_response());
    query.map(|Query(ReportQuery { name })| name)
}

/// What a page with control can do.
fn verb(name: &str) -> Option<Verb> {
    match name {
        "restart" => Some(Verb::Restart),
        "reload" => Some(Verb::Reload),
        "stop" => Some(Verb::Stop),
        "scale" => Some(Verb::Scale),
        _ => None,
    }
}

async fn body<T: serde::de::DeserializeOwned>(request: Request) -> Result<Json<T>, Response> {
    Json::from_request(request, &()).await.map_err(IntoResponse::into_response)
}

fn refused(error: &str) -> Response {
    Refusal::internal(error).into_response()
}

/// Counts a stream while it is open.
#[derive(Debug)]
struct OpenStream(Arc<Mutex<Usage>>);

impl OpenStream {
    fn new(usage: &Arc<Mutex<Usage>>) -> Self {
        locked(usage).streams += 1;
        Self(Arc::clone(usage))
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut usage = locked(&self.0);
        usage.streams -= 1;
        usage.last = Instant::now();
    }
}

/// The body of a stream; it ends when the page is too slow, and with the daemon.
#[derive(Debug)]
struct Frames {
    frames: mpsc::Receiver<Bytes>,
    _open: OpenStream,
}

impl HttpBody for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.frames.poll_recv(context).map(|frame| frame.map(|bytes| Ok(Frame::data(bytes))))
    }
}
