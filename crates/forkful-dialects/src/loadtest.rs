//! loadtest's command line (npm, 8.x). Its rules: ten clients, ten seconds without `-n`, no keep-alive
//! without `-k`, options before or after the URL, `-c` per core.

mod print;

use std::path::Path;
use std::time::Duration;

use forkful_load::{
    Arrivals, Load, LoadError, Plan, Progress, Request, Reuse, Stop, Think, Threads, TlsOptions, Url,
};

use crate::argv::{Fault, Options};
use crate::{Printed, Surroundings, Tool, body_with, default_header, header};

pub(crate) const TOOL: Tool = Tool {
    name: "loadtest",
    options: OPTIONS,
    secrets: &["cookies", "headers"],
    parse: |argv, surroundings| Ok(Box::new(parse(argv, surroundings)?)),
};

/// With `--rps` the tool adds a client whenever all are busy; this is the maximum here.
const CLIENTS_MAX: usize = 10_000;

/// The default duration without `-n` and `-t`.
const SECONDS: u64 = 10;

const OPTIONS: Options = Options {
    switches: "r|recover k|keepalive|agent V|version insecure quiet tcp debug help",
    values: "t|maxSeconds n|maxRequests c|concurrency d|timeout T|contentType C|cookies H|headers P|postBody \
             p|postFile A|patchBody a|patchFile data m|method u|putFile R|requestGenerator s|secureProtocol \
             proxy rps index key cert cores",
    attached: "",
    come_first: false,
};

/// A command line of loadtest.
#[derive(Debug, Clone, Default)]
struct Loadtest {
    /// As typed, for messages.
    url: String,
    /// `-n`.
    requests: Option<u64>,
    /// `-t`.
    seconds: Option<u64>,
    /// `-c`.
    concurrency: u64,
    /// `--rps`.
    rate: Option<f64>,
    /// `-k`.
    keep_alive: bool,
    /// `--tcp`.
    tcp: bool,
    /// `-d`, milliseconds.
    timeout: Option<u64>,
    /// `-m`, or what a body option implies.
    method: String,
    /// `-P`, `-p`, `-A`, `-a`, `-u`, `--data`.
    body: Vec<u8>,
    /// `-T`.
    content_type: Option<String>,
    /// `-H`, `-C`.
    headers: Vec<(String, String)>,
    /// `--index`.
    index: Option<String>,
    /// `--cores`, if given.
    cores: Option<u64>,
    /// Half of this machine's cores, the tool's default for `--cores`.
    cores_default: u64,
    /// `--quiet`.
    quiet: bool,
    /// `--insecure`, `--cert`, `--key`.
    tls: TlsOptions,
    /// The progress at the last printed line.
    printed: Option<Progress>,
}

/// Parses loadtest's command line.
fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Loadtest, Printed> {
    let given = OPTIONS.read(argv).map_err(|fault| refusal(&fault))?;
    let mut loadtest = Loadtest {
        concurrency: 10,
        method: "GET".to_owned(),
        cores_default: (surroundings.cores as u64).div_ceil(2).max(1),
        ..Loadtest::default()
    };
    for (name, value) in given.options {
        loadtest.take(name, value, surroundings)?;
    }
    loadtest.complete(&given.operands)
}

fn refusal(fault: &Fault) -> Printed {
    let what = match fault {
        Fault::Unknown(name) => format!("Unknown option \"{name}\"."),
        Fault::NoValue(name) => format!("Option \"{name}\" needs a value."),
        Fault::Unwanted(name) => format!("Option \"{name}\" takes no value."),
    };
    Printed::stdout(format!("{what}\nTry \"--help\" for more information.\n"), 255)
}

impl Loadtest {
    fn take(&mut self, name: &str, value: String, surroundings: &Surroundings) -> Result<(), Printed> {
        match name {
            "maxSeconds" => self.seconds = Some(number(name, &value)?),
            "maxRequests" => self.requests = Some(number(name, &value)?),
            "concurrency" => self.concurrency = number(name, &value)?,
            "timeout" => self.timeout = Some(number(name, &value)?),
            "cores" => self.cores = Some(number(name, &value)?),
            "rps" => match value.parse::<f64>() {
                Ok(rate) if rate.is_finite() && rate > 0.0 => self.rate = Some(rate),
                _ => return Err(usage(&format!("--rps: `{value}` is no number above 0"))),
            },
            "contentType" => self.content_type = Some(value),
            "cookies" => self.headers.push(("Cookie".to_owned(), value)),
            "headers" => self.headers.push(
                header(&value, &[':'])
                    .ok_or_else(|| usage(&format!("a header is name:value, not `{value}`")))?,
            ),
            "postBody" => self.body("POST", value.into_bytes()),
            "patchBody" => self.body("PATCH", value.into_bytes()),
            "data" => self.body = value.into_bytes(),
            "postFile" => self.body("POST", file(&value, surroundings)?),
            "patchFile" => self.body("PATCH", file(&value, surroundings)?),
            "putFile" => self.body("PUT", file(&value, surroundings)?),
            "method" => self.method = value.to_ascii_uppercase(),
            "keepalive" => self.keep_alive = true,
            "tcp" => self.tcp = true,
            "index" => self.index = Some(value),
            "insecure" => self.tls.insecure = true,
            "quiet" => self.quiet = true,
            "cert" => self.tls.client_certificate = Some(value.into()),
            "key" => self.tls.client_key = Some(value.into()),
            "recover" | "debug" => {}
            "version" => {
                let text = format!("Loadtest version: 8 (forkful {})\n", env!("CARGO_PKG_VERSION"));
                return Err(Printed::stdout(text, 0));
            }
            "help" => return Err(Printed::stdout(print::USAGE, 1)),
            _ => return Err(Printed::unsupported("loadtest", &format!("--{name}"), 1)),
        }
        Ok(())
    }

    fn body(&mut self, method: &str, bytes: Vec<u8>) {
        method.clone_into(&mut self.method);
        self.body = bytes;
    }

    fn complete(mut self, operands: &[String]) -> Result<Self, Printed> {
        let url = match operands {
            [] => return Err(usage("Missing URL to load-test")),
            [url] => url,
            more => return Err(usage(&format!("Too many arguments: {}", more.join(",")))),
        };
        if !url.starts_with("http://") && !url.starts_with("https://") {
            return Err(usage(&format!("Invalid URL {url}, must be http:// or https://")));
        }
        if !["GET", "POST", "PUT", "DELETE", "PATCH"].contains(&self.method.as_str()) {
            return Err(usage(&format!("Invalid method {}", self.method)));
        }
        if self.concurrency == 0 || self.requests == Some(0) || self.seconds == Some(0) {
            return Err(usage("-c, -n and -t must be 1 or more"));
        }
        url.clone_into(&mut self.url);
        Ok(self)
    }

    /// The load: `-c` clients in total, for any number of cores.
    fn load(&self) -> Result<Plan, LoadError> {
        let indexed = |text: &str| match &self.index {
            Some(index) if !index.is_empty() => text.replace(index.as_str(), "{id}"),
            _ => text.to_owned(),
        };
        let mut headers = vec![("Accept".to_owned(), "*/*".to_owned())];
        headers.extend(self.content_type.iter().map(|value| ("Content-Type".to_owned(), value.clone())));
        headers.extend(self.headers.iter().cloned());
        if !self.body.is_empty() {
            default_header(&mut headers, "Content-Type", "text/plain");
        }
        let request = Request {
            method: self.method.clone(),
            headers,
            body: body_with(&self.body, indexed),
            counter: self.index.is_some(),
            ..Request::to(Url::parse(&indexed(&self.url))?)
        };
        let usual = Plan::of(vec![request]);
        // `-n` below `-c` is allowed: the remaining clients have nothing to do.
        let clients = self.requests.map_or(self.concurrency, |requests| requests.min(self.concurrency));
        let connections = clients as usize;
        let time = Duration::from_secs(self.seconds.unwrap_or(SECONDS));
        Ok(Plan {
            connections,
            threads: self
                .cores
                .map_or(usual.threads, |cores| Threads::Count((cores as usize).clamp(1, connections))),
            stop: self.requests.map_or(Stop::Duration(time), Stop::Requests),
            time_limit: self.requests.and(self.seconds).map(Duration::from_secs),
            load: match self.rate {
                Some(rate) => Load::Open { rate, connections_max: CLIENTS_MAX, arrivals: Arrivals::Even },
                None => Load::Closed { think: Think::None },
            },
            timeout: self.timeout.map_or(usual.timeout, Duration::from_millis),
            reuse: Reuse::keep_alive(self.keep_alive || self.tcp),
            tls: self.tls.clone(),
            ..usual
        })
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
    Printed::usage(what, print::USAGE)
}

#[cfg(test)]
mod tests;
