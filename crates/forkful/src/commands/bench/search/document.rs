//! The result of a search as text, and its exit code.

use std::fmt::Write as _;

use forkful_load::Report;
use forkful_load::report::spread::{samples_min, three_digits};
use forkful_load::search::{Document, Verdict, figure};

use crate::exit::Exit;
use crate::output::format::visible;

/// The exit code of a verdict.
pub(super) fn exit(verdict: &Verdict) -> Exit {
    match verdict.word() {
        "found" | "unlimited" => Exit::Done,
        "nothing" => Exit::ExpectationMissed,
        _ => Exit::NotTrustworthy,
    }
}

/// Text for a terminal: the result and each run.
pub(super) fn text(document: &Document) -> String {
    let mut text = format!("{}.\n\n", visible(document.headline()));
    let titles = ["requests/s", "answered/s", "p50 ms", "p99 ms", "errors"];
    writeln!(text, "{:>12}{:>12}{:>10}{:>10}{:>8}", titles[0], titles[1], titles[2], titles[3], titles[4])
        .expect("a String takes everything");
    for step in document.steps() {
        let time = |value: Option<f64>| value.map_or("–".to_owned(), three_digits);
        let reason = step.reason.as_deref().unwrap_or("held");
        writeln!(
            text,
            "{:>12}{:>12}{:>10}{:>10}{:>8}  {}",
            figure(step.rate),
            figure(step.per_second),
            time(step.p50_ms),
            time(step.p99_ms),
            step.errors,
            visible(reason)
        )
        .expect("a String takes everything");
    }
    text
}

/// A percentile with enough samples.
pub(super) fn percentile_ms(report: &Report, quantile: f64) -> Option<f64> {
    let histogram = &report.response;
    (histogram.len() >= samples_min(quantile)).then(|| histogram.value_at_quantile(quantile) as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use forkful_load::search::Next;

    use super::*;

    #[test]
    fn a_search_succeeds_only_with_a_rate_that_is_sure() {
        let ended = |end| exit(&Verdict::of(end, &[]));
        assert_eq!(ended(Next::Found { rate: 1000.0, missed: 1030.0 }), Exit::Done);
        assert_eq!(ended(Next::Unlimited { rate: 9.5 }), Exit::Done);
        assert_eq!(ended(Next::Nothing { missed: 1030.0 }), Exit::ExpectationMissed);
        assert_eq!(ended(Next::Undecided { held: None, missed: Some(1030.0) }), Exit::NotTrustworthy);
    }
}
