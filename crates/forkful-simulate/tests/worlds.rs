//! A few seeds in each test run, and every planted fault. `dev/simulate` runs thousands of seeds, and
//! `dev/simulate --plants` searches for each fault from the first seed on. `dev/check simulate` runs these
//! tests with optimisation: without it a seed takes ten times as long.

use forkful_simulate::{Options, Plant, run};

const OPTIONS: Options = Options { events: 500, plant: None, shortens: false };
const SEEDS: u64 = 40;
/// Seeds within which a planted fault must be found.
const PLANT_SEEDS: u64 = 1_000;
/// Where the search starts for a fault that the first few seeds do not find. If the scripts of seeds change,
/// another seed may find it: the test then takes longer and prints it.
const SEARCH_FROM: [(Plant, u64); 9] = [
    (Plant::UnwrittenEffects, 44),
    (Plant::UnwrittenField, 11),
    (Plant::UnseenExit, 36),
    (Plant::RescueDropped, 38),
    (Plant::StuckForgotten, 53),
    (Plant::UnwrittenWait, 88),
    (Plant::UnwrittenSteps, 147),
    (Plant::AppliesAtOnce, 241),
    (Plant::ScalingUnsaved, 25),
];

#[test]
fn every_invariant_holds() {
    for seed in 0..SEEDS {
        if let Err(failure) = run(seed, OPTIONS) {
            panic!("seed {seed}: {:?}\n{}", failure.broken, failure.trace.join("\n"));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let events = |seed| run(seed, OPTIONS).map_err(|failure| failure.broken).unwrap();
    assert!((0..5).all(|seed| events(seed) == events(seed)));
    let options = Options { plant: Some(Plant::LostExit), ..OPTIONS };
    let trace = || (0..SEEDS).find_map(|seed| run(seed, options).err()).unwrap().trace;
    assert_eq!(trace(), trace());
}

#[test]
fn each_planted_fault_is_found() {
    for (plant, name, _) in Plant::ALL {
        let options = Options { plant: Some(plant), ..OPTIONS };
        let from = SEARCH_FROM.iter().find(|(rare, _)| *rare == plant).map_or(0, |(_, seed)| *seed);
        let failure = (from..from + PLANT_SEEDS).find_map(|seed| run(seed, options).err());
        let failure = failure.unwrap_or_else(|| panic!("{name} was not found by {PLANT_SEEDS} seeds"));
        println!("{name}: seed {}, {} steps: {}", failure.seed, failure.steps_left, failure.broken.invariant);
        assert!(failure.steps_left <= failure.steps);
    }
}
