//! loadtest's command line (npm, 8.x). Its facts: ten clients, ten seconds without `-n`, no keep-alive without
//! `-k`, options before or behind the URL, `-c` for each core.

mod print;

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::argv::{Fault, Item, Order, Takes, both, long, read};
use super::{Printed, Surroundings};
use crate::{Arrivals, Load, LoadError, Plan, Request, Reuse, Stop, Think, Threads, TlsOptions, Url};

pub(super) use print::{Since, footnotes, progress_line, report, unreachable};

/// With `--rps` the tool adds a client whenever all are busy; so many are the most here.
const CLIENTS_MAX: usize = 10_000;

/// Options of loadtest.
#[expect(clippy::struct_excessive_bools, reason = "a command line has many switches")]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    /// As typed, to be shown.
    pub url: String,
    /// `-n`.
    pub requests: Option<u64>,
    /// `-t`.
    pub seconds: Option<u64>,
    /// `-c`.
    pub concurrency: u64,
    /// `--rps`.
    pub rate: Option<f64>,
    /// `-k`.
    pub keep_alive: bool,
    /// `--tcp`.
    pub tcp: bool,
    /// `-d`, milliseconds.
    pub timeout: Option<u64>,
    /// `-m`, or what a body option implies.
    pub method: String,
    /// `-P`, `-p`, `-A`, `-a`, `-u`, `--data`.
    pub body: Vec<u8>,
    /// `-T`.
    pub content_type: Option<String>,
    /// `-H`, `-C`.
    pub headers: Vec<(String, String)>,
    /// `--index`.
    pub index: Option<String>,
    /// `--cores`, where it was given.
    pub cores: Option<u64>,
    /// Half of this machine's cores, which the tool uses without `--cores`.
    pub cores_default: u64,
    /// `--quiet`.
    pub quiet: bool,
    /// `--insecure`.
    pub insecure: bool,
    /// `--cert`, `--key`.
    pub client: (Option<PathBuf>, Option<PathBuf>),
}

/// Reads loadtest's command line.
pub(super) fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Options, Printed> {
    let flags = [
        both('t', &["maxSeconds"], Takes::Value),
        both('n', &["maxRequests"], Takes::Value),
        both('c', &["concurrency"], Takes::Value),
        both('d', &["timeout"], Takes::Value),
        both('T', &["contentType"], Takes::Value),
        both('C', &["cookies"], Takes::Value),
        both('H', &["headers"], Takes::Value),
        both('P', &["postBody"], Takes::Value),
        both('p', &["postFile"], Takes::Value),
        both('A', &["patchBody"], Takes::Value),
        both('a', &["patchFile"], Takes::Value),
        long(&["data"], Takes::Value),
        both('m', &["method"], Takes::Value),
        both('u', &["putFile"], Takes::Value),
        both('R', &["requestGenerator"], Takes::Value),
        both('r', &["recover"], Takes::Nothing),
        both('s', &["secureProtocol"], Takes::Value),
        both('k', &["keepalive", "agent"], Takes::Nothing),
        both('V', &["version"], Takes::Nothing),
        long(&["proxy"], Takes::Value),
        long(&["rps"], Takes::Value),
        long(&["index"], Takes::Value),
        long(&["insecure"], Takes::Nothing),
        long(&["key"], Takes::Value),
        long(&["cert"], Takes::Value),
        long(&["quiet"], Takes::Nothing),
        long(&["cores"], Takes::Value),
        long(&["tcp"], Takes::Nothing),
        long(&["debug"], Takes::Nothing),
        long(&["help"], Takes::Nothing),
    ];
    let items = read(&flags, argv, Order::Anywhere).map_err(|fault| refusal(&fault))?;
    let mut options = Options {
        url: String::new(),
        requests: None,
        seconds: None,
        concurrency: 10,
        rate: None,
        keep_alive: false,
        tcp: false,
        timeout: None,
        method: "GET".to_owned(),
        body: Vec::new(),
        content_type: None,
        headers: Vec::new(),
        index: None,
        cores: None,
        cores_default: (surroundings.cores as u64).div_ceil(2).max(1),
        quiet: false,
        insecure: false,
        client: (None, None),
    };
    let mut operands = Vec::new();
    for item in items {
        match item {
            Item::Option(name, value) => {
                take(&mut options, &name, value.as_deref().unwrap_or(""), surroundings)?;
            }
            Item::Operand(text) => operands.push(text),
        }
    }
    finish(options, &operands)
}

fn refusal(fault: &Fault) -> Printed {
    let what = match fault {
        Fault::Unknown(name) => format!("Unknown option \"{name}\"."),
        Fault::NoValue(name) => format!("Option \"{name}\" needs a value."),
        Fault::Unwanted(name) => format!("Option \"{name}\" takes no value."),
    };
    Printed::stdout(&format!("{what}\nTry \"--help\" for more information.\n"), 255)
}

fn take(options: &mut Options, name: &str, value: &str, surroundings: &Surroundings) -> Result<(), Printed> {
    let mut body = |method: &str, bytes: Vec<u8>| {
        method.clone_into(&mut options.method);
        options.body = bytes;
    };
    match name {
        "maxSeconds" => options.seconds = Some(number(name, value)?),
        "maxRequests" => options.requests = Some(number(name, value)?),
        "concurrency" => options.concurrency = number(name, value)?,
        "timeout" => options.timeout = Some(number(name, value)?),
        "cores" => options.cores = Some(number(name, value)?),
        "rps" => match value.parse::<f64>() {
            Ok(rate) if rate.is_finite() && rate > 0.0 => options.rate = Some(rate),
            _ => return Err(usage(&format!("--rps: `{value}` is no number above 0"))),
        },
        "contentType" => options.content_type = Some(value.to_owned()),
        "cookies" => options.headers.push(("Cookie".to_owned(), value.to_owned())),
        "headers" => match value.split_once(':') {
            Some((name, value)) => options.headers.push((name.trim().to_owned(), value.trim().to_owned())),
            None => return Err(usage(&format!("a header is name:value, not `{value}`"))),
        },
        "postBody" => body("POST", value.as_bytes().to_vec()),
        "patchBody" => body("PATCH", value.as_bytes().to_vec()),
        "data" => options.body = value.as_bytes().to_vec(),
        "postFile" => body("POST", file(value, surroundings)?),
        "patchFile" => body("PATCH", file(value, surroundings)?),
        "putFile" => body("PUT", file(value, surroundings)?),
        "method" => value.to_ascii_uppercase().clone_into(&mut options.method),
        "keepalive" => options.keep_alive = true,
        "tcp" => options.tcp = true,
        "index" => options.index = Some(value.to_owned()),
        "insecure" => options.insecure = true,
        "quiet" => options.quiet = true,
        "cert" => options.client.0 = Some(value.into()),
        "key" => options.client.1 = Some(value.into()),
        "recover" | "debug" => {}
        "version" => {
            let text = format!("Loadtest version: 8 (forkful {})\n", env!("CARGO_PKG_VERSION"));
            return Err(Printed::stdout(&text, 0));
        }
        "help" => return Err(Printed::stdout(print::USAGE, 1)),
        _ => return Err(Printed::unsupported("loadtest", &format!("--{name}"), 1)),
    }
    Ok(())
}

fn finish(mut options: Options, operands: &[String]) -> Result<Options, Printed> {
    let url = match operands {
        [] => return Err(usage("Missing URL to load-test")),
        [url] => url,
        more => return Err(usage(&format!("Too many arguments: {}", more.join(",")))),
    };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(usage(&format!("Invalid URL {url}, must be http:// or https://")));
    }
    if !["GET", "POST", "PUT", "DELETE", "PATCH"].contains(&options.method.as_str()) {
        return Err(usage(&format!("Invalid method {}", options.method)));
    }
    if options.concurrency == 0 || options.requests == Some(0) || options.seconds == Some(0) {
        return Err(usage("-c, -n and -t must be 1 or more"));
    }
    if options.requests.is_none() && options.seconds.is_none() {
        options.seconds = Some(10);
    }
    url.clone_into(&mut options.url);
    Ok(options)
}

impl Options {
    /// The load that these options ask for: `-c` clients in all, however many cores there are.
    pub(super) fn plan(&self) -> Result<Plan, LoadError> {
        let indexed = |text: &str| match &self.index {
            Some(index) if !index.is_empty() => text.replace(index.as_str(), "{id}"),
            _ => text.to_owned(),
        };
        let mut headers = vec![("Accept".to_owned(), "*/*".to_owned())];
        headers.extend(self.content_type.iter().map(|value| ("Content-Type".to_owned(), value.clone())));
        headers.extend(self.headers.iter().cloned());
        let request = Request {
            method: self.method.clone(),
            url: Url::parse(&indexed(&self.url))?,
            headers,
            body: match std::str::from_utf8(&self.body) {
                Ok(text) => indexed(text).into_bytes(),
                Err(_) => self.body.clone(),
            },
            weight: 1,
            counter: self.index.is_some(),
            basic_auth: None,
        };
        let mut plan = Plan::of(vec![request]);
        // `-n` below `-c` is no fault of the tool's user: so many clients then have nothing to do.
        let clients = self.requests.map_or(self.concurrency, |requests| requests.min(self.concurrency));
        plan.connections = clients as usize;
        if let Some(cores) = self.cores {
            plan.threads = Threads::Count((cores as usize).clamp(1, plan.connections));
        }
        plan.stop = match (self.requests, self.seconds) {
            (Some(requests), _) => Stop::Requests(requests),
            (None, seconds) => Stop::Duration(Duration::from_secs(seconds.unwrap_or(10))),
        };
        plan.load = match self.rate {
            Some(rate) => Load::Open { rate, connections_max: CLIENTS_MAX, arrivals: Arrivals::Even },
            None => Load::Closed { think: Think::None },
        };
        plan.timeout = self.timeout.map_or(plan.timeout, Duration::from_millis);
        plan.reuse = if self.keep_alive || self.tcp { Reuse::Always } else { Reuse::Never };
        plan.tls = TlsOptions {
            insecure: self.insecure,
            client_certificate: self.client.0.clone(),
            client_key: self.client.1.clone(),
            ..TlsOptions::default()
        };
        Ok(plan)
    }
}

fn file(path: &str, surroundings: &Surroundings) -> Result<Vec<u8>, Printed> {
    if Path::new(path).extension().is_some_and(|extension| extension == "js") {
        return Err(usage(&format!(
            "{path}: bodies made by JavaScript are not run here; give a file of bytes"
        )));
    }
    (surroundings.read)(path.as_ref()).map_err(|error| usage(&format!("{path}: {error}")))
}

fn number(name: &str, text: &str) -> Result<u64, Printed> {
    text.trim().parse().map_err(|_| usage(&format!("--{name}: `{text}` is no whole number")))
}

fn usage(what: &str) -> Printed {
    Printed { stdout: print::USAGE.to_owned(), stderr: format!("{what}\n"), exit: 1, ..Printed::default() }
}

#[cfg(test)]
mod tests;
