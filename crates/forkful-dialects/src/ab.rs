//! `ab`'s command line. Its rules: `-t` sets 50,000 requests unless a later `-n` overrides it; the URL needs
//! a path; options precede it; a concurrency above the number of requests is refused.

mod print;

use std::path::PathBuf;
use std::time::Duration;

use forkful_load::{BasicAuth, Expect, Plan, Request, Reuse, Stop, Threads, TlsOptions, Url};

use crate::argv::{Fault, Options};
use crate::{Printed, Surroundings, Tool, default_header, header};

pub(crate) const TOOL: Tool = Tool {
    name: "ab",
    options: OPTIONS,
    secrets: &["A", "P", "C", "H"],
    parse: |argv, surroundings| Ok(Box::new(parse(argv, surroundings)?)),
};

/// The number of requests that `-t` implies.
const REQUESTS_OF_A_TIME_LIMIT: u64 = 50_000;

/// Maximum concurrency in ab.
const CONCURRENCY_MAX: u64 = 20_000;

/// ab's exit code for a wrong command line: `EINVAL`.
const EXIT_USAGE: u8 = 22;

const OPTIONS: Options = Options {
    switches: "i V k d S q l r h|help w I",
    values: "n c t s b B p u T v x y z C H A P X g e m Z f E",
    attached: "",
    come_first: true,
};

/// A command line of `ab`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ab {
    url: Url,
    /// As typed, for messages.
    path: String,
    /// `-n`.
    requests: u64,
    /// `-c`.
    concurrency: u64,
    /// `-t`, seconds.
    time_limit: Option<u64>,
    /// `-s`, seconds.
    timeout: u64,
    /// `-p`, `-u`, `-i`, `-m`.
    method: String,
    /// Bytes of `-p` and `-u`.
    body: Option<Vec<u8>>,
    /// `-T`.
    content_type: String,
    /// `-C`, `-H`.
    headers: Vec<(String, String)>,
    /// `-A`.
    basic_auth: Option<BasicAuth>,
    /// `-k`.
    keep_alive: bool,
    /// `-l`: bodies may differ in length.
    variable_length: bool,
    /// `-r`.
    go_on_after_errors: bool,
    /// `-q`.
    no_progress: bool,
    /// `-d`.
    no_percentiles: bool,
    /// `-S`.
    no_deviations: bool,
    /// `-v`.
    verbosity: u64,
    /// `-w` with the attributes of `-x`, `-y` and `-z`.
    html: Option<HtmlAttributes>,
    /// `-e`.
    csv: Option<PathBuf>,
    /// `-g`.
    gnuplot: Option<PathBuf>,
    /// `-E`.
    client_certificate: Option<PathBuf>,
    /// Accepted options without an effect here.
    ignored: Vec<String>,
    /// The number of requests at the last progress line.
    reported: u64,
}

/// Attributes of the HTML tables of `-w`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct HtmlAttributes {
    /// `-x`.
    table: String,
    /// `-y`.
    row: String,
    /// `-z`.
    cell: String,
}

/// Parses ab's command line.
fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Ab, Printed> {
    let given = OPTIONS.read(argv).map_err(|fault| {
        let bare = |name: &str| name.trim_start_matches('-').to_owned();
        usage(&match fault {
            Fault::Unknown(name) => format!("ab: illegal option -- {}", bare(&name)),
            Fault::NoValue(name) => format!("ab: option requires an argument -- {}", bare(&name)),
            Fault::Unwanted(name) => format!("ab: {name} takes no value"),
        })
    })?;
    let mut ab = Ab {
        requests: 1,
        concurrency: 1,
        timeout: 30,
        method: "GET".to_owned(),
        content_type: "text/plain".to_owned(),
        ..Ab::default()
    };
    for (name, value) in given.options {
        ab.take(name, value, surroundings)?;
    }
    let [url] = given.operands.as_slice() else { return Err(usage("ab: wrong number of arguments")) };
    ab.complete(url)
}

impl Ab {
    fn take(&mut self, name: &str, value: String, surroundings: &Surroundings) -> Result<(), Printed> {
        match name {
            "n" => match leading_number(&value) {
                0 => return Err(Printed::error("Invalid number of requests", 1)),
                requests => self.requests = requests,
            },
            "c" => self.concurrency = leading_number(&value),
            "t" => {
                // 0 is no limit.
                self.time_limit = Some(leading_number(&value)).filter(|seconds| *seconds > 0);
                self.requests = REQUESTS_OF_A_TIME_LIMIT;
            }
            "s" => self.timeout = leading_number(&value),
            "p" => self.body("POST", &value, surroundings)?,
            "u" => self.body("PUT", &value, surroundings)?,
            "i" => self.method("HEAD")?,
            "m" => self.method = value,
            "T" => self.content_type = value,
            "C" => self.headers.push(("Cookie".to_owned(), value)),
            "H" => self.headers.push(
                header(&value, &[':'])
                    .ok_or_else(|| usage(&format!("ab: a header is `Name: value`, not `{value}`")))?,
            ),
            "A" => self.basic_auth = Some(BasicAuth::of(&value)),
            "k" => self.keep_alive = true,
            "l" => self.variable_length = true,
            "r" => self.go_on_after_errors = true,
            "q" => self.no_progress = true,
            "d" => self.no_percentiles = true,
            "S" => self.no_deviations = true,
            "v" => self.verbosity = leading_number(&value),
            "w" => drop(self.html()),
            "x" => self.html().table = value,
            "y" => self.html().row = value,
            "z" => self.html().cell = value,
            "e" => self.csv = Some(value.into()),
            "g" => self.gnuplot = Some(value.into()),
            "E" => self.client_certificate = Some(value.into()),
            "b" | "I" | "Z" | "f" => self.ignored.push(format!("-{name}")),
            "V" => return Err(Printed::stdout(print::banner(), 0)),
            "help" => return Err(usage("")),
            _ => return Err(Printed::unsupported("ab", &format!("-{name}"), EXIT_USAGE)),
        }
        Ok(())
    }

    fn html(&mut self) -> &mut HtmlAttributes {
        self.html.get_or_insert_default()
    }

    fn method(&mut self, method: &str) -> Result<(), Printed> {
        if self.method != "GET" {
            return Err(Printed::error(&format!("ab: cannot mix {} with {method}", self.method), 1));
        }
        method.clone_into(&mut self.method);
        Ok(())
    }

    fn body(&mut self, method: &str, file: &str, surroundings: &Surroundings) -> Result<(), Printed> {
        self.method(method)?;
        let bytes = (surroundings.read)(file.as_ref()).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            Printed::error(&format!("ab: Could not open POST data file ({file}): {reason}"), 1)
        })?;
        self.body = Some(bytes);
        Ok(())
    }

    fn complete(mut self, url: &str) -> Result<Self, Printed> {
        if self.concurrency == 0 || self.concurrency > CONCURRENCY_MAX {
            return Err(usage(&format!("ab: Invalid Concurrency [Range 1..{CONCURRENCY_MAX}]")));
        }
        if self.concurrency > self.requests {
            return Err(usage("ab: Cannot use concurrency level greater than total number of requests"));
        }
        let bare = url.split_once("://").map_or(url, |(_, rest)| rest);
        let at = bare.find('/').ok_or_else(|| usage("ab: invalid URL"))?;
        self.path = bare[at..].to_owned();
        self.url = Url::parse(url).map_err(|error| usage(&format!("ab: invalid URL: {error}")))?;
        Ok(self)
    }
}

impl Ab {
    /// The load; `-k` really keeps connections.
    fn load(&self) -> Plan {
        let mut headers = self.headers.clone();
        if self.body.is_some() {
            headers.push(("Content-Type".to_owned(), self.content_type.clone()));
        }
        default_header(&mut headers, "User-Agent", "ApacheBench/2.3 (forkful)");
        default_header(&mut headers, "Accept", "*/*");
        let request = Request {
            method: self.method.clone(),
            headers,
            body: self.body.clone().unwrap_or_default(),
            basic_auth: self.basic_auth.clone(),
            ..Request::to(self.url.clone())
        };
        Plan {
            connections: self.concurrency as usize,
            threads: Threads::Count(1),
            stop: Stop::Requests(self.requests),
            time_limit: self.time_limit.map(Duration::from_secs),
            timeout: Duration::from_secs(self.timeout.max(1)),
            reuse: Reuse::keep_alive(self.keep_alive),
            expect: Expect::habit(100..=999),
            // ab does not verify certificates.
            tls: TlsOptions {
                insecure: true,
                client_certificate: self.client_certificate.clone(),
                client_key: self.client_certificate.clone(),
                ..TlsOptions::default()
            },
            ..Plan::of(vec![request])
        }
    }
}

/// As C's `atoi`: the digits at the start, 0 if there are none; the largest number if there are too many.
fn leading_number(text: &str) -> u64 {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    if end == 0 { 0 } else { text[..end].parse().unwrap_or(u64::MAX) }
}

fn usage(what: &str) -> Printed {
    Printed::usage_on_stderr(what, print::USAGE, EXIT_USAGE)
}

#[cfg(test)]
mod tests;
