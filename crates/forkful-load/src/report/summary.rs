//! The report in a few lines, the verdict first: enough for most readers. `text` has everything.

use std::fmt::Write as _;

use super::check::Level;
use super::findings::Findings;
use super::spread::{Percentile, duration, thousands};
use super::text::{Tone, decimals, mark};
use crate::{ErrorCause, HttpVersion, Report};

const STRING: &str = "a String takes everything";

/// Error causes in the summary; `--verbose` shows all.
const CAUSES_MAX: usize = 2;

/// The summary of at most 15 lines, plus one for each expectation; `paint` adds colours.
pub fn summary(findings: &Findings, paint: &dyn Fn(Tone, &str) -> String) -> String {
    let report = findings.report;
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{}", text.trim_end()).expect(STRING);
    line(verdict(findings, paint));
    line(paint(Tone::Strong, &findings.target()));
    line(findings.load());
    line(String::new());
    let early = findings.early();
    let unit = findings.plan.http.unit();
    let answers = thousands(report.counts.completed + report.counts.carried_in);
    let of_warmup = carried_in(report);
    let took = duration(report.elapsed.as_nanos() as f64);
    let rate = paint(Tone::Strong, &format!("{} {unit}s/s", decimals(report.per_second())));
    line(format!("{:<10}{rate}   {answers} {}{of_warmup} in {took}{early}", title(findings), came(findings)));
    for name in ["p50", "p99"] {
        let known = Percentile::named(name).expect("it is in the table");
        let told = match known.of(&report.response) {
            Some(value) => paint(Tone::Strong, &duration(value as f64)),
            None => format!("– (too few answers: it takes {})", thousands(known.samples_min)),
        };
        line(format!("{name:<10}{told}"));
    }
    for text in streams(findings) {
        line(text);
    }
    for text in errors(findings, paint) {
        line(text);
    }
    for judgement in findings.judgements {
        line(format!("{}  {judgement}", mark(judgement, paint)));
    }
    line(String::new());
    line(paint(Tone::Faint, "--verbose shows all percentiles, connections, workers and checks"));
    out
}

/// The unit that is counted, as a heading.
pub(super) fn title(findings: &Findings) -> &'static str {
    match findings.plan.http {
        HttpVersion::Http10 | HttpVersion::Http11 | HttpVersion::Http2 => "Requests",
        HttpVersion::WebSocket => "Messages",
        HttpVersion::EventStream => "Events",
    }
}

/// The part of the answers that warm-up requests had, where it may surprise.
pub(super) fn carried_in(report: &Report) -> String {
    let (carried, own) = (report.counts.carried_in, report.counts.completed);
    if carried * CARRIED_SHARE_MIN > own {
        format!(" ({} to the warm-up)", thousands(carried))
    } else {
        String::new()
    }
}

/// Answers to warm-up requests are named if they are at least one in this many of the other answers.
const CARRIED_SHARE_MIN: u64 = 20;

/// The number of results and their kind.
pub(super) fn came(findings: &Findings) -> &'static str {
    match findings.plan.http {
        HttpVersion::EventStream => "events",
        _ => "answers",
    }
}

/// Lines only for WebSockets and event streams.
pub(super) fn streams(findings: &Findings) -> Vec<String> {
    let messages = &findings.report.messages;
    let mut lines = Vec::new();
    if matches!(findings.plan.http, HttpVersion::WebSocket | HttpVersion::EventStream) {
        let connect = Percentile::named("p50").and_then(|p50| p50.of(&findings.report.connect));
        let connect = connect.map_or("–".to_owned(), |p50| duration(p50 as f64));
        let opened = thousands(findings.report.connections.opened);
        let again = thousands(messages.reconnects);
        lines.push(format!(
            "Opened    {opened} connections, half of them within {connect}; {again} reconnects"
        ));
    }
    if let Some(times) = &messages.first_event {
        let [half, last] = [times.value_at_quantile(0.5), times.max()].map(|value| duration(value as f64));
        lines.push(format!("First     event after {half} (median), {last} (longest)"));
    }
    if !messages.closes.is_empty() {
        let closes: Vec<String> =
            messages.closes.iter().map(|(code, count)| format!("{code}: {}", thousands(*count))).collect();
        lines.push(format!("Closed    by the server, by code: {}", closes.join(", ")));
    }
    if messages.unasked > 0 {
        lines.push(format!("Pushed    {} messages that answered none", thousands(messages.unasked)));
    }
    lines
}

/// Whether the results can be trusted; if not, the reasons.
fn verdict(findings: &Findings, paint: &dyn Fn(Tone, &str) -> String) -> String {
    let sentence = findings.trust.sentence();
    let reason = |prefix: &str| sentence.strip_prefix(prefix).unwrap_or(&sentence).to_owned();
    match findings.trust.level() {
        Level::Fault => paint(Tone::Bad, &format!("NOT TRUSTWORTHY: {}", reason("not trustworthy: "))),
        Level::Warning => {
            format!("{} {}", paint(Tone::Bad, "Trustworthy, with reservations:"), reason("trustworthy, but "))
        }
        Level::Fine | Level::Note => paint(Tone::Good, "Trustworthy"),
    }
}

/// The number of errors and of ended requests, including those after the end of the measurement.
pub(super) fn share_of_errors(report: &Report, unit: &str) -> String {
    let (total, late) = (report.errors_total(), report.counts.late);
    // Unsolicited bytes are an error without a request.
    let ended = (report.counts.completed + report.counts.failed + late).max(total);
    let share = super::trust::percent(total as f64 / ended.max(1) as f64);
    let after = if late > 0 {
        format!("; includes {} answers after the end", thousands(late))
    } else {
        String::new()
    };
    format!("{} of {} {unit}s ({share}{after})", thousands(total), thousands(ended))
}

fn errors(findings: &Findings, paint: &dyn Fn(Tone, &str) -> String) -> Vec<String> {
    let report = findings.report;
    let total = report.errors_total();
    if total == 0 {
        let unfinished = report.counts.unfinished;
        let unanswered = if unfinished > 0 && findings.plan.http != HttpVersion::EventStream {
            format!("; {} without an answer at the end", thousands(unfinished))
        } else {
            String::new()
        };
        return vec![format!("Errors    {}{unanswered}", paint(Tone::Good, "none"))];
    }
    let mut lines =
        vec![format!("Errors    {}", paint(Tone::Bad, &share_of_errors(report, findings.plan.http.unit())))];
    let mut causes: Vec<_> = report.errors.iter().collect();
    causes.sort_by_key(|error| std::cmp::Reverse(error.count));
    for error in causes.iter().take(CAUSES_MAX) {
        let statuses = if error.cause == ErrorCause::UnexpectedStatus {
            let wrong = report.statuses.iter().filter(|(status, _)| !findings.plan.expect.accepts(*status));
            let wrong: Vec<String> = wrong.map(|(status, _)| status.to_string()).collect();
            format!(": {}", wrong.join(", "))
        } else {
            String::new()
        };
        lines.push(format!("  {:>8}  {}{statuses}", thousands(error.count), error.cause.words()));
        lines.extend(error.cause.hint().map(|hint| format!("            hint: {hint}")));
    }
    if causes.iter().take(CAUSES_MAX).any(|error| error.cause.hint().is_some()) {
        lines.push(format!("            see: {}", forkful_core::pages::Page::FailedRequests.url()));
    }
    if causes.len() > CAUSES_MAX {
        lines.push(format!("            and {} more causes", causes.len() - CAUSES_MAX));
    }
    lines
}
