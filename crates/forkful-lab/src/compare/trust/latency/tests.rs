//! Tables of windows at fixed rates with and without a problem.

use forkful_load::Report;

use super::*;
use crate::compare::trial::{Trial, at_rate, tests::trial};
use crate::document::TrustNote;
use crate::measure::Window;
use crate::statistics::steadiness::MachineUse;

/// One second at 2,000 requests per second, each answered after 4 ms and sent in time.
fn report() -> Report {
    let mut report = Report::empty("test");
    report.elapsed = Duration::from_secs(1);
    report.offered = 2_000;
    report.counts.completed = 2_000;
    report.response.record_n(4_000_000, 2_000).unwrap();
    report.slip.record_n(20_000, 2_000).unwrap();
    report
}

fn trial_of(report: Report) -> Trial {
    let window = Window { report, server_cpu: Duration::ZERO, machine: MachineUse::default() };
    trial(vec![at_rate(0.8, 2_000.0, &[window])])
}

/// Two blocks of two arms; `change` modifies the second arm in the second block.
fn blocks(change: impl Fn(&mut Report)) -> Vec<Block> {
    let mut changed = report();
    change(&mut changed);
    let trials = [vec![report(), report()], vec![report(), changed]];
    trials
        .map(|reports| Block { order: vec![0, 1], trials: reports.into_iter().map(trial_of).collect() })
        .into()
}

fn notes(change: impl Fn(&mut Report)) -> Vec<(Level, &'static str)> {
    let mut trust = Trust::default();
    look(&mut trust, &["old", "new"], &blocks(change));
    assert_eq!(trust.checks.len(), 2);
    let is_fine = trust.checks.iter().all(|check| check.ok == Some(true));
    assert_eq!(is_fine, trust.notes.is_empty(), "{trust:?}");
    trust.notes.into_iter().map(|TrustNote { level, code, .. }| (level, code)).collect()
}

#[test]
fn each_way_to_spoil_a_window_is_named_and_weighed() {
    let late = |nanoseconds: u64| {
        move |report: &mut Report| {
            report.slip.reset();
            report.slip.record_n(nanoseconds, 2_000).unwrap();
        }
    };
    // Out of 4,000 requests in two blocks.
    let without = |count: u64| move |report: &mut Report| report.counts.unfinished = count;
    assert_eq!(notes(|_| {}), []);
    assert_eq!(notes(late(900_000)), []);
    assert_eq!(notes(late(1_500_000)), [(Level::Note, "send_slip")]);
    assert_eq!(notes(late(12_000_000)), [(Level::Warning, "send_slip")]);
    assert_eq!(notes(without(3)), []);
    assert_eq!(notes(without(8)), [(Level::Warning, "unfinished")]);
    let overloaded = |report: &mut Report| {
        report.unsent = 1;
        report.counts.unfinished = 500;
    };
    assert_eq!(notes(overloaded), [], "its percentiles are not shown");
}

#[test]
fn a_slow_route_may_be_sent_a_twentieth_of_its_median_late() {
    let slow = |report: &mut Report| {
        report.response.reset();
        report.response.record_n(400_000_000, 2_000).unwrap();
        report.slip.reset();
        report.slip.record_n(15_000_000, 2_000).unwrap();
    };
    let mut trust = Trust::default();
    let blocks = vec![Block {
        order: vec![0],
        trials: vec![{
            let mut report = report();
            slow(&mut report);
            trial_of(report)
        }],
    }];
    look(&mut trust, &["slow"], &blocks);
    assert!(trust.notes.is_empty(), "{trust:?}");
}

#[test]
fn requests_without_an_answer_take_the_percentiles_that_they_are_in() {
    let at = |unfinished: u64| {
        let mut report = report();
        report.counts.unfinished = unfinished;
        let trial = trial_of(report);
        [50.0, 95.0, 99.0].map(|percentile| trial.at_rates[0].percentile_ms(percentile).is_some())
    };
    assert_eq!(at(0), [true, true, true]);
    assert_eq!(at(19), [true, true, true], "0.94 %");
    assert_eq!(at(25), [true, true, false], "1.2 %");
    assert_eq!(at(120), [true, false, false], "5.7 %");
}

#[test]
fn too_few_requests_are_told_with_the_budget_that_has_enough() {
    let facts = |weakest: f64| Facts {
        left: Duration::from_secs(60),
        arms: 2,
        overhead: Duration::from_secs(1),
        answer: Duration::from_millis(5),
        weakest,
        warmup: Duration::from_millis(500),
        disturbed: 0.0,
        with_latency: true,
        blocks: None,
        is_self_test: false,
        extends: false,
    };
    let told = |count: u64, weakest: f64, budget: u64| {
        let mut trust = Trust::default();
        let few = |report: &mut Report| {
            report.response.reset();
            report.response.record_n(4_000_000, count).unwrap();
        };
        samples(&mut trust, &blocks(few), Duration::from_secs(budget), &facts(weakest));
        trust.notes.pop().map(|note| note.text)
    };
    assert_eq!(told(1_000, 400.0, 60), None);
    let some = told(327, 400.0, 60).unwrap();
    assert!(some.contains("only 327 requests") && some.contains("`--budget 3m`"), "{some}");
    let slow = told(3, 1.0, 60).unwrap();
    assert!(slow.contains("within an hour"), "{slow}");
    let enough = told(990, 400.0, 600).unwrap();
    assert!(enough.ends_with("(it needs 1000)"), "{enough}");
}
