//! `ab`'s command line. Its facts: `-t` sets 50,000 requests unless a later `-n` says otherwise; the
//! URL needs a path; options come before it; a concurrency above the number of requests is refused.

mod print;

use std::path::PathBuf;
use std::time::Duration;

use super::argv::{Fault, Item, Order, Takes, both, letter, read};
use super::{Printed, Surroundings};
use crate::{BasicAuth, Plan, Request, Reuse, Stop, Threads, TlsOptions, Url};

pub(super) use print::{footnotes, opening, report, unreachable};

/// What `-t` makes of the number of requests.
const REQUESTS_OF_A_TIME_LIMIT: u64 = 50_000;

/// As many connections as ab takes.
const CONCURRENCY_MAX: u64 = 20_000;

/// How ab exits on a wrong command line: `EINVAL`.
const EXIT_USAGE: u8 = 22;

/// Options of `ab`.
#[expect(clippy::struct_excessive_bools, reason = "a command line has many switches")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    pub url: Url,
    /// As typed, to be shown.
    pub path: String,
    /// `-n`.
    pub requests: u64,
    /// `-c`.
    pub concurrency: u64,
    /// `-t`.
    pub time_limit: Option<u64>,
    /// `-s`.
    pub timeout: u64,
    /// `-p`, `-u`, `-i`, `-m`.
    pub method: String,
    /// Bytes of `-p` and `-u`.
    pub body: Option<Vec<u8>>,
    /// `-T`.
    pub content_type: String,
    /// `-C`, `-H`, `-A` as headers.
    pub headers: Vec<(String, String)>,
    /// `-A`.
    pub basic_auth: Option<BasicAuth>,
    /// `-k`.
    pub keep_alive: bool,
    /// `-l`: bodies may differ in length.
    pub variable_length: bool,
    /// `-r`.
    pub go_on_after_errors: bool,
    /// Not `-q`.
    pub progress: bool,
    /// Not `-d`.
    pub percentiles: bool,
    /// Not `-S`.
    pub deviations: bool,
    /// `-v`.
    pub verbosity: u32,
    /// `-w` with the attributes of `-x`, `-y` and `-z`.
    pub html: Option<HtmlAttributes>,
    /// `-e`.
    pub csv: Option<PathBuf>,
    /// `-g`.
    pub gnuplot: Option<PathBuf>,
    /// `-E`.
    pub client_certificate: Option<PathBuf>,
    /// Accepted options that change nothing here, to be told of.
    pub ignored: Vec<String>,
}

/// Attributes of the HTML tables of `-w`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct HtmlAttributes {
    /// `-x`.
    pub table: String,
    /// `-y`.
    pub row: String,
    /// `-z`.
    pub cell: String,
}

const VALUES: &str = "nctsbBpuTvxyzCHAPXgemZfE";
const SWITCHES: &str = "iVkdSqlrhwI";

/// Reads ab's command line.
pub(super) fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Options, Printed> {
    let flags: Vec<_> = VALUES
        .chars()
        .map(|short| letter(short, Takes::Value))
        .chain(SWITCHES.chars().map(|short| letter(short, Takes::Nothing)))
        .chain([both('\0', &["help"], Takes::Nothing)])
        .collect();
    let items = read(&flags, argv, Order::OptionsFirst).map_err(|fault| {
        usage(&match fault {
            Fault::Unknown(name) => format!("ab: illegal option -- {}", name.trim_start_matches('-')),
            Fault::NoValue(name) => {
                format!("ab: option requires an argument -- {}", name.trim_start_matches('-'))
            }
            Fault::Unwanted(name) => format!("ab: {name} takes no value"),
        })
    })?;
    let mut draft = Draft::new();
    let mut operands = Vec::new();
    for item in items {
        match item {
            Item::Option(name, value) => draft.take(&name, value.as_deref().unwrap_or(""), surroundings)?,
            Item::Operand(text) => operands.push(text),
        }
    }
    let [url] = operands.as_slice() else { return Err(usage("ab: wrong number of arguments")) };
    draft.finish(url)
}

/// Options while they are read.
struct Draft {
    options: Options,
    html: bool,
    attributes: HtmlAttributes,
}

impl Draft {
    fn new() -> Self {
        let url = Url { tls: false, host: String::new(), port: 80, path: String::new(), userinfo: None };
        let options = Options {
            url,
            path: String::new(),
            requests: 1,
            concurrency: 1,
            time_limit: None,
            timeout: 30,
            method: "GET".to_owned(),
            body: None,
            content_type: "text/plain".to_owned(),
            headers: Vec::new(),
            basic_auth: None,
            keep_alive: false,
            variable_length: false,
            go_on_after_errors: false,
            progress: true,
            percentiles: true,
            deviations: true,
            verbosity: 0,
            html: None,
            csv: None,
            gnuplot: None,
            client_certificate: None,
            ignored: Vec::new(),
        };
        Self { options, html: false, attributes: HtmlAttributes::default() }
    }

    fn take(&mut self, name: &str, value: &str, surroundings: &Surroundings) -> Result<(), Printed> {
        let options = &mut self.options;
        match name {
            "n" => match leading_number(value) {
                0 => return Err(Printed::error("Invalid number of requests", 1)),
                requests => options.requests = requests,
            },
            "c" => options.concurrency = leading_number(value),
            "t" => {
                options.time_limit = Some(leading_number(value));
                options.requests = REQUESTS_OF_A_TIME_LIMIT;
            }
            "s" => options.timeout = leading_number(value),
            "p" => self.body("POST", value, surroundings)?,
            "u" => self.body("PUT", value, surroundings)?,
            "i" => self.method("HEAD")?,
            "m" => value.clone_into(&mut options.method),
            "T" => value.clone_into(&mut options.content_type),
            "C" => options.headers.push(("Cookie".to_owned(), value.to_owned())),
            "H" => options.headers.push(header(value)?),
            "A" => {
                let (user, password) = value.split_once(':').unwrap_or((value, ""));
                options.basic_auth = Some(BasicAuth { user: user.to_owned(), password: password.to_owned() });
            }
            "k" => options.keep_alive = true,
            "l" => options.variable_length = true,
            "r" => options.go_on_after_errors = true,
            "q" => options.progress = false,
            "d" => options.percentiles = false,
            "S" => options.deviations = false,
            "v" => options.verbosity = leading_number(value) as u32,
            "w" => self.html = true,
            "x" => self.attribute(|attributes| &mut attributes.table, value),
            "y" => self.attribute(|attributes| &mut attributes.row, value),
            "z" => self.attribute(|attributes| &mut attributes.cell, value),
            "e" => options.csv = Some(value.into()),
            "g" => options.gnuplot = Some(value.into()),
            "E" => options.client_certificate = Some(value.into()),
            "b" | "I" | "Z" | "f" => options.ignored.push(format!("-{name}")),
            "V" => return Err(Printed::stdout(&print::banner(), 0)),
            "h" | "help" => return Err(usage("")),
            _ => return Err(Printed::unsupported("ab", &format!("-{name}"), EXIT_USAGE)),
        }
        Ok(())
    }

    fn attribute(&mut self, of: impl Fn(&mut HtmlAttributes) -> &mut String, value: &str) {
        self.html = true;
        value.clone_into(of(&mut self.attributes));
    }

    fn method(&mut self, method: &str) -> Result<(), Printed> {
        if self.options.method != "GET" {
            return Err(Printed::error(&format!("ab: cannot mix {} with {method}", self.options.method), 1));
        }
        method.clone_into(&mut self.options.method);
        Ok(())
    }

    fn body(&mut self, method: &str, file: &str, surroundings: &Surroundings) -> Result<(), Printed> {
        self.method(method)?;
        let bytes = (surroundings.read)(file.as_ref()).map_err(|error| {
            let reason = error.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
            Printed::error(&format!("ab: Could not open POST data file ({file}): {reason}"), 1)
        })?;
        self.options.body = Some(bytes);
        Ok(())
    }

    fn finish(mut self, url: &str) -> Result<Options, Printed> {
        let options = &mut self.options;
        if options.concurrency == 0 || options.concurrency > CONCURRENCY_MAX {
            return Err(usage(&format!("ab: Invalid Concurrency [Range 1..{CONCURRENCY_MAX}]")));
        }
        if options.concurrency > options.requests {
            return Err(usage("ab: Cannot use concurrency level greater than total number of requests"));
        }
        let bare = url.split_once("://").map_or(url, |(_, rest)| rest);
        let path = bare.find('/').map(|at| bare[at..].to_owned());
        let path = path.ok_or_else(|| usage("ab: invalid URL"))?;
        options.url = Url::parse(url).map_err(|error| usage(&format!("ab: invalid URL: {error}")))?;
        options.path = path;
        if self.html {
            options.html = Some(self.attributes);
        }
        Ok(self.options)
    }
}

impl Options {
    /// The load that these options ask for, with connections that are really kept under `-k`.
    pub(super) fn plan(&self) -> Plan {
        let mut headers = self.headers.clone();
        if self.body.is_some() {
            headers.push(("Content-Type".to_owned(), self.content_type.clone()));
        }
        default_header(&mut headers, "User-Agent", "ApacheBench/2.3 (forkful)");
        default_header(&mut headers, "Accept", "*/*");
        let request = Request {
            method: self.method.clone(),
            url: self.url.clone(),
            headers,
            body: self.body.clone().unwrap_or_default(),
            weight: 1,
            counter: false,
            basic_auth: self.basic_auth.clone(),
        };
        let mut plan = Plan::of(vec![request]);
        plan.connections = self.concurrency as usize;
        plan.threads = Threads::Count(1);
        plan.stop = Stop::Requests(self.requests);
        plan.timeout = Duration::from_secs(self.timeout.max(1));
        plan.reuse = if self.keep_alive { Reuse::Always } else { Reuse::Never };
        plan.expect.statuses = (100..=999).collect();
        plan.expect.is_habit = true;
        // ab checks no certificate.
        plan.tls = TlsOptions {
            insecure: true,
            client_certificate: self.client_certificate.clone(),
            client_key: self.client_certificate.clone(),
            ..TlsOptions::default()
        };
        plan
    }
}

fn default_header(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    if !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
        headers.push((name.to_owned(), value.to_owned()));
    }
}

fn header(line: &str) -> Result<(String, String), Printed> {
    match line.split_once(':') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(usage(&format!("ab: a header is `Name: value`, not `{line}`"))),
    }
}

/// C's `atoi`: the digits at the start, 0 without any.
fn leading_number(text: &str) -> u64 {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text[..end].parse().unwrap_or(0)
}

fn usage(what: &str) -> Printed {
    let first = if what.is_empty() { String::new() } else { format!("{what}\n") };
    Printed { stderr: format!("{first}{}", print::USAGE), exit: EXIT_USAGE, ..Printed::default() }
}

#[cfg(test)]
mod tests;
