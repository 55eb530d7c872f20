//! `ab`'s report from our measurement: its lines, in its order and widths.

use std::time::Duration;

use forkful_core::date_format::utc;
use forkful_load::report::spread::{Spread, at};
use forkful_load::{ErrorCause, Histogram, LoadError, Plan, Progress, Report};
use forkful_os::wall_clock::now_ms;

use super::{Ab, REQUESTS_OF_A_TIME_LIMIT};
use crate::figures::{line, per_second, quantiles};
use crate::{Dialect, Printed};

pub(super) const USAGE: &str = "\
Usage: ab [options] [http[s]://]hostname[:port]/path
Options, as `forkful bench --as ab` takes them:
    -n N            requests to make
    -c N            connections at a time
    -t S            seconds at most; implies -n 50000 unless -n comes later
    -s S            seconds to wait for an answer (30)
    -k              keep connections alive
    -p FILE         POST the file; -u FILE to PUT it; -T TYPE its content type (text/plain)
    -i              HEAD;  -m METHOD any other
    -H 'Name: x'    a header;  -C 'a=b' a cookie;  -A user:password basic authentication
    -l              accept documents of differing length
    -r              go on after errors of the socket
    -q              no progress;  -d no percentiles;  -S no deviations;  -w HTML tables (-x, -y, -z)
    -e FILE         percentiles as CSV;  -g FILE single requests for gnuplot
    -E FILE         client certificate and key;  -v N, -b N, -f P, -Z C, -I are accepted
    -V              version;  -h this text
";

/// The percentiles of ab's table.
const PERCENTS: [u32; 9] = [50, 66, 75, 80, 90, 95, 98, 99, 100];

/// Above this number of requests, ab prints progress lines.
const PROGRESS_FROM: u64 = 150;

/// ab's banner of three lines.
pub(super) fn banner() -> String {
    format!(
        "This is Forkful {}, reporting in the layout of ApacheBench, Version 2.3\n\
         The requests are made by Forkful's own engine, over HTTP/1.1\n\
         Notes on what ab would have told otherwise are on stderr\n\n",
        env!("CARGO_PKG_VERSION")
    )
}

impl Dialect for Ab {
    fn plan(&self) -> Result<Plan, LoadError> {
        Ok(self.load())
    }

    fn opening(&self) -> Printed {
        if self.html.is_some() {
            let version = env!("CARGO_PKG_VERSION");
            let text =
                format!("<p>\n This is Forkful {version}, in the layout of ApacheBench<br>\n</p>\n<p>\n");
            return Printed::stdout(text, 0);
        }
        let dots = if self.prints_progress() { "\n" } else { "..." };
        Printed::stdout(format!("{}Benchmarking {} (be patient){dots}", banner(), self.url.host), 0)
    }

    fn tick(&mut self, progress: &Progress) -> Printed {
        self.finish(progress.completed)
    }

    fn finish(&mut self, completed: u64) -> Printed {
        let mut printed = Printed::default();
        let step = (self.requests / 10).max(100);
        while self.prints_progress() && self.reported + step <= completed {
            self.reported += step;
            line!(printed.stderr, "Completed {} requests", self.reported);
        }
        printed
    }

    /// The report, the files of `-e` and `-g`, and the last line of progress.
    fn report(&self, report: &Report) -> Printed {
        let mut printed = Printed::default();
        if self.prints_progress() {
            line!(printed.stderr, "Finished {} requests", done(report));
        } else {
            printed.stdout.push_str("..done\n");
        }
        printed.stdout.push_str("\n\n");
        if self.html.is_some() {
            html(&mut printed.stdout, self, report);
        } else {
            text(&mut printed.stdout, self, report);
        }
        if let Some(path) = &self.csv {
            printed.files.push((path.clone(), csv(report).into_bytes()));
        }
        if let Some(path) = &self.gnuplot {
            printed.files.push((path.clone(), gnuplot(report).into_bytes()));
        }
        printed
    }

    fn unreachable(&self, error: &LoadError) -> Option<Printed> {
        let (text, exit) = match error {
            LoadError::Unreachable { cause: ErrorCause::ConnectRefused, .. } => {
                ("apr_socket_recv: Connection refused (111)".to_owned(), 111)
            }
            LoadError::Unreachable { cause, .. } if cause.is_timeout() => {
                ("apr_pollset_poll: The timeout specified has expired (70007)".to_owned(), 119)
            }
            LoadError::Unreachable { cause, detail, .. } => {
                (format!("apr_socket_connect(): {cause} {detail}"), 1)
            }
            LoadError::Resolve { host, .. } => {
                (format!("apr_sockaddr_info_get() for {host}: Name or service not known (670002)"), 50)
            }
            _ => return None,
        };
        Some(Printed::error(&text, exit))
    }

    fn footnotes(&self, report: &Report) -> Vec<String> {
        let mut notes = Vec::new();
        if report.length_differs > 0 && !self.variable_length {
            notes.push(format!(
                "ab would have counted {} of these answers as failed (Length), because their body is not as long as the \
                 first one's. An answer that differs, by a process id or a counter, is no failure; `-l` makes ab say so \
                 too.",
                report.length_differs
            ));
        }
        if self.keep_alive {
            notes.push(
                "connections were kept over HTTP/1.1. ab speaks HTTP/1.0: a Node.js server closes such a connection \
                 after each answer unless the app sets Content-Length itself, and `ab -k` then measures a connection \
                 per request (its `Keep-Alive requests` is 0)."
                    .to_owned(),
            );
        }
        if self.time_limit.is_some()
            && self.requests == REQUESTS_OF_A_TIME_LIMIT
            && done(report) >= self.requests
        {
            notes.push(
                "ended at 50,000 requests, before the time was up, as ab does: `-t` implies `-n 50000`. Put a larger \
                 `-n` after `-t`."
                    .to_owned(),
            );
        }
        if failed(report) > 0 && !self.go_on_after_errors {
            notes.push(
                "ab without `-r` would have ended at the first receive error, without a report.".to_owned(),
            );
        }
        if report.total.len() > 1 && whole_ms(at(&report.total, 0.5) as f64) < 5 {
            let [p50, p90, p99] = quantiles(&report.total, [0.5, 0.9, 0.99]);
            notes.push(format!(
                "ab rounds to whole milliseconds. Measured: median {p50}, 90 % {p90}, 99 % {p99}."
            ));
        }
        if self.gnuplot.is_some() && report.total.len() > report.samples.len() as u64 {
            notes.push(format!(
                "-g holds {} of the requests, evenly picked over the run.",
                report.samples.len()
            ));
        }
        if self.verbosity >= 2 {
            notes.push("-v prints no headers here.".to_owned());
        }
        if !self.ignored.is_empty() {
            notes.push(format!("{} changes nothing here.", self.ignored.join(", ")));
        }
        notes
    }
}

impl Ab {
    /// Whether `Completed … requests` is printed on stderr.
    fn prints_progress(&self) -> bool {
        !self.no_progress && self.requests > PROGRESS_FROM
    }
}

/// Requests that ab counts as done: answered with any status, or failed.
fn done(report: &Report) -> u64 {
    report.counts.completed + report.counts.carried_in + report.counts.failed
}

/// Label and value of each line of ab's first part, in its order.
fn fields(ab: &Ab, report: &Report) -> Vec<(&'static str, String)> {
    let first = report.first_response.as_ref();
    let mut fields = vec![
        ("Server Software:", first.and_then(|first| first.server.clone()).unwrap_or_default()),
        ("Server Hostname:", ab.url.host.clone()),
        ("Server Port:", ab.url.port.to_string()),
    ];
    if let Some(tls) = first.and_then(|first| first.tls.clone()) {
        fields.push(("SSL/TLS Protocol:", tls.replace(' ', ",")));
        fields.push(("TLS Server Name:", ab.url.host.clone()));
    }
    fields.push(("", String::new()));
    fields.push(("Document Path:", ab.path.clone()));
    let length = if ab.variable_length {
        "Variable".to_owned()
    } else {
        format!("{} bytes", first.map_or(0, |first| first.body_bytes))
    };
    fields.extend([("Document Length:", length), ("", String::new())]);
    fields.push(("Concurrency Level:", ab.concurrency.to_string()));
    fields.push(("Time taken for tests:", format!("{:.3} seconds", report.elapsed.as_secs_f64())));
    fields.push(("Complete requests:", done(report).to_string()));
    fields.push(("Failed requests:", failed(report).to_string()));
    if failed(report) > 0 {
        let connect = report.errors_by(ErrorCause::is_connect);
        let receive = report.errors_by(|cause| !cause.is_connect() && !cause.is_judgement());
        let detail = format!("(Connect: {connect}, Receive: {receive}, Length: 0, Exceptions: 0)");
        fields.push(("   ", detail));
    }
    let write_errors = report.errors_of(ErrorCause::SendFailed);
    if write_errors > 0 {
        fields.push(("Write errors:", write_errors.to_string()));
    }
    let bad = report.answers_by(|status| status / 100 != 2);
    if bad > 0 {
        fields.push(("Non-2xx responses:", bad.to_string()));
    }
    if ab.keep_alive {
        fields.push(("Keep-Alive requests:", kept_alive(report).to_string()));
    }
    fields.push(("Total transferred:", format!("{} bytes", report.bytes.received)));
    if ab.body.is_some() {
        fields.push(("Total body sent:", report.bytes.sent.to_string()));
    }
    fields.push(("HTML transferred:", format!("{} bytes", report.bytes.received_bodies)));
    fields
}

/// Requests whose connection was kept afterwards, as ab counts them: all but one for each connection that the
/// server closed.
fn kept_alive(report: &Report) -> u64 {
    report.counts.completed.saturating_sub(report.connections.closed_by_server)
}

fn failed(report: &Report) -> u64 {
    report.errors_by(|cause| !cause.is_judgement())
}

fn text(out: &mut String, ab: &Ab, report: &Report) {
    for (label, value) in fields(ab, report) {
        match label {
            "" => out.push('\n'),
            "   " => line!(out, "   {value}"),
            _ => line!(out, "{label:<23} {value}"),
        }
    }
    let seconds = report.elapsed.as_secs_f64();
    let done = done(report) as f64;
    if seconds > 0.0 && done > 0.0 {
        let c = ab.concurrency as f64;
        let received = report.bytes.received as f64 / 1024.0 / seconds;
        line!(out, "Requests per second:    {:.2} [#/sec] (mean)", done / seconds);
        line!(out, "Time per request:       {:.3} [ms] (mean)", c * seconds * 1e3 / done);
        let each = seconds * 1e3 / done;
        line!(out, "Time per request:       {each:.3} [ms] (mean, across all concurrent requests)");
        line!(out, "Transfer rate:          {received:.2} [Kbytes/sec] received");
        if ab.body.is_some() {
            let sent = report.bytes.sent as f64 / 1024.0 / seconds;
            line!(out, "                        {sent:.2} kb/s sent");
            line!(out, "                        {:.2} kb/s total", sent + received);
        }
    }
    if done > 0.0 {
        times(out, ab, report);
    }
    if !ab.no_percentiles && done > 1.0 {
        out.push_str("\nPercentage of the requests served within a certain time (ms)\n");
        for percent in PERCENTS {
            let value = whole_ms(at(&report.total, f64::from(percent) / 100.0) as f64);
            if percent == 100 {
                line!(out, " 100%  {value:5} (longest request)");
            } else {
                line!(out, "  {percent}%  {value:5}");
            }
        }
    }
}

/// One row of ab's table of times, in nanoseconds.
#[derive(Debug, Clone, Copy)]
struct Row {
    label: &'static str,
    words: &'static str,
    spread: Spread,
    median: f64,
}

fn rows(report: &Report) -> [Row; 4] {
    let row = |label, words, histogram: &Histogram| Row {
        label,
        words,
        spread: Spread::of(histogram),
        median: at(histogram, 0.5) as f64,
    };
    [
        Row { label: "Connect:", words: "the initial connection time", ..connect_row(report) },
        row("Processing:", "the processing time", &report.service),
        row("Waiting:", "the waiting time", &report.first_byte),
        row("Total:", "the total time", &report.total),
    ]
}

/// ab has a connect time for every request: 0 for a request on a kept connection.
fn connect_row(report: &Report) -> Row {
    let requests = report.total.len().max(1);
    let mut all = report.connect.clone();
    let kept = requests.saturating_sub(all.len());
    if all.record_n(0, kept).is_err() {
        all = report.connect.clone();
    }
    Row { label: "", words: "", spread: Spread::of(&all), median: at(&all, 0.5) as f64 }
}

fn times(out: &mut String, ab: &Ab, report: &Report) {
    out.push_str("\nConnection Times (ms)\n");
    let rows = rows(report);
    if ab.no_deviations {
        out.push_str("              min   avg   max\n");
        for Row { label, spread, .. } in rows {
            let [min, mean, max] = [spread.min as f64, spread.mean, spread.max as f64].map(whole_ms);
            line!(out, "{label:<12}{min:5} {mean:5}{max:5}");
        }
        return;
    }
    out.push_str("              min  mean[+/-sd] median   max\n");
    for Row { label, spread, median, .. } in rows {
        let [min, mean, middle, max] =
            [spread.min as f64, spread.mean, median, spread.max as f64].map(whole_ms);
        let deviation = spread.deviation / 1e6;
        line!(out, "{label:<12}{min:5} {mean:4} {deviation:5.1} {middle:6} {max:7}");
    }
    for Row { words, spread, median, .. } in rows {
        let apart = (spread.mean - median).abs();
        if spread.deviation <= 0.0 {
            continue;
        }
        if apart > 2.0 * spread.deviation {
            line!(
                out,
                "ERROR: The median and mean for {words} are more than twice the standard\n       deviation apart. These results are NOT reliable."
            );
        } else if apart > spread.deviation {
            line!(
                out,
                "WARNING: The median and mean for {words} are not within a normal deviation\n        These results are probably not that reliable."
            );
        }
    }
}

/// Whole milliseconds, with ab's rounding.
fn whole_ms(nanoseconds: f64) -> u64 {
    (nanoseconds / 1e6 + 0.5).floor() as u64
}

fn html(out: &mut String, ab: &Ab, report: &Report) {
    let attributes = ab.html.clone().unwrap_or_default();
    let (table, row, cell) = (&attributes.table, &attributes.row, &attributes.cell);
    let colour = if cell.is_empty() { "bgcolor=white" } else { cell };
    line!(out, "..done\n\n\n<table {table}>");
    let mut lines: Vec<(&str, String)> = fields(ab, report);
    lines.push(("Requests per second:", format!("{:.2}", per_second(report, done(report) as f64))));
    let received = per_second(report, report.bytes.received as f64 / 1024.0);
    lines.push(("Transfer rate:", format!("{received:.2} kb/s received")));
    for (label, value) in lines.iter().filter(|(label, _)| !label.is_empty()) {
        let (label, value) = (escaped(label.trim()), escaped(value));
        line!(out, "<tr {row}><th colspan=2 {colour}>{label}</th><td colspan=2 {colour}>{value}</td></tr>");
    }
    line!(out, "<tr {row}><th {colour} colspan=4>Connection Times (ms)</th></tr>");
    let head = ["&nbsp;", "min", "avg", "max"].map(|text| format!("<th {colour}>{text}</th>")).join(" ");
    line!(out, "<tr {row}>{head}</tr>");
    for Row { label, spread, .. } in rows(report).into_iter().filter(|row| row.label != "Waiting:") {
        let cells = [spread.min as f64, spread.mean, spread.max as f64]
            .map(|value| format!("<td {colour}>{:5}</td>", whole_ms(value)))
            .concat();
        line!(out, "<tr {row}><th {colour}>{label}</th>{cells}</tr>");
    }
    out.push_str("</table>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// `-e`: every percentile with three digits.
fn csv(report: &Report) -> String {
    let mut out = "Percentage served,Time in ms\n".to_owned();
    for percent in 0..=100_u32 {
        let value = match percent {
            0 => report.total.min(),
            _ => at(&report.total, f64::from(percent) / 100.0),
        };
        line!(out, "{percent},{:.3}", value as f64 / 1e6);
    }
    out
}

/// `-g`: the sampled requests, fastest first. ab has the connect time of each; the engine only samples the
/// total time, so `dtime`, `ttime` and `wait` are equal.
fn gnuplot(report: &Report) -> String {
    let mut out = "starttime\tseconds\tctime\tdtime\tttime\twait\n".to_owned();
    let mut samples = report.samples.clone();
    samples.sort_by_key(|sample| sample.response);
    let begun = Duration::from_millis(now_ms()).saturating_sub(report.elapsed + report.drained);
    for sample in samples {
        let at = begun + sample.at;
        let took = whole_ms(sample.response.as_nanos() as f64);
        let date = utc(at.as_millis() as u64, "%a %b %e %H:%M:%S %Y");
        line!(out, "{date}\t{}\t0\t{took}\t{took}\t{took}", at.as_secs());
    }
    out
}
