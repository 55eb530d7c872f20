//! siege's report, 4.0's lines and tabs, from our measurement.

use std::fmt::Write as _;

use forkful_core::date_format::utc;
use forkful_os::wall_clock::now_ms;

use super::Options;
use crate::dialect::Printed;
use crate::report::spread::{at, duration, thousands};
use crate::{ErrorCause, LoadError, Report};

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

const STRING: &str = "a String takes everything";
const MEGABYTE: f64 = 1024.0 * 1024.0;

/// What siege says before the first request.
pub(in crate::dialect) fn opening(options: &Options) -> Printed {
    if options.json || options.quiet {
        return Printed::default();
    }
    let stderr = format!(
        "** FORKFUL {} in the layout of SIEGE 4.0.7\n** Preparing {} concurrent users for battle.\n\
         The server is now under siege...",
        env!("CARGO_PKG_VERSION"),
        options.users
    );
    Printed { stderr, ..Printed::default() }
}

/// siege reports refused connections like everything else, so there is a report of nothing.
pub(in crate::dialect) fn unreachable(options: &Options, error: &LoadError) -> Option<Printed> {
    let words = match error {
        LoadError::Unreachable { cause: ErrorCause::ConnectRefused, .. } => "Connection refused".to_owned(),
        LoadError::Unreachable { cause, .. } => cause.words().to_owned(),
        _ => return None,
    };
    let mut empty = Report::empty("none");
    empty.errors = Vec::new();
    let mut printed = report(options, &empty);
    printed.stderr = format!("[error] socket: unable to connect: {words}\n{}", printed.stderr);
    Some(printed)
}

/// siege's numbers.
struct Numbers {
    hits: u64,
    okay: u64,
    failed: u64,
    availability: f64,
    elapsed: f64,
    megabytes: f64,
    response: f64,
    rate: f64,
    throughput: f64,
    concurrency: f64,
    longest: f64,
    shortest: f64,
}

impl Numbers {
    /// A hit is an answer below 500, a success one below 400; all else failed.
    fn of(report: &Report) -> Self {
        let below = |limit: u16| -> u64 {
            report.statuses.iter().filter(|(status, _)| *status < limit).map(|(_, count)| count).sum()
        };
        let answers: u64 = report.statuses.iter().map(|(_, count)| count).sum();
        let hits = below(500);
        let failed = answers - hits + report.counts.failed;
        let elapsed = report.elapsed.as_secs_f64();
        let per_second = |value: f64| if elapsed > 0.0 { value / elapsed } else { 0.0 };
        let mean = if report.total.is_empty() { 0.0 } else { report.total.mean() / 1e9 };
        let megabytes = report.bytes.received_bodies as f64 / MEGABYTE;
        Self {
            hits,
            okay: below(400),
            failed,
            availability: if hits + failed > 0 { 100.0 * hits as f64 / (hits + failed) as f64 } else { 0.0 },
            elapsed,
            megabytes,
            response: mean,
            rate: per_second(hits as f64),
            throughput: per_second(megabytes),
            concurrency: per_second(mean * report.total.len() as f64),
            longest: report.total.max() as f64 / 1e9,
            shortest: if report.total.is_empty() { 0.0 } else { report.total.min() as f64 / 1e9 },
        }
    }
}

/// The report: JSON on stdout, or text on stderr.
pub(in crate::dialect) fn report(options: &Options, report: &Report) -> Printed {
    let numbers = Numbers::of(report);
    let mut printed = Printed::default();
    if options.json {
        printed.stdout = json(&numbers);
        printed.stderr.push('\n');
    } else if !options.quiet {
        printed.stderr.push('\n');
        printed.stderr.push_str(if options.time.is_some() {
            "\nLifting the server siege...\n"
        } else {
            "\n"
        });
        printed.stderr.push_str(&text(&numbers));
    }
    printed
}

fn text(n: &Numbers) -> String {
    let mut out = String::new();
    let mut line = |text: std::fmt::Arguments<'_>| writeln!(out, "{text}").expect(STRING);
    line(format_args!("Transactions:\t\t{:12} hits", n.hits));
    line(format_args!("Availability:\t\t{:12.2} %", n.availability));
    line(format_args!("Elapsed time:\t\t{:12.2} secs", n.elapsed));
    line(format_args!("Data transferred:\t{:12.2} MB", n.megabytes));
    line(format_args!("Response time:\t\t{:12.2} secs", n.response));
    line(format_args!("Transaction rate:\t{:12.2} trans/sec", n.rate));
    line(format_args!("Throughput:\t\t{:12.2} MB/sec", n.throughput));
    line(format_args!("Concurrency:\t\t{:12.2}", n.concurrency));
    line(format_args!("Successful transactions:{:12}", n.okay));
    line(format_args!("Failed transactions:\t{:12}", n.failed));
    line(format_args!("Longest transaction:\t{:12.2}", n.longest));
    line(format_args!("Shortest transaction:\t{:12.2}", n.shortest));
    line(format_args!(" "));
    out
}

fn json(n: &Numbers) -> String {
    format!(
        "{{\t\"transactions\":\t\t\t{:12},\n\t\"availability\":\t\t\t{:12.2},\n\t\"elapsed_time\":\t\t\t{:12.2},\n\
         \t\"data_transferred\":\t\t{:12.2},\n\t\"response_time\":\t\t{:12.2},\n\t\"transaction_rate\":\t\t{:12.2},\n\
         \t\"throughput\":\t\t\t{:12.2},\n\t\"concurrency\":\t\t\t{:12.2},\n\t\"successful_transactions\":\t{:12},\n\
         \t\"failed_transactions\":\t\t{:12},\n\t\"longest_transaction\":\t\t{:12.2},\n\
         \t\"shortest_transaction\":\t\t{:12.2}\n}}\n",
        n.hits,
        n.availability,
        n.elapsed,
        n.megabytes,
        n.response,
        n.rate,
        n.throughput,
        n.concurrency,
        n.okay,
        n.failed,
        n.longest,
        n.shortest,
    )
}

/// What `-l` and `-m` add to the log file; `fresh`: the file is new and gets its heading.
pub(in crate::dialect) fn log_lines(options: &Options, report: &Report, fresh: bool) -> String {
    let n = Numbers::of(report);
    let mut out = String::new();
    if fresh {
        out.push_str(
            "      Date & Time,  Trans,  Elap Time,  Data Trans,  Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed\n",
        );
    }
    if let Some(mark) = &options.mark {
        writeln!(out, "**** {mark} ****").expect(STRING);
    }
    let date = utc(now_ms(), "%Y-%m-%d %H:%M:%S");
    writeln!(
        out,
        "{date},{:7},{:11.2},{:12},{:11.2},{:12.2},{:12.2},{:12.2},{:8},{:8}",
        n.hits,
        n.elapsed,
        n.megabytes.round() as u64,
        n.response,
        n.rate,
        n.throughput,
        n.concurrency,
        n.okay,
        n.failed,
    )
    .expect(STRING);
    out
}

/// Where siege would have told something else.
pub(in crate::dialect) fn footnotes(options: &Options, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if options.users > options.limit {
        notes.push(format!(
            "siege would have started {} of these {} users (`limit` in its configuration).",
            options.limit, options.users
        ));
    }
    if report.total.len() > 1 {
        let [p50, p90, p99] = [0.5, 0.9, 0.99].map(|quantile| duration(at(&report.total, quantile) as f64));
        notes.push(format!(
            "siege rounds to 10 ms and has no percentiles. Measured: mean {}, median {p50}, 90 % {p90}, 99 % {p99}.",
            duration(report.total.mean())
        ));
    }
    let redirects = report.status_class(3);
    if options.follow && redirects > 0 {
        notes.push(format!("siege would have followed {} redirects.", thousands(redirects)));
    }
    if options.parser {
        notes.push(
            "HTML pages are not parsed: siege without --no-parser also fetches their images and scripts."
                .to_owned(),
        );
    }
    if options.verbose && !options.json {
        notes.push("single transactions are not printed.".to_owned());
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_of_nothing_prints_zeros_and_not_nan() {
        let printed = text(&Numbers::of(&Report::empty("test")));
        assert!(printed.starts_with("Transactions:\t\t           0 hits\nAvailability:\t\t        0.00 %\n"));
        assert!(!printed.contains("NaN") && !printed.contains("inf"));
    }
}
