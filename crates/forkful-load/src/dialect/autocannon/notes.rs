//! Where autocannon would have told something else.

use std::time::Duration;

use super::Options;
use super::print::errors;
use crate::Report;
use crate::report::spread::{at, duration};

/// Where autocannon would have told something else.
pub(in crate::dialect) fn footnotes(options: &Options, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if options.silent {
        return notes;
    }
    let paced = options.rate.is_some() || options.connection_rate.is_some();
    if paced {
        notes.push(
            "the rate is one: evenly spaced, latencies from the moment at which a request was due. autocannon sends \
             each second's requests in a burst at its beginning, and `corrects` latencies as if one were due every \
             millisecond."
                .to_owned(),
        );
        if options.no_correction {
            notes.push("-C changes nothing: nothing is corrected here.".to_owned());
        }
        if report.slip.len() > 100 {
            let service = duration(at(&report.service, 0.99) as f64);
            notes.push(format!("without the waiting before a request was sent, p99 is {service}."));
        }
    }
    if options.workers > 1 {
        notes.extend(not_multiplied(options));
    }
    // The JSON has the fractions itself.
    if report.response.len() > 1 && !options.json {
        let [p50, p975, p99] =
            [0.5, 0.975, 0.99].map(|quantile| duration(at(&report.response, quantile) as f64));
        notes.push(format!(
            "autocannon cuts latencies to whole milliseconds. Measured: 50 % {p50}, 97.5 % {p975}, 99 % {p99}."
        ));
    }
    if report.elapsed < Duration::from_millis(options.sample) {
        notes.push(format!(
            "the run was shorter than one sample; it made {:.0} requests per second.",
            report.per_second()
        ));
    }
    let (errors, timeouts) = errors(report);
    if timeouts > 0 {
        notes.push(format!(
            "{timeouts} requests that timed out are in the latencies above; autocannon leaves them out."
        ));
    }
    if errors > 0 {
        let causes: Vec<String> =
            report.errors.iter().map(|error| format!("{}: {}", error.cause.words(), error.count)).collect();
        notes.push(format!("errors by cause: {}.", causes.join("; ")));
    }
    if options.exclude_error_stats && report.statuses.iter().any(|(status, _)| status / 100 != 2) {
        notes.push("-x: answers other than 2xx are in the latencies here.".to_owned());
    }
    if options.warmup.is_some_and(|(connections, _)| connections != options.connections) {
        notes.push("the warm-up used the connections of the test.".to_owned());
    }
    notes
}

/// What autocannon would have done once for each of its workers.
fn not_multiplied(options: &Options) -> impl Iterator<Item = String> {
    let workers = options.workers;
    let rate = options.rate.map(|rate| {
        format!(
            "-R is the rate of all threads together. autocannon's {workers} workers would each have sent {rate} \
             requests per second, {} in all.",
            rate.saturating_mul(workers)
        )
    });
    let requests = options.requests_overall.map(|requests| {
        format!(
            "-O is the number of all requests. autocannon's {workers} workers would each have sent {requests}, {} \
             in all.",
            requests.saturating_mul(workers)
        )
    });
    rate.into_iter().chain(requests)
}
