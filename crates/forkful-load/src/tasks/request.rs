//! What is sent: the plan's requests in HTTP/2 form, built once if they have no counter.

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Method, Uri};

use crate::LoadError;
use crate::plan::{Plan, Request};
use crate::template::{COUNTER, headers, needs_length};

/// Headers of an HTTP/1 connection (RFC 9113, 8.2.2).
const OF_CONNECTIONS: [&str; 6] =
    ["connection", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade", "te"];

/// One request of the plan.
pub(super) struct Template {
    request: Request,
    headers: Vec<(String, String)>,
    /// Without counters: the same request each time.
    fixed: Option<(http::Request<()>, Bytes)>,
}

impl Template {
    /// From a request that [`check`] has accepted.
    pub(super) fn new(request: &Request, plan: &Plan) -> Self {
        let headers = headers(request, plan);
        let counts =
            |text: &[u8]| request.counter && memchr::memmem::find(text, COUNTER.as_bytes()).is_some();
        let counted = counts(request.url.path.as_bytes())
            || counts(&request.body)
            || headers.iter().any(|(name, value)| counts(name.as_bytes()) || counts(value.as_bytes()));
        let mut template = Self { request: request.clone(), headers, fixed: None };
        if !counted {
            template.fixed = template.build(0).ok();
        }
        template
    }

    /// Request number `id` and its body.
    pub(super) fn of(&self, id: u64) -> Result<(http::Request<()>, Bytes), http::Error> {
        match &self.fixed {
            Some(fixed) => Ok(fixed.clone()),
            None => self.build(id),
        }
    }

    fn build(&self, id: u64) -> Result<(http::Request<()>, Bytes), http::Error> {
        let request = &self.request;
        let number = id.to_string();
        let filled = |text: &str| {
            if request.counter { text.replace(COUNTER, &number) } else { text.to_owned() }
        };
        let body = filled_bytes(&request.body, request.counter.then_some(number.as_str()));
        let authority = self.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("host"));
        let authority = authority.map_or_else(|| request.url.authority(), |(_, value)| filled(value));
        let uri = Uri::builder()
            .scheme(if request.url.tls { Scheme::HTTPS } else { Scheme::HTTP })
            .authority(Authority::from_maybe_shared(authority.into_bytes())?)
            .path_and_query(PathAndQuery::from_maybe_shared(filled(&request.url.path).into_bytes())?)
            .build()?;
        let method = Method::from_bytes(request.method.as_bytes())?;
        let mut built = http::Request::builder().version(http::Version::HTTP_2).method(method).uri(uri);
        for (name, value) in self.headers.iter().filter(|(name, _)| !name.eq_ignore_ascii_case("host")) {
            let name = HeaderName::from_bytes(name.as_bytes())?;
            built = built.header(name, HeaderValue::from_maybe_shared(filled(value).into_bytes())?);
        }
        if needs_length(request) {
            built = built.header(http::header::CONTENT_LENGTH, HeaderValue::from(body.len()));
        }
        Ok((built.body(())?, body))
    }
}

fn filled_bytes(bytes: &[u8], number: Option<&str>) -> Bytes {
    let Some(number) = number else { return Bytes::copy_from_slice(bytes) };
    let (mut filled, mut rest) = (Vec::with_capacity(bytes.len()), bytes);
    while let Some(at) = memchr::memmem::find(rest, COUNTER.as_bytes()) {
        filled.extend_from_slice(&rest[..at]);
        filled.extend_from_slice(number.as_bytes());
        rest = &rest[at + COUNTER.len()..];
    }
    filled.extend_from_slice(rest);
    filled.into()
}

/// Refuses what HTTP/2 cannot carry, before the run.
pub(crate) fn check(plan: &Plan) -> Result<(), LoadError> {
    for request in &plan.requests {
        let is_of_connection =
            |name: &str| OF_CONNECTIONS.iter().any(|known| name.eq_ignore_ascii_case(known));
        if let Some((name, _)) = request.headers.iter().find(|(name, _)| is_of_connection(name)) {
            let reason = format!("`{name}` is of HTTP/1 connections and must not be sent over HTTP/2");
            return Err(LoadError::Plan { field: "header", reason });
        }
        if let Err(error) = Template::new(request, plan).build(0) {
            let reason = format!("{} {} cannot be sent over HTTP/2: {error}", request.method, request.url);
            return Err(LoadError::Plan { field: "request", reason });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::HttpVersion;

    fn plan(request: Request) -> Plan {
        let mut plan = Plan::of(vec![request]);
        plan.http = HttpVersion::Http2;
        plan
    }

    fn built(request: &Request, id: u64) -> (http::Request<()>, Bytes) {
        Template::new(request, &plan(request.clone())).of(id).unwrap()
    }

    #[test]
    fn counters_go_everywhere_and_the_length_follows() {
        let mut request = Request::get("https://h:81/{id}?q={id}").unwrap();
        request.method = "POST".to_owned();
        request.headers.push(("X-Id".to_owned(), "n{id}".to_owned()));
        request.body = b"{id}-{id}".to_vec();
        for id in [7, 12_345] {
            let (head, body) = built(&request, id);
            assert_eq!(head.uri().to_string(), format!("https://h:81/{id}?q={id}"));
            assert_eq!(head.headers()["x-id"], format!("n{id}"));
            assert_eq!(body, format!("{id}-{id}"));
            assert_eq!(head.headers()["content-length"], body.len().to_string());
        }
        request.counter = false;
        assert_eq!(built(&request, 7).1, "{id}-{id}");
    }

    #[test]
    fn a_host_is_the_authority_and_no_header() {
        let mut request = Request::get("http://u:p@h/a").unwrap();
        let (head, _) = built(&request, 0);
        assert_eq!((head.uri().authority().unwrap().as_str(), head.headers().get("host")), ("h", None));
        assert_eq!(head.headers()["authorization"], "Basic dTpw");
        assert!(head.headers().get("content-length").is_none());
        request.headers.push(("Host".to_owned(), "other.example".to_owned()));
        assert_eq!(built(&request, 0).0.uri().authority().unwrap(), "other.example");
    }

    #[test]
    fn what_http2_forbids_is_refused_before_the_run() {
        let mut request = Request::get("http://h/").unwrap();
        request.headers.push(("Connection".to_owned(), "close".to_owned()));
        let error = check(&plan(request.clone())).unwrap_err().to_string();
        assert_eq!(error, "header `Connection` is of HTTP/1 connections and must not be sent over HTTP/2");
        request.headers[0] = ("Host".to_owned(), "a b".to_owned());
        let error = check(&plan(request)).unwrap_err().to_string();
        assert!(error.starts_with("request GET http://h/ cannot be sent over HTTP/2"), "{error}");
    }
}
