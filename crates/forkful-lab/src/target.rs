//! The request that an experiment repeats.

use std::net::SocketAddr;
use std::time::Duration;

use forkful_load::{Arrivals, Expect, Load, LoadError, Plan, Request, Reuse, Stop, Threads, TlsOptions};

/// The request to the app.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// `GET`, `POST`, …
    pub method: String,
    /// Path and query, beginning with `/`.
    pub path: String,
    /// In order.
    pub headers: Vec<(String, String)>,
    /// The body; empty for none.
    pub body: Vec<u8>,
    /// Accepted statuses; empty: all below 400.
    pub statuses: Vec<u16>,
    /// TLS options, if the app uses TLS.
    pub tls: Option<TlsOptions>,
    /// A second request at a fixed rate during the measurement, which is not measured.
    pub beside: Option<Beside>,
}

/// A request beside the measured one: its effect on the app is part of the figures, its own results are not.
#[derive(Debug, Clone, PartialEq)]
pub struct Beside {
    /// Path and query, beginning with `/`; requested by `GET`, on a new connection for each request.
    pub path: String,
    /// Requests per second, evenly spaced.
    pub rate: f64,
    /// Only while latency is measured: the throughput is that of the measured request alone.
    pub only_for_latency: bool,
}

impl Beside {
    /// Maximum rate of the request beside the measured one; more would be a load of its own.
    pub const RATE_MAX: f64 = 1000.0;

    const FOR_LATENCY: &str = " while latency is measured";

    /// How long to wait for answers after a window, so that none affects the next window.
    const DRAIN: Duration = Duration::from_secs(10);

    /// Maximum concurrent connections: a route that takes seconds accumulates some.
    const CONNECTIONS_MAX: usize = 1024;

    /// Parses `PATH@RATE`; the error says why it is invalid.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (path, rate) = text.rsplit_once('@').ok_or("expected PATH@RATE, as in /delay@2")?;
        if !path.starts_with('/') {
            return Err(format!("the path `{path}` does not begin with `/`"));
        }
        let is_usable = |rate: &f64| *rate > 0.0 && *rate <= Self::RATE_MAX;
        let rate = rate.parse().ok().filter(is_usable);
        let rate = rate.ok_or_else(|| format!("the rate is a number above 0, at most {}", Self::RATE_MAX))?;
        Ok(Self { path: path.to_owned(), rate, only_for_latency: false })
    }

    /// The same, only while latency is measured.
    pub fn parse_for_latency(text: &str) -> Result<Self, String> {
        Ok(Self { only_for_latency: true, ..Self::parse(text)? })
    }

    /// As a part of a sentence.
    pub fn words(&self) -> String {
        let when = if self.only_for_latency { Self::FOR_LATENCY } else { "" };
        format!("{}{when}", self.request())
    }

    /// The request and its rate.
    pub fn request(&self) -> String {
        format!("GET {} at {}/s", forkful_load::secrets::url(&self.path), self.rate)
    }

    /// A load that runs until it is stopped.
    pub(crate) fn plan(&self, target: &Target, address: SocketAddr) -> Result<Plan, LoadError> {
        let asked = Target {
            method: "GET".to_owned(),
            path: self.path.clone(),
            body: Vec::new(),
            statuses: Vec::new(),
            beside: None,
            ..target.clone()
        };
        let mut plan = asked.plan(address)?;
        plan.connections = 1;
        plan.reuse = Reuse::Never;
        plan.drain = Self::DRAIN;
        plan.stop = Stop::Duration(Duration::from_secs(3600));
        plan.threads = Threads::Count(1);
        plan.load =
            Load::Open { rate: self.rate, connections_max: Self::CONNECTIONS_MAX, arrivals: Arrivals::Even };
        Ok(plan)
    }
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
            beside: None,
        }
    }

    /// Whether a status is accepted.
    pub fn accepts(&self, status: u16) -> bool {
        self.expect().accepts(status)
    }

    /// A load plan for this request to `address`.
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
    fn what_is_asked_beside_is_a_path_and_a_rate() {
        let beside = Beside::parse("/delay?ms=200&to=a@b@2.5").unwrap();
        assert_eq!((beside.path.as_str(), beside.rate), ("/delay?ms=200&to=a@b", 2.5));
        assert_eq!(beside.words(), "GET /delay?ms=200&to=a@b at 2.5/s");
        let for_latency = Beside::parse_for_latency("/delay@2").unwrap();
        assert_eq!(for_latency.words(), "GET /delay at 2/s while latency is measured");
        for (text, why) in [
            ("/delay", "expected PATH@RATE"),
            ("delay@2", "does not begin with `/`"),
            ("/delay@0", "above 0"),
            ("/delay@NaN", "above 0"),
            ("/delay@5000", "at most 1000"),
        ] {
            let error = Beside::parse(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        let mut target = Target::get("/fast");
        target.body = b"{}".to_vec();
        let plan = beside.plan(&target, "127.0.0.1:80".parse().unwrap()).unwrap();
        assert_eq!(
            (plan.requests[0].url.path.as_str(), plan.requests[0].body.len()),
            (beside.path.as_str(), 0)
        );
    }

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
