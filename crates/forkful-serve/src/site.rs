//! From a request to a response.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Bytes;
use hyper::header::{self, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response, StatusCode, Uri};
use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};
use tokio::time::Instant;
use tower_http::services::ServeDir;
use tower_http::services::fs::DefaultServeDirFallback;

use crate::attempts::Attempts;
use crate::listing;
use crate::ranges;
use crate::root::{Root, aside};
use crate::settings::Settings;

/// The body of a response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// The page for missing files, if the site has it.
const NOT_FOUND_PAGE: &str = "/404.html";

/// Characters of a file's name that must be escaped in a path.
const IN_PATH: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A directory served as a site.
pub(crate) struct Site {
    files: ServeDir<DefaultServeDirFallback, Root>,
    root: Root,
    settings: Settings,
    attempts: Mutex<Attempts>,
}

impl Site {
    pub(crate) fn new(root: Root, settings: Settings) -> Self {
        let files = ServeDir::with_backend("", root.clone())
            .precompressed_br()
            .precompressed_zstd()
            .precompressed_gzip()
            .ignore_multi_range_requests(true);
        let homepage = utf8_percent_encode(&settings.homepage, IN_PATH).to_string();
        let settings = Settings { homepage, ..settings };
        Self { files, root, settings, attempts: Mutex::default() }
    }

    /// Answers a client's request; the request's body is ignored.
    pub(crate) async fn answer<B>(&self, request: Request<B>, client: IpAddr) -> Response<Body> {
        let (parts, _) = request.into_parts();
        let request = Request::from_parts(parts, Empty::<Bytes>::new());
        let mut response = if self.settings.cors && is_preflight(&request) {
            permitted()
        } else if let Some(refusal) = self.refusal(request.headers(), client, Instant::now()) {
            refusal
        } else {
            self.found(request).await.unwrap_or_else(failed)
        };
        // Browsers must use the type of the file name and not guess it from the contents.
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        if self.settings.cors {
            let headers = response.headers_mut();
            headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
            headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET"));
        }
        response
    }

    /// The response to a client without access.
    fn refusal(&self, headers: &HeaderMap, peer: IpAddr, now: Instant) -> Option<Response<Body>> {
        let login = self.settings.login.as_ref()?;
        let header = headers.get(header::AUTHORIZATION);
        let behind = behind_proxy(headers, peer);
        let (client, proxy) = (behind.unwrap_or(peer), behind.map(|_| peer));
        let mut attempts = self.attempts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(wait) = attempts.refused_for(client, proxy, now) {
            return Some(too_many_failures(wait.as_secs() + 1));
        }
        if login.admits(header) {
            attempts.succeeded(client);
            return None;
        }
        if header.is_some() {
            attempts.failed(client, proxy, now);
        }
        Some(login_wanted())
    }

    async fn found(&self, request: Request<Empty<Bytes>>) -> io::Result<Response<Body>> {
        let path = request.uri().path().to_owned();
        // A redirect to `//name/` would lead to another host.
        if path.starts_with("//") {
            return self.not_found(&request).await;
        }
        if path == "/" && self.settings.homepage != "/index.html" {
            let home = self.file(&request, &self.settings.homepage).await?;
            if home.status() != StatusCode::NOT_FOUND {
                return Ok(home);
            }
        }
        let response = self.file(&request, request.uri().path()).await?;
        if response.status() != StatusCode::NOT_FOUND {
            return Ok(response);
        }
        if self.settings.listing
            && let Some(page) = self.listing(&path).await?
        {
            return Ok(page);
        }
        if self.settings.spa {
            // As in PM2: relative links in a page requested by a deeper path lead to files at the top.
            let base = path.rsplit('/').next().unwrap_or_default();
            for path in [format!("/{base}"), self.settings.homepage.clone()] {
                let response = self.file(&request, &path).await?;
                if response.status().is_success() || response.status() == StatusCode::NOT_MODIFIED {
                    return Ok(response);
                }
            }
        }
        self.not_found(&request).await
    }

    /// The file of a path, or 404.
    async fn file(&self, request: &Request<Empty<Bytes>>, path: &str) -> io::Result<Response<Body>> {
        let query = request.uri().query().map_or_else(String::new, |query| format!("?{query}"));
        let Ok(uri) = format!("{path}{query}").parse::<Uri>() else {
            return Ok(plain(StatusCode::NOT_FOUND, "404 Not Found\n"));
        };
        let mut inner = request.clone();
        *inner.uri_mut() = uri;
        ranges::clip(inner.headers_mut());
        let mut response = self.called(inner.clone()).await?;
        if ranges::is_refused(response.headers(), inner.headers()) {
            inner.headers_mut().remove(header::RANGE);
            response = self.called(inner).await?;
        }
        name_charset(response.headers_mut());
        Ok(response)
    }

    async fn called(&self, request: Request<Empty<Bytes>>) -> io::Result<Response<Body>> {
        match self.files.clone().try_call(request).await {
            Ok(response) => Ok(response.map(|body| body.map_err(Into::into).boxed_unsync())),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(plain(StatusCode::NOT_FOUND, "404 Not Found\n"))
            }
            Err(error) => Err(error),
        }
    }

    async fn listing(&self, path: &str) -> io::Result<Option<Response<Body>>> {
        let Some(inner) = path.strip_prefix('/').filter(|_| path.ends_with('/')) else { return Ok(None) };
        let Ok(decoded) = percent_decode_str(inner).decode_utf8() else { return Ok(None) };
        if decoded.contains('\0') {
            return Ok(None);
        }
        let (root, directory) = (self.root.clone(), Path::new(decoded.as_ref()).to_owned());
        match aside(move || root.list(&directory)).await {
            Ok(entries) => Ok(Some(html(StatusCode::OK, listing::page(&format!("/{decoded}"), &entries)))),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The site's own page for missing files, or a short text.
    async fn not_found(&self, request: &Request<Empty<Bytes>>) -> io::Result<Response<Body>> {
        // Not a range of it, and without a condition.
        let mut whole = Request::new(Empty::new());
        *whole.method_mut() = request.method().clone();
        if let Some(accepted) = request.headers().get(header::ACCEPT_ENCODING) {
            whole.headers_mut().insert(header::ACCEPT_ENCODING, accepted.clone());
        }
        let mut page = self.file(&whole, NOT_FOUND_PAGE).await?;
        if !page.status().is_success() {
            return Ok(plain(StatusCode::NOT_FOUND, "404 Not Found\n"));
        }
        *page.status_mut() = StatusCode::NOT_FOUND;
        for validator in [header::ETAG, header::LAST_MODIFIED, header::ACCEPT_RANGES] {
            page.headers_mut().remove(validator);
        }
        Ok(page)
    }
}

/// The client of a proxy on this machine: the address that the proxy has added to `X-Forwarded-For`. Otherwise the failed
/// logins of one client would lock out all others.
fn behind_proxy(headers: &HeaderMap, peer: IpAddr) -> Option<IpAddr> {
    let last = headers
        .get_all("x-forwarded-for")
        .iter()
        .next_back()
        .filter(|_| peer.to_canonical().is_loopback())?;
    let address = last.to_str().ok()?.rsplit(',').next()?.trim();
    address.parse().ok().or_else(|| Some(address.parse::<SocketAddr>().ok()?.ip()))
}

/// Whether a browser asks if it may send a request of a page of another origin (<https://fetch.spec.whatwg.org/#cors-preflight-fetch>).
/// It sends no login with that.
fn is_preflight(request: &Request<Empty<Bytes>>) -> bool {
    request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ORIGIN)
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// The answer to a preflight: all headers are allowed. `*` does not include `Authorization`.
fn permitted() -> Response<Body> {
    let mut response = plain(StatusCode::NO_CONTENT, "");
    response.headers_mut().remove(header::CONTENT_TYPE);
    let allowed = HeaderValue::from_static("*, Authorization");
    response.headers_mut().insert(header::ACCESS_CONTROL_ALLOW_HEADERS, allowed);
    response
}

/// Text is UTF-8. XML names its encoding itself, and a header would override it (RFC 7303, section 3.2).
fn name_charset(headers: &mut HeaderMap) {
    let Some(kind) = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok()) else { return };
    let is_text = kind.starts_with("text/") && kind != "text/xml"
        || matches!(kind, "application/javascript" | "application/json");
    if is_text && !kind.contains("charset") {
        let kind = format!("{kind}; charset=utf-8");
        headers.insert(header::CONTENT_TYPE, kind.parse().expect("a header with ASCII text added"));
    }
}

fn login_wanted() -> Response<Body> {
    let mut response = plain(StatusCode::UNAUTHORIZED, "401 Unauthorized\n");
    let challenge = HeaderValue::from_static("Basic realm=\"files\", charset=\"UTF-8\"");
    response.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
    response
}

fn too_many_failures(seconds: u64) -> Response<Body> {
    let mut response = plain(StatusCode::TOO_MANY_REQUESTS, "429 Too Many Requests\n");
    response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    response
}

/// A disk error: the log has the reason, the response does not.
fn failed(error: io::Error) -> Response<Body> {
    if error.kind() == io::ErrorKind::PermissionDenied {
        return plain(StatusCode::FORBIDDEN, "403 Forbidden\n");
    }
    eprintln!("cannot read a file: {error}");
    plain(StatusCode::INTERNAL_SERVER_ERROR, "500 Internal Server Error\n")
}

fn plain(status: StatusCode, text: &'static str) -> Response<Body> {
    of(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn html(status: StatusCode, text: String) -> Response<Body> {
    of(status, "text/html; charset=utf-8", Bytes::from(text))
}

fn of(status: StatusCode, content_type: &'static str, text: Bytes) -> Response<Body> {
    let body = Full::new(text).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}
