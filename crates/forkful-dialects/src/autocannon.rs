//! autocannon's command line. Its rules: ten connections, ten seconds, headers as `K=V` or `K:V`, `-a`
//! overrides `-d`, options of the warm-up in brackets, a URL without a scheme, `$PORT` for a URL that is only
//! a path.

mod minimist;
mod notes;
mod print;

use std::path::PathBuf;
use std::time::Duration;

use forkful_load::{
    Arrivals, BodyCheck, Expect, Load, LoadError, Plan, Request, Reuse, Stop, Think, Threads, TlsOptions, Url,
};

use crate::{Printed, Surroundings, Tool, body_with, figures, header};

pub(crate) const TOOL: Tool = Tool {
    name: "autocannon",
    options: minimist::OPTIONS,
    secrets: &["headers"],
    parse: |argv, surroundings| Ok(Box::new(parse(argv, surroundings)?)),
};

/// A command line of autocannon.
#[derive(Debug, Clone, Default, PartialEq)]
struct Autocannon {
    urls: Vec<String>,
    /// `-c`.
    connections: u64,
    /// `-p`.
    pipelining: u64,
    /// `-d`, seconds.
    duration: f64,
    /// `-a`.
    amount: Option<u64>,
    /// `-w`.
    workers: u64,
    /// `-R`.
    rate: Option<u64>,
    /// `-r`.
    connection_rate: Option<u64>,
    /// `-C`.
    no_correction: bool,
    /// `-W [ -c 1 -d 3 ]`: connections and seconds.
    warmup: Option<(u64, f64)>,
    /// `-t`, seconds.
    timeout: f64,
    /// `-m`.
    method: String,
    /// `-H`.
    headers: Vec<(String, String)>,
    /// `-b`, `-i`.
    body: Vec<u8>,
    /// `-E`.
    expect_body: Option<String>,
    /// `-B`.
    bailout: Option<u64>,
    /// `-M`.
    requests_per_connection: Option<u64>,
    /// `-O`.
    requests_overall: Option<u64>,
    /// `-D`.
    reconnect: Option<u32>,
    /// `-I`.
    ids: bool,
    /// `-L`, milliseconds.
    sample: u64,
    /// `-S`.
    socket: Option<PathBuf>,
    /// `-T`.
    title: Option<String>,
    /// `-j`.
    json: bool,
    /// `-l`.
    latency_table: bool,
    /// `--renderStatusCodes`.
    status_codes: bool,
    /// `-n`: print nothing.
    silent: bool,
    /// `-x`.
    exclude_error_stats: bool,
    /// `-s`, `--cert`, `--key`, `--ca`.
    tls: TlsOptions,
}

/// Parses autocannon's command line.
fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Autocannon, Printed> {
    let mut autocannon = Autocannon {
        connections: 10,
        pipelining: 1,
        duration: 10.0,
        timeout: 10.0,
        method: "GET".to_owned(),
        sample: 1_000,
        // autocannon does not verify certificates.
        tls: TlsOptions { insecure: true, ..TlsOptions::default() },
        ..Autocannon::default()
    };
    let given = minimist::read(argv).map_err(|what| usage(&what))?;
    let mut warmup = None;
    for (name, value) in given.options {
        if name == "warmup" {
            warmup = Some(value);
        } else {
            autocannon.take(&name, value, surroundings)?;
        }
    }
    let mut autocannon = autocannon.complete(&given.operands, surroundings)?;
    // Last, because its defaults are those of the test.
    if let Some(text) = warmup {
        autocannon.warmup = Some(autocannon.warmup(&text).map_err(|what| usage(&what))?);
    }
    Ok(autocannon)
}

impl Autocannon {
    fn take(&mut self, name: &str, value: String, surroundings: &Surroundings) -> Result<(), Printed> {
        let text = value.as_str();
        let is_on = text != minimist::OFF;
        let seconds = || minimist::seconds(text).ok_or_else(|| bad(name, text));
        match name {
            "connections" => self.connections = whole(name, text)?,
            "pipelining" => self.pipelining = whole(name, text)?,
            "duration" => self.duration = seconds()?,
            "amount" => self.amount = Some(whole(name, text)?),
            "workers" => self.workers = whole(name, text)?,
            "overallRate" => self.rate = Some(whole(name, text)?),
            "connectionRate" => self.connection_rate = Some(whole(name, text)?),
            "ignoreCoordinatedOmission" => self.no_correction = is_on,
            "timeout" => self.timeout = seconds()?,
            "method" => self.method = text.to_ascii_uppercase(),
            "headers" => self.headers.push(header(text, &[':', '=']).ok_or_else(|| {
                Printed::error(&format!("An HTTP header was not correctly formatted: {text}"), 1)
            })?),
            "body" => self.body = value.into_bytes(),
            "input" => {
                self.body = (surroundings.read)(text.as_ref())
                    .map_err(|error| Printed::error(&format!("autocannon: {text}: {error}"), 1))?;
            }
            "expectBody" => self.expect_body = Some(value),
            "bailout" => self.bailout = Some(whole(name, text)?),
            "maxConnectionRequests" => self.requests_per_connection = Some(whole(name, text)?),
            "maxOverallRequests" => self.requests_overall = Some(whole(name, text)?),
            "reconnectRate" => self.reconnect = Some(u32::try_from(whole(name, text)?).unwrap_or(u32::MAX)),
            "idReplacement" => self.ids = is_on,
            "sampleInt" => self.sample = whole(name, text)?,
            "socketPath" => self.socket = Some(value.into()),
            "title" => self.title = Some(value),
            "json" => self.json = is_on,
            "renderLatencyTable" => self.latency_table = is_on,
            "renderStatusCodes" => self.status_codes = is_on,
            "renderProgressBar" | "verbose" | "debug" => {}
            "n" => self.silent = is_on,
            "excludeErrorStats" => self.exclude_error_stats = is_on,
            "servername" => self.tls.server_name = Some(value),
            "cert" => self.tls.client_certificate = Some(value.into()),
            "key" => self.tls.client_key = Some(value.into()),
            "ca" => self.tls.authorities = Some(value.into()),
            "version" => {
                let text = format!("forkful {} in the layout of autocannon 9\n", env!("CARGO_PKG_VERSION"));
                return Err(Printed::stdout(text, 0));
            }
            "help" => return Err(usage("")),
            "onPort" => {
                return Err(Printed::error(
                    "autocannon: --on-port: start the app first (`forkful start server.js`), or let `forkful compare \
                     server.js` start it",
                    1,
                ));
            }
            "har" | "form" | "forever" => {
                return Err(Printed::unsupported("autocannon", &format!("--{name}"), 1));
            }
            _ => return Err(usage(&format!("autocannon: there is no option `{name}`"))),
        }
        Ok(())
    }

    fn complete(mut self, urls: &[String], surroundings: &Surroundings) -> Result<Self, Printed> {
        if urls.is_empty() {
            return Err(usage(""));
        }
        let port = (surroundings.variable)("PORT");
        for url in urls {
            self.urls.push(complete_url(url, port.as_deref())?);
        }
        let at_least_one = [
            ("connections", self.connections),
            ("pipelining factor", self.pipelining),
            ("amount", self.amount.unwrap_or(1)),
        ];
        for (name, value) in at_least_one {
            if value < 1 {
                return Err(Printed::error(&format!("{name} can not be less than 1"), 1));
            }
        }
        if self.timeout <= 0.0 {
            return Err(Printed::error("timeout must be greater than 0", 1));
        }
        if self.no_correction && self.rate.is_none() && self.connection_rate.is_none() {
            let what = "ignoreCoordinatedOmission makes no sense without connectionRate or overallRate";
            return Err(Printed::error(what, 1));
        }
        if self.amount.is_some_and(|amount| amount < self.connections) {
            return Err(Printed::error("connections cannot be greater than amount", 1));
        }
        // If the rate is below the number of connections, autocannon opens fewer.
        if let Some(rate) = self.rate.filter(|_| self.connection_rate.is_none()) {
            self.connections = self.connections.min(rate.max(1));
        }
        self.sample = self.sample.max(1);
        Ok(self)
    }

    /// The load; a rate is one evenly spaced schedule.
    fn load(&self) -> Result<Plan, LoadError> {
        let with_counter =
            |text: &str| if self.ids { text.replace("[<id>]", "{id}") } else { text.to_owned() };
        let request = |url: &String| {
            Ok(Request {
                method: self.method.clone(),
                headers: self.headers.iter().map(|(n, v)| (n.clone(), with_counter(v))).collect(),
                body: body_with(&self.body, with_counter),
                counter: self.ids,
                ..Request::to(Url::parse(&with_counter(url))?)
            })
        };
        let usual = Plan::of(self.urls.iter().map(request).collect::<Result<_, LoadError>>()?);
        let connections = self.connections as usize;
        let of_all = |each: u64| each.saturating_mul(self.connections);
        let time = figures::time(self.duration);
        // Whichever comes first ends the run: `-M` or `-O`, or `-d`.
        let counted = self.requests_overall.or(self.requests_per_connection.map(of_all));
        let rate = self.connection_rate.map(of_all).or(self.rate);
        Ok(Plan {
            connections,
            pipelining: self.pipelining as usize,
            threads: match self.workers {
                0 => usual.threads,
                workers => Threads::Count((workers as usize).min(connections)),
            },
            stop: self.amount.or(counted).map_or(Stop::Duration(time), Stop::Requests),
            time_limit: counted.filter(|_| self.amount.is_none()).map(|_| time),
            load: match rate {
                Some(rate) => {
                    Load::Open { rate: rate as f64, connections_max: connections, arrivals: Arrivals::Even }
                }
                None => Load::Closed { think: Think::None },
            },
            warmup: self.warmup.map_or(Duration::ZERO, |(_, seconds)| figures::time(seconds)),
            timeout: figures::time(self.timeout),
            reuse: self.reconnect.filter(|each| *each > 0).map_or(Reuse::Always, Reuse::Requests),
            unix_socket: self.socket.clone(),
            expect: Expect {
                body: self.expect_body.as_ref().map(|body| BodyCheck::Equals(body.clone().into_bytes())),
                ..Expect::habit(100..=999)
            },
            errors_max: self.bailout,
            tls: self.tls.clone(),
            ..usual
        })
    }
}

/// The URL as typed, with a scheme, and with the host if `$PORT` completes a path.
fn complete_url(url: &str, port: Option<&str>) -> Result<String, Printed> {
    let complete = match port {
        Some(port) if url.starts_with('/') => format!("http://localhost:{port}{url}"),
        _ if url.starts_with("http://") || url.starts_with("https://") => url.to_owned(),
        _ if url.starts_with('/') => {
            return Err(Printed::error(
                "Invalid URL\n\nWhen targeting a path without a hostname, the PORT environment variable must be \
                 available.\nUse a full URL or set the PORT variable.",
                1,
            ));
        }
        _ => format!("http://{url}"),
    };
    let parsed = Url::parse(&complete).map_err(|error| Printed::error(&error.to_string(), 1))?;
    // JavaScript's URL class adds a path.
    let bare = complete.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'));
    Ok(if bare { parsed.to_string() } else { complete })
}

fn whole(name: &str, text: &str) -> Result<u64, Printed> {
    text.parse().map_err(|_| bad(name, text))
}

fn bad(name: &str, text: &str) -> Printed {
    usage(&format!("autocannon: {name}: `{text}` is no number"))
}

fn usage(what: &str) -> Printed {
    Printed::usage_on_stderr(what, print::USAGE, 1)
}

#[cfg(test)]
mod tests;
