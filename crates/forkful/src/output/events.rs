//! Incidents of apps: two lines for each, and a page for one.

use std::fmt::Write as _;
use std::time::Duration;

use forkful_api::incidents::{Incident, IncidentKind, IncidentSummary, ProcessEnd};
use forkful_core::metrics::Metric;

use super::format::{span, utc, visible};
use super::paint::Paint;

/// The incidents, newest last.
pub(crate) fn list(incidents: &[IncidentSummary], paint: Paint) -> String {
    if incidents.is_empty() {
        return "no incidents\n".to_owned();
    }
    incidents.iter().map(|incident| entry(incident, paint)).collect()
}

/// One incident.
pub(crate) fn entry(incident: &IncidentSummary, paint: Paint) -> String {
    let IncidentSummary { id, at_ms, kind, reason, .. } = incident;
    let next = incident.next.as_deref().map_or_else(String::new, |next| format!("; {}", visible(next)));
    let head = format!("{id:>5}  {}  {}: ", paint.dim(&utc(*at_ms)), paint.bold(&whose(incident)));
    format!("{head}{}{next}\n{:7}{}\n", kind_of(*kind, paint), "", visible(reason))
}

/// `api, worker 3`.
fn whose(incident: &IncidentSummary) -> String {
    let app = visible(&incident.app);
    incident.pm_id.map_or(app.clone(), |pm_id| format!("{app}, worker {pm_id}"))
}

fn kind_of(kind: IncidentKind, paint: Paint) -> String {
    let words = kind.words();
    match kind {
        IncidentKind::CrashLoop | IncidentKind::FailedReload => paint.red(&words),
        kind if kind.is_fault() || kind == IncidentKind::NotScaledUp => paint.yellow(&words),
        _ => paint.dim(&words),
    }
}

/// The details of an incident.
pub(crate) fn incident(incident: &Incident, paint: Paint) -> String {
    let Incident { summary, end, stderr_tail, hint, metrics, is_uncaught: _ } = incident;
    let mut text = String::new();
    let head = format!("{} of {}", kind_of(summary.kind, paint), paint.bold(&whose(summary)));
    pair(&mut text, "what", &head);
    pair(&mut text, "when", &format!("{} UTC", utc(summary.at_ms)));
    pair(&mut text, "why", &visible(&summary.reason));
    if let Some(next) = &summary.next {
        pair(&mut text, "then", &visible(next));
    }
    if let Some(end) = end {
        process(&mut text, end);
    }
    if let Some(hint) = hint {
        pair(&mut text, "hint", &visible(hint));
    }
    block(&mut text, "last lines of stderr", paint, stderr_tail.iter().map(|line| visible(line)));
    let figure = |(name, value): (&String, &f64)| {
        let value = Metric::named(name).map_or_else(|| value.to_string(), |metric| metric.display(*value));
        format!("{:<32}{value:>14}", visible(name))
    };
    block(&mut text, "measured last", paint, metrics.iter().map(figure));
    text
}

fn process(text: &mut String, end: &ProcessEnd) {
    let pid = end.pid.map(|pid| format!("pid {pid}"));
    let node = end.node_version.as_ref().map(|version| format!("Node.js {}", visible(version)));
    let lived = end.pid.map(|_| format!("lived {}", lived(end.uptime_ms)));
    let parts: Vec<String> = [pid, node, lived].into_iter().flatten().collect();
    if !parts.is_empty() {
        pair(text, "process", &parts.join(", "));
    }
    pair(text, "restarts", &format!("{} in a row, {} in all", end.restarts_in_a_row, end.restarts));
}

fn lived(milliseconds: u64) -> String {
    match milliseconds {
        0..1000 => format!("{milliseconds} ms"),
        1000..60_000 => format!("{:.1} s", Duration::from_millis(milliseconds).as_secs_f64()),
        _ => span(milliseconds),
    }
}

fn pair(text: &mut String, name: &str, value: &str) {
    writeln!(text, "{name:<10}{value}").expect("a String takes everything");
}

fn block(text: &mut String, head: &str, paint: Paint, lines: impl Iterator<Item = String>) {
    let lines: Vec<String> = lines.map(|line| format!("  {line}\n")).collect();
    if !lines.is_empty() {
        write!(text, "\n{}\n{}", paint.dim(head), lines.concat()).expect("a String takes everything");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn crash() -> IncidentSummary {
        IncidentSummary {
            id: 17,
            at_ms: 1_773_059_405_000,
            kind: IncidentKind::Crash,
            app: "api".to_owned(),
            pm_id: Some(3),
            reason: "uncaught error (exit code 1): TypeError: x is not a function".to_owned(),
            next: Some("restart in 98 ms".to_owned()),
        }
    }

    #[test]
    fn incidents_are_listed_in_two_lines() {
        let reload = IncidentSummary {
            id: 18,
            kind: IncidentKind::FailedReload,
            pm_id: None,
            reason: "not ready\u{1b}[31m".to_owned(),
            next: None,
            ..crash()
        };
        insta::assert_snapshot!(list(&[crash(), reload], Paint::plain()), @r"
        17  2026-03-09 12:30:05  api, worker 3: crash; restart in 98 ms
            uncaught error (exit code 1): TypeError: x is not a function
        18  2026-03-09 12:30:05  api: failed reload
            not ready\u{1b}[31m
        ");
        assert_eq!(list(&[], Paint::plain()), "no incidents\n");
    }

    #[test]
    fn one_is_shown_with_all_that_is_known() {
        let end = ProcessEnd {
            pid: Some(4711),
            uptime_ms: 2_310,
            exit_code: Some(1),
            restarts_in_a_row: 2,
            restarts: 5,
            node_version: Some("24.1.0".to_owned()),
            ..ProcessEnd::default()
        };
        let lines = ["TypeError: x is not a function", "    at serve (/srv/app.js:3:1)"];
        let whole = Incident {
            summary: crash(),
            end: Some(end),
            stderr_tail: lines.map(str::to_owned).to_vec(),
            is_uncaught: true,
            hint: Some("correct the error".to_owned()),
            metrics: BTreeMap::from([("event_loop_utilization".to_owned(), 0.5)]),
        };
        insta::assert_snapshot!(incident(&whole, Paint::plain()), @r"
        what      crash of api, worker 3
        when      2026-03-09 12:30:05 UTC
        why       uncaught error (exit code 1): TypeError: x is not a function
        then      restart in 98 ms
        process   pid 4711, Node.js 24.1.0, lived 2.3 s
        restarts  2 in a row, 5 in all
        hint      correct the error

        last lines of stderr
          TypeError: x is not a function
              at serve (/srv/app.js:3:1)

        measured last
          event_loop_utilization                   50.0%
        ");
    }
}
