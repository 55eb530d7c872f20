//! A diagnosis for people: the verdict first, then its numbers, what to do, what to expect, and each worker.

use std::fmt::Write as _;

use forkful_api::types::{DoctorReport, EvidenceView, FixView, WorkerReport};
use forkful_core::doctor::words;

use super::format;
use super::paint::Paint;

/// Maximum line length.
const WIDTH: usize = 80;

pub(crate) fn report(report: &DoctorReport, paint: Paint) -> String {
    let mut text = format!("{}\n", paint.bold(&format::visible(&report.headline)));
    let _ = wrapped(&mut text, "", &report.meaning);
    section(&mut text, paint, "Evidence", &format!("mean of {} s", report.seconds));
    evidence(&mut text, &report.evidence);
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
