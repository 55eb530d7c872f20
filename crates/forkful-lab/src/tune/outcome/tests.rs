//! Races with known results, and the texts about them.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_core::outgoing::HostLoad;
use forkful_load::Report;

use super::*;
use crate::compare::at_rate;
use crate::measure::Window;
use crate::statistics::steadiness::MachineUse;
use crate::tune::race::Candidate;

fn raced(disturbed: usize, costs: Vec<Costs>) -> Raced {
    Raced {
        race: Race::new([]),
        costs,
        pool_matters: false,
        disturbed,
        trials: 10,
        unmeasured: None,
        refused: BTreeMap::new(),
        failed: Vec::new(),
    }
}

#[test]
fn disturbed_windows_are_told_as_what_they_are() {
    let note = |disturbed: usize| {
        trust(&raced(disturbed, Vec::new()), 2).notes.pop().map(|note| (note.level, note.text))
    };
    assert_eq!(note(0), None);
    assert_eq!(note(2).unwrap().0, Level::Note);
    let (level, text) = note(3).unwrap();
    assert_eq!(level, Level::Warning);
    assert_eq!(
        text,
        "3 of 10 windows were disturbed by other processes, and were used because no clean windows were available"
    );
}

#[test]
fn the_database_that_excludes_numbers_of_workers_is_told() {
    let load = |refused: u64, limit: Option<u32>| HostLoad {
        host: "db:5432".to_owned(),
        connections: 40,
        workers: 4,
        most: 10,
        refused,
        limit,
    };
    let mut raced = raced(0, Vec::new());
    assert_eq!(excluded(&raced), None);
    raced.refused = BTreeMap::from([(8, load(30, Some(40))), (6, load(12, Some(40)))]);
    assert_eq!(
        excluded(&raced).unwrap(),
        "6 workers or more are never chosen: db:5432 refused 12 connections, with 40 of this app open; smaller pools, a \
         higher limit of the server or a pooler would allow more"
    );
    assert_eq!(refusal(&load(1, None)), "db:5432 refused 1 connection");
}

#[test]
fn too_few_requests_for_a_99th_percentile_are_told() {
    let with = |samples: u64| {
        let mut report = Report::empty("test");
        report.offered = samples;
        report.counts.completed = samples;
        report.response.record_n(4_000_000, samples).unwrap();
        let window = Window { report, server_cpu: Duration::ZERO, machine: MachineUse::default() };
        Costs { at_load: Some(at_rate(0.7, 100.0, &[window])), carries: true, ..Costs::default() }
    };
    let told = |costs: Vec<Costs>| trust(&raced(0, costs), 2).notes.pop().map(|note| note.text);
    assert_eq!(told(vec![with(1_000), Costs::default()]), None);
    let some = told(vec![with(1_000), with(300)]).unwrap();
    assert!(some.contains("only 300 requests"), "{some}");
    assert_eq!(
        [99.0, 95.0].map(|percentile| at_load(with(300).at_load.as_ref(), percentile).is_some()),
        [false, true]
    );
}

/// Workers with a pool of 4, and their values by round.
fn race(workers: &[u16], rounds: &[&[(usize, f64)]]) -> Race {
    let mut race = Race::new(workers.iter().map(|workers| Candidate { workers: *workers, pool: 4 }));
    for round in rounds {
        let values: Vec<_> = round.iter().map(|(index, value)| (*index, Some(*value))).collect();
        race.record(&values, 4);
    }
    race
}

fn rows(race: &Race) -> Vec<CandidateDocument> {
    let costs = vec![Costs::default(); race.entries().len()];
    table(race, &costs, race.choose(4), &race.stability(4, 1))
}

#[test]
fn only_the_leader_is_the_best_also_where_one_round_has_decided_everything() {
    let race = race(&[1, 2, 3], &[&[(0, 100.0), (1, 1000.0), (2, 400.0)]]);
    let rows = rows(&race);
    let found: Vec<(bool, f64)> = rows.iter().map(|row| (row.best, row.relative_percent.round())).collect();
    assert_eq!(found, [(false, -90.0), (true, 0.0), (false, -60.0)]);
    assert!(rows.iter().all(|row| row.relative_ci95_percent.is_none()), "one window of each has no noise");
}

#[test]
fn who_was_out_early_is_compared_in_the_rounds_that_both_ran() {
    // The machine is 20 % faster from the second round on.
    let race = race(&[1, 2], &[&[(0, 100.0), (1, 190.0)], &[(1, 228.0)], &[(1, 228.0)]]);
    let rows = rows(&race);
    let gain = gain_over_one(&rows[1], &rows, 2);
    assert_eq!(gain, "; 1.90 × one worker");
    assert!((rows[0].relative_percent + 47.4).abs() < 0.1, "{rows:?}");
    assert!((rows[1].per_second - (190.0_f64 * 228.0 * 228.0).cbrt()).abs() < 0.01, "{rows:?}");
    assert_eq!((rows[0].blocks.as_slice(), rows[1].blocks.len()), ([100.0].as_slice(), 3), "as measured");
}

#[test]
fn who_came_late_into_faster_rounds_is_no_better_for_that() {
    let rounds: [&[(usize, f64)]; 4] = [
        &[(0, 50.0), (1, 100.0), (2, 30.0)],
        &[(1, 100.0)],
        &[(1, 120.0), (3, 118.0)],
        &[(1, 120.0), (3, 118.0)],
    ];
    let mut race = Race::new([1, 2, 3].map(|workers| Candidate { workers, pool: 4 }));
    for (number, round) in rounds.iter().enumerate() {
        if number == 2 {
            race.add(Candidate { workers: 4, pool: 4 });
        }
        let values: Vec<_> = round.iter().map(|(index, value)| (*index, Some(*value))).collect();
        race.record(&values, 4);
    }
    let rows = rows(&race);
    assert!(rows[1].best && rows[1].per_second > rows[3].per_second, "{rows:?}");
    assert!((rows[3].relative_percent + 1.7).abs() < 0.1, "{rows:?}");
}

#[test]
fn the_law_is_fitted_to_what_the_app_did_and_not_to_what_the_machine_did() {
    let rounds: [&[(usize, f64)]; 3] =
        [&[(0, 100.0), (1, 200.0), (2, 400.0)], &[(1, 160.0), (2, 320.0)], &[(2, 320.0)]];
    let race = race(&[1, 2, 4], &rounds);
    let Fitted { law, .. } = fitted(&race, &vec![Costs::default(); 3], 4, 8).unwrap();
    let gain = law.throughput(4.0) / law.throughput(1.0);
    assert!((gain / 4.0 - 1.0).abs() < 0.01, "{gain} {law:?}");
}

#[test]
fn the_law_names_the_pool_that_it_is_fitted_to() {
    let mut race = race(&[1, 2, 4], &[&[(0, 100.0), (1, 190.0), (2, 340.0)]]);
    race.add(Candidate { workers: 1, pool: 16 });
    race.record(&[(2, Some(340.0)), (3, Some(900.0))], 4);
    let rows = rows(&race);
    assert!(rows.iter().any(|row| row.best && row.pool == 16), "{rows:?}");
    let law = law(&race, &vec![Costs::default(); 4], 16, 8).unwrap();
    assert_eq!(law.pool, 4);
    assert!(law.sentence.starts_with("with a pool of 4, contention"), "{}", law.sentence);
}

#[test]
fn the_law_uses_counts_within_the_cores_where_there_are_enough() {
    let mut race = Race::new([1, 2, 3, 4, 8].map(|workers| Candidate { workers, pool: 4 }));
    for _ in 0..3 {
        let values: Vec<(usize, Option<f64>)> = [100.0, 190.0, 270.0, 340.0, 345.0]
            .iter()
            .enumerate()
            .map(|(index, value)| (index, Some(*value)))
            .collect();
        race.record(&values, 4);
    }
    let costs = vec![Costs { generator_cores: vec![0.2], ..Costs::default() }; 5];
    let clean = law(&race, &costs, 4, 8).unwrap();
    assert_eq!(clean.curve.len(), 4, "8 workers and the generator are more than 8 cores");
    assert!(clean.sentence.contains("no loss by more workers up to 4"), "{}", clean.sentence);
    let bent = law(&race, &costs, 4, 2).unwrap();
    assert!(bent.sentence.contains("beyond the 2 cores"), "{}", bent.sentence);
    assert!(law(&Race::new([]), &[], 4, 2).is_none());
}
