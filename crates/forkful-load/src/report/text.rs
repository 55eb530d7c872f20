//! The report for people: plain text of at most 80 columns if possible; the caller adds colours.

use std::fmt::Write as _;

use forkful_core::foreign::is_steering;

use super::check::Level;
use super::findings::{Findings, Workers};
use super::spread::{PERCENTILES, Spread, bytes, duration, thousands};
use super::summary::{came, carried_in, share_of_errors, streams, title};
use super::threshold::Judgement;
use super::trust::percent;
use crate::{Histogram, Load, Report, ThreadFacts};

const STRING: &str = "a String takes everything";

/// Threads whose shares fit on a line.
const THREADS_SHOWN_MAX: usize = 10;

/// The role of a piece of text, for colouring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tone {
    Plain,
    /// A heading or a main number.
    Strong,
    /// Less important.
    Faint,
    Good,
    /// Needs attention.
    Bad,
}

/// The full report; `paint` adds colours.
pub fn text(findings: &Findings, paint: &dyn Fn(Tone, &str) -> String) -> String {
    let mut page = Page { out: String::new(), paint };
    page.head(findings);
    page.totals(findings);
    page.errors(findings.report, findings.plan.http.unit());
    page.latency(findings);
    page.urls(findings.report);
    if let Some(workers) = findings.workers {
        page.workers(workers);
    }
    page.trust(findings);
    page.thresholds(findings);
    page.out
}

struct Page<'a> {
    out: String,
    paint: &'a dyn Fn(Tone, &str) -> String,
}

impl Page<'_> {
    fn line(&mut self, text: std::fmt::Arguments<'_>) {
        writeln!(self.out, "{}", text.to_string().trim_end()).expect(STRING);
    }

    fn paint(&self, tone: Tone, text: &str) -> String {
        (self.paint)(tone, text)
    }

    fn head(&mut self, findings: &Findings) {
        if !findings.trust.trustworthy() {
            let sentence = findings.trust.sentence();
            let sentence = sentence.strip_prefix("not trustworthy: ").unwrap_or(&sentence);
            let line = self.paint(Tone::Bad, &format!("NOT TRUSTWORTHY: {sentence}"));
            self.line(format_args!("{line}"));
            self.out.push('\n');
        }
        let target = self.paint(Tone::Strong, &findings.target());
        self.line(format_args!("{target}"));
        self.line(format_args!("{}", findings.load()));
        let engine = self.paint(Tone::Faint, &format!("engine: {}", findings.report.engine));
        self.line(format_args!("{engine}"));
        self.out.push('\n');
    }

    fn totals(&mut self, findings: &Findings) {
        let report = findings.report;
        let answers = report.counts.completed + report.counts.carried_in;
        let unit = findings.plan.http.unit();
        let rate = self.paint(Tone::Strong, &format!("{} {unit}s/s", decimals(report.per_second())));
        let early = findings.early();
        self.line(format_args!(
            "{:<13}{rate}   {} {}{} in {}{early}",
            title(findings),
            thousands(answers),
            came(findings),
            carried_in(report),
            duration(report.elapsed.as_nanos() as f64)
        ));
        if report.offered > 0 {
            let Load::Open { rate, .. } = findings.plan.load else { return };
            self.line(format_args!(
                "             of {} due ({rate}/s), {} never sent",
                thousands(report.offered),
                thousands(report.unsent)
            ));
        }
        let seconds = report.elapsed.as_secs_f64().max(1e-9);
        self.line(format_args!(
            "Received     {}/s   {} in all, bodies {}",
            bytes(report.bytes.received as f64 / seconds),
            bytes(report.bytes.received as f64),
            bytes(report.bytes.received_bodies as f64)
        ));
        self.statuses(report, unit);
        for line in streams(findings) {
            let (title, rest) = line.split_at(10);
            self.line(format_args!("{title:<13}{rest}"));
        }
        let connections = report.connections;
        // An open loop opens more connections than it starts with when all are busy.
        let reached = match findings.plan.load {
            Load::Closed { .. } => {
                format!("{} of {}", thousands(connections.reached), thousands(connections.asked))
            }
            Load::Open { .. } => format!("up to {}", thousands(connections.reached)),
        };
        self.line(format_args!(
            "Connections  {reached} reached   {} opened, {} {unit}s on a kept one, {} closed by the target",
            thousands(connections.opened),
            thousands(connections.reused),
            thousands(connections.closed_by_server)
        ));
        self.threads(&report.threads);
        let counts = report.counts;
        if counts.stale_retries > 0 {
            self.line(format_args!(
                "             {} requests met a connection that the target had just closed, and went on a new one",
                thousands(counts.stale_retries)
            ));
        }
        if counts.late + counts.unfinished > 0 {
            let oldest = &report.censored;
            let age = if oldest.is_empty() {
                String::new()
            } else {
                format!(" (the oldest had waited {})", duration(oldest.max() as f64))
            };
            self.line(format_args!(
                "At the end   {} answers came after the time was up, {} did not come{age}",
                thousands(counts.late),
                thousands(counts.unfinished)
            ));
        }
    }

    /// Adds the statuses; messages and events have none.
    fn statuses(&mut self, report: &Report, unit: &str) {
        let statuses: Vec<String> = report
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {}", thousands(*count)))
            .collect();
        let statuses = if statuses.is_empty() { "none".to_owned() } else { statuses.join("   ") };
        if !report.statuses.is_empty() || unit == "request" {
            self.line(format_args!("Statuses     {statuses}"));
        }
    }

    /// How busy each generator thread was, if there are several.
    fn threads(&mut self, threads: &[ThreadFacts]) {
        let mut shares: Vec<f64> = threads.iter().map(|thread| thread.busy).collect();
        match shares.len() {
            0 | 1 => {}
            2..=THREADS_SHOWN_MAX => {
                let shares: Vec<String> = shares.into_iter().map(percent).collect();
                self.line(format_args!("Generator    CPU by thread: {}", shares.join(", ")));
            }
            count => {
                shares.sort_by(f64::total_cmp);
                let [least, middle, most] = [0, count / 2, count - 1].map(|index| percent(shares[index]));
                self.line(format_args!(
                    "Generator    CPU of {count} threads: {least} to {most}, {middle} in the middle"
                ));
            }
        }
    }

    fn errors(&mut self, report: &Report, unit: &str) {
        if report.errors_total() == 0 {
            let none = self.paint(Tone::Good, "none");
            self.line(format_args!("Errors       {none}"));
            return;
        }
        let head = self.paint(Tone::Bad, &share_of_errors(report, unit));
        self.line(format_args!("Errors       {head}"));
        for error in &report.errors {
            self.line(format_args!("  {:>10}  {}", thousands(error.count), error.cause.words()));
            if let Some(example) = error.examples.first().filter(|example| !example.detail.is_empty()) {
                let at = duration(example.at.as_nanos() as f64);
                let shown: String =
                    example.detail.chars().map(|c| if is_steering(c) { '·' } else { c }).collect();
                let line = self.paint(Tone::Faint, &format!("e.g. after {at}: {shown}"));
                self.line(format_args!("              {line}"));
            }
            if let Some(hint) = error.cause.hint() {
                self.line(format_args!("              hint: {hint}"));
            }
        }
        if report.errors.iter().any(|error| error.cause.hint().is_some()) {
            self.line(format_args!("              see: {}", forkful_core::pages::Page::FailedRequests.url()));
        }
    }

    fn latency(&mut self, findings: &Findings) {
        let report = findings.report;
        let spread = Spread::of(&report.response);
        if spread.count == 0 {
            return;
        }
        let title = self.paint(Tone::Strong, "Latency");
        let meaning = self.paint(Tone::Faint, &format!("({})", findings.latency_meaning()));
        self.line(format_args!("\n{title} {meaning}"));
        let phases: Vec<(&str, &Histogram)> = phases(findings);
        let head = columns(phases.iter().map(|(name, _)| (*name).to_owned()));
        self.line(format_args!("           {head}"));
        let row = |name: &str, value: &dyn Fn(&Histogram) -> Option<f64>| {
            let cells = phases.iter().map(|(_, one)| value(one).map_or("–".to_owned(), duration));
            format!("  {name:<9}{}", columns(cells))
        };
        let some = |histogram: &Histogram, value: f64| (!histogram.is_empty()).then_some(value);
        let mut rows = vec![
            row("mean", &|h| some(h, h.mean())),
            row("deviation", &|h| some(h, h.stdev())),
            row("min", &|h| some(h, h.min() as f64)),
        ];
        // Skip a percentile if no column has enough samples for it.
        for percentile in PERCENTILES.iter().filter(|p| phases.iter().any(|(_, h)| p.of(h).is_some())) {
            rows.push(row(percentile.name, &|h| percentile.of(h).map(|value| value as f64)));
        }
        rows.push(row("max", &|h| some(h, h.max() as f64)));
        for row in rows {
            self.line(format_args!("{row}"));
        }
        if let Some(missing) = PERCENTILES.iter().find(|p| p.of(&report.response).is_none()) {
            let line = format!(
                "{} needs {} samples; there are {}",
                missing.name,
                thousands(missing.samples_min),
                thousands(spread.count)
            );
            let line = self.paint(Tone::Faint, &line);
            self.line(format_args!("  {line}"));
        }
    }

    fn urls(&mut self, report: &Report) {
        if report.requests.len() < 2 {
            return;
        }
        let title = self.paint(Tone::Strong, "By request");
        self.line(format_args!(
            "\n{title}\n      answers    errors        mean         p50         p99  request"
        ));
        for request in &report.requests {
            let known = |value: Option<f64>| value.map_or("–".to_owned(), duration);
            let mean = (!request.response.is_empty()).then(|| request.response.mean());
            let [p50, p99] =
                [0, 5].map(|index: usize| PERCENTILES[index].of(&request.response).map(|v| v as f64));
            self.line(format_args!(
                "  {:>11}{:>10}{:>12}{:>12}{:>12}  {}",
                thousands(request.completed),
                thousands(request.errors),
                known(mean),
                known(p50),
                known(p99),
                request.name
            ));
        }
    }

    fn workers(&mut self, workers: &Workers) {
        let title = self.paint(Tone::Strong, "Workers");
        let of = workers.app.as_ref().map(|app| format!(" of {app}")).unwrap_or_default();
        let source = self.paint(Tone::Faint, &format!("({})", workers.source));
        self.line(format_args!("\n{title}{of} {source}"));
        self.line(format_args!("  worker               pid    requests   share   connections    CPU"));
        let all: u64 = workers.workers.iter().filter_map(|worker| worker.requests).sum();
        for worker in &workers.workers {
            let requests = worker.requests.map_or("–".to_owned(), thousands);
            let share = worker.requests.filter(|_| all > 0);
            let share =
                share.map_or("–".to_owned(), |count| format!("{:.1} %", 100.0 * count as f64 / all as f64));
            self.line(format_args!(
                "  {:<15}{:>9}{requests:>12}{share:>8}{:>14}{:>9}",
                worker.name,
                worker.pid.map_or("–".to_owned(), |pid| pid.to_string()),
                worker.connections.map_or("–".to_owned(), thousands),
                worker.cpu_seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.2} s")),
            ));
        }
    }

    fn trust(&mut self, findings: &Findings) {
        let trust = findings.trust;
        let title = self.paint(Tone::Strong, "Trust");
        let verdict = match trust.level() {
            Level::Fault => self.paint(Tone::Bad, "not trustworthy"),
            Level::Warning => self.paint(Tone::Bad, "trustworthy, with reservations"),
            Level::Fine | Level::Note => self.paint(Tone::Good, "trustworthy"),
        };
        self.line(format_args!("\n{title}        {verdict}"));
        for check in &trust.checks {
            let (mark, tone) = match check.level() {
                Level::Fine => ("  ok", Tone::Faint),
                Level::Note => ("note", Tone::Plain),
                Level::Warning => ("warn", Tone::Bad),
                Level::Fault => ("FAIL", Tone::Bad),
            };
            let mark = self.paint(tone, mark);
            let value = if check.level() == Level::Fine {
                self.paint(Tone::Faint, &check.value)
            } else {
                check.value.clone()
            };
            self.line(format_args!("  {mark}  {}: {value}", check.name));
            if check.level() > Level::Fine {
                self.line(format_args!("        {}", check.meaning));
            }
        }
    }

    fn thresholds(&mut self, findings: &Findings) {
        if findings.judgements.is_empty() {
            return;
        }
        let title = self.paint(Tone::Strong, "Expected");
        self.line(format_args!("\n{title}"));
        for judgement in findings.judgements {
            let mark = mark(judgement, self.paint);
            self.line(format_args!("  {mark}  {judgement}"));
        }
    }
}

/// The result of an expectation, four columns wide.
pub(super) fn mark(judgement: &Judgement, paint: &dyn Fn(Tone, &str) -> String) -> String {
    match judgement.kept {
        Some(true) => paint(Tone::Good, "  ok"),
        Some(false) => paint(Tone::Bad, "MISS"),
        None => paint(Tone::Bad, "   ?"),
    }
}

/// Formats cells as right-aligned columns.
fn columns(cells: impl Iterator<Item = String>) -> String {
    let mut row = String::new();
    for cell in cells {
        write!(row, "{cell:>13}").expect(STRING);
    }
    row
}

/// The columns of the latency table. An open loop also shows the time without waiting.
fn phases<'a>(findings: &Findings<'a>) -> Vec<(&'static str, &'a Histogram)> {
    let report = findings.report;
    let mut phases = vec![("response", &report.response)];
    if matches!(findings.plan.load, Load::Open { .. }) {
        phases.push(("sent late", &report.slip));
        phases.push(("once sent", &report.total));
    }
    phases.extend([
        ("connect", &report.connect),
        ("first byte", &report.first_byte),
        ("service", &report.service),
    ]);
    phases
}

/// Shows decimals for small values only.
pub(super) fn decimals(value: f64) -> String {
    if value >= 1_000.0 { thousands(value.round() as u64) } else { super::spread::three_digits(value) }
}
