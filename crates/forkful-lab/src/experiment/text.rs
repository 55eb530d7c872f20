//! An experiment's result as text for a terminal of 80 columns. Pure.

use super::Document;
use super::catalogue::ALL;
use crate::text::{WIDTH, paragraph, wrap};

/// Width of the labels (reported, found, why).
const LABEL: usize = 12;

/// The result: first the answer, then the reported and the found values.
pub fn report(document: &Document) -> String {
    let mut text = format!("{}. {}\n", document.number, document.title);
    paragraph(&mut text, &format!("{} The report: {}.", document.question, document.original));
    text.push('\n');
    if !document.trustworthy {
        paragraph(&mut text, &format!("Not trustworthy: {}", document.trust.text));
        text.push('\n');
    }
    paragraph(&mut text, &document.headline);
    for detail in &document.details {
        paragraph(&mut text, detail);
    }
    for claim in &document.claims {
        text.push('\n');
        paragraph(&mut text, &claim.what);
        for (label, words) in [("reported", &claim.reported), ("found", &claim.found), ("why", &claim.why)] {
            for (index, line) in wrap(words, WIDTH - LABEL).into_iter().enumerate() {
                let label = if index == 0 { label } else { "" };
                text.push_str(&format!("  {label:<10}{line}\n"));
            }
        }
    }
    text.push('\n');
    let machine = |key: &str| document.machine[key].as_str().unwrap_or_default();
    let cores = document.machine["cores"].as_u64().unwrap_or_default();
    let where_ = format!(
        "{cores} cores, {}, Node.js {}. Again: {}",
        machine("cpu"),
        machine("node"),
        document.command
    );
    paragraph(&mut text, &where_);
    text
}

/// All experiments, one or two lines each.
pub fn list() -> String {
    let mut text = String::new();
    for description in &ALL {
        text.push_str(&format!("{}  {:<12} {}\n", description.number, description.name, description.title));
        for line in wrap(description.question, WIDTH - 16) {
            text.push_str(&format!("                {line}\n"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use forkful_load::report::Check;

    use super::super::document::Claim;
    use super::*;

    #[test]
    fn nothing_is_wider_than_the_terminal_and_doubts_come_first() {
        let mut document = Document::new(&ALL[0]);
        document.headline =
            "A long sentence that says what was found, with figures, and goes on and on and on for a while."
                .to_owned();
        document.claims.push(Claim::new("what", "reported ".repeat(20), "found", "why ".repeat(40)));
        document.check(
            Check::judged("x", Some(false)).found(String::new(), "").means("The generator was the limit."),
        );
        let text = report(&document);
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH), "{text}");
        let place = |words: &str| text.find(words).unwrap_or(usize::MAX);
        assert!(place("Not trustworthy: The generator") < place("A long sentence"));
        assert!(text.contains("  reported  reported reported"));
    }

    #[test]
    fn the_list_names_all() {
        let text = list();
        for description in &ALL {
            assert!(text.contains(description.name));
        }
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH));
    }
}
