//! siege's command line and its `siege.conf`. Its rules: 25 users, no end without `-r` or `-t`, minutes if
//! `-t` has no unit, one connection per request, a text report on stderr or JSON on stdout.

mod print;
mod settings;
mod urls;

use std::path::PathBuf;
use std::time::Duration;

use forkful_load::{BasicAuth, Expect, Load, Order, Plan, Request, Reuse, Stop, Think, TlsOptions};

use crate::argv::{Fault, Options};
use crate::{Printed, Surroundings, Tool, default_header, header};

pub(crate) const TOOL: Tool = Tool {
    name: "siege",
    options: OPTIONS,
    secrets: &["header"],
    parse: |argv, surroundings| Ok(Box::new(parse(argv, surroundings)?)),
};

/// siege ends after this many failures, unless its configuration says otherwise.
const FAILURES_MAX: u64 = 1024;

/// Without `-r` and `-t` siege runs until it is interrupted; a day is practically endless.
const ENDLESS: Duration = Duration::from_secs(24 * 60 * 60);

const OPTIONS: Options = Options {
    switches: "V|version h|help C|config v|verbose q|quiet g|get p|print b|benchmark i|internet j|json-output \
               no-parser no-follow",
    values: "c|concurrent r|reps t|time d|delay f|file R|rc m|mark H|header A|user-agent T|content-type",
    attached: "l|log",
    come_first: false,
};

/// A command line of siege with its configuration file applied.
#[derive(Debug, Clone, Default, PartialEq)]
struct Siege {
    /// The URL of the command line, as typed.
    url: Option<String>,
    /// `-f`.
    file: Option<PathBuf>,
    /// The requests of the URL or of the URL file.
    requests: Vec<Request>,
    /// `-c`.
    users: u64,
    /// Maximum users of siege.
    limit: u64,
    /// `-r`, per user.
    repetitions: Option<Repetitions>,
    /// `-t`.
    time: Option<Duration>,
    /// `-d`, the maximum pause.
    delay: Duration,
    /// `-i`: URLs in random order.
    at_random: bool,
    /// `-j`.
    json: bool,
    /// `-q`.
    quiet: bool,
    /// Single transactions were requested.
    verbose: bool,
    /// Connections are kept.
    keep_alive: bool,
    /// Timeout for an answer, in seconds.
    timeout: u64,
    /// The run ends after this many failures.
    failures_max: u64,
    /// `-l`.
    log: Option<PathBuf>,
    /// The log file if `-l` names none.
    log_file: PathBuf,
    /// `-m`.
    mark: Option<String>,
    /// siege would have fetched the images and scripts of pages.
    parser: bool,
    /// siege would have followed redirects.
    follow: bool,
    /// `-H`.
    headers: Vec<(String, String)>,
    /// `-A`.
    user_agent: String,
    /// `-T`.
    content_type: String,
    accept_encoding: String,
    login: Option<BasicAuth>,
}

/// How often each user sends requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Repetitions {
    Times(u64),
    /// Each URL of the file once.
    Once,
}

impl Repetitions {
    fn read(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("once") { Some(Self::Once) } else { text.parse().ok().map(Self::Times) }
    }
}

/// Parses siege's command line. Settings come from `-R`, `$SIEGERC` or `~/.siege/siege.conf`, if it exists.
fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Siege, Printed> {
    let given = OPTIONS.read(argv).map_err(|fault| {
        usage(&match fault {
            Fault::Unknown(name) => format!("siege: unrecognized option '{name}'"),
            Fault::NoValue(name) => format!("siege: option '{name}' requires an argument"),
            Fault::Unwanted(name) => format!("siege: option '{name}' doesn't allow an argument"),
        })
    })?;
    let file = given.options.iter().rev().find(|(name, _)| *name == "rc").map(|(_, file)| file.into());
    let mut siege = Siege::configured(file, surroundings)?;
    for (name, value) in given.options {
        siege.take(name, value)?;
    }
    siege.url = given.operands.into_iter().next_back().or(siege.url);
    siege.complete(surroundings)
}

impl Siege {
    fn take(&mut self, name: &str, value: String) -> Result<(), Printed> {
        match name {
            "concurrent" => self.users = number(name, &value)?,
            "reps" => {
                let repetitions = Repetitions::read(&value).ok_or_else(|| {
                    usage(&format!("siege: --reps: `{value}` is neither a number nor `once`"))
                })?;
                self.repetitions = Some(repetitions);
            }
            "time" => self.time = Some(settings::time(&value).ok_or_else(|| bad_time(&value))?),
            "delay" => self.delay = settings::delay(&value).ok_or_else(|| bad_time(&value))?,
            "benchmark" => self.delay = Duration::ZERO,
            "internet" => self.at_random = true,
            "file" => self.file = Some(value.into()),
            "log" if value.is_empty() => self.log = Some(self.log_file.clone()),
            "log" => self.log = Some(value.into()),
            "mark" => self.mark = Some(value),
            "header" => self.headers.push(
                header(&value, &[':'])
                    .ok_or_else(|| usage(&format!("siege: a header is `Name: value`, not `{value}`")))?,
            ),
            "user-agent" => self.user_agent = value,
            "content-type" => self.content_type = value,
            "json-output" => self.json = true,
            "quiet" => self.quiet = true,
            "verbose" => self.verbose = true,
            "no-parser" => self.parser = false,
            "no-follow" => self.follow = false,
            "rc" => {}
            "version" => {
                let text = format!("forkful {} in the layout of SIEGE 4.0.7\n", env!("CARGO_PKG_VERSION"));
                return Err(Printed::stderr(text, 0));
            }
            "help" => return Err(Printed::stdout(print::USAGE, 0)),
            _ => return Err(Printed::unsupported("siege", &format!("--{name}"), 1)),
        }
        Ok(())
    }

    fn complete(mut self, surroundings: &Surroundings) -> Result<Self, Printed> {
        let lines = match (&self.url, &self.file) {
            (Some(url), _) => vec![url.clone()],
            (None, Some(file)) => {
                let bytes = (surroundings.read)(file).map_err(|error| {
                    Printed::error(&format!("siege: unable to open file: {}: {error}", file.display()), 1)
                })?;
                urls::lines(&String::from_utf8_lossy(&bytes))
            }
            (None, None) => return Err(usage("")),
        };
        if lines.is_empty() {
            return Err(usage("siege: the file of URLs has none"));
        }
        if self.users == 0 {
            return Err(usage("siege: --concurrent must be 1 or more"));
        }
        for line in &lines {
            let request = urls::request(line, surroundings).map_err(|error| usage(&error))?;
            self.requests.push(self.with_headers(request));
        }
        Ok(self)
    }

    /// A request with the headers that siege always sends.
    fn with_headers(&self, request: Request) -> Request {
        let mut headers = self.headers.clone();
        default_header(&mut headers, "Accept", "*/*");
        default_header(&mut headers, "Accept-Encoding", &self.accept_encoding);
        default_header(&mut headers, "User-Agent", &self.user_agent);
        if !request.body.is_empty() {
            default_header(&mut headers, "Content-Type", &self.content_type);
        }
        Request { headers, basic_auth: self.login.clone(), ..request }
    }

    /// The load, with exactly the requested number of users.
    fn load(&self) -> Plan {
        let of_all = |each: u64| Stop::Requests(each.saturating_mul(self.users).max(1));
        let think = if self.delay.is_zero() { Think::None } else { Think::UpTo(self.delay) };
        Plan {
            order: if self.at_random { Order::Weighted { seed: 1 } } else { Order::InOrder },
            connections: self.users as usize,
            stop: match (self.time, self.repetitions) {
                (Some(time), _) => Stop::Duration(time),
                (None, Some(Repetitions::Times(each))) => of_all(each),
                (None, Some(Repetitions::Once)) => of_all(self.requests.len() as u64),
                (None, None) => Stop::Duration(ENDLESS),
            },
            load: Load::Closed { think },
            timeout: Duration::from_secs(self.timeout.max(1)),
            reuse: Reuse::keep_alive(self.keep_alive),
            expect: Expect::habit(100..500),
            errors_max: Some(self.failures_max),
            tls: TlsOptions { insecure: true, ..TlsOptions::default() },
            ..Plan::of(self.requests.clone())
        }
    }
}

fn number(name: &str, text: &str) -> Result<u64, Printed> {
    text.trim().parse().map_err(|_| usage(&format!("siege: --{name}: `{text}` is no number")))
}

fn bad_time(text: &str) -> Printed {
    usage(&format!("siege: `{text}` is no time like 30S, 2M or 1H"))
}

fn usage(what: &str) -> Printed {
    Printed::usage(what, print::USAGE)
}

#[cfg(test)]
mod tests;
