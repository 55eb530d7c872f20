//! loadtest's report, 8.x, from our measurement.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use super::Options;
use crate::dialect::Printed;
use crate::report::spread::{at, duration};
use crate::{ErrorCause, LoadError, Progress, Report};

pub(super) const USAGE: &str = "\
Usage: loadtest [options] URL
Options, as `forkful bench --as loadtest` takes them:
  -n, --maxRequests N     requests in all;  -t, --maxSeconds N  seconds (10 without -n)
  -c, --concurrency N     clients in all (10)
  -k, --keepalive         keep connections alive
  --rps N                 requests per second
  -d, --timeout N         milliseconds to wait for an answer
  -m, --method M          GET, POST, PUT, DELETE, PATCH
  -P, --postBody TEXT     POST;  -p, --postFile FILE;  -A, -a the same with PATCH;  -u, --putFile FILE
  --data TEXT             a body;  -T, --contentType TYPE
  -H, --headers N:V       a header;  -C, --cookies N=V  a cookie
  --index TEXT            replace TEXT in URL and body by a number
  --cores N               threads of the generator
  --insecure  --cert FILE  --key FILE  --quiet  -V, --version  --tcp, -r, --debug are accepted
";

const STRING: &str = "a String takes everything";

/// The line that is printed every five seconds.
pub(in crate::dialect) fn progress_line(options: &Options, progress: &Progress, since: &Since) -> String {
    let done = progress.completed + progress.failed;
    let percent = match options.requests {
        Some(requests) => format!(" ({}%)", (100.0 * done as f64 / requests.max(1) as f64).round()),
        None => String::new(),
    };
    let seconds = progress.elapsed.saturating_sub(since.elapsed).as_secs_f64().max(0.001);
    let rate = (progress.completed.saturating_sub(since.completed) as f64 / seconds).round();
    let answered = progress.answered.saturating_sub(since.answered).max(1);
    let waited = progress.response_sum.saturating_sub(since.response_sum);
    let latency = waited.as_secs_f64() * 1e3 / answered as f64;
    let mut line = format!(
        "Requests: {done}{percent}, requests per second: {rate}, mean latency: {} ms\n",
        short(latency, 1)
    );
    if progress.errors > 0 {
        let share = short(100.0 * progress.errors as f64 / done.max(1) as f64, 1);
        let fresh = progress.errors.saturating_sub(since.errors);
        writeln!(
            line,
            "Errors: {fresh}, accumulated errors: {}, {share}% of total requests",
            progress.errors
        )
        .expect(STRING);
    }
    line
}

/// Where the last line of progress stood.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::dialect) struct Since {
    pub(in crate::dialect) elapsed: Duration,
    pub(in crate::dialect) completed: u64,
    pub(in crate::dialect) errors: u64,
    pub(in crate::dialect) answered: u64,
    pub(in crate::dialect) response_sum: Duration,
}

/// loadtest reports refused connections as errors; there is a report of nothing else.
pub(in crate::dialect) fn unreachable(options: &Options, error: &LoadError) -> Option<Printed> {
    matches!(error, LoadError::Unreachable { .. } | LoadError::Resolve { .. })
        .then(|| report(options, &Report::empty("none")))
}

pub(in crate::dialect) fn report(options: &Options, report: &Report) -> Printed {
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect(STRING);
    let done = report.counts.completed + report.counts.failed;
    let errors = report.errors_total();
    let seconds = report.elapsed.as_secs_f64();
    line(format_args!(""));
    line(format_args!("Target URL:          {}", options.url));
    match (options.requests, options.seconds) {
        (Some(requests), _) => line(format_args!("Max requests:        {requests}")),
        (None, seconds) => line(format_args!("Max time (s):        {}", seconds.unwrap_or(10))),
    }
    if let Some(rate) = options.rate {
        line(format_args!("Target rps:          {}", rate.floor()));
    }
    let clients = if options.rate.is_some() { report.connections.reached } else { report.connections.asked };
    line(format_args!("Concurrent clients:  {}", if clients > 0 { clients } else { options.concurrency }));
    if let Some(cores) = options.cores.filter(|cores| *cores > 1) {
        line(format_args!("Running on cores:    {cores}"));
    }
    let agent = if options.tcp {
        "tcp"
    } else if options.keep_alive {
        "keepalive"
    } else {
        "none"
    };
    line(format_args!("Agent:               {agent}"));
    line(format_args!(""));
    line(format_args!("Completed requests:  {done}"));
    line(format_args!("Total errors:        {errors}"));
    line(format_args!("Total time:          {} s", short(seconds, 3)));
    let mean = if report.response.is_empty() { 0.0 } else { report.response.mean() / 1e6 };
    line(format_args!("Mean latency:        {} ms", short(mean, 1)));
    let rate = if seconds > 0.0 { done as f64 / seconds } else { 0.0 };
    line(format_args!("Effective rps:       {}", rate.round()));
    line(format_args!(""));
    line(format_args!("Percentage of requests served within a certain time"));
    for percent in [50, 90, 95, 99] {
        let value = at(&report.response, f64::from(percent) / 100.0) / 1_000_000;
        line(format_args!("  {percent}%      {value} ms"));
    }
    line(format_args!(" 100%      {} ms (longest request)", report.response.max() / 1_000_000));
    if errors > 0 {
        line(format_args!(""));
        for (code, count) in codes(report) {
            let padding = " ".repeat(if code.len() < 4 { 4 - code.len() } else { 1 });
            line(format_args!(" {padding}{code}:   {count} errors"));
        }
    }
    Printed { stdout: out, ..Printed::default() }
}

/// Errors by the status, or by the name that Node.js has for the cause.
fn codes(report: &Report) -> BTreeMap<String, u64> {
    let mut codes = BTreeMap::new();
    for error in &report.errors {
        let code = match error.cause {
            ErrorCause::UnexpectedStatus => continue,
            ErrorCause::ConnectRefused => "ECONNREFUSED",
            ErrorCause::ConnectReset | ErrorCause::ResetBeforeAnswer | ErrorCause::ResetInAnswer => {
                "ECONNRESET"
            }
            ErrorCause::AddressNotAvailable => "EADDRNOTAVAIL",
            ErrorCause::TooManyFiles => "EMFILE",
            cause if cause.is_timeout() => "ETIMEDOUT",
            cause => cause.key(),
        };
        *codes.entry(code.to_owned()).or_insert(0) += error.count;
    }
    for (status, count) in report.statuses.iter().filter(|(status, _)| *status >= 400) {
        codes.insert(status.to_string(), *count);
    }
    codes
}

/// As JavaScript prints a number rounded to so many digits.
fn short(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Where loadtest would have told something else.
pub(in crate::dialect) fn footnotes(options: &Options, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    let cores = options.cores.unwrap_or(options.cores_default);
    if cores > 1 && options.rate.is_none() {
        notes.push(format!(
            "loadtest would have opened {} clients: `-c {}` for each of {cores} cores. Here -c is the number of \
             connections.",
            options.concurrency * cores,
            options.concurrency
        ));
    }
    if options.requests.is_some_and(|requests| requests < options.concurrency) {
        notes.push("-n is smaller than -c, so only -n clients had something to do.".to_owned());
    }
    if report.response.len() > 1 {
        let [p50, p90, p99] =
            [0.5, 0.9, 0.99].map(|quantile| duration(at(&report.response, quantile) as f64));
        notes.push(format!(
            "loadtest cuts latencies to whole milliseconds. Measured: mean {}, median {p50}, 90 % {p90}, 99 % {p99}.",
            duration(report.response.mean())
        ));
    }
    if report.statuses.iter().any(|(status, _)| *status >= 400) {
        notes.push("loadtest prints -1 for all errors; here stand the statuses and causes.".to_owned());
    }
    if report.counts.unfinished + report.counts.late > 0 {
        notes.push(format!(
            "{} requests were under way when the time was up; loadtest forgets such requests.",
            report.counts.unfinished + report.counts.late
        ));
    }
    if options.rate.is_some() {
        notes.push(
            "latencies count from the moment at which a request was due, so waiting is not left out."
                .to_owned(),
        );
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn numbers_are_written_as_javascript_writes_them() {
        assert_eq!([0.084, 0.19, 15.0, 1.01].map(|value| short(value, 3)), ["0.084", "0.19", "15", "1.01"]);
        assert_eq!(short(100.0, 0), "100");
    }
}
