//! The comparison of two reports as Markdown for a comment on a pull request.

use super::document::{ReportsDocument, named};
use super::text::{shown, told};
use crate::markdown::{MARK, code, escaped, percent};
use crate::statistics::verdict::Word;
use crate::text::sentence;

/// The contents of the text output, with a table.
pub fn markdown(document: &ReportsDocument) -> String {
    let [a, b] = document.reports.each_ref().map(|report| code(&report.name));
    let mut lines = vec![
        MARK.to_owned(),
        format!("### {b} against {a}: {}", document.verdict),
        String::new(),
        escaped(&sentence(&document.headline)),
        String::new(),
    ];
    if !document.trustworthy {
        lines.extend([format!("**Not trustworthy**: {}.", escaped(&document.trust.text)), String::new()]);
    }
    if !document.differences.is_empty() {
        lines.extend([format!("| not the same | {a} | {b} | |"), "| --- | --- | --- | --- |".to_owned()]);
        for one in &document.differences {
            let what = if one.load { "**another load**" } else { "" };
            let [from, to] = [&one.baseline, &one.other].map(|value| escaped(value));
            lines.push(format!("| {} | {from} | {to} | {what} |", one.setting));
        }
        lines.push(String::new());
    }
    lines.extend([
        format!("| | {a} | {b} | change (95 % interval) | |"),
        "| --- | ---: | ---: | ---: | --- |".to_owned(),
    ]);
    for figure in &document.figures {
        let change = match (figure.ratio, figure.ci95) {
            (Some(ratio), Some([low, high])) => {
                format!("{} ({} to {})", percent(ratio), percent(low), percent(high))
            }
            (Some(ratio), None) => percent(ratio),
            (None, _) => "–".to_owned(),
        };
        let word = if figure.verdict == Some(Word::Slower) { "**slower**" } else { told(figure) };
        let [from, to] = [figure.baseline, figure.other].map(shown);
        lines.push(format!("| {} | {from} | {to} | {change} | {word} |", escaped(&named(figure))));
    }
    lines.push(String::new());
    lines.extend(document.details.iter().map(|detail| format!("- {}", escaped(&sentence(detail)))));
    lines.join("\n") + "\n"
}
