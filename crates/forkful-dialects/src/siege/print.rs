//! siege's report (4.0) from our measurement, with its lines and tabs.

use std::path::Path;

use forkful_core::date_format::utc;
use forkful_load::report::spread::{duration, thousands};
use forkful_load::{ErrorCause, LoadError, Plan, Report};
use forkful_os::wall_clock::now_ms;

use super::Siege;
use crate::figures::{line, per_second, quantiles};
use crate::{Dialect, Printed};

pub(super) const USAGE: &str = "\
Usage: siege [options] URL
       siege [options] 'URL POST a=1&b=2'
Options, as `forkful bench --as siege` takes them:
  -c, --concurrent=N        users (25)
  -r, --reps=N              requests of each user
  -t, --time=NUMm           how long: 30S, 2M, 1H; minutes without a unit
  -d, --delay=N             a pause of up to N seconds before each request
  -b, --benchmark           no pause
  -i, --internet            URLs at random
  -f, --file=FILE           URLs, with variables and POST bodies
  -R, --rc=FILE             its configuration; else $SIEGERC or ~/.siege/siege.conf
  -H, --header='Name: x'    a header;  -A AGENT  -T CONTENT-TYPE
  -l, --log[=FILE]          a line to a log file;  -m TEXT a mark in it
  -j, --json-output         JSON on stdout
  -q, --quiet  -v, --verbose  --no-parser  --no-follow  -V  -h
";

const MEGABYTE: f64 = 1024.0 * 1024.0;

impl Dialect for Siege {
    fn plan(&self) -> Result<Plan, LoadError> {
        Ok(self.load())
    }

    fn opening(&self) -> Printed {
        if self.json || self.quiet {
            return Printed::default();
        }
        let text = format!(
            "** FORKFUL {} in the layout of SIEGE 4.0.7\n** Preparing {} concurrent users for battle.\n\
             The server is now under siege...",
            env!("CARGO_PKG_VERSION"),
            self.users
        );
        Printed::stderr(text, 0)
    }

    /// JSON on stdout, or text on stderr.
    fn report(&self, report: &Report) -> Printed {
        let figures = figures(report);
        if self.json {
            return Printed { stdout: json(&figures), ..Printed::stderr("\n", 0) };
        }
        if self.quiet {
            return Printed::default();
        }
        let end = if self.time.is_some() { "\n\nLifting the server siege...\n" } else { "\n\n" };
        Printed::stderr(format!("{end}{}", text(&figures)), 0)
    }

    /// Refused connections count like any other error, so there is a report with zeros.
    fn unreachable(&self, error: &LoadError) -> Option<Printed> {
        let words = match error {
            LoadError::Unreachable { cause: ErrorCause::ConnectRefused, .. } => "Connection refused",
            LoadError::Unreachable { cause, .. } => cause.words(),
            _ => return None,
        };
        let mut printed = self.report(&Report::empty("none"));
        printed.stderr = format!("[error] socket: unable to connect: {words}\n{}", printed.stderr);
        Some(printed)
    }

    fn footnotes(&self, report: &Report) -> Vec<String> {
        let mut notes = Vec::new();
        if self.users > self.limit {
            notes.push(format!(
                "siege would have started {} of these {} users (`limit` in its configuration).",
                self.limit, self.users
            ));
        }
        if report.total.len() > 1 {
            let [p50, p90, p99] = quantiles(&report.total, [0.5, 0.9, 0.99]);
            notes.push(format!(
                "siege rounds to 10 ms and has no percentiles. Measured: mean {}, median {p50}, 90 % {p90}, 99 % {p99}.",
                duration(report.total.mean())
            ));
        }
        let redirects = report.status_class(3);
        if self.follow && redirects > 0 {
            notes.push(format!("siege would have followed {} redirects.", thousands(redirects)));
        }
        if self.parser {
            notes.push(
                "HTML pages are not parsed: siege without --no-parser also fetches their images and scripts."
                    .to_owned(),
            );
        }
        if self.verbose && !self.json {
            notes.push("single transactions are not printed.".to_owned());
        }
        notes
    }

    fn log(&self) -> Option<&Path> {
        self.log.as_deref()
    }

    fn log_lines(&self, report: &Report, fresh: bool) -> String {
        let mut out = String::new();
        if fresh {
            out.push_str(
                "      Date & Time,  Trans,  Elap Time,  Data Trans,  Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed\n",
            );
        }
        if let Some(mark) = &self.mark {
            line!(out, "**** {mark} ****");
        }
        let date = utc(now_ms(), "%Y-%m-%d %H:%M:%S");
        let [hits, _, elapsed, megabytes, response, rate, throughput, concurrency, okay, failed, ..] =
            figures(report).map(|figure| figure.value);
        line!(
            out,
            "{date},{hits:7},{elapsed:11.2},{:12},{response:11.2},{rate:12.2},{throughput:12.2},{concurrency:12.2},{okay:8},{failed:8}",
            megabytes.round()
        );
        out
    }
}

/// One value of siege's report.
#[derive(Debug, Clone, Copy)]
struct Figure {
    /// Its label and tabs in the text output.
    label: &'static str,
    value: f64,
    /// Decimal places.
    digits: usize,
    /// Printed after the value in the text output.
    unit: &'static str,
    /// Its name and tabs in the JSON output.
    key: &'static str,
}

/// All values in siege's order. A hit is an answer below 500, a success an answer below 400; everything else
/// failed.
fn figures(report: &Report) -> [Figure; 12] {
    let hits = report.answers_by(|status| status < 500);
    let okay = report.answers_by(|status| status < 400);
    let failed = report.answers_by(|status| status >= 500) + report.counts.failed;
    let (hits, okay, failed) = (hits as f64, okay as f64, failed as f64);
    let times = &report.total;
    let [mean, longest, shortest] = if times.is_empty() {
        [0.0; 3]
    } else {
        [times.mean(), times.max() as f64, times.min() as f64].map(|time| time / 1e9)
    };
    let availability = if hits + failed > 0.0 { 100.0 * hits / (hits + failed) } else { 0.0 };
    let megabytes = report.bytes.received_bodies as f64 / MEGABYTE;
    let concurrency = per_second(report, mean * times.len() as f64);
    let figure = |label, value, digits, unit, key| Figure { label, value, digits, unit, key };
    [
        figure("Transactions:\t\t", hits, 0, " hits", "transactions\":\t\t\t"),
        figure("Availability:\t\t", availability, 2, " %", "availability\":\t\t\t"),
        figure("Elapsed time:\t\t", report.elapsed.as_secs_f64(), 2, " secs", "elapsed_time\":\t\t\t"),
        figure("Data transferred:\t", megabytes, 2, " MB", "data_transferred\":\t\t"),
        figure("Response time:\t\t", mean, 2, " secs", "response_time\":\t\t"),
        figure("Transaction rate:\t", per_second(report, hits), 2, " trans/sec", "transaction_rate\":\t\t"),
        figure("Throughput:\t\t", per_second(report, megabytes), 2, " MB/sec", "throughput\":\t\t\t"),
        figure("Concurrency:\t\t", concurrency, 2, "", "concurrency\":\t\t\t"),
        figure("Successful transactions:", okay, 0, "", "successful_transactions\":\t"),
        figure("Failed transactions:\t", failed, 0, "", "failed_transactions\":\t\t"),
        figure("Longest transaction:\t", longest, 2, "", "longest_transaction\":\t\t"),
        figure("Shortest transaction:\t", shortest, 2, "", "shortest_transaction\":\t\t"),
    ]
}

fn text(figures: &[Figure]) -> String {
    let mut out = String::new();
    for Figure { label, value, digits, unit, .. } in figures {
        line!(out, "{label}{value:12.digits$}{unit}");
    }
    line!(out, " ");
    out
}

fn json(figures: &[Figure]) -> String {
    let fields: Vec<String> = figures
        .iter()
        .map(|Figure { value, digits, key, .. }| format!("\t\"{key}{value:12.digits$}"))
        .collect();
    format!("{{{}\n}}\n", fields.join(",\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_nothing_prints_zeros_and_not_nan() {
        let printed = text(&figures(&Report::empty("test")));
        assert!(printed.starts_with("Transactions:\t\t           0 hits\nAvailability:\t\t        0.00 %\n"));
        assert!(!printed.contains("NaN") && !printed.contains("inf"));
    }
}
