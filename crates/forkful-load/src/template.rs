//! The bytes of a request, built once; counters are filled in while copying.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::LoadError;
use crate::plan::{HttpVersion, Plan, Request, Reuse};

/// Replaced by the number of the request.
pub(crate) const COUNTER: &str = "{id}";
/// Longest decimal `u64`.
const DIGITS_MAX: usize = 20;

/// One request of the plan as bytes.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    /// `GET /path`.
    pub(crate) name: String,
    /// The answer has no body, whatever its head says.
    pub(crate) is_head: bool,
    /// Without counters: the complete request.
    pub(crate) fixed: Option<Vec<u8>>,
    head: Vec<Segment>,
    body: Vec<Segment>,
    body_fixed_bytes: usize,
    body_counters: usize,
}

#[derive(Debug, Clone)]
enum Segment {
    Bytes(Vec<u8>),
    Counter,
    /// Decimal length of the body.
    BodyLength,
}

impl Template {
    pub(crate) fn new(request: &Request, plan: &Plan) -> Result<Self, LoadError> {
        check(request)?;
        let mut head = Pieces { counter: request.counter, segments: Vec::new() };
        let mut body = Pieces { counter: request.counter, segments: Vec::new() };
        body.push(&request.body);
        let (target, version) = match plan.http {
            HttpVersion::Http10 => (&request.url.path, "HTTP/1.0"),
            HttpVersion::Http11 | HttpVersion::Http2 | HttpVersion::WebSocket | HttpVersion::EventStream => {
                (&request.url.path, "HTTP/1.1")
            }
        };
        head.push(format!("{} {target} {version}\r\n", request.method).as_bytes());
        for (name, value) in headers(request, plan) {
            head.push(format!("{name}: {value}\r\n").as_bytes());
        }
        if needs_length(request) {
            head.push(b"Content-Length: ");
            head.segments.push(Segment::BodyLength);
            head.push(b"\r\n");
        }
        head.push(b"\r\n");
        let mut template = Self {
            name: format!("{} {}", request.method, crate::secrets::url(&request.url.path)),
            is_head: request.method == "HEAD",
            fixed: None,
            body_fixed_bytes: body.segments.iter().map(Segment::fixed_bytes).sum(),
            body_counters: body.segments.iter().filter(|segment| matches!(segment, Segment::Counter)).count(),
            head: head.segments,
            body: body.segments,
        };
        let counts =
            |segments: &[Segment]| segments.iter().any(|segment| matches!(segment, Segment::Counter));
        if !counts(&template.head) && !counts(&template.body) {
            let mut bytes = Vec::new();
            template.write(0, &mut bytes);
            template.fixed = Some(bytes);
        }
        Ok(template)
    }

    /// Appends the request with number `id`.
    pub(crate) fn write(&self, id: u64, out: &mut Vec<u8>) {
        if let Some(fixed) = &self.fixed {
            out.extend_from_slice(fixed);
            return;
        }
        for segment in self.head.iter().chain(&self.body) {
            match segment {
                Segment::Bytes(bytes) => out.extend_from_slice(bytes),
                Segment::Counter => out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes()),
                Segment::BodyLength => {
                    out.extend_from_slice(itoa::Buffer::new().format(self.body_bytes(id)).as_bytes());
                }
            }
        }
    }

    /// Length of the body of request number `id`.
    pub(crate) fn body_bytes(&self, id: u64) -> usize {
        let digits = if self.body_counters == 0 { 0 } else { itoa::Buffer::new().format(id).len() };
        debug_assert!(digits <= DIGITS_MAX);
        self.body_fixed_bytes + self.body_counters * digits
    }
}

impl Segment {
    fn fixed_bytes(&self) -> usize {
        if let Self::Bytes(bytes) = self { bytes.len() } else { 0 }
    }
}

/// Segments under construction; adjacent bytes are joined.
struct Pieces {
    counter: bool,
    segments: Vec<Segment>,
}

impl Pieces {
    fn push(&mut self, mut bytes: &[u8]) {
        while let Some(at) = memchr::memmem::find(bytes, COUNTER.as_bytes()).filter(|_| self.counter) {
            self.push_bytes(&bytes[..at]);
            self.segments.push(Segment::Counter);
            bytes = &bytes[at + COUNTER.len()..];
        }
        self.push_bytes(bytes);
    }

    fn push_bytes(&mut self, bytes: &[u8]) {
        match self.segments.last_mut() {
            Some(Segment::Bytes(last)) => last.extend_from_slice(bytes),
            _ if bytes.is_empty() => {}
            _ => self.segments.push(Segment::Bytes(bytes.to_vec())),
        }
    }
}

/// The headers of a request including those that the engine adds; the caller adds `Content-Length`, because
/// it knows the body.
pub(crate) fn headers(request: &Request, plan: &Plan) -> Vec<(String, String)> {
    let given = |name: &str| request.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
    let mut headers = Vec::new();
    if !given("host") {
        headers.push(("Host".to_owned(), request.url.authority()));
    }
    if !given("user-agent") {
        headers.push(("User-Agent".to_owned(), concat!("forkful/", env!("CARGO_PKG_VERSION")).to_owned()));
    }
    if !given("accept") {
        headers.push(("Accept".to_owned(), "*/*".to_owned()));
    }
    let from_url = request.url.userinfo.as_ref().map(|(user, password)| format!("{user}:{password}"));
    let auth =
        request.basic_auth.as_ref().map(|auth| format!("{}:{}", auth.user, auth.password)).or(from_url);
    if let Some(auth) = auth.filter(|_| !given("authorization")) {
        headers.push(("Authorization".to_owned(), format!("Basic {}", STANDARD.encode(auth))));
    }
    match (plan.http, plan.reuse) {
        _ if given("connection") => {}
        (HttpVersion::Http11, Reuse::Never) => headers.push(("Connection".to_owned(), "close".to_owned())),
        (HttpVersion::Http10, Reuse::Always | Reuse::Requests(_)) => {
            headers.push(("Connection".to_owned(), "keep-alive".to_owned()));
        }
        _ => {}
    }
    headers.extend(request.headers.iter().cloned());
    headers
}

/// RFC 9110, 8.6: a method for which a body has a meaning sends the length even of an empty body.
pub(crate) fn needs_length(request: &Request) -> bool {
    let given = request.headers.iter().any(|(name, _)| {
        name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
    });
    !given && (!request.body.is_empty() || matches!(request.method.as_str(), "POST" | "PUT" | "PATCH"))
}

fn check(request: &Request) -> Result<(), LoadError> {
    let bad = |field, reason: String| Err(LoadError::Plan { field, reason });
    let is_token = |text: &str| {
        !text.is_empty()
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
    };
    if !is_token(&request.method) {
        return bad("method", format!("must be a word such as GET, not `{}`", request.method.escape_debug()));
    }
    if request.method == "CONNECT" {
        return bad("method", "CONNECT opens a tunnel and has no answer to measure".to_owned());
    }
    for (name, value) in &request.headers {
        if !is_token(name) {
            return bad("header", format!("`{}` is not a header name", name.escape_debug()));
        }
        if value.bytes().any(|byte| matches!(byte, b'\r' | b'\n' | 0)) {
            return bad("header", format!("the value of `{name}` has a line break or a zero byte"));
        }
    }
    if request.basic_auth.as_ref().is_some_and(|auth| auth.user.contains(':')) {
        return bad("user", "must not have a colon: it ends the user's name".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::BasicAuth;

    fn text(request: &Request, id: u64) -> String {
        let plan = Plan::of(vec![request.clone()]);
        let mut bytes = Vec::new();
        Template::new(request, &plan).unwrap().write(id, &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn a_plain_request_is_fixed() {
        let request = Request::get("http://h:81/a?b").unwrap();
        let agent = concat!("forkful/", env!("CARGO_PKG_VERSION"));
        let expected =
            format!("GET /a?b HTTP/1.1\r\nHost: h:81\r\nUser-Agent: {agent}\r\nAccept: */*\r\n\r\n");
        assert_eq!(text(&request, 7), expected);
        assert!(Template::new(&request, &Plan::of(vec![request.clone()])).unwrap().fixed.is_some());
    }

    #[test]
    fn counters_go_everywhere_and_the_length_follows() {
        let mut request = Request::get("http://h/{id}").unwrap();
        request.method = "POST".to_owned();
        request.headers.push(("X-Id".to_owned(), "{id}".to_owned()));
        request.body = b"{\"id\":{id}}{id}".to_vec();
        for (id, length) in [(7, 9), (12_345, 17)] {
            let text = text(&request, id);
            assert!(text.starts_with(&format!("POST /{id} HTTP/1.1\r\n")));
            assert!(
                text.contains(&format!("X-Id: {id}\r\nContent-Length: {length}\r\n\r\n{{\"id\":{id}}}{id}"))
            );
        }
        request.counter = false;
        assert!(text(&request, 7).contains("/{id} "));
    }

    #[test]
    fn what_is_given_is_not_added() {
        let mut request = Request::get("http://u:p@h/").unwrap();
        assert!(text(&request, 0).contains("Authorization: Basic dTpw\r\n"));
        request.basic_auth = Some(BasicAuth { user: "a".to_owned(), password: "b:c".to_owned() });
        assert!(text(&request, 0).contains("Authorization: Basic YTpiOmM=\r\n"));
        for name in ["host", "AUTHORIZATION", "User-agent", "accept"] {
            request.headers.push((name.to_owned(), "mine".to_owned()));
        }
        assert_eq!(text(&request, 0).lines().count(), 6);
        request.method = "PUT".to_owned();
        assert!(text(&request, 0).contains("Content-Length: 0\r\n"));
    }

    #[test]
    fn what_would_break_the_request_is_refused() {
        let mut request = Request::get("http://h/").unwrap();
        request.headers.push(("a".to_owned(), "b\r\nc: d".to_owned()));
        assert!(Template::new(&request, &Plan::of(vec![])).unwrap_err().to_string().contains("line break"));
        request.headers[0] = ("a b".to_owned(), String::new());
        assert!(Template::new(&request, &Plan::of(vec![])).unwrap_err().to_string().contains("header name"));
        request.headers.clear();
        request.method = "GET /x".to_owned();
        assert!(
            Template::new(&request, &Plan::of(vec![])).unwrap_err().to_string().contains("word such as GET")
        );
    }
}
