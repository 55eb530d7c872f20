//! `ab`'s report: its lines, in its order and widths, from our measurement.

use std::fmt::Write as _;
use std::time::Duration;

use forkful_core::date_format::utc;
use forkful_os::wall_clock::now_ms;

use super::{Options, REQUESTS_OF_A_TIME_LIMIT};
use crate::dialect::Printed;
use crate::report::spread::{Spread, at};
use crate::{ErrorCause, Histogram, LoadError, Report};

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

/// More requests than this, and ab tells of its progress.
const PROGRESS_FROM: u64 = 150;

/// Who speaks, in three lines as ab has them.
pub(super) fn banner() -> String {
    format!(
        "This is Forkful {}, reporting in the layout of ApacheBench, Version 2.3\n\
         The requests are made by Forkful's own engine, over HTTP/1.1\n\
         Notes on what ab would have told otherwise are on stderr\n\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// What ab says before the first request.
pub(in crate::dialect) fn opening(options: &Options) -> Printed {
    let stdout = if options.html.is_some() {
        format!(
            "<p>\n This is Forkful {}, in the layout of ApacheBench<br>\n</p>\n<p>\n",
            env!("CARGO_PKG_VERSION")
        )
    } else {
        let dots = if tells_progress(options) { "\n" } else { "..." };
        format!("{}Benchmarking {} (be patient){dots}", banner(), options.url.host)
    };
    Printed { stdout, ..Printed::default() }
}

/// Whether `Completed … requests` is told on stderr, and after how many each.
fn tells_progress(options: &Options) -> bool {
    options.progress && options.requests > PROGRESS_FROM
}

impl Options {
    /// So many requests lie between two lines of progress; `None`: there are none.
    pub(in crate::dialect) fn progress_step(&self) -> Option<u64> {
        tells_progress(self).then(|| (self.requests / 10).max(100))
    }
}

/// ab's words when no connection could be made.
pub(in crate::dialect) fn unreachable(error: &LoadError) -> Option<Printed> {
    let (stderr, exit) = match error {
        LoadError::Unreachable { cause: ErrorCause::ConnectRefused, .. } => {
            ("apr_socket_recv: Connection refused (111)\n".to_owned(), 111)
        }
        LoadError::Unreachable { cause, .. } if cause.is_timeout() => {
            ("apr_pollset_poll: The timeout specified has expired (70007)\n".to_owned(), 119)
        }
        LoadError::Unreachable { cause, detail, .. } => {
            (format!("apr_socket_connect(): {cause} {detail}\n"), 1)
        }
        LoadError::Resolve { host, .. } => {
            (format!("apr_sockaddr_info_get() for {host}: Name or service not known (670002)\n"), 50)
        }
        _ => return None,
    };
    Some(Printed { stderr, exit, ..Printed::default() })
}

/// The report, the files of `-e` and `-g`, and the last line of progress.
pub(in crate::dialect) fn report(options: &Options, report: &Report) -> Printed {
    let mut printed = Printed::default();
    if tells_progress(options) {
        writeln!(printed.stderr, "Finished {} requests", done(report)).expect(STRING);
    } else {
        printed.stdout.push_str("..done\n");
    }
    printed.stdout.push_str("\n\n");
    if options.html.is_some() {
        html(&mut printed.stdout, options, report);
    } else {
        text(&mut printed.stdout, options, report);
    }
    if let Some(path) = &options.csv {
        printed.files.push((path.clone(), csv(report).into_bytes()));
    }
    if let Some(path) = &options.gnuplot {
        printed.files.push((path.clone(), gnuplot(report).into_bytes()));
    }
    printed
}

const STRING: &str = "a String takes everything";

/// Requests that ab counts as done: answered in any way, or failed.
fn done(report: &Report) -> u64 {
    report.counts.completed + report.counts.carried_in + report.counts.failed
}

/// Label and value of each line of ab's first part, in its order.
fn fields(options: &Options, report: &Report) -> Vec<(&'static str, String)> {
    let first = report.first_response.as_ref();
    let mut fields = vec![
        ("Server Software:", first.and_then(|first| first.server.clone()).unwrap_or_default()),
        ("Server Hostname:", options.url.host.clone()),
        ("Server Port:", options.url.port.to_string()),
    ];
    if let Some(tls) = first.and_then(|first| first.tls.clone()) {
        fields.push(("SSL/TLS Protocol:", tls.replace(' ', ",")));
        fields.push(("TLS Server Name:", options.url.host.clone()));
    }
    fields.push(("", String::new()));
    fields.push(("Document Path:", options.path.clone()));
    let length = if options.variable_length {
        "Variable".to_owned()
    } else {
        format!("{} bytes", first.map_or(0, |first| first.body_bytes))
    };
    fields.extend([("Document Length:", length), ("", String::new())]);
    fields.push(("Concurrency Level:", options.concurrency.to_string()));
    fields.push(("Time taken for tests:", format!("{:.3} seconds", report.elapsed.as_secs_f64())));
    fields.push(("Complete requests:", done(report).to_string()));
    fields.push(("Failed requests:", failed(report).to_string()));
    if failed(report) > 0 {
        let connect: u64 = by(report, ErrorCause::is_connect);
        let receive: u64 = by(report, |cause| !cause.is_connect() && !cause.is_judgement());
        let detail = format!("(Connect: {connect}, Receive: {receive}, Length: 0, Exceptions: 0)");
        fields.push(("   ", detail));
    }
    let write_errors = report.errors_of(ErrorCause::SendFailed);
    if write_errors > 0 {
        fields.push(("Write errors:", write_errors.to_string()));
    }
    let answers: u64 = report.statuses.iter().map(|(_, count)| count).sum();
    if answers > report.status_class(2) {
        fields.push(("Non-2xx responses:", (answers - report.status_class(2)).to_string()));
    }
    if options.keep_alive {
        fields.push(("Keep-Alive requests:", kept_alive(report).to_string()));
    }
    fields.push(("Total transferred:", format!("{} bytes", report.bytes.received)));
    if options.body.is_some() {
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
    by(report, |cause| !cause.is_judgement())
}

fn by(report: &Report, wanted: impl Fn(ErrorCause) -> bool) -> u64 {
    report.errors.iter().filter(|error| wanted(error.cause)).map(|error| error.count).sum()
}

fn text(out: &mut String, options: &Options, report: &Report) {
    for (label, value) in fields(options, report) {
        match label {
            "" => out.push('\n'),
            "   " => writeln!(out, "   {value}").expect(STRING),
            _ => writeln!(out, "{label:<23} {value}").expect(STRING),
        }
    }
    let seconds = report.elapsed.as_secs_f64();
    let done = done(report) as f64;
    if seconds > 0.0 && done > 0.0 {
        let c = options.concurrency as f64;
        let received = report.bytes.received as f64 / 1024.0 / seconds;
        writeln!(out, "Requests per second:    {:.2} [#/sec] (mean)", done / seconds).expect(STRING);
        writeln!(out, "Time per request:       {:.3} [ms] (mean)", c * seconds * 1e3 / done).expect(STRING);
        let each = seconds * 1e3 / done;
        writeln!(out, "Time per request:       {each:.3} [ms] (mean, across all concurrent requests)")
            .expect(STRING);
        writeln!(out, "Transfer rate:          {received:.2} [Kbytes/sec] received").expect(STRING);
        if options.body.is_some() {
            let sent = report.bytes.sent as f64 / 1024.0 / seconds;
            writeln!(out, "                        {sent:.2} kb/s sent").expect(STRING);
            writeln!(out, "                        {:.2} kb/s total", sent + received).expect(STRING);
        }
    }
    if done > 0.0 {
        times(out, options, report);
    }
    if options.percentiles && done > 1.0 {
        out.push_str("\nPercentage of the requests served within a certain time (ms)\n");
        for percent in PERCENTS {
            let value = whole_ms(at(&report.total, f64::from(percent) / 100.0) as f64);
            if percent == 100 {
                writeln!(out, " 100%  {value:5} (longest request)").expect(STRING);
            } else {
                writeln!(out, "  {percent}%  {value:5}").expect(STRING);
            }
        }
    }
}

/// One row of ab's table of times, nanoseconds.
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

/// ab has a connect time for every request: 0 for one on a kept connection.
fn connect_row(report: &Report) -> Row {
    let requests = report.total.len().max(1);
    let mut all = report.connect.clone();
    let kept = requests.saturating_sub(all.len());
    if all.record_n(0, kept).is_err() {
        all = report.connect.clone();
    }
    Row { label: "", words: "", spread: Spread::of(&all), median: at(&all, 0.5) as f64 }
}

fn times(out: &mut String, options: &Options, report: &Report) {
    out.push_str("\nConnection Times (ms)\n");
    let rows = rows(report);
    if !options.deviations {
        out.push_str("              min   avg   max\n");
        for Row { label, spread, .. } in rows {
            let [min, mean, max] = [spread.min as f64, spread.mean, spread.max as f64].map(whole_ms);
            writeln!(out, "{label:<12}{min:5} {mean:5}{max:5}").expect(STRING);
        }
        return;
    }
    out.push_str("              min  mean[+/-sd] median   max\n");
    for Row { label, spread, median, .. } in rows {
        let [min, mean, middle, max] =
            [spread.min as f64, spread.mean, median, spread.max as f64].map(whole_ms);
        let deviation = spread.deviation / 1e6;
        writeln!(out, "{label:<12}{min:5} {mean:4} {deviation:5.1} {middle:6} {max:7}").expect(STRING);
    }
    for Row { words, spread, median, .. } in rows {
        let apart = (spread.mean - median).abs();
        if spread.deviation <= 0.0 {
            continue;
        }
        if apart > 2.0 * spread.deviation {
            writeln!(out, "ERROR: The median and mean for {words} are more than twice the standard\n       deviation apart. These results are NOT reliable.").expect(STRING);
        } else if apart > spread.deviation {
            writeln!(out, "WARNING: The median and mean for {words} are not within a normal deviation\n        These results are probably not that reliable.").expect(STRING);
        }
    }
}

/// Whole milliseconds, rounded as ab rounds.
fn whole_ms(nanoseconds: f64) -> u64 {
    (nanoseconds / 1e6 + 0.5).floor() as u64
}

fn html(out: &mut String, options: &Options, report: &Report) {
    let attributes = options.html.clone().unwrap_or_default();
    let (table, row, cell) = (&attributes.table, &attributes.row, &attributes.cell);
    let colour = if cell.is_empty() { "bgcolor=white" } else { cell };
    writeln!(out, "..done\n\n\n<table {table}>").expect(STRING);
    let seconds = report.elapsed.as_secs_f64();
    let per_second = |value: f64| if seconds > 0.0 { value / seconds } else { 0.0 };
    let mut lines: Vec<(&str, String)> = fields(options, report);
    lines.push(("Requests per second:", format!("{:.2}", per_second(done(report) as f64))));
    let received = per_second(report.bytes.received as f64 / 1024.0);
    lines.push(("Transfer rate:", format!("{received:.2} kb/s received")));
    for (label, value) in lines.iter().filter(|(label, _)| !label.is_empty()) {
        let (label, value) = (escaped(label.trim()), escaped(value));
        writeln!(
            out,
            "<tr {row}><th colspan=2 {colour}>{label}</th><td colspan=2 {colour}>{value}</td></tr>"
        )
        .expect(STRING);
    }
    writeln!(out, "<tr {row}><th {colour} colspan=4>Connection Times (ms)</th></tr>").expect(STRING);
    let head = ["&nbsp;", "min", "avg", "max"].map(|text| format!("<th {colour}>{text}</th>")).join(" ");
    writeln!(out, "<tr {row}>{head}</tr>").expect(STRING);
    for Row { label, spread, .. } in rows(report).into_iter().filter(|row| row.label != "Waiting:") {
        let cells = [spread.min as f64, spread.mean, spread.max as f64]
            .map(|value| format!("<td {colour}>{:5}</td>", whole_ms(value)))
            .concat();
        writeln!(out, "<tr {row}><th {colour}>{label}</th>{cells}</tr>").expect(STRING);
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
        writeln!(out, "{percent},{:.3}", value as f64 / 1e6).expect(STRING);
    }
    out
}

/// `-g`: the requests that the engine kept, the quickest first. ab has the connect time of each; the engine
/// keeps the whole, so it stands in `dtime`, `ttime` and `wait` alike.
fn gnuplot(report: &Report) -> String {
    let mut out = "starttime\tseconds\tctime\tdtime\tttime\twait\n".to_owned();
    let mut samples = report.samples.clone();
    samples.sort_by_key(|sample| sample.response);
    let begun = Duration::from_millis(now_ms()).saturating_sub(report.elapsed + report.drained);
    for sample in samples {
        let at = begun + sample.at;
        let took = whole_ms(sample.response.as_nanos() as f64);
        let date = utc(at.as_millis() as u64, "%a %b %e %H:%M:%S %Y");
        writeln!(out, "{date}\t{}\t0\t{took}\t{took}\t{took}", at.as_secs()).expect(STRING);
    }
    out
}

/// Where ab would have told something else.
pub(in crate::dialect) fn footnotes(options: &Options, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if report.length_differs > 0 && !options.variable_length {
        notes.push(format!(
            "ab would have counted {} of these answers as failed (Length), because their body is not as long as the \
             first one's. An answer that differs, by a process id or a counter, is no failure; `-l` makes ab say so \
             too.",
            report.length_differs
        ));
    }
    if options.keep_alive {
        notes.push(
            "connections were kept over HTTP/1.1. ab speaks HTTP/1.0: a Node.js server closes such a connection \
             after each answer unless the app sets Content-Length itself, and `ab -k` then measures a connection \
             per request (its `Keep-Alive requests` is 0)."
                .to_owned(),
        );
    }
    if options.time_limit.is_some()
        && options.requests == REQUESTS_OF_A_TIME_LIMIT
        && done(report) >= options.requests
    {
        notes.push(
            "ended at 50,000 requests, before the time was up, as ab does: `-t` implies `-n 50000`. Put a larger \
             `-n` after `-t`."
                .to_owned(),
        );
    }
    if failed(report) > 0 && !options.go_on_after_errors {
        notes.push(
            "ab without `-r` would have ended at the first receive error, without a report.".to_owned(),
        );
    }
    if report.total.len() > 1 && whole_ms(at(&report.total, 0.5) as f64) < 5 {
        notes.push(format!(
            "ab rounds to whole milliseconds. Measured: median {}, 90 % {}, 99 % {}.",
            crate::report::spread::duration(at(&report.total, 0.5) as f64),
            crate::report::spread::duration(at(&report.total, 0.9) as f64),
            crate::report::spread::duration(at(&report.total, 0.99) as f64),
        ));
    }
    if options.gnuplot.is_some() && report.total.len() > report.samples.len() as u64 {
        notes.push(format!("-g holds {} of the requests, evenly picked over the run.", report.samples.len()));
    }
    if options.verbosity >= 2 {
        notes.push("-v prints no headers here.".to_owned());
    }
    if !options.ignored.is_empty() {
        notes.push(format!("{} changes nothing here.", options.ignored.join(", ")));
    }
    notes
}
