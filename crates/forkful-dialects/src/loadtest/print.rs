//! loadtest's report (8.x) from our measurement.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_load::report::spread::{at, duration};
use forkful_load::{ErrorCause, LoadError, Plan, Progress, Report};

use super::{Loadtest, SECONDS};
use crate::figures::{decimals, found_no_server, line, per_second, quantiles};
use crate::{Dialect, Printed};

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

/// Interval of progress lines.
const PROGRESS: Duration = Duration::from_secs(5);

impl Dialect for Loadtest {
    fn plan(&self) -> Result<Plan, LoadError> {
        self.load()
    }

    fn tick(&mut self, progress: &Progress) -> Printed {
        let last = self.printed.as_ref().map_or(Duration::ZERO, |last| last.elapsed);
        if self.quiet || progress.elapsed.saturating_sub(last) < PROGRESS {
            return Printed::default();
        }
        let text = self.progress_line(progress);
        self.printed = Some(progress.clone());
        Printed::stdout(text, 0)
    }

    fn report(&self, report: &Report) -> Printed {
        let mut out = String::new();
        let done = report.counts.completed + report.counts.failed;
        let errors = report.errors_total();
        let seconds = report.elapsed.as_secs_f64();
        line!(out);
        line!(out, "Target URL:          {}", self.url);
        match (self.requests, self.seconds) {
            (Some(requests), _) => line!(out, "Max requests:        {requests}"),
            (None, seconds) => line!(out, "Max time (s):        {}", seconds.unwrap_or(SECONDS)),
        }
        if let Some(rate) = self.rate {
            line!(out, "Target rps:          {}", rate.floor());
        }
        let clients = if self.rate.is_some() { report.connections.reached } else { report.connections.asked };
        line!(out, "Concurrent clients:  {}", if clients > 0 { clients } else { self.concurrency });
        if let Some(cores) = self.cores.filter(|cores| *cores > 1) {
            line!(out, "Running on cores:    {cores}");
        }
        let agent = if self.tcp {
            "tcp"
        } else if self.keep_alive {
            "keepalive"
        } else {
            "none"
        };
        line!(out, "Agent:               {agent}");
        line!(out);
        line!(out, "Completed requests:  {done}");
        line!(out, "Total errors:        {errors}");
        line!(out, "Total time:          {} s", decimals(seconds, 3));
        let mean = if report.response.is_empty() { 0.0 } else { report.response.mean() / 1e6 };
        line!(out, "Mean latency:        {} ms", decimals(mean, 1));
        let rate = per_second(report, done as f64);
        line!(out, "Effective rps:       {}", rate.round());
        line!(out);
        line!(out, "Percentage of requests served within a certain time");
        for percent in [50, 90, 95, 99] {
            let value = at(&report.response, f64::from(percent) / 100.0) / 1_000_000;
            line!(out, "  {percent}%      {value} ms");
        }
        line!(out, " 100%      {} ms (longest request)", report.response.max() / 1_000_000);
        if errors > 0 {
            line!(out);
            for (code, count) in codes(report) {
                let padding = " ".repeat(if code.len() < 4 { 4 - code.len() } else { 1 });
                line!(out, " {padding}{code}:   {count} errors");
            }
        }
        Printed::stdout(out, 0)
    }

    /// Refused connections count as ordinary errors.
    fn unreachable(&self, error: &LoadError) -> Option<Printed> {
        found_no_server(error).then(|| self.report(&Report::empty("none")))
    }

    fn footnotes(&self, report: &Report) -> Vec<String> {
        let mut notes = Vec::new();
        let cores = self.cores.unwrap_or(self.cores_default);
        if cores > 1 && self.rate.is_none() {
            notes.push(format!(
                "loadtest would have opened {} clients: `-c {}` for each of {cores} cores. Here -c is the number of \
                 connections.",
                self.concurrency.saturating_mul(cores),
                self.concurrency
            ));
        }
        if self.requests.is_some_and(|requests| requests < self.concurrency) {
            notes.push("-n is smaller than -c, so only -n clients had something to do.".to_owned());
        }
        if report.response.len() > 1 {
            let [p50, p90, p99] = quantiles(&report.response, [0.5, 0.9, 0.99]);
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
        if self.rate.is_some() {
            notes.push(
                "latencies count from the moment at which a request was due, so waiting is not left out."
                    .to_owned(),
            );
        }
        notes
    }
}

impl Loadtest {
    /// The progress line that is printed every five seconds.
    fn progress_line(&self, progress: &Progress) -> String {
        let since = |of: fn(&Progress) -> u64| {
            of(progress).saturating_sub(self.printed.as_ref().map_or(0, of)) as f64
        };
        let done = progress.completed + progress.failed;
        let percent = match self.requests {
            Some(requests) => format!(" ({}%)", (100.0 * done as f64 / requests.max(1) as f64).round()),
            None => String::new(),
        };
        let seconds = (since(|progress| progress.elapsed.as_nanos() as u64) / 1e9).max(0.001);
        let rate = (since(|progress| progress.completed) / seconds).round();
        let answered = since(|progress| progress.answered).max(1.0);
        let waited = since(|progress| progress.response_sum.as_nanos() as u64) / 1e6;
        let mut out = String::new();
        line!(
            out,
            "Requests: {done}{percent}, requests per second: {rate}, mean latency: {} ms",
            decimals(waited / answered, 1)
        );
        if progress.errors > 0 {
            let share = decimals(100.0 * progress.errors as f64 / done.max(1) as f64, 1);
            let fresh = since(|progress| progress.errors);
            let all = progress.errors;
            line!(out, "Errors: {fresh}, accumulated errors: {all}, {share}% of total requests");
        }
        out
    }
}

/// Errors by status, or by Node's name of the cause.
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
