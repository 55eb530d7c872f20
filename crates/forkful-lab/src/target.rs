//! The request that an experiment repeats.

use std::net::SocketAddr;

use forkful_load::{Expect, LoadError, Plan, Request, TlsOptions};

/// What is asked of the app.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query, beginning with `/`.
    pub path: String,
    /// In order.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// The statuses that are right; empty: every one below 400.
    pub statuses: Vec<u16>,
    /// The app speaks TLS; whom to trust.
    pub tls: Option<TlsOptions>,
}

impl Target {
    /// `GET path`.
    pub fn get(path: &str) -> Self {
        Self {
            method: "GET".to_owned(),
            path: path.to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            statuses: Vec::new(),
            tls: None,
        }
    }

    /// Whether a status is a good one.
    pub fn accepts(&self, status: u16) -> bool {
        self.expect().accepts(status)
    }

    /// A load plan that sends this to `address`.
    pub(crate) fn plan(&self, address: SocketAddr) -> Result<Plan, LoadError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut request = Request::get(&format!("{scheme}://{address}{}", self.path))?;
        request.method.clone_from(&self.method);
        request.headers.clone_from(&self.headers);
        request.body.clone_from(&self.body);
        let mut plan = Plan::of(vec![request]);
        plan.expect = self.expect();
        plan.tls = self.tls.clone().unwrap_or_default();
        Ok(plan)
    }

    fn expect(&self) -> Expect {
        Expect { statuses: self.statuses.clone(), ..Expect::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_has_what_was_given() {
        let mut target = Target::get("/a?b={id}");
        target.method = "POST".to_owned();
        target.headers =
            vec![("X-Key".to_owned(), "1".to_owned()), ("Connection".to_owned(), "x".to_owned())];
        target.body = b"{}".to_vec();
        let plan = target.plan("127.0.0.1:80".parse().unwrap()).unwrap();
        let request = &plan.requests[0];
        assert_eq!((request.method.as_str(), request.url.path.as_str()), ("POST", "/a?b={id}"));
        assert_eq!((&request.headers, &request.body), (&target.headers, &target.body));
        assert!(target.accepts(302) && !target.accepts(404));
        target.statuses = vec![404];
        assert!(target.accepts(404) && !target.accepts(200));
    }
}
