//! Notes about differences from autocannon's report.

use std::time::Duration;

use forkful_load::{ErrorCause, Report};

use super::Autocannon;
use crate::figures::{causes, quantiles};

pub(super) fn footnotes(autocannon: &Autocannon, report: &Report) -> Vec<String> {
    let mut notes = Vec::new();
    if autocannon.silent {
        return notes;
    }
    let paced = autocannon.rate.is_some() || autocannon.connection_rate.is_some();
    if paced {
        notes.push(
            "the rate is one: evenly spaced, latencies from the moment at which a request was due. autocannon sends \
             each second's requests in a burst at its beginning, and `corrects` latencies as if one were due every \
             millisecond."
                .to_owned(),
        );
        if autocannon.no_correction {
            notes.push("-C changes nothing: nothing is corrected here.".to_owned());
        }
        if report.slip.len() > 100 {
            let [service] = quantiles(&report.service, [0.99]);
            notes.push(format!("without the waiting before a request was sent, p99 is {service}."));
        }
    }
    if autocannon.workers > 1 {
        notes.extend(not_multiplied(autocannon));
    }
    // The JSON contains the fractions.
    if report.response.len() > 1 && !autocannon.json {
        let [p50, p975, p99] = quantiles(&report.response, [0.5, 0.975, 0.99]);
        notes.push(format!(
            "autocannon cuts latencies to whole milliseconds. Measured: 50 % {p50}, 97.5 % {p975}, 99 % {p99}."
        ));
    }
    if report.elapsed < Duration::from_millis(autocannon.sample) {
        notes.push(format!(
            "the run was shorter than one sample; it made {:.0} requests per second.",
            report.per_second()
        ));
    }
    let timeouts = report.errors_by(ErrorCause::is_timeout);
    if timeouts > 0 {
        notes.push(format!(
            "{timeouts} requests that timed out are in the latencies above; autocannon leaves them out."
        ));
    }
    if report.errors_by(|cause| !cause.is_judgement()) > 0 {
        notes.push(causes(report));
    }
    if autocannon.exclude_error_stats && report.statuses.iter().any(|(status, _)| status / 100 != 2) {
        notes.push("-x: answers other than 2xx are in the latencies here.".to_owned());
    }
    if autocannon.warmup.is_some_and(|(connections, _)| connections != autocannon.connections) {
        notes.push("the warm-up used the connections of the test.".to_owned());
    }
    notes
}

/// What autocannon would have done once per worker.
fn not_multiplied(autocannon: &Autocannon) -> impl Iterator<Item = String> {
    let workers = autocannon.workers;
    let rate = autocannon.rate.map(|rate| {
        format!(
            "-R is the rate of all threads together. autocannon's {workers} workers would each have sent {rate} \
             requests per second, {} in all.",
            rate.saturating_mul(workers)
        )
    });
    let requests = autocannon.requests_overall.map(|requests| {
        format!(
            "-O is the number of all requests. autocannon's {workers} workers would each have sent {requests}, {} \
             in all.",
            requests.saturating_mul(workers)
        )
    });
    rate.into_iter().chain(requests)
}
