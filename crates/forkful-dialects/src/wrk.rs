//! wrk's command line. Its rules: numbers accept `k`, `M` and `G`, times `s`, `m` and `h`; options may follow
//! the URL; the usage goes to stdout; at least one connection per thread.

mod print;

use std::time::Duration;

use forkful_load::{Expect, LoadError, Plan, Request, Stop, Threads, TlsOptions, Url};

use crate::argv::{Fault, Options};
use crate::figures::scaled;
use crate::{Printed, Tool, header};

pub(crate) const TOOL: Tool =
    Tool { name: "wrk", options: OPTIONS, secrets: &["header"], parse: |argv, _| Ok(Box::new(parse(argv)?)) };

const OPTIONS: Options = Options {
    switches: "L|latency v|version h|help",
    values: "c|connections d|duration t|threads s|script H|header T|timeout requests",
    attached: "",
    come_first: false,
};

/// A command line of wrk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Wrk {
    /// As typed, for messages.
    url: String,
    /// `-c`.
    connections: u64,
    /// `-t`.
    threads: u64,
    /// `-d`, in seconds.
    duration: u64,
    /// `-T`, in seconds.
    timeout: u64,
    /// `-H`.
    headers: Vec<(String, String)>,
    /// `--latency`: print the distribution.
    latency: bool,
    /// `-v`: print the version.
    version: bool,
}

/// Parses wrk's command line.
fn parse(argv: &[String]) -> Result<Wrk, Printed> {
    let given = OPTIONS.read(argv).map_err(|fault| {
        usage(&match fault {
            Fault::Unknown(name) if name.starts_with("--") => format!("wrk: unrecognized option '{name}'"),
            Fault::Unknown(name) => format!("wrk: invalid option -- '{}'", name.trim_start_matches('-')),
            Fault::NoValue(name) => format!("wrk: option requires an argument -- '{name}'"),
            Fault::Unwanted(name) => format!("wrk: option '{name}' doesn't allow an argument"),
        })
    })?;
    let mut wrk = Wrk { connections: 10, threads: 2, duration: 10, timeout: 2, ..Wrk::default() };
    for (name, value) in given.options {
        wrk.take(name, &value)?;
    }
    wrk.url = given.operands.into_iter().next().ok_or_else(|| usage(""))?;
    let complete = wrk.url.split_once("://").is_some_and(|(scheme, _)| matches!(scheme, "http" | "https"));
    if !complete || Url::parse(&wrk.url).is_err() {
        return Err(usage(&format!("invalid URL: {}", wrk.url)));
    }
    if wrk.threads == 0 || wrk.duration == 0 {
        return Err(usage(""));
    }
    if wrk.connections < wrk.threads {
        return Err(usage("number of connections must be >= threads"));
    }
    Ok(wrk)
}

impl Wrk {
    fn take(&mut self, name: &str, value: &str) -> Result<(), Printed> {
        match name {
            "connections" => self.connections = metric(name, value)?,
            "threads" => self.threads = metric(name, value)?,
            "duration" => self.duration = seconds(name, value)?,
            "timeout" => self.timeout = seconds(name, value)?,
            "latency" => self.latency = true,
            "version" => self.version = true,
            "header" => self.headers.push(
                header(value, &[':'])
                    .ok_or_else(|| usage(&format!("a header is `Name: value`, not `{value}`")))?,
            ),
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

    /// The load: exactly `-c` connections; no request times out before the end.
    fn load(&self) -> Result<Plan, LoadError> {
        let request = Request { headers: self.headers.clone(), ..Request::to(Url::parse(&self.url)?) };
        Ok(Plan {
            connections: self.connections as usize,
            threads: Threads::Count(self.threads as usize),
            stop: Stop::Duration(Duration::from_secs(self.duration)),
            // wrk counts answers slower than its timeout but keeps waiting.
            timeout: Duration::from_secs(self.duration.saturating_add(self.timeout)),
            drain: Duration::from_secs(self.timeout),
            expect: Expect::habit(100..400),
            tls: TlsOptions { insecure: true, ..TlsOptions::default() },
            ..Plan::of(vec![request])
        })
    }
}

/// `10`, `1k`, `2M`, `1G`.
fn metric(name: &str, text: &str) -> Result<u64, Printed> {
    scaled(text, &[("", 1), ("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)])
        .ok_or_else(|| usage(&format!("--{name}: `{text}` is no number like 10, 1k or 1M")))
}

/// `10`, `10s`, `2m`, `1h`.
fn seconds(name: &str, text: &str) -> Result<u64, Printed> {
    scaled(text, &[("", 1), ("s", 1), ("m", 60), ("h", 3_600)])
        .ok_or_else(|| usage(&format!("--{name}: `{text}` is no time like 10s, 2m or 1h")))
}

fn usage(what: &str) -> Printed {
    Printed::usage(what, print::USAGE)
}

#[cfg(test)]
mod tests;
