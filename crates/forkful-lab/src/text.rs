//! Documents as text for a terminal of 80 columns: first the verdict, then figures, then warnings. Pure.

pub(crate) mod columns;

use columns::{Align, Columns};
use forkful_load::report::spread::three_digits;

use crate::document::{
    ArmDocument, CompareDocument, Heading, Latency, Machine, PlanDocument, Trust, TuneDocument,
};
use crate::tune::tail;

/// Width of wrapped sentences.
pub(crate) const WIDTH: usize = 80;

/// The report of a comparison.
pub fn compare(document: &CompareDocument) -> String {
    let mut text = verdict(&document.trust, &document.heading);
    text.push_str(&arms_table(&document.arms));
    if document.arms.iter().any(|arm| !arm.latency.is_empty()) {
        text.push('\n');
        text.push_str(&latency_table(&document.arms));
    }
    bullets(&mut text, &document.heading);
    text.push('\n');
    paragraph(&mut text, &how(&document.plan, &document.heading));
    text
}

/// Whether the figures can be trusted, and the verdict.
fn verdict(trust: &Trust, heading: &Heading) -> String {
    let mut text = String::new();
    if !trust.is_trustworthy() {
        paragraph(&mut text, &format!("Not trustworthy: {}.", trust.text));
        text.push('\n');
    }
    paragraph(&mut text, &sentence(&heading.headline));
    text.push('\n');
    text
}

/// The report of tuning.
pub fn tune(document: &TuneDocument) -> String {
    let mut text = verdict(&document.trust, &document.heading);
    text.push_str(&candidates_table(document));
    bullets(&mut text, &document.heading);
    if let Some(patch) = &document.patch {
        text.push('\n');
        let verb = if patch.applied { "Written to" } else { "For" };
        paragraph(&mut text, &format!("{verb} {}:", patch.file));
        for line in patch.text.lines() {
            text.push_str("  ");
            text.push_str(line);
            text.push('\n');
        }
    }
    text.push('\n');
    paragraph(&mut text, &how(&document.plan, &document.heading));
    text
}

fn candidates_table(document: &TuneDocument) -> String {
    let tail = tail(&document.table);
    let tail_title = format!("{} ms at 70 %", tail.short);
    let mut table = Columns::new(&[
        ("", Align::Left),
        ("workers", Align::Right),
        ("pool", Align::Right),
        ("requests/s", Align::Right),
        ("to the best", Align::Right),
        (&tail_title, Align::Right),
        ("memory", Align::Right),
        ("chosen in", Align::Right),
        ("", Align::Left),
    ]);
    for row in &document.table {
        let relative = if row.best { "best".to_owned() } else { format!("{:+.1} %", row.relative_percent) };
        let out = row.dropped_in_round.map_or_else(String::new, |round| format!("out in round {round}"));
        table.row([
            if row.chosen { "→".to_owned() } else { String::new() },
            row.workers.to_string(),
            row.pool.to_string(),
            three_digits(row.per_second),
            relative,
            (tail.of)(row).map_or_else(|| "–".to_owned(), three_digits),
            format!("{:.0} MB", row.memory_bytes as f64 / 1e6),
            format!("{:.0} %", row.share_percent),
            if out.is_empty() && !row.pareto && !row.chosen {
                "worse on every metric".to_owned()
            } else {
                out
            },
        ]);
    }
    table.text()
}

/// Adds a capital letter and a full stop. A first word that is a name, such as `old.js` or `pool=4`, stays as
/// it is.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let is_name = text
        .split(' ')
        .next()
        .is_some_and(|word| word.trim_end_matches([':', ',', '.']).contains(['.', '=', '/']));
    let capital = |letter: char| if is_name { letter.into() } else { letter.to_uppercase().collect() };
    let first: String = letters.next().map(capital).unwrap_or_default();
    let end = if text.ends_with(['.', '`']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

fn arms_table(arms: &[ArmDocument]) -> String {
    let mut table = Columns::new(&[
        ("", Align::Left),
        ("requests/s", Align::Right),
        ("95 % interval", Align::Right),
        ("CPU/request", Align::Right),
        ("cores", Align::Right),
        ("memory", Align::Right),
        ("errors", Align::Right),
    ]);
    for arm in arms {
        table.row([
            arm.name.clone(),
            three_digits(arm.throughput.per_second),
            arm.throughput.ci95.map_or_else(String::new, |[low, high]| {
                format!("{} to {}", three_digits(low), three_digits(high))
            }),
            arm.cpu_per_request_us.map_or_else(String::new, microseconds),
            format!("{:.2}", arm.cores_used),
            format!("{:.0} MB", arm.memory_bytes as f64 / 1e6),
            arm.errors.total.to_string(),
        ]);
    }
    table.text()
}

fn latency_table(arms: &[ArmDocument]) -> String {
    let mut table = Columns::new(&[
        ("latency at equal load", Align::Left),
        ("requests/s", Align::Right),
        ("p50 ms", Align::Right),
        ("p90 ms", Align::Right),
        ("p99 ms", Align::Right),
        ("p99.9 ms", Align::Right),
        ("max ms", Align::Right),
    ]);
    let loads = arms.iter().map(|arm| arm.latency.len()).max().unwrap_or(0);
    for load in 0..loads {
        for arm in arms {
            if let Some(latency) = arm.latency.get(load) {
                table.row(latency_row(arm, latency));
            }
        }
    }
    table.text()
}

fn latency_row(arm: &ArmDocument, latency: &Latency) -> [String; 7] {
    let name = format!("{} at {:.0} %", arm.name, latency.load * 100.0);
    let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), three_digits);
    if latency.overloaded {
        let none = || "–".to_owned();
        return [name, three_digits(latency.rate), "overload".to_owned(), none(), none(), none(), none()];
    }
    [
        name,
        three_digits(latency.rate),
        shown(latency.p50_ms),
        shown(latency.p90_ms),
        shown(latency.p99_ms),
        shown(latency.p999_ms),
        shown(latency.max_ms),
    ]
}

/// Notes beside the table. Warnings are in the first line of an untrusted result and not repeated here.
fn bullets(text: &mut String, heading: &Heading) {
    if !heading.details.is_empty() {
        text.push('\n');
    }
    for item in &heading.details {
        let wrapped = wrap(&sentence(item), WIDTH - 2);
        for (index, line) in wrapped.iter().enumerate() {
            text.push_str(if index == 0 { "- " } else { "  " });
            text.push_str(line);
            text.push('\n');
        }
    }
}

pub(crate) fn how(plan: &PlanDocument, heading: &Heading) -> String {
    let Machine { cores, node, .. } = &heading.machine;
    format!(
        "{} blocks in random order, {} {}connections, {:.1} s at saturation each, {cores} cores, Node.js {node}, {:.0} s. \
         Again: {}",
        plan.blocks,
        plan.connections,
        if plan.keep_alive { "kept " } else { "single-use " },
        plan.window_s,
        plan.took_s,
        heading.command
    )
}

fn microseconds(value: f64) -> String {
    if value >= 10_000.0 { format!("{} ms", three_digits(value / 1e3)) } else { format!("{value:.0} µs") }
}

pub(crate) fn paragraph(text: &mut String, words: &str) {
    for line in wrap(words, WIDTH) {
        text.push_str(&line);
        text.push('\n');
    }
}

/// Lines of at most `width` characters, broken at spaces; a longer word has its own line.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_blanks() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("endless_word a", 4), ["endless_word", "a"]);
        assert!(wrap("", 4).is_empty());
    }

    #[test]
    fn figures_have_the_digits_that_mean_something() {
        assert_eq!([190.4, 21_000.0].map(microseconds), ["190 µs", "21.0 ms"]);
        assert_eq!(sentence("no difference: x"), "No difference: x.");
        assert_eq!(sentence("old.js, single is slower"), "old.js, single is slower.");
    }
}
