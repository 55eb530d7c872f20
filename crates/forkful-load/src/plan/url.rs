//! The parts of a URL that a load needs. Nothing is normalised: the URL is sent as the user wrote it.

use std::fmt;

use percent_encoding::percent_decode_str;

use crate::LoadError;

/// The accepted schemes.
const SCHEMES: [&str; 2] = ["http", "https"];
/// The accepted schemes if WebSockets are allowed too.
const SCHEMES_WITH_SOCKETS: [&str; 4] = ["http", "https", "ws", "wss"];

/// An `http`, `https`, `ws` or `wss` URL.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Url {
    /// `https` or `wss`.
    pub tls: bool,
    /// `ws` or `wss`.
    pub socket: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// The given port, or the default of 80 or 443.
    pub port: u16,
    /// Path and query, at least `/`, without a fragment.
    pub path: String,
    /// User and password, if the URL contains them.
    pub userinfo: Option<(String, String)>,
}

impl Url {
    /// Reads an `http` or `https` URL. The default scheme is `http`.
    pub fn parse(text: &str) -> Result<Self, LoadError> {
        Self::parse_as(text, &SCHEMES)
    }

    /// Reads a URL that may also be a WebSocket URL (`ws`, `wss`).
    pub fn parse_with_sockets(text: &str) -> Result<Self, LoadError> {
        Self::parse_as(text, &SCHEMES_WITH_SOCKETS)
    }

    fn parse_as(text: &str, schemes: &[&str]) -> Result<Self, LoadError> {
        let bad = |reason: &str| LoadError::Url { url: text.to_owned(), reason: reason.to_owned() };
        if let Some(bad_byte) = text.chars().find(|c| c.is_control() || *c == ' ' || !c.is_ascii()) {
            return Err(bad(&format!("{bad_byte:?} must be percent-encoded")));
        }
        let is_cut = |scheme: &&&str| {
            text.split_once(":/").is_some_and(|(begin, _)| begin.eq_ignore_ascii_case(scheme))
        };
        if let Some(scheme) = schemes.iter().find(is_cut).filter(|_| !text.contains("://")) {
            return Err(bad(&format!("two slashes follow `{scheme}:`")));
        }
        let (scheme, rest) = match text.split_once("://") {
            Some((scheme, rest)) if schemes.iter().any(|known| scheme.eq_ignore_ascii_case(known)) => {
                (scheme.to_ascii_lowercase(), rest)
            }
            // `host/?to=http://…` has no scheme.
            Some((scheme, _)) if !scheme.contains(['/', '?', '#']) => {
                let known = schemes.join(", ");
                let known =
                    known.rsplit_once(", ").map_or(known.clone(), |(all, last)| format!("{all} or {last}"));
                return Err(bad(&format!("the scheme must be {known}, not `{scheme}`")));
            }
            _ => ("http".to_owned(), text),
        };
        let (tls, socket) = (scheme.ends_with('s') && scheme != "ws", scheme.starts_with("ws"));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, tail) = rest.split_at(end);
        let (userinfo, authority) = match authority.rsplit_once('@') {
            Some((userinfo, authority)) => {
                let (user, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
                let decoded = |text| percent_decode_str(text).decode_utf8_lossy().into_owned();
                (Some((decoded(user), decoded(password))), authority)
            }
            None => (None, authority),
        };
        let (host, port) = host_and_port(authority).map_err(|reason| bad(&reason))?;
        let path = tail.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        Ok(Self { tls, socket, host, port: port.unwrap_or(if tls { 443 } else { 80 }), path, userinfo })
    }

    /// Host and port as in a `Host` header: the port only if it is not the scheme's default.
    pub fn authority(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.tls { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }

    fn scheme(&self) -> &'static str {
        match (self.socket, self.tls) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "ws",
            (true, true) => "wss",
        }
    }

    /// Scheme, host and port.
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme(), self.authority())
    }
}

impl fmt::Display for Url {
    /// For display: without user and password, and with the secrets of the query masked.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}{}", self.origin(), crate::secrets::url(&self.path))
    }
}

fn host_and_port(authority: &str) -> Result<(String, Option<u16>), String> {
    let (host, port) = if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']').ok_or("the IPv6 address has no closing bracket")?;
        match after {
            "" => (host, None),
            _ => (host, Some(after.strip_prefix(':').ok_or("a port after the bracket starts with a colon")?)),
        }
    } else {
        match authority.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address needs brackets".to_owned());
            }
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        }
    };
    if host.is_empty() {
        return Err("there is no host".to_owned());
    }
    let port = match port {
        None | Some("") => None,
        Some(port) => match port.parse::<u16>() {
            Ok(port) if port > 0 => Some(port),
            _ => return Err(format!("the port must be 1 to 65535, not `{port}`")),
        },
    };
    Ok((host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_parts() {
        let url = Url::parse("https://me:se%20cret@[::1]:8443/a?b={id}#c").unwrap();
        assert_eq!(
            (url.tls, url.host.as_str(), url.port, url.path.as_str()),
            (true, "::1", 8443, "/a?b={id}")
        );
        assert_eq!(url.userinfo, Some(("me".to_owned(), "se cret".to_owned())));
        assert_eq!(url.to_string(), "https://[::1]:8443/a?b={id}");
        assert_eq!(Url::parse("localhost:3000").unwrap().to_string(), "http://localhost:3000/");
        let sockets = ["ws://h", "WSS://h/a"].map(|text| Url::parse_with_sockets(text).unwrap());
        assert_eq!(
            sockets.each_ref().map(|url| (url.tls, url.socket, url.port)),
            [(false, true, 80), (true, true, 443)]
        );
        assert_eq!(sockets[1].to_string(), "wss://h/a");
        assert_eq!(Url::parse("http://h:80?q").unwrap().to_string(), "http://h/?q");
        assert_eq!(Url::parse("h/?to=http://x").unwrap().path, "/?to=http://x");
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, expected) in [
            ("", "there is no host"),
            ("http://", "there is no host"),
            ("ftp://h/", "must be http or https, not `ftp`"),
            ("ws://h/", "must be http or https, not `ws`"),
            ("http://h:99999/", "1 to 65535"),
            ("http://h:x/", "1 to 65535"),
            ("http://[::1/", "closing bracket"),
            ("::1", "brackets"),
            ("http:/h:3000/a", "two slashes follow `http:`"),
            ("http://h/a b", "percent-encoded"),
            ("http://h/a\r\nX: y", "percent-encoded"),
        ] {
            let error = Url::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        }
        let error = Url::parse_with_sockets("ftp://h/").unwrap_err().to_string();
        assert!(error.contains("must be http, https, ws or wss, not `ftp`"), "{error}");
    }
}
