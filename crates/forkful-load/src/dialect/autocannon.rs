//! autocannon's command line. Its facts: ten connections, ten seconds, `K=V` and `K:V` headers, `-a` puts `-d`
//! aside, sub-options in brackets for the warm-up, a URL without a scheme, `$PORT` for a path alone.

mod minimist;
mod notes;
mod print;

use std::path::PathBuf;
use std::time::Duration;

use super::{Printed, Surroundings};
use crate::{
    Arrivals, BodyCheck, Load, LoadError, Plan, Request, Reuse, Stop, Think, Threads, TlsOptions, Url,
};
use minimist::{Argument, Value};

pub(super) use notes::footnotes;
pub(super) use print::{opening, report, unreachable};

/// Options of autocannon.
#[expect(clippy::struct_excessive_bools, reason = "a command line has many switches")]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    /// Complete URLs.
    pub urls: Vec<String>,
    /// `-c`.
    pub connections: u64,
    /// `-p`.
    pub pipelining: u64,
    /// `-d`, seconds.
    pub duration: f64,
    /// `-a`.
    pub amount: Option<u64>,
    /// `-w`.
    pub workers: u64,
    /// `-R`.
    pub rate: Option<u64>,
    /// `-r`.
    pub connection_rate: Option<u64>,
    /// `-C`.
    pub no_correction: bool,
    /// `-W [ -c 1 -d 3 ]`: connections and seconds.
    pub warmup: Option<(u64, f64)>,
    /// `-t`, seconds.
    pub timeout: f64,
    /// `-m`.
    pub method: String,
    /// `-H`.
    pub headers: Vec<(String, String)>,
    /// `-b`, `-i`.
    pub body: Vec<u8>,
    /// `-E`.
    pub expect_body: Option<String>,
    /// `-B`.
    pub bailout: Option<u64>,
    /// `-M`.
    pub requests_per_connection: Option<u64>,
    /// `-O`.
    pub requests_overall: Option<u64>,
    /// `-D`.
    pub reconnect: Option<u32>,
    /// `-I`.
    pub ids: bool,
    /// `-L`, milliseconds.
    pub sample: u64,
    /// `-S`.
    pub socket: Option<PathBuf>,
    /// `-T`.
    pub title: Option<String>,
    /// `-j`.
    pub json: bool,
    /// `-l`.
    pub latency_table: bool,
    /// `--renderStatusCodes`.
    pub status_codes: bool,
    /// `-n`: print nothing.
    pub silent: bool,
    /// `-x`.
    pub exclude_error_stats: bool,
    /// `-s`, `--cert`, `--key`, `--ca`.
    pub tls: TlsOptions,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            urls: Vec::new(),
            connections: 10,
            pipelining: 1,
            duration: 10.0,
            amount: None,
            workers: 0,
            rate: None,
            connection_rate: None,
            no_correction: false,
            warmup: None,
            timeout: 10.0,
            method: "GET".to_owned(),
            headers: Vec::new(),
            body: Vec::new(),
            expect_body: None,
            bailout: None,
            requests_per_connection: None,
            requests_overall: None,
            reconnect: None,
            ids: false,
            sample: 1_000,
            socket: None,
            title: None,
            json: false,
            latency_table: false,
            status_codes: false,
            silent: false,
            exclude_error_stats: false,
            // autocannon checks no certificate.
            tls: TlsOptions { insecure: true, ..TlsOptions::default() },
        }
    }
}

/// Reads autocannon's command line.
pub(super) fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Options, Printed> {
    let mut options = Options::default();
    let mut urls = Vec::new();
    for argument in minimist::read(argv).map_err(|what| usage(&what))? {
        match argument {
            Argument::Operand(text) => urls.push(text),
            Argument::Option(name, value) => take(&mut options, &name, &value, surroundings)?,
        }
    }
    finish(options, urls, surroundings)
}

fn take(
    options: &mut Options,
    name: &str,
    value: &Value,
    surroundings: &Surroundings,
) -> Result<(), Printed> {
    let text = value.text();
    let on = value.is_on();
    match name {
        "connections" => options.connections = whole(name, text)?,
        "pipelining" => options.pipelining = whole(name, text)?,
        "duration" => options.duration = minimist::seconds(text).ok_or_else(|| bad(name, text))?,
        "amount" => options.amount = Some(whole(name, text)?),
        "workers" => options.workers = whole(name, text)?,
        "overallRate" => options.rate = Some(whole(name, text)?),
        "connectionRate" => options.connection_rate = Some(whole(name, text)?),
        "ignoreCoordinatedOmission" => options.no_correction = on,
        "warmup" => options.warmup = Some(minimist::warmup(value, options).map_err(|what| usage(&what))?),
        "timeout" => options.timeout = minimist::seconds(text).ok_or_else(|| bad(name, text))?,
        "method" => text.to_ascii_uppercase().clone_into(&mut options.method),
        "headers" => options.headers.push(header(text)?),
        "body" => options.body = text.as_bytes().to_vec(),
        "input" => options.body = file(text, surroundings)?,
        "expectBody" => options.expect_body = Some(text.to_owned()),
        "bailout" => options.bailout = Some(whole(name, text)?),
        "maxConnectionRequests" => options.requests_per_connection = Some(whole(name, text)?),
        "maxOverallRequests" => options.requests_overall = Some(whole(name, text)?),
        "reconnectRate" => options.reconnect = Some(whole(name, text)? as u32),
        "idReplacement" => options.ids = on,
        "sampleInt" => options.sample = whole(name, text)?,
        "socketPath" => options.socket = Some(text.into()),
        "title" => options.title = Some(text.to_owned()),
        "json" => options.json = on,
        "renderLatencyTable" => options.latency_table = on,
        "renderStatusCodes" => options.status_codes = on,
        "renderProgressBar" | "verbose" | "debug" => {}
        "n" => options.silent = on,
        "excludeErrorStats" => options.exclude_error_stats = on,
        "servername" => options.tls.server_name = Some(text.to_owned()),
        "cert" => options.tls.client_certificate = Some(text.into()),
        "key" => options.tls.client_key = Some(text.into()),
        "ca" => options.tls.authorities = Some(text.into()),
        "version" => {
            let text = format!("forkful {} in the layout of autocannon 9\n", env!("CARGO_PKG_VERSION"));
            return Err(Printed::stdout(&text, 0));
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

fn finish(mut options: Options, urls: Vec<String>, surroundings: &Surroundings) -> Result<Options, Printed> {
    if urls.is_empty() {
        return Err(usage(""));
    }
    let port = (surroundings.variable)("PORT");
    for url in urls {
        options.urls.push(complete(&url, port.as_deref())?);
    }
    let at_least_one = [
        ("connections", options.connections),
        ("pipelining factor", options.pipelining),
        ("amount", options.amount.unwrap_or(1)),
    ];
    for (name, value) in at_least_one {
        if value < 1 {
            return Err(Printed::error(&format!("{name} can not be less than 1"), 1));
        }
    }
    if options.timeout <= 0.0 {
        return Err(Printed::error("timeout must be greater than 0", 1));
    }
    if options.no_correction && options.rate.is_none() && options.connection_rate.is_none() {
        let what = "ignoreCoordinatedOmission makes no sense without connectionRate or overallRate";
        return Err(Printed::error(what, 1));
    }
    if options.amount.is_some_and(|amount| amount < options.connections) {
        return Err(Printed::error("connections cannot be greater than amount", 1));
    }
    // With a rate below the connections, autocannon opens fewer.
    if let Some(rate) = options.rate.filter(|_| options.connection_rate.is_none()) {
        options.connections = options.connections.min(rate.max(1));
    }
    options.sample = options.sample.max(1);
    Ok(options)
}

/// A URL as typed, with scheme, and host where `$PORT` gives one to a path.
fn complete(url: &str, port: Option<&str>) -> Result<String, Printed> {
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
    // As the URL class of JavaScript writes it: with a path.
    let bare = complete.split_once("://").is_some_and(|(_, rest)| !rest.contains('/'));
    Ok(if bare { parsed.to_string() } else { complete })
}

impl Options {
    /// The load that these options ask for; a rate is one, evenly spaced.
    pub(super) fn plan(&self) -> Result<Plan, LoadError> {
        let with_counter =
            |text: &str| if self.ids { text.replace("[<id>]", "{id}") } else { text.to_owned() };
        let body = match std::str::from_utf8(&self.body) {
            Ok(text) => with_counter(text).into_bytes(),
            Err(_) => self.body.clone(),
        };
        let request = |url: &String| {
            Ok(Request {
                method: self.method.clone(),
                url: Url::parse(&with_counter(url))?,
                headers: self.headers.iter().map(|(n, v)| (n.clone(), with_counter(v))).collect(),
                body: body.clone(),
                weight: 1,
                counter: self.ids,
                basic_auth: None,
            })
        };
        let mut plan = Plan::of(self.urls.iter().map(request).collect::<Result<_, LoadError>>()?);
        plan.connections = self.connections as usize;
        plan.pipelining = self.pipelining as usize;
        if self.workers > 0 {
            plan.threads = Threads::Count((self.workers as usize).min(plan.connections));
        }
        let total = self.amount.or(self.requests_overall);
        let total = total.or(self.requests_per_connection.map(|each| each * self.connections));
        plan.stop = match total {
            Some(requests) => Stop::Requests(requests),
            None => Stop::Duration(Duration::from_secs_f64(self.duration)),
        };
        let rate = self.connection_rate.map(|each| each * self.connections).or(self.rate);
        plan.load = match rate {
            Some(rate) => {
                Load::Open { rate: rate as f64, connections_max: plan.connections, arrivals: Arrivals::Even }
            }
            None => Load::Closed { think: Think::None },
        };
        plan.warmup = Duration::from_secs_f64(self.warmup.map_or(0.0, |(_, seconds)| seconds));
        plan.timeout = Duration::from_secs_f64(self.timeout);
        plan.reuse = self.reconnect.filter(|each| *each > 0).map_or(Reuse::Always, Reuse::Requests);
        plan.unix_socket.clone_from(&self.socket);
        plan.expect.statuses = (100..=999).collect();
        plan.expect.is_habit = true;
        plan.expect.body = self.expect_body.as_ref().map(|body| BodyCheck::Equals(body.clone().into_bytes()));
        plan.errors_max = self.bailout;
        plan.tls = self.tls.clone();
        Ok(plan)
    }

    /// `-M` and `-O` end a run that `-d` has not ended yet, and the other way round.
    pub(in crate::dialect) fn time_limit(&self) -> Option<Duration> {
        let counted = self.requests_overall.is_some() || self.requests_per_connection.is_some();
        (counted && self.amount.is_none()).then(|| Duration::from_secs_f64(self.duration))
    }
}

fn header(text: &str) -> Result<(String, String), Printed> {
    match text.find([':', '=']) {
        Some(at) if at > 0 => Ok((text[..at].trim().to_owned(), text[at + 1..].trim().to_owned())),
        _ => Err(Printed::error(&format!("An HTTP header was not correctly formatted: {text}"), 1)),
    }
}

fn file(path: &str, surroundings: &Surroundings) -> Result<Vec<u8>, Printed> {
    (surroundings.read)(path.as_ref())
        .map_err(|error| Printed::error(&format!("autocannon: {path}: {error}"), 1))
}

fn whole(name: &str, text: &str) -> Result<u64, Printed> {
    text.parse().map_err(|_| bad(name, text))
}

fn bad(name: &str, text: &str) -> Printed {
    usage(&format!("autocannon: {name}: `{text}` is no number"))
}

fn usage(what: &str) -> Printed {
    let first = if what.is_empty() { String::new() } else { format!("{what}\n") };
    Printed { stderr: format!("{first}{}", print::USAGE), exit: 1, ..Printed::default() }
}

#[cfg(test)]
mod tests;
