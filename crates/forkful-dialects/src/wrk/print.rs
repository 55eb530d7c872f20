//! wrk's report from our measurement: its lines, units and widths.

use std::time::Duration;

use forkful_load::report::spread::{Spread, at, duration};
use forkful_load::{ErrorCause, LoadError, Plan, Report};

use super::Wrk;
use crate::figures::{causes, line, per_second};
use crate::{Dialect, Printed};

pub(super) const USAGE: &str = "\
Usage: wrk <options> <url>
  Options, as `forkful bench --as wrk` takes them:
    -c, --connections N   connections, all of them (10)
    -d, --duration T      how long: 10s, 2m, 1h (10s)
    -t, --threads N       threads of the generator (2)
    -H, --header 'N: v'   a header
        --latency         print the distribution
    -T, --timeout T       what takes longer is counted as a timeout (2s)
    -v, --version         say who speaks

  Numbers may be written 1k, 1M, 1G.
";

impl Dialect for Wrk {
    fn plan(&self) -> Result<Plan, LoadError> {
        self.load()
    }

    fn opening(&self) -> Printed {
        let mut out = String::new();
        if self.version {
            line!(out, "forkful {} in the layout of wrk 4", env!("CARGO_PKG_VERSION"));
        }
        line!(out, "Running {} test @ {}", whole_time(self.duration), self.url);
        line!(out, "  {} threads and {} connections", self.threads, self.connections);
        Printed::stdout(out, 0)
    }

    fn opens_when_connected(&self) -> bool {
        true
    }

    fn report(&self, report: &Report) -> Printed {
        let mut out = "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n".to_owned();
        let latency = Spread::of(&report.response);
        out.push_str("    Latency   ");
        let micro = |nanoseconds: f64| time(nanoseconds / 1e3);
        columns(&mut out, [latency.mean, latency.deviation, latency.max as f64].map(micro));
        share(&mut out, latency.within_deviation(&report.response));
        let rates = rates(report);
        out.push_str("    Req/Sec   ");
        columns(&mut out, [rates.mean, rates.deviation, rates.max].map(metric));
        share(&mut out, rates.within);
        if self.latency {
            out.push_str("  Latency Distribution\n");
            for percent in [50, 75, 90, 99] {
                let value = micro(at(&report.response, f64::from(percent) / 100.0) as f64);
                line!(out, "{percent:7}%{}", padded(&value, 10));
            }
        }
        let requests = report.counts.completed + report.counts.carried_in;
        let elapsed = time(report.elapsed.as_secs_f64() * 1e6);
        line!(out, "  {requests} requests in {elapsed}, {}B read", binary(report.bytes.received as f64));
        let [connect, read, write, late] = self.socket_errors(report);
        if connect + read + write + late > 0 {
            line!(out, "  Socket errors: connect {connect}, read {read}, write {write}, timeout {late}");
        }
        let bad = report.answers_by(|status| status > 399);
        if bad > 0 {
            line!(out, "  Non-2xx or 3xx responses: {bad}");
        }
        line!(out, "Requests/sec: {:9.2}", per_second(report, requests as f64));
        let transfer = binary(per_second(report, report.bytes.received as f64));
        line!(out, "Transfer/sec: {transfer:>10}B");
        Printed::stdout(out, 0)
    }

    fn unreachable(&self, error: &LoadError) -> Option<Printed> {
        let text = match error {
            LoadError::Unreachable { target, cause, .. } => {
                let address = target.split_once("://").map_or(target.as_str(), |(_, rest)| rest);
                let words = match cause {
                    ErrorCause::ConnectRefused => "Connection refused",
                    other => other.words(),
                };
                format!("unable to connect to {address} {words}")
            }
            LoadError::Resolve { host, .. } => {
                format!("unable to resolve {host}:http Name or service not known")
            }
            _ => return None,
        };
        Some(Printed::error(&text, 1))
    }

    fn footnotes(&self, report: &Report) -> Vec<String> {
        let mut notes = Vec::new();
        let dropped = self.connections % self.threads;
        if dropped > 0 {
            notes.push(format!(
                "wrk would have opened {} connections: it divides {} by {} threads and drops the rest. Here are all {}.",
                self.connections - dropped,
                self.connections,
                self.threads,
                self.connections
            ));
        }
        let late = self.socket_errors(report)[3];
        if late > 0 {
            notes.push(format!(
                "{late} requests took longer than {} s. They are in the latencies above; wrk counts those that are answered \
                 and leaves them out of its latencies, and does not see those that never are.",
                self.timeout
            ));
        }
        let unfinished = report.counts.unfinished;
        if unfinished > 0 {
            notes.push(format!(
                "{unfinished} requests had no answer at the end; wrk does not count such requests."
            ));
        }
        if report.response.len() > 1 {
            notes.push(format!(
                "latencies are as measured: mean {}, p99 {}. wrk replaces its own by a guess made from their mean (it \
                 cannot be told not to), so its average and tail may differ.",
                duration(report.response.mean()),
                duration(at(&report.response, 0.99) as f64)
            ));
        }
        if report.counts.failed > 0 {
            notes.push(causes(report));
        }
        notes
    }
}

impl Wrk {
    /// Errors in wrk's categories: connect, read, write, timeout.
    fn socket_errors(&self, report: &Report) -> [u64; 4] {
        let connect = report.errors_by(|cause| cause.is_connect() && !cause.is_timeout());
        let write = report.errors_by(|cause| cause == ErrorCause::SendFailed);
        let timeouts = report.errors_by(ErrorCause::is_timeout);
        let read = report.errors_by(|cause| {
            !cause.is_connect()
                && !cause.is_timeout()
                && !cause.is_judgement()
                && cause != ErrorCause::SendFailed
        });
        let limit = u64::try_from(Duration::from_secs(self.timeout).as_nanos()).unwrap_or(u64::MAX);
        // The histogram also contains the engine's timeouts, with the time waited.
        let slow = report.response.count_between(limit.saturating_add(1), u64::MAX);
        [connect, read, write, slow.max(timeouts)]
    }
}

/// Requests per second of each thread, by window, like wrk's samples.
struct Rates {
    mean: f64,
    deviation: f64,
    max: f64,
    within: Option<f64>,
}

fn rates(report: &Report) -> Rates {
    // A shortened last window is not representative.
    let full = report.windows.iter().map(|window| window.length).max().unwrap_or_default();
    let rates: Vec<f64> = report
        .windows
        .iter()
        .filter(|window| window.length * 2 > full)
        .flat_map(|window| {
            let seconds = window.length.as_secs_f64();
            window.completed_by_thread.iter().map(move |count| *count as f64 / seconds)
        })
        .collect();
    let count = rates.len() as f64;
    if rates.is_empty() {
        return Rates { mean: 0.0, deviation: 0.0, max: 0.0, within: None };
    }
    let mean = rates.iter().sum::<f64>() / count;
    let spread = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>();
    let deviation = if count > 1.0 { (spread / (count - 1.0)).sqrt() } else { 0.0 };
    let within = rates.iter().filter(|rate| (*rate - mean).abs() <= deviation).count() as f64 / count;
    Rates { mean, deviation, max: rates.iter().copied().fold(0.0, f64::max), within: Some(within) }
}

fn columns(out: &mut String, [mean, deviation, max]: [String; 3]) {
    for (text, width) in [(mean, 8), (deviation, 10), (max, 9)] {
        out.push_str(&padded(&text, width));
    }
}

fn share(out: &mut String, share: Option<f64>) {
    match share {
        Some(share) => line!(out, "{:8.2}%", share * 100.0),
        None => out.push_str("    -nan%\n"),
    }
}

/// Right-aligned in `width`, with two columns reserved for the unit.
fn padded(text: &str, width: usize) -> String {
    let letters = text.chars().rev().take(2).filter(char::is_ascii_alphabetic).count();
    let blanks = 2 - letters;
    format!("{text:>width$}{:blanks$}", "", width = width - blanks)
}

/// Microseconds as `1.23us`, `ms`, `s`, `m`, `h`.
fn time(microseconds: f64) -> String {
    units(microseconds, &[("us", 1e3), ("ms", 1e3), ("s", 60.0), ("m", 60.0), ("h", f64::INFINITY)], 2)
}

/// Whole seconds as `30s`, `2m`, `1h`.
fn whole_time(seconds: u64) -> String {
    units(seconds as f64, &[("s", 60.0), ("m", 60.0), ("h", f64::INFINITY)], 0)
}

fn metric(value: f64) -> String {
    units(value, &[("", 1e3), ("k", 1e3), ("M", 1e3), ("G", 1e3), ("T", f64::INFINITY)], 2)
}

fn binary(value: f64) -> String {
    units(value, &[("", 1024.0), ("K", 1024.0), ("M", 1024.0), ("G", 1024.0), ("T", f64::INFINITY)], 2)
}

/// A value switches to the next unit at 0.85 of it.
fn units(value: f64, scale: &[(&str, f64)], digits: usize) -> String {
    let mut value = value;
    for (unit, next) in scale {
        if value < next * 0.85 {
            return format!("{value:.digits$}{unit}");
        }
        value /= next;
    }
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_change_at_85_percent_of_the_next() {
        let values = [0.0, 849.0, 850.0, 1_230.0, 840_000.0, 860_000.0, 52e6].map(time);
        assert_eq!(values, ["0.00us", "849.00us", "0.85ms", "1.23ms", "840.00ms", "0.86s", "0.87m"]);
        assert_eq!([1, 30, 60, 3_600].map(whole_time), ["1s", "30s", "1m", "1h"]);
        assert_eq!([242.0, 14_240.0].map(metric), ["242.00", "14.24k"]);
        assert_eq!([252.0, 66_714.0].map(binary), ["252.00", "65.15K"]);
    }

    #[test]
    fn columns_keep_two_places_for_the_unit() {
        assert_eq!(padded("331.66us", 8), "331.66us");
        assert_eq!(padded("242.00", 8), "242.00  ");
        assert_eq!(padded("14.24k", 8), " 14.24k ");
        assert_eq!(padded("3.92ms", 9), "   3.92ms");
    }
}
