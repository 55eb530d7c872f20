//! Which requests are taken at all, by their head alone. It is pure, so that each rule has its table.
//!
//! A browser sends requests to 127.0.0.1 for any page that it shows. What such a page cannot forge are the headers `Host`
//! (a name that was rebound to 127.0.0.1 stays in it), `Origin` and `Sec-Fetch-Site`.

use hyper::header::{HOST, HeaderName, ORIGIN};
use hyper::{HeaderMap, Method, Uri};

use super::answers::Denied;

/// Names under which a browser of this machine reaches its loopback address.
const HOSTS: [&str; 3] = ["127.0.0.1", "localhost", "[::1]"];

/// What the browser says of the page that made the request.
const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Refuses what another site may have sent.
pub(super) fn sender(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Denied> {
    // A request for a proxy names its own host.
    if uri.scheme().is_some() || uri.authority().is_some() {
        return Err(Denied::Host);
    }
    let host = only(headers, &HOST).filter(|host| is_local(host)).ok_or(Denied::Host)?;
    let is_own = |origin: &str| origin.strip_prefix("http://").is_some_and(|origin| origin == host);
    match (method, headers.contains_key(ORIGIN)) {
        (&Method::GET, false) => {}
        (&Method::GET | &Method::POST, true) if only(headers, &ORIGIN).is_some_and(is_own) => {}
        (&Method::GET | &Method::POST, _) => return Err(Denied::Origin),
        _ => return Err(Denied::Method),
    }
    // A link to the page itself may be anywhere; it gives nothing away.
    let is_page = *method == Method::GET && uri.path() == "/";
    match headers.get(SITE).map(hyper::header::HeaderValue::as_bytes) {
        None | Some(b"same-origin" | b"none") => Ok(()),
        Some(_) if is_page => Ok(()),
        Some(_) => Err(Denied::Site),
    }
}

/// The one value of a header.
fn only<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Option<&'h str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?.to_str().ok()?;
    values.next().is_none().then_some(value)
}

/// Whether a `Host` is this machine. Any port is taken, because a tunnel may have another one.
fn is_local(host: &str) -> bool {
    HOSTS.iter().any(|name| {
        let rest = host.strip_prefix(name);
        rest.is_some_and(|rest| rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
    })
}

fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(method: Method, uri: &str, headers: &[(&'static str, &'static str)]) -> Result<(), Denied> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        sender(&method, &uri.parse().unwrap(), &map)
    }

    #[test]
    fn a_host_is_a_name_of_this_machine() {
        for host in ["127.0.0.1", "127.0.0.1:4000", "localhost:80", "localhost", "[::1]:4000"] {
            assert_eq!(check(Method::GET, "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "evil.example:4000",
            "127.0.0.1.evil.example",
            "127.0.0.1:4000.evil.example",
            "localhost.evil.example:4000",
            "127.0.0.1:",
            "127.0.0.1:+1",
            "127.0.0.1:99999",
            "127.0.0.1@evil.example",
            "LOCALHOST",
            "0.0.0.0:4000",
            "127.1:4000",
            "2130706433",
        ] {
            assert_eq!(check(Method::GET, "/", &[("host", host)]), Err(Denied::Host), "{host}");
        }
        let twice = [("host", "127.0.0.1"), ("host", "evil.example")];
        assert_eq!(check(Method::GET, "/", &twice), Err(Denied::Host));
        assert_eq!(check(Method::GET, "/", &[]), Err(Denied::Host));
        let local = [("host", "127.0.0.1")];
        assert_eq!(check(Method::GET, "http://evil.example/", &local), Err(Denied::Host));
    }

    #[test]
    fn what_acts_has_the_origin_of_the_page() {
        const HOST: (&str, &str) = ("host", "127.0.0.1:4000");
        assert_eq!(check(Method::POST, "/session", &[HOST]), Err(Denied::Origin));
        let own = ("origin", "http://127.0.0.1:4000");
        assert_eq!(check(Method::POST, "/session", &[HOST, own]), Ok(()));
        assert_eq!(check(Method::GET, "/api/stream", &[HOST, own]), Ok(()));
        for origin in [
            "null",
            "http://localhost:4000",
            "http://127.0.0.1:4001",
            "http://127.0.0.1",
            "https://127.0.0.1:4000",
            "http://evil.example",
            "http://127.0.0.1:4000.evil.example",
        ] {
            let headers = [HOST, ("origin", origin)];
            assert_eq!(check(Method::POST, "/session", &headers), Err(Denied::Origin), "{origin}");
            assert_eq!(check(Method::GET, "/", &headers), Err(Denied::Origin), "{origin}");
        }
        for method in [Method::PUT, Method::DELETE, Method::OPTIONS, Method::HEAD, Method::PATCH] {
            assert_eq!(check(method, "/", &[HOST, own]), Err(Denied::Method));
        }
    }

    #[test]
    fn another_site_may_link_to_the_page_and_nothing_else() {
        let from = |site| [("host", "127.0.0.1:4000"), ("sec-fetch-site", site)];
        for site in ["same-origin", "none", "cross-site", "same-site"] {
            assert_eq!(check(Method::GET, "/", &from(site)), Ok(()), "{site}");
        }
        for site in ["cross-site", "same-site", "", "x"] {
            assert_eq!(check(Method::GET, "/app.js", &from(site)), Err(Denied::Site), "{site}");
            assert_eq!(check(Method::GET, "/api/logs", &from(site)), Err(Denied::Site), "{site}");
        }
    }
}
