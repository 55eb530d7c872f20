//! autocannon's report from our measurement: tables on stderr, or JSON on stdout.

use forkful_core::date_format::iso_8601;
use forkful_load::report::spread::{Spread, at, thousands};
use forkful_load::{ErrorCause, Histogram, LoadError, Plan, Report, Window};
use forkful_os::wall_clock::now_ms;
use serde_json::{Map, Number, Value, json};

use super::Autocannon;
use crate::figures::{decimals, found_no_server, line};
use crate::{Dialect, Printed};

pub(super) const USAGE: &str = "\
Usage: autocannon [opts] URL...
Options, as `forkful bench --as autocannon` takes them:
  -c NUM  connections (10)            -p NUM  pipelined requests (1)
  -d SEC  seconds (10), or 30s, 2m    -a NUM  requests instead
  -w NUM  threads of the generator    -t NUM  seconds to wait for an answer (10)
  -R NUM  requests per second in all  -r NUM  requests per second of each connection
  -m METHOD  -H K=V  -b BODY  -i FILE -I replace [<id>] by a number
  -W [ -c 1 -d 3 ]  warm up first     -D NUM  requests per connection, then a new one
  -M NUM  requests of a connection    -O NUM  requests in all, within -d
  -E BODY  the body expected          -B NUM  end after so many errors
  -L NUM  milliseconds of a sample    -S PATH  unix socket
  -l  all percentiles   --renderStatusCodes   -j  JSON   -n  print nothing   -T TITLE
  -s NAME  --cert FILE  --key FILE  --ca FILE   -C, -x, -V, --debug are accepted   -v  -h
";

/// Percentiles of the long table and of the JSON.
const PERCENTILES: [f64; 15] =
    [0.001, 0.01, 0.1, 1.0, 2.5, 10.0, 25.0, 50.0, 75.0, 90.0, 97.5, 99.0, 99.9, 99.99, 99.999];

impl Dialect for Autocannon {
    fn plan(&self) -> Result<Plan, LoadError> {
        self.load()
    }

    fn opening(&self) -> Printed {
        if self.json || self.silent {
            return Printed::default();
        }
        let urls = self.urls.join(",");
        let mut out = String::new();
        if let Some((connections, seconds)) = self.warmup {
            line!(out, "Running {seconds}s warmup @ {urls}\n{connections} connections\n");
        }
        let what = match self.amount {
            Some(amount) => format!("{amount} requests"),
            None => format!("{}s", self.duration),
        };
        let socket = self.socket.as_ref().map(|path| format!(" ({})", path.display())).unwrap_or_default();
        let pipelining = match self.pipelining {
            ..2 => String::new(),
            factor => format!(" with {factor} pipelining factor"),
        };
        line!(out, "Running {what} test @ {urls}{socket}\n{} connections{pipelining}", self.connections);
        if self.workers > 0 {
            line!(out, "{} workers", self.workers);
        }
        line!(out);
        Printed::stderr(out, 0)
    }

    fn report(&self, report: &Report) -> Printed {
        let samples = Samples::of(self, report);
        if self.json {
            Printed::stdout(format!("{}\n", document(self, report, &samples)), 0)
        } else if self.silent {
            Printed::default()
        } else {
            Printed::stderr(text(self, report, &samples), 0)
        }
    }

    /// Refused connections count as ordinary errors.
    fn unreachable(&self, error: &LoadError) -> Option<Printed> {
        found_no_server(error).then(|| self.report(&Report::empty("none")))
    }

    fn footnotes(&self, report: &Report) -> Vec<String> {
        super::notes::footnotes(self, report)
    }
}

/// Answers and bytes in each sample interval.
struct Samples {
    requests: Vec<f64>,
    bytes: Vec<f64>,
}

impl Samples {
    /// Only complete intervals; if there is none, the incomplete one.
    fn of(autocannon: &Autocannon, report: &Report) -> Self {
        let interval = u128::from(autocannon.sample.max(1)) * 1_000_000;
        let mut samples = Self {
            requests: spread(&report.windows, interval, |window| window.completed),
            bytes: spread(&report.windows, interval, |window| window.received),
        };
        let filled = report.windows.last().map_or(0, |last| (last.start + last.length).as_nanos());
        let whole = (filled / interval) as usize;
        // The last window may be slightly shorter than the interval.
        let almost = (filled + interval / 20) / interval;
        let keep = whole.max(almost as usize).max(1);
        samples.requests.truncate(keep);
        samples.bytes.truncate(keep);
        samples
    }
}

/// Distributes the counts of windows over sample intervals of this many nanoseconds. A window's count is
/// assumed to be evenly distributed over it: the windows of a long run are longer than an interval, and may
/// begin in one and end in another. Rounding loses nothing.
fn spread(windows: &[Window], interval: u128, count: impl Fn(&Window) -> u64) -> Vec<f64> {
    let mut samples = Vec::new();
    let (mut sum, mut told, mut edge) = (0, 0, interval);
    for window in windows {
        let (start, length, counted) = (window.start.as_nanos(), window.length.as_nanos(), count(window));
        while edge <= start + length {
            let until = sum + (u128::from(counted) * edge.saturating_sub(start) / length.max(1)) as u64;
            samples.push((until - told) as f64);
            (told, edge) = (until, edge + interval);
        }
        sum += counted;
    }
    samples.push((sum - told) as f64);
    samples
}

/// autocannon's statistics of a list of samples.
struct Figures {
    sorted: Vec<f64>,
    mean: f64,
    deviation: f64,
}

impl Figures {
    fn of(samples: &[f64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len().max(1) as f64;
        let mean = sorted.iter().sum::<f64>() / count;
        let deviation = (sorted.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt();
        Self { sorted, mean, deviation }
    }

    fn at(&self, percent: f64) -> f64 {
        let rank = (percent / 100.0 * self.sorted.len() as f64).ceil().max(1.0) as usize;
        self.sorted.get(rank - 1).or(self.sorted.last()).copied().unwrap_or(0.0)
    }

    fn min(&self) -> f64 {
        self.sorted.first().copied().unwrap_or(0.0)
    }

    fn max(&self) -> f64 {
        self.sorted.last().copied().unwrap_or(0.0)
    }
}

fn text(autocannon: &Autocannon, report: &Report, samples: &Samples) -> String {
    let mut out = "\n".to_owned();
    let latency = Spread::of(&report.response);
    let ms = |nanoseconds: u64| format!("{} ms", nanoseconds / 1_000_000);
    let percent = |percent: f64| ms(at(&report.response, percent / 100.0));
    let mut row = vec!["Latency".to_owned()];
    row.extend([2.5, 50.0, 97.5, 99.0].map(percent));
    row.extend([latency.mean, latency.deviation].map(|value| format!("{} ms", decimals(value / 1e6, 2))));
    row.push(ms(latency.max));
    table(&mut out, &["Stat", "2.5%", "50%", "97.5%", "99%", "Avg", "Stdev", "Max"], &[row]);
    let rows =
        [("Req/Sec", &samples.requests, grouped as fn(f64) -> String), ("Bytes/Sec", &samples.bytes, bytes)]
            .map(|(name, samples, written)| {
                let figures = Figures::of(samples);
                let mut row = vec![name.to_owned()];
                row.extend([1.0, 2.5, 50.0, 97.5].map(|percent| written(figures.at(percent))));
                row.extend([figures.mean, figures.deviation, figures.min()].map(written));
                row
            });
    table(&mut out, &["Stat", "1%", "2.5%", "50%", "97.5%", "Avg", "Stdev", "Min"], &rows);
    if autocannon.status_codes {
        let rows: Vec<_> = report
            .statuses
            .iter()
            .map(|(status, count)| vec![status.to_string(), count.to_string()])
            .collect();
        table(&mut out, &["Code", "Count"], &rows);
    }
    let every = match autocannon.sample {
        1_000 => "once per second.".to_owned(),
        sample => format!("every {} seconds.", sample as f64 / 1e3),
    };
    line!(out, "\nReq/Bytes counts sampled {every}\n# of samples: {}\n", samples.requests.len());
    if autocannon.latency_table {
        let rows: Vec<_> = PERCENTILES
            .iter()
            .map(|percent| {
                let value = at(&report.response, percent / 100.0) / 1_000_000;
                vec![percent.to_string(), value.to_string()]
            })
            .collect();
        table(&mut out, &["Percentile", "Latency (ms)"], &rows);
        out.push('\n');
    }
    tail(&mut out, report);
    out
}

fn tail(out: &mut String, report: &Report) {
    let bad = report.answers_by(|status| status / 100 != 2);
    if bad > 0 {
        line!(out, "{} 2xx responses, {bad} non 2xx responses", report.status_class(2));
    }
    // Sent requests, including those without an answer.
    let sent = report.counts.started;
    let seconds = decimals(report.elapsed.as_secs_f64(), 2);
    line!(out, "{} requests in {seconds}s, {} read", short(sent), bytes(report.bytes.received as f64));
    let [errors, timeouts] = errors_and_timeouts(report);
    if errors > 0 {
        line!(out, "{} errors ({} timeouts)", short(errors), short(timeouts));
    }
    let mismatched = report.errors_of(ErrorCause::UnexpectedBody);
    if mismatched > 0 {
        line!(out, "{} requests with mismatched body", short(mismatched));
    }
}

/// Connection errors, and the timeouts among them.
fn errors_and_timeouts(report: &Report) -> [u64; 2] {
    [report.errors_by(|cause| !cause.is_judgement()), report.errors_by(ErrorCause::is_timeout)]
}

fn document(autocannon: &Autocannon, report: &Report, samples: &Samples) -> Value {
    let finish = now_ms().saturating_sub(report.drained.as_millis() as u64);
    let start = finish.saturating_sub(report.elapsed.as_millis() as u64);
    let [errors, timeouts] = errors_and_timeouts(report);
    let mut head = json!({
        "title": autocannon.title,
        "url": match autocannon.urls.as_slice() {
            [one] => json!(one),
            many => json!(many),
        },
        "socketPath": autocannon.socket.as_ref().map(|path| path.display().to_string()),
    });
    let head = head.as_object_mut().expect("an object");
    head.retain(|_, value| !value.is_null());
    let codes: Map<String, Value> =
        report.statuses.iter().map(|(status, count)| (status.to_string(), json!({"count": count}))).collect();
    let mut requests = figures(&samples.requests, report.counts.completed + report.counts.carried_in);
    requests["sent"] = json!(report.counts.started);
    let mut document = json!({
        "connections": autocannon.connections,
        "sampleInt": autocannon.sample,
        "pipelining": autocannon.pipelining,
        "workers": autocannon.workers,
        "duration": number(report.elapsed.as_secs_f64()),
        "samples": samples.requests.len(),
        "start": iso_8601(start),
        "finish": iso_8601(finish),
        "errors": errors,
        "timeouts": timeouts,
        "mismatches": report.errors_of(ErrorCause::UnexpectedBody),
        "non2xx": report.answers_by(|status| status / 100 != 2),
        "resets": 0,
        "1xx": report.status_class(1),
        "2xx": report.status_class(2),
        "3xx": report.status_class(3),
        "4xx": report.status_class(4),
        "5xx": report.status_class(5),
        "statusCodeStats": codes,
        "latency": latency(&report.response),
        "requests": requests,
        "throughput": figures(&samples.bytes, report.bytes.received),
    });
    head.append(document.as_object_mut().expect("an object"));
    json!(head)
}

/// In milliseconds, with fractions where autocannon rounds to whole ones.
fn latency(histogram: &Histogram) -> Value {
    let spread = Spread::of(histogram);
    let heads = [spread.mean, spread.deviation, spread.min as f64, spread.max as f64].map(millis);
    let mut out = distribution(heads, None, |percent| millis(at(histogram, percent / 100.0) as f64));
    out["totalCount"] = json!(spread.count);
    out
}

fn figures(samples: &[f64], total: u64) -> Value {
    let figures = Figures::of(samples);
    let heads = [figures.mean, figures.deviation, figures.min(), figures.max()].map(number);
    distribution(heads, Some(total), |percent| number(figures.at(percent)))
}

fn distribution(
    [mean, deviation, min, max]: [Value; 4],
    total: Option<u64>,
    value: impl Fn(f64) -> Value,
) -> Value {
    let mut out = json!({ "average": mean, "mean": mean, "stddev": deviation, "min": min, "max": max });
    if let Some(total) = total {
        out["total"] = json!(total);
    }
    for percent in PERCENTILES {
        out[format!("p{percent}").replace('.', "_")] = value(percent);
    }
    out
}

fn millis(nanoseconds: f64) -> Value {
    rounded(nanoseconds / 1e6, 1e3)
}

fn number(value: f64) -> Value {
    rounded(value, 1e2)
}

/// A whole number without a decimal point, as JavaScript prints it.
fn rounded(value: f64, factor: f64) -> Value {
    let value = (value * factor).round() / factor;
    if value.fract() == 0.0 {
        json!(value as i64)
    } else {
        Number::from_f64(value).map_or(Value::Null, Value::Number)
    }
}

/// With thousands separators and at most two decimal places.
fn grouped(value: f64) -> String {
    let text = decimals(value, 2);
    let (whole, fraction) = text.split_once('.').map_or((text.as_str(), None), |(w, f)| (w, Some(f)));
    let whole = thousands(whole.parse().unwrap_or(0));
    fraction.map_or(whole.clone(), |fraction| format!("{whole}.{fraction}"))
}

/// `999`, `251k`.
fn short(count: u64) -> String {
    if count < 1_000 { count.to_string() } else { format!("{}k", (count as f64 / 1e3).round()) }
}

/// Three significant digits: `26.3 kB`.
fn bytes(count: f64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    if count < 1.0 {
        return format!("{} B", decimals(count, 2));
    }
    let unit = ((count.log10() / 3.0).floor() as usize).min(UNITS.len() - 1);
    let value = count / 1e3_f64.powi(unit as i32);
    let digits = (2 - value.log10().floor() as i32).max(0) as usize;
    format!("{} {}", decimals(value, digits), UNITS[unit])
}

/// A table with borders, rules between all rows, and one space on each side of a cell.
fn table(out: &mut String, head: &[&str], rows: &[Vec<String>]) {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([head[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let rule = |left: &str, middle: &str, right: &str| {
        let cells: Vec<String> = widths.iter().map(|width| "─".repeat(width + 2)).collect();
        format!("{left}{}{right}\n", cells.join(middle))
    };
    let line = |cells: Vec<&str>| {
        let cells: Vec<String> =
            cells.iter().zip(&widths).map(|(cell, width)| format!(" {cell:<width$} ")).collect();
        format!("│{}│\n", cells.join("│"))
    };
    out.push_str(&rule("┌", "┬", "┐"));
    out.push_str(&line(head.to_vec()));
    for row in rows {
        out.push_str(&rule("├", "┼", "┤"));
        out.push_str(&line(row.iter().map(String::as_str).collect()));
    }
    out.push_str(&rule("└", "┴", "┘"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_as_autocannon_writes_them() {
        assert_eq!(
            [0.0, 254.0, 1_280.0, 26_300.0, 2_840_000.0].map(bytes),
            ["0 B", "254 B", "1.28 kB", "26.3 kB", "2.84 MB"]
        );
        assert_eq!([0.0, 813.214, 3_088.65, 22_168.0].map(grouped), ["0", "813.21", "3,088.65", "22,168"]);
        assert_eq!([999, 1_499, 251_000].map(short), ["999", "1k", "251k"]);
    }

    #[test]
    fn tables_have_a_rule_between_all_rows() {
        let mut out = String::new();
        table(&mut out, &["Code", "Count"], &[vec!["200".to_owned(), "160".to_owned()]]);
        assert_eq!(
            out,
            "┌──────┬───────┐\n│ Code │ Count │\n├──────┼───────┤\n│ 200  │ 160   │\n└──────┴───────┘\n"
        );
    }
}
