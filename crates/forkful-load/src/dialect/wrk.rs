//! wrk's command line. Its facts: numbers take `k`, `M` and `G`, times `s`, `m` and `h`; options may come after
//! the URL; the usage goes to stdout; a connection per thread at least.

mod print;

use std::time::Duration;

use super::argv::{Fault, Item, Order, Takes, both, long, read};
use super::{Printed, Surroundings};
use crate::{LoadError, Plan, Request, Stop, Threads, TlsOptions};

pub(super) use print::{footnotes, opening, report, unreachable};

/// Options of wrk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Options {
    /// As typed, to be shown.
    pub url: String,
    /// `-c`.
    pub connections: u64,
    /// `-t`.
    pub threads: u64,
    /// `-d`, in seconds.
    pub duration: u64,
    /// `-T`, in seconds.
    pub timeout: u64,
    /// `-H`.
    pub headers: Vec<(String, String)>,
    /// `--latency`: print the distribution.
    pub latency: bool,
    /// `-v`: say who speaks.
    pub version: bool,
}

/// Reads wrk's command line.
pub(super) fn parse(argv: &[String], _: &Surroundings) -> Result<Options, Printed> {
    let flags = [
        both('c', &["connections"], Takes::Value),
        both('d', &["duration"], Takes::Value),
        both('t', &["threads"], Takes::Value),
        both('s', &["script"], Takes::Value),
        both('H', &["header"], Takes::Value),
        both('L', &["latency"], Takes::Nothing),
        both('T', &["timeout"], Takes::Value),
        both('v', &["version"], Takes::Nothing),
        both('h', &["help"], Takes::Nothing),
        long(&["requests"], Takes::Value),
    ];
    let items = read(&flags, argv, Order::Anywhere).map_err(|fault| match fault {
        Fault::Unknown(name) if name.starts_with("--") => {
            usage(&format!("wrk: unrecognized option '{name}'"))
        }
        Fault::Unknown(name) => usage(&format!("wrk: invalid option -- '{}'", name.trim_start_matches('-'))),
        Fault::NoValue(name) => usage(&format!("wrk: option requires an argument -- '{name}'")),
        Fault::Unwanted(name) => usage(&format!("wrk: option '{name}' doesn't allow an argument")),
    })?;
    let mut options = Options {
        url: String::new(),
        connections: 10,
        threads: 2,
        duration: 10,
        timeout: 2,
        headers: Vec::new(),
        latency: false,
        version: false,
    };
    let mut operands = Vec::new();
    for item in items {
        match item {
            Item::Option(name, value) => take(&mut options, &name, value.as_deref().unwrap_or(""))?,
            Item::Operand(text) => operands.push(text),
        }
    }
    finish(options, operands)
}

fn take(options: &mut Options, name: &str, value: &str) -> Result<(), Printed> {
    match name {
        "connections" => options.connections = metric(name, value)?,
        "threads" => options.threads = metric(name, value)?,
        "duration" => options.duration = seconds(name, value)?,
        "timeout" => options.timeout = seconds(name, value)?,
        "latency" => options.latency = true,
        "version" => options.version = true,
        "header" => match value.split_once(':') {
            Some((name, value)) if !name.trim().is_empty() => {
                options.headers.push((name.trim().to_owned(), value.trim().to_owned()));
            }
            _ => return Err(usage(&format!("a header is `Name: value`, not `{value}`"))),
        },
        "help" => return Err(usage("")),
        "script" => {
            return Err(Printed::error(
                "wrk: -s: Lua scripts are not run here. Method, headers, bodies, several URLs and counters are \
                 options of `forkful bench` itself: -m, -H, --body, --urls-file, {id}",
                1,
            ));
        }
        _ => return Err(Printed::unsupported("wrk", &format!("--{name}"), 1)),
    }
    Ok(())
}

fn finish(mut options: Options, operands: Vec<String>) -> Result<Options, Printed> {
    let Some(url) = operands.into_iter().next() else { return Err(usage("")) };
    let complete = url.split_once("://").is_some_and(|(scheme, _)| matches!(scheme, "http" | "https"));
    if !complete || Request::get(&url).is_err() {
        return Err(usage(&format!("invalid URL: {url}")));
    }
    if options.threads == 0 || options.duration == 0 {
        return Err(usage(""));
    }
    if options.connections < options.threads {
        return Err(usage("number of connections must be >= threads"));
    }
    options.url = url;
    Ok(options)
}

/// `10`, `1k`, `2M`, `1G`.
fn metric(name: &str, text: &str) -> Result<u64, Printed> {
    scaled(text, &[("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)])
        .ok_or_else(|| usage(&format!("--{name}: `{text}` is no number like 10, 1k or 1M")))
}

/// `10`, `10s`, `2m`, `1h`.
fn seconds(name: &str, text: &str) -> Result<u64, Printed> {
    scaled(text, &[("s", 1), ("m", 60), ("h", 3_600)])
        .ok_or_else(|| usage(&format!("--{name}: `{text}` is no time like 10s, 2m or 1h")))
}

fn scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    for (unit, factor) in units {
        if let Some(digits) = text.strip_suffix(unit) {
            return digits.parse::<u64>().ok()?.checked_mul(*factor);
        }
    }
    text.parse().ok()
}

impl Options {
    /// The load that these options ask for: exactly `-c` connections, and no answer given up before the end.
    pub(super) fn plan(&self) -> Result<Plan, LoadError> {
        let mut request = Request::get(&self.url)?;
        request.counter = false;
        request.headers.clone_from(&self.headers);
        let mut plan = Plan::of(vec![request]);
        plan.connections = self.connections as usize;
        plan.threads = Threads::Count(self.threads as usize);
        plan.stop = Stop::Duration(Duration::from_secs(self.duration));
        // wrk counts what takes longer than its timeout and goes on waiting.
        plan.timeout = Duration::from_secs(self.duration + self.timeout);
        plan.drain = Duration::from_secs(self.timeout);
        plan.expect.statuses = (100..400).collect();
        plan.expect.is_habit = true;
        plan.tls = TlsOptions { insecure: true, ..TlsOptions::default() };
        Ok(plan)
    }
}

fn usage(what: &str) -> Printed {
    let stderr = if what.is_empty() { String::new() } else { format!("{what}\n") };
    Printed { stdout: print::USAGE.to_owned(), stderr, exit: 1, ..Printed::default() }
}

#[cfg(test)]
mod tests;
