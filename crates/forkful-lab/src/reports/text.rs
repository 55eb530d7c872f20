//! The comparison of two reports as text: the verdict, different settings, the figures, and their
//! limitations.

use forkful_load::report::spread::{thousands, three_digits};

use super::document::{Figure, ReportsDocument, named};
use crate::statistics::verdict::Word;
use crate::text::columns::{Align, Columns};
use crate::text::{WIDTH, paragraph, sentence, wrap};

/// The text for a terminal.
pub fn text(document: &ReportsDocument) -> String {
    let mut text = String::new();
    let [a, b] = document.reports.each_ref().map(|report| report.name.as_str());
    if !document.trustworthy {
        paragraph(&mut text, &format!("Not trustworthy: {}.", document.trust.text));
        text.push('\n');
    }
    paragraph(&mut text, &sentence(&document.headline));
    text.push('\n');
    if !document.differences.is_empty() {
        let mut table = Columns::new(&[
            ("not the same", Align::Left),
            (a, Align::Left),
            (b, Align::Left),
            ("", Align::Left),
        ]);
        for one in &document.differences {
            let what = if one.load { "another load" } else { "" };
            table.row([one.setting.to_owned(), one.baseline.clone(), one.other.clone(), what.to_owned()]);
        }
        text.push_str(&table.text());
        text.push('\n');
    }
    let ratio = format!("{b} ÷ {a}");
    let ratio = if ratio.chars().count() <= 24 { ratio.as_str() } else { "second ÷ first" };
    let mut table = Columns::new(&[
        ("", Align::Left),
        (a, Align::Right),
        (b, Align::Right),
        (ratio, Align::Right),
        ("95 % interval", Align::Right),
        ("", Align::Left),
    ]);
    for figure in &document.figures {
        let bounds =
            figure.ci95.map(|[low, high]| format!("{} to {}", three_digits(low), three_digits(high)));
        table.row([
            named(figure),
            shown(figure.baseline),
            shown(figure.other),
            figure.ratio.map_or(String::new(), three_digits),
            bounds.unwrap_or_default(),
            told(figure).to_owned(),
        ]);
    }
    text.push_str(&table.text());
    if !document.details.is_empty() {
        text.push('\n');
    }
    for detail in &document.details {
        for (index, line) in wrap(&sentence(detail), WIDTH - 2).iter().enumerate() {
            text.push_str(if index == 0 { "- " } else { "  " });
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// The verdict of a figure, or why there is none.
pub(super) fn told(figure: &Figure) -> &'static str {
    figure.verdict.map_or(figure.note.unwrap_or_default(), Word::as_str)
}

/// `5,000`, `12.3`, `0`, `–`.
pub(super) fn shown(value: Option<f64>) -> String {
    match value {
        None => "–".to_owned(),
        Some(value) if value >= 1000.0 || value.fract() == 0.0 => thousands(value.round() as u64),
        Some(value) => three_digits(value),
    }
}
