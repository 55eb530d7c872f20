//! What the dashboard answers: the page's files, refusals, and the headers that go with everything.

use axum::response::{IntoResponse, Response};
use hyper::StatusCode;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};

/// Headers of every answer. There is no CORS header: no other origin may read anything.
const HEADERS: [(HeaderName, &str); 9] = [
    (
        CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; \
         trusted-types 'none'",
    ),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-embedder-policy"), "require-corp"),
    (
        HeaderName::from_static("permissions-policy"),
        "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    ),
];

/// The page's files, which `npm run build --prefix page` makes. They hold no data.
const FILES: [(&str, &str, &[u8]); 3] = [
    ("/", "text/html; charset=utf-8", include_bytes!("page/index.html")),
    ("/app.js", "text/javascript; charset=utf-8", include_bytes!("page/app.js")),
    ("/style.css", "text/css; charset=utf-8", include_bytes!("page/style.css")),
];

/// The file at exactly this path.
pub(super) fn file(path: &str) -> Option<Response> {
    let (_, kind, bytes) = FILES.iter().find(|(name, _, _)| *name == path)?;
    Some(([(CONTENT_TYPE, *kind)], *bytes).into_response())
}

/// Adds the headers that everything has.
pub(super) fn guarded(mut answer: Response) -> Response {
    for (name, value) in HEADERS {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// Why a request is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Denied {
    Host,
    Origin,
    Site,
    Method,
    Path,
    Token,
    Session,
    Control,
    Busy,
}

impl Denied {
    fn words(self) -> (StatusCode, &'static str) {
        match self {
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "the dashboard answers to 127.0.0.1 and localhost alone, and this request has another Host",
            ),
            Self::Origin => {
                (StatusCode::FORBIDDEN, "the request does not come from the dashboard's own page")
            }
            Self::Site => (StatusCode::FORBIDDEN, "the request comes from another site"),
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "the dashboard takes GET and POST"),
            Self::Path => (StatusCode::NOT_FOUND, "the dashboard has nothing at this path"),
            Self::Token => (StatusCode::UNAUTHORIZED, "this link was used already, or is too old"),
            Self::Session => (StatusCode::UNAUTHORIZED, "this page has no session, or its session is over"),
            Self::Control => (StatusCode::FORBIDDEN, "this page is read-only"),
            Self::Busy => (StatusCode::SERVICE_UNAVAILABLE, "too many pages are open"),
        }
    }
}

impl IntoResponse for Denied {
    fn into_response(self) -> Response {
        let (status, error) = self.words();
        let body = serde_json::json!({ "error": error }).to_string();
        (status, [(CONTENT_TYPE, "application/json")], body).into_response()
    }
}
