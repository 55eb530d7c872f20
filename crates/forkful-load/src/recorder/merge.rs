//! Merges the threads' recorders into one report.

use std::time::Duration;

use crate::cause::{ErrorCause, ErrorCount, ErrorExample};
use crate::report::facts::{Counts, Histogram, Report, RequestFacts, Worker};

use super::{Recorder, STATUSES};

/// What a thread returns at its end, beside its recorder.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) recorder: Recorder,
    /// Worker names by the index in the recorder.
    pub(crate) workers: Vec<String>,
}

/// Merges all threads' counts into `report`. `names` are the plan's requests.
pub(crate) fn merged(mut report: Report, mut parts: Vec<Facts>, names: &[String]) -> Report {
    report.requests = names.iter().map(|name| RequestFacts::named(name.clone())).collect();
    let mut statuses = [0; STATUSES];
    parts.sort_by_key(|part| part.recorder.first_response.as_ref().map_or(u64::MAX, |(at, _)| *at));
    let first_body = parts.iter().find_map(|part| part.recorder.first_body);
    report.first_response =
        parts.first().and_then(|part| part.recorder.first_response.clone()).map(|(_, first)| first);
    for Facts { recorder, workers } in parts {
        let part = &recorder.report;
        add_counts(&mut report.counts, &part.counts);
        add_counts(&mut report.warmup, &part.warmup);
        for (sum, count) in statuses.iter_mut().zip(recorder.statuses.iter()) {
            *sum += count;
        }
        add_errors(&mut report.errors, &recorder);
        add_histograms(&mut report, &recorder);
        report.bytes.sent += part.bytes.sent;
        report.bytes.sent_bodies += part.bytes.sent_bodies;
        report.bytes.received += part.bytes.received;
        report.bytes.received_bodies += part.bytes.received_bodies;
        report.connections.opened += part.connections.opened;
        report.connections.failed += part.connections.failed;
        report.connections.closed_by_server += part.connections.closed_by_server;
        report.connections.reused += part.connections.reused;
        report.connections.retransmits += part.connections.retransmits;
        report.connections.syn_retransmits += part.connections.syn_retransmits;
        report.messages.add(&part.messages);
        report.connections.streams = match (report.connections.streams, part.connections.streams) {
            (0, streams) | (streams, 0) => streams,
            (one, other) => one.min(other),
        };
        report.length_differs += recorder.lengths_other_than(first_body);
        add_workers(&mut report.workers, &recorder, &workers);
        report.samples.extend(&part.samples);
        add_requests(&mut report.requests, recorder);
    }
    if let [only] = report.requests.as_mut_slice() {
        only.response.clone_from(&report.response);
    }
    let seen = statuses.iter().enumerate().filter(|(status, count)| *status > 0 && **count > 0);
    report.statuses = seen.map(|(status, count)| (status as u16, *count)).collect();
    report.errors.sort_by_key(|error| error.cause);
    report.workers.sort_by(|one, other| natural(&one.name).cmp(&natural(&other.name)));
    report.samples.sort_by_key(|sample| sample.at);
    report
}

/// Sorts names that are numbers first, by value.
fn natural(name: &str) -> (u64, &str) {
    (name.parse().unwrap_or(u64::MAX), name)
}

fn add_counts(sum: &mut Counts, part: &Counts) {
    sum.started += part.started;
    sum.completed += part.completed;
    sum.failed += part.failed;
    sum.late += part.late;
    sum.unfinished += part.unfinished;
    sum.carried_in += part.carried_in;
    sum.stale_retries += part.stale_retries;
    sum.interim += part.interim;
}

fn add_errors(errors: &mut Vec<ErrorCount>, recorder: &Recorder) {
    for (cause, count) in ErrorCause::ALL.iter().zip(recorder.errors).filter(|(_, count)| *count > 0) {
        let mut examples: Vec<ErrorExample> = recorder
            .examples
            .iter()
            .filter(|(known, _)| known == cause)
            .map(|(_, example)| example.clone())
            .collect();
        match errors.iter_mut().find(|error| error.cause == *cause) {
            Some(error) => {
                error.count += count;
                error.examples.append(&mut examples);
                error.examples.sort_by_key(|example| example.at);
                error.examples.truncate(ErrorExample::PER_CAUSE_MAX);
            }
            None => errors.push(ErrorCount { cause: *cause, count, examples }),
        }
    }
}

fn add_histograms(sum: &mut Report, recorder: &Recorder) {
    let part = &recorder.report;
    for (sum, part) in [
        (&mut sum.response, &part.response),
        (&mut sum.total, &part.total),
        (&mut sum.service, &part.service),
        (&mut sum.first_byte, &part.first_byte),
    ] {
        sum.merge(&recorder.simple);
        sum.merge(part);
    }
    sum.connect.merge(&part.connect);
    sum.slip.merge(&part.slip);
    sum.residency.merge(&part.residency);
    sum.censored.merge(&part.censored);
    sum.unread += Duration::from_nanos(recorder.unread);
}

fn add_workers(workers: &mut Vec<Worker>, recorder: &Recorder, names: &[String]) {
    for (name, (requests, connections)) in
        names.iter().zip(&recorder.workers).filter(|(_, counts)| counts.0 > 0)
    {
        match workers.iter_mut().find(|worker| worker.name == *name) {
            Some(worker) => {
                worker.requests += requests;
                worker.connections += connections;
            }
            None => {
                workers.push(Worker { name: name.clone(), requests: *requests, connections: *connections });
            }
        }
    }
}

fn add_requests(requests: &mut [RequestFacts], recorder: Recorder) {
    for (sum, part) in requests.iter_mut().zip(recorder.requests) {
        sum.started += part.started;
        sum.completed += part.completed;
        sum.errors += part.errors;
        for (value, count) in
            part.times.into_iter().flat_map(|mut times| times.take().values().collect::<Vec<_>>())
        {
            sum.response.note_n(value, count);
        }
    }
}

impl RequestFacts {
    fn named(name: String) -> Self {
        // The coarse counts are only precise to two digits.
        Self { name, started: 0, completed: 0, errors: 0, response: Histogram::small() }
    }
}

impl Recorder {
    /// Answers whose body was not `first` bytes long.
    fn lengths_other_than(&self, first: Option<u64>) -> u64 {
        let others: u64 = self.lengths.iter().map(|(_, count)| count).sum::<u64>() + self.other_lengths;
        if self.first_body.is_none() || self.first_body == first {
            return others;
        }
        // The first answer of this thread differs from the first of the run, so all lengths but that one
        // differ.
        let same =
            self.lengths.iter().find(|(length, _)| Some(*length) == first).map_or(0, |(_, count)| *count);
        self.report.counts.completed + self.report.counts.late - same
    }
}
