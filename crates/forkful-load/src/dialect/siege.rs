//! siege's command line and its `siege.conf`. Its facts: 25 users, no end without `-r` or `-t`, minutes where
//! `-t` has no unit, a connection per request, a human report on stderr or JSON on stdout.

mod print;
mod settings;
mod urls;

use std::path::PathBuf;
use std::time::Duration;

use super::argv::{Fault, Item, Order as Place, Takes, both, long, read};
use super::{Printed, Surroundings};
use crate::{BasicAuth, Load, Order, Plan, Request, Reuse, Stop, Think, TlsOptions};

pub(super) use print::{footnotes, log_lines, opening, report, unreachable};
use settings::Settings;

/// siege ends by itself after this many failures, unless its configuration says otherwise.
const FAILURES_MAX: u64 = 1024;

/// Without `-r` and `-t` it goes on until it is interrupted; a day is that for all purposes.
const ENDLESS: Duration = Duration::from_secs(24 * 60 * 60);

/// Options of siege, with those of its configuration file.
#[expect(clippy::struct_excessive_bools, reason = "a command line has many switches")]
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Options {
    /// What the URL, or the file of URLs, asks for.
    pub requests: Vec<Request>,
    /// `-c`.
    pub users: u64,
    /// As many users as siege would have started.
    pub limit: u64,
    /// `-r`: for each user.
    pub repetitions: Option<u64>,
    /// `-t`.
    pub time: Option<Duration>,
    /// `-d`: pause up to this.
    pub delay: Duration,
    /// `-i`: URLs at random.
    pub at_random: bool,
    /// `-j`.
    pub json: bool,
    /// `-q`.
    pub quiet: bool,
    /// Single transactions were asked for.
    pub verbose: bool,
    /// Connections are kept.
    pub keep_alive: bool,
    /// Seconds to wait for an answer.
    pub timeout: u64,
    /// Failures after which it ends.
    pub failures_max: u64,
    /// `-l`.
    pub log: Option<PathBuf>,
    /// `-m`.
    pub mark: Option<String>,
    /// It would have fetched the images and scripts of pages.
    pub parser: bool,
    /// It would have followed redirects.
    pub follow: bool,
}

/// Reads siege's command line. Settings come from `-R`, `$SIEGERC` or `~/.siege/siege.conf`, if there is one.
pub(super) fn parse(argv: &[String], surroundings: &Surroundings) -> Result<Options, Printed> {
    let flags = [
        both('V', &["version"], Takes::Nothing),
        both('h', &["help"], Takes::Nothing),
        both('C', &["config"], Takes::Nothing),
        both('v', &["verbose"], Takes::Nothing),
        both('q', &["quiet"], Takes::Nothing),
        both('g', &["get"], Takes::Nothing),
        both('p', &["print"], Takes::Nothing),
        both('c', &["concurrent"], Takes::Value),
        both('r', &["reps"], Takes::Value),
        both('t', &["time"], Takes::Value),
        both('d', &["delay"], Takes::Value),
        both('b', &["benchmark"], Takes::Nothing),
        both('i', &["internet"], Takes::Nothing),
        both('f', &["file"], Takes::Value),
        both('R', &["rc"], Takes::Value),
        both('l', &["log"], Takes::Attached),
        both('m', &["mark"], Takes::Value),
        both('H', &["header"], Takes::Value),
        both('A', &["user-agent"], Takes::Value),
        both('T', &["content-type"], Takes::Value),
        both('j', &["json-output"], Takes::Nothing),
        long(&["no-parser"], Takes::Nothing),
        long(&["no-follow"], Takes::Nothing),
    ];
    let items = read(&flags, argv, Place::Anywhere).map_err(|fault| {
        usage(&match fault {
            Fault::Unknown(name) => format!("siege: unrecognized option '{name}'"),
            Fault::NoValue(name) => format!("siege: option '{name}' requires an argument"),
            Fault::Unwanted(name) => format!("siege: option '{name}' doesn't allow an argument"),
        })
    })?;
    let given = items.iter().rev().find_map(|item| match item {
        Item::Option(name, Some(file)) if name == "rc" => Some(PathBuf::from(file)),
        _ => None,
    });
    let mut settings = settings::load(given, surroundings)?;
    for item in items {
        match item {
            Item::Option(name, value) => take(&mut settings, &name, value)?,
            Item::Operand(text) => settings.url = Some(text),
        }
    }
    finish(settings, surroundings)
}

fn take(settings: &mut Settings, name: &str, value: Option<String>) -> Result<(), Printed> {
    let text = value.clone().unwrap_or_default();
    match name {
        "concurrent" => settings.users = number(name, &text)?,
        "reps" => settings.repetitions = Some(number(name, &text)?),
        "time" => settings.time = Some(settings::time(&text).ok_or_else(|| bad_time(&text))?),
        "delay" => settings.delay = settings::delay(&text).ok_or_else(|| bad_time(&text))?,
        "benchmark" => settings.delay = Duration::ZERO,
        "internet" => settings.at_random = true,
        "file" => settings.file = Some(text.into()),
        "log" => settings.log = Some(value.map_or_else(|| settings.log_file.clone(), PathBuf::from)),
        "mark" => settings.mark = Some(text),
        "header" => match text.split_once(':') {
            Some((name, value)) => settings.headers.push((name.trim().to_owned(), value.trim().to_owned())),
            None => return Err(usage(&format!("siege: a header is `Name: value`, not `{text}`"))),
        },
        "user-agent" => settings.user_agent = text,
        "content-type" => settings.content_type = text,
        "json-output" => settings.json = true,
        "quiet" => settings.quiet = true,
        "verbose" => settings.verbose = true,
        "no-parser" => settings.parser = false,
        "no-follow" => settings.follow = false,
        "rc" => {}
        "version" => {
            let text = format!("forkful {} in the layout of SIEGE 4.0.7\n", env!("CARGO_PKG_VERSION"));
            return Err(Printed { stderr: text, ..Printed::default() });
        }
        "help" => return Err(Printed::stdout(print::USAGE, 0)),
        _ => return Err(Printed::unsupported("siege", &format!("--{name}"), 1)),
    }
    Ok(())
}

fn finish(settings: Settings, surroundings: &Surroundings) -> Result<Options, Printed> {
    let lines = match (&settings.url, &settings.file) {
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
    if settings.users == 0 {
        return Err(usage("siege: --concurrent must be 1 or more"));
    }
    let mut requests = Vec::new();
    for line in &lines {
        let mut request = urls::request(line, surroundings).map_err(|error| usage(&error))?;
        settings.dress(&mut request);
        requests.push(request);
    }
    Ok(Options {
        requests,
        users: settings.users,
        limit: settings.limit,
        repetitions: settings.repetitions,
        time: settings.time,
        delay: settings.delay,
        at_random: settings.at_random,
        json: settings.json,
        quiet: settings.quiet,
        verbose: settings.verbose,
        keep_alive: settings.keep_alive,
        timeout: settings.timeout,
        failures_max: settings.failures_max,
        log: settings.log,
        mark: settings.mark,
        parser: settings.parser,
        follow: settings.follow,
    })
}

impl Options {
    /// The load that these options ask for, with exactly the users asked for.
    pub(super) fn plan(&self) -> Plan {
        let mut plan = Plan::of(self.requests.clone());
        plan.order = if self.at_random { Order::Weighted { seed: 1 } } else { Order::InOrder };
        plan.connections = self.users as usize;
        plan.stop = match (self.time, self.repetitions) {
            (Some(time), _) => Stop::Duration(time),
            (None, Some(repetitions)) => Stop::Requests((repetitions * self.users).max(1)),
            (None, None) => Stop::Duration(ENDLESS),
        };
        let think = if self.delay.is_zero() { Think::None } else { Think::UpTo(self.delay) };
        plan.load = Load::Closed { think };
        plan.timeout = Duration::from_secs(self.timeout.max(1));
        plan.reuse = if self.keep_alive { Reuse::Always } else { Reuse::Never };
        plan.expect.statuses = (100..500).collect();
        plan.expect.is_habit = true;
        plan.errors_max = Some(self.failures_max);
        plan.tls = TlsOptions { insecure: true, ..TlsOptions::default() };
        plan
    }
}

fn number(name: &str, text: &str) -> Result<u64, Printed> {
    text.trim().parse().map_err(|_| usage(&format!("siege: --{name}: `{text}` is no number")))
}

fn bad_time(text: &str) -> Printed {
    usage(&format!("siege: `{text}` is no time like 30S, 2M or 1H"))
}

fn basic(text: &str) -> BasicAuth {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    BasicAuth { user: user.to_owned(), password: password.to_owned() }
}

fn usage(what: &str) -> Printed {
    let stderr = if what.is_empty() { String::new() } else { format!("{what}\n") };
    Printed { stdout: print::USAGE.to_owned(), stderr, exit: 1, ..Printed::default() }
}

#[cfg(test)]
mod tests;
