//! A diagnosis for people: the verdict first, then its numbers, what to do, what to expect, and each worker.

use std::fmt::Write as _;

use forkful_api::types::{DoctorReport, EvidenceView, FixView, PlaceView, WorkerReport};
use forkful_core::doctor::words;

use super::paint::Paint;
use super::{format, stalls};

/// Maximum line length.
const WIDTH: usize = 80;

pub(crate) fn report(report: &DoctorReport, paint: Paint) -> String {
    let mut text = format!("{}\n", paint.bold(&format::visible(&report.headline)));
    let _ = wrapped(&mut text, "", &report.meaning);
    for note in &report.notes {
        let _ = wrapped(&mut text, "", &format!("note: {}", format::visible(note)));
    }
    section(&mut text, paint, "Evidence", &whose_evidence(report));
    evidence(&mut text, &report.evidence);
    if !report.places.is_empty() {
        section(&mut text, paint, "Where", "by the stall ledger, since the app was added");
        for PlaceView { text: place, cost, .. } in &report.places {
            let _ = wrapped(&mut text, "  ", &format::visible(place));
            let _ = wrapped(&mut text, "    ", &stalls::summary(cost));
        }
    }
    if !report.advice.is_empty() {
        section(&mut text, paint, "What to do", "");
        for (at, line) in report.advice.iter().enumerate() {
            let _ = wrapped(&mut text, &format!("  {}. ", at + 1), &format::visible(line));
        }
    }
    if let Some(gain) = &report.gain {
        section(&mut text, paint, "What to expect", "");
        let _ = writeln!(text, "  {}", gain.text);
    }
    if !report.workers.is_empty() {
        section(&mut text, paint, "Workers", "share of each second");
        report.workers.iter().for_each(|worker| of_worker(&mut text, worker));
    }
    text
}

/// Of several workers, the numbers are those of the worker that has the verdict.
fn whose_evidence(report: &DoctorReport) -> String {
    let is_its = |worker: &&WorkerReport| worker.evidence == report.evidence;
    match report.workers.iter().find(is_its).filter(|_| report.workers.len() > 1) {
        Some(worker) => format!("of worker {}, mean of {} s", worker.slot, report.seconds),
        None => format!("mean of {} s", report.seconds),
    }
}

/// What was not measured; empty if there is nothing to tell.
pub(crate) fn unseen(lines: &[String], paint: Paint) -> String {
    let mut text = String::new();
    if !lines.is_empty() {
        section(&mut text, paint, "Not measured", "portable mode, see docs/MACOS.md");
        for line in lines {
            let _ = wrapped(&mut text, "  - ", line);
        }
    }
    text
}

/// The result of `--fix`.
pub(crate) fn fix(fix: &FixView, paint: Paint) -> String {
    let mut text = format!("\n{}\n", paint.bold(if fix.kept { "Fixed" } else { "Not fixed" }));
    if let Some(change) = &fix.change {
        let _ = wrapped(&mut text, "  tried:   ", &format::visible(change));
    }
    let _ = wrapped(&mut text, "  result:  ", &fix.outcome);
    let end = match (&fix.change, fix.kept) {
        (None, _) => "nothing was changed",
        (_, true) => "kept; add it to the configuration to make it permanent",
        (_, false) => "taken back",
    };
    let _ = wrapped(&mut text, "  now:     ", end);
    text
}

fn section(text: &mut String, paint: Paint, title: &str, about: &str) {
    // Writing to a String cannot fail, here and below.
    let _ = match about {
        "" => writeln!(text, "\n{}", paint.bold(title)),
        about => writeln!(text, "\n{} {}", paint.bold(title), paint.dim(&format!("({about})"))),
    };
}

fn evidence(text: &mut String, rows: &[EvidenceView]) {
    let width = rows.iter().map(|row| row.label.len()).max().unwrap_or(0);
    for row in rows {
        let _ = writeln!(text, "  {:width$}  {}", row.label, row.text);
    }
}

fn of_worker(text: &mut String, worker: &WorkerReport) {
    let parts = ["idle", "javascript", "gc", "waiting_for_cpu", "blocked"];
    let known = parts.iter().filter_map(|name| Some((*name, worker.split.get(*name)?)));
    let split: Vec<String> =
        known.map(|(name, share)| format!("{} {:.0} %", words::part(name), share * 100.0)).collect();
    let split = if split.is_empty() { "not measured from inside".to_owned() } else { split.join(", ") };
    let _ = writeln!(text, "  {}: {} ({})", worker.slot, worker.verdict, worker.certainty);
    let _ = writeln!(text, "     {split}");
}

/// Wraps `line` after `lead`, indented.
fn wrapped(text: &mut String, lead: &str, line: &str) -> std::fmt::Result {
    let mut used = lead.chars().count();
    write!(text, "{lead}")?;
    for (at, word) in line.split(' ').enumerate() {
        let width = word.chars().count() + 1;
        if at > 0 && used + width > WIDTH {
            used = lead.chars().count();
            write!(text, "\n{:used$}", "")?;
        } else if at > 0 {
            text.push(' ');
        }
        text.push_str(word);
        used += width;
    }
    writeln!(text)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forkful_api::stalls::{AppStalls, StallGroupView};
    use forkful_core::doctor::{App, Signs, WorkerSeconds, examine};
    use forkful_core::stalls::StallCost;

    use super::*;

    /// The report of an app whose only worker computes in long pieces.
    fn computing() -> DoctorReport {
        let second = Signs {
            loop_busy: Some(0.99),
            main_cpu: Some(0.98),
            cpu_wait: Some(0.0),
            delay_max_ms: Some(310.0),
            requests: Some(3.0),
            ..Signs::default()
        };
        let workers = vec![WorkerSeconds { slot: 0, seconds: vec![second; 12] }];
        let app = App {
            name: "web".to_owned(),
            cores: 1.0,
            is_scalable: true,
            bounds: None,
            workers,
            node_args: Vec::new(),
            refusing: None,
        };
        let diagnosis = examine(&app);
        let ms = Duration::from_millis;
        let cost = StallCost {
            stalls: 97,
            stalled: ms(12_100),
            longest: ms(310),
            cpu: ms(12_000),
            requests: 214,
            waited: ms(21_300),
        };
        let group = |route: Option<&str>, function: &str| StallGroupView {
            route: route.map(str::to_owned),
            function: Some(function.to_owned()),
            cost,
            last_at_ms: 10_000,
            stack: Vec::new(),
        };
        let stalls = AppStalls {
            app: "web".to_owned(),
            threshold_ms: 50,
            total: cost,
            groups: vec![group(Some("GET /report/:id"), "render (page.js:3)"), group(None, "tick\u{1b}[31m")],
            others: StallCost::default(),
            recent: Vec::new(),
            standing: Vec::new(),
        };
        DoctorReport::new("web", &diagnosis).with_places(diagnosis.verdict, &stalls, 9_000)
    }

    #[test]
    fn the_functions_of_long_callbacks_are_named_without_a_profile() {
        let text = report(&computing(), Paint::plain());
        let shown = text.split("\n\n").find(|part| part.starts_with("Where")).unwrap();
        insta::assert_snapshot!(shown, @r"
        Where (by the stall ledger, since the app was added)
          render (page.js:3), for GET /report/:id
            97 stalls, 12.1 s in all, the longest 310 ms; 214 requests waited 21.3 s
          tick\u{1b}[31m
            97 stalls, 12.1 s in all, the longest 310 ms; 214 requests waited 21.3 s
        ");
    }

    #[test]
    fn programs_get_the_same_places() {
        let report = serde_json::to_value(computing()).unwrap();
        assert_eq!(report["places"][0]["text"], "render (page.js:3), for GET /report/:id");
        assert_eq!(report["places"][0]["route"], "GET /report/:id");
        assert_eq!(report["places"][0]["stalled_ms"], 12_100);
        assert_eq!(report["places"][1]["route"], serde_json::Value::Null);
    }
}
