//! A comparison as Markdown for a comment on a pull request: the verdict, a table, and warnings. Pure.

use forkful_core::foreign::is_steering;
use forkful_load::report::spread::{thousands, three_digits};

use crate::document::{ArmDocument, CompareDocument, Comparison, PercentileRatio, Ratio};
use crate::gate::{Gate, gate};
use crate::text;

/// The first line, by which a script finds its own comment.
pub const MARK: &str = "<!-- forkful compare -->";

/// The report of a comparison.
pub fn compare(document: &CompareDocument) -> String {
    let heading = &document.heading;
    let target = format!("{} {}", heading.target.method, heading.target.path);
    let mut lines = vec![
        MARK.to_owned(),
        format!("### Performance of {}: {}", code(&target), title(document)),
        String::new(),
        escaped(&text::sentence(&heading.headline)),
        String::new(),
    ];
    if !document.trustworthy {
        lines.extend([format!("**Not trustworthy**: {}.", escaped(&document.trust.text)), String::new()]);
    }
    match (document.comparisons.as_slice(), document.arms.as_slice()) {
        ([comparison], [baseline, arm]) => lines.extend(two(document, comparison, [baseline, arm])),
        _ => lines.extend(several(document)),
    }
    lines.push(String::new());
    if !heading.details.is_empty() {
        lines.extend(heading.details.iter().map(|detail| format!("- {}", escaped(&text::sentence(detail)))));
        lines.push(String::new());
    }
    lines.push(format!("<sub>{}</sub>", escaped(&text::how(&document.plan, heading))));
    lines.join("\n") + "\n"
}

fn title(document: &CompareDocument) -> &'static str {
    match (gate(document), document.comparisons.len()) {
        (_, 2..) => "compared",
        (Gate::Pass, _) => document.verdict.as_str(),
        (Gate::Slower(_), _) => "slower",
        (Gate::Unknown(_), _) => "not known",
    }
}

/// A row for each figure.
fn two(document: &CompareDocument, comparison: &Comparison, arms: [&ArmDocument; 2]) -> Vec<String> {
    let name = |place: usize| match document.heading.versions.get(place) {
        Some(version) => {
            let short = &version.commit[..version.commit.len().min(10)];
            let is_hash = version.commit.starts_with(&version.name);
            if is_hash { code(short) } else { format!("{} {}", code(&version.name), code(short)) }
        }
        None => code(&arms[place].name),
    };
    let mut rows = vec![
        format!("| | {} | {} | change (95 % interval) | |", name(0), name(1)),
        "| --- | ---: | ---: | ---: | --- |".to_owned(),
    ];
    let per_second = arms.map(|arm| Some(arm.throughput.per_second));
    let of = &comparison.throughput;
    rows.push(row("requests/s", per_second, "", of.ratio, of.ci95, comparison.verdict.as_str()));
    for (title, found) in percentiles(comparison) {
        let title = format!("{title} at {:.0} % load", found.load * 100.0);
        let word = if found.ci95.is_some() { found.verdict.as_str() } else { "" };
        rows.push(row(&title, [found.baseline_ms, found.arm_ms], " ms", found.ratio, found.ci95, word));
    }
    let Ratio { ratio, ci95, .. } = comparison.cpu_per_request;
    let cpu = arms.map(|arm| arm.cpu_per_request_us);
    rows.push(row("CPU per request", cpu, " µs", ratio, ci95, ""));
    let memory = arms.map(|arm| Some(arm.memory_bytes as f64 / 1e6));
    rows.push(row("memory", memory, " MB", comparison.memory.ratio, None, ""));
    let errors = arms.map(|arm| Some(arm.errors.total as f64));
    if errors.iter().flatten().any(|count| *count > 0.0) {
        rows.push(row("errors", errors, "", None, None, ""));
    }
    rows
}

fn percentiles(comparison: &Comparison) -> Vec<(&'static str, &PercentileRatio)> {
    let latency = &comparison.latency;
    let all = [("p50", &latency.p50), ("p90", &latency.p90), ("p95", &latency.p95), ("p99", &latency.p99)];
    all.into_iter().filter_map(|(title, found)| Some((title, found.as_ref()?))).collect()
}

fn row(
    title: &str,
    values: [Option<f64>; 2],
    unit: &str,
    ratio: Option<f64>,
    bounds: Option<[f64; 2]>,
    word: &str,
) -> String {
    let [from, to] =
        values.map(|value| value.map_or("–".to_owned(), |value| format!("{}{unit}", figure(value))));
    let change = match (ratio, bounds) {
        (Some(ratio), Some([low, high])) => {
            format!("{} ({} to {})", percent(ratio), percent(low), percent(high))
        }
        (Some(ratio), None) => percent(ratio),
        (None, _) => "–".to_owned(),
    };
    let word = if word == "slower" { "**slower**" } else { word };
    format!("| {title} | {from} | {to} | {change} | {word} |")
}

/// `5,000`, `12.3`, `0`.
fn figure(value: f64) -> String {
    let is_whole = value >= 1000.0 || value.fract() == 0.0;
    if is_whole { thousands(value.round() as u64) } else { three_digits(value) }
}

/// `−9.8 %`.
pub(crate) fn percent(ratio: f64) -> String {
    let change = (ratio - 1.0) * 100.0;
    let sign = if change < 0.0 { "−" } else { "+" };
    format!("{sign}{:.1} %", change.abs())
}

/// A row for each arm.
fn several(document: &CompareDocument) -> Vec<String> {
    let mut rows = vec![
        "| | requests/s | against the first (95 % interval) | p99 | memory | |".to_owned(),
        "| --- | ---: | ---: | ---: | ---: | --- |".to_owned(),
    ];
    for arm in &document.arms {
        let comparison = document.comparisons.iter().find(|comparison| comparison.arm == arm.name);
        let change = comparison.map_or("–".to_owned(), |found| {
            match (found.throughput.ratio, found.throughput.ci95) {
                (Some(ratio), Some([low, high])) => {
                    format!("{} ({} to {})", percent(ratio), percent(low), percent(high))
                }
                _ => "–".to_owned(),
            }
        });
        let highest = arm.latency.iter().rev().find(|latency| !latency.overloaded);
        let p99 = highest.and_then(|latency| latency.p99_ms);
        rows.push(format!(
            "| {} | {} | {change} | {} | {:.0} MB | {} |",
            code(&arm.name),
            figure(arm.throughput.per_second),
            p99.map_or("–".to_owned(), |p99| format!("{} ms", three_digits(p99))),
            arm.memory_bytes as f64 / 1e6,
            comparison.map_or("", |found| found.verdict.as_str()),
        ));
    }
    rows
}

/// As inline code for any text: branch names are untrusted.
pub(crate) fn code(text: &str) -> String {
    let text: String = text.chars().filter(|letter| !is_steering(*letter) && *letter != '`').collect();
    format!("`{}`", text.replace('|', "\\|"))
}

/// As plain text: without markup, mentions and table separators.
pub(crate) fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '\n' | '\r' | '\t' => safe.push(' '),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '@' => safe.push_str("&#64;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' | '~' | '!' => safe.extend(['\\', letter]),
            letter if is_steering(letter) => {}
            letter => safe.push(letter),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_percentages_with_their_interval() {
        let bounds = Some([0.89, 0.91]);
        let told = row("requests/s", [Some(5000.0), Some(4500.0)], "", Some(0.9), bounds, "slower");
        assert_eq!(told, "| requests/s | 5,000 | 4,500 | −10.0 % (−11.0 % to −9.0 %) | **slower** |");
        let told = row("memory", [None, Some(50.5)], " MB", None, None, "");
        assert_eq!(told, "| memory | – | 50.5 MB | – |  |");
        assert_eq!(percent(1.004), "+0.4 %");
    }

    #[test]
    fn a_name_cannot_become_markup() {
        assert_eq!(code("a`|<b>\n"), "`a\\|<b>`");
        assert_eq!(
            escaped("@all <img> | [x](y) **z** a_b"),
            "&#64;all &lt;img&gt; \\| \\[x\\](y) \\*\\*z\\*\\* a\\_b"
        );
    }
}
