//! Runs seeds, and shortens the script of a failure: removes every step that the failure does not need (delta
//! debugging: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", 2002).

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::plant::Plant;
use crate::script::{Step, script};
use crate::watch::{Broken, Invariant};
use crate::world::World;

/// Steps of the script per 100 events.
const STEPS_PER_100: usize = 35;
/// Seeds between two progress reports of a search.
const REPORT_EVERY: u64 = 2_500;
/// Maximum runs for shortening a script.
const SHORTENING_RUNS_MAX: usize = 2_000;

/// Options of a run.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Events of a run before faults stop.
    pub events: usize,
    pub plant: Option<Plant>,
    /// Shorten the script of a failure, which takes as long as a thousand runs.
    pub shortens: bool,
}

/// A run that violated an invariant.
#[derive(Debug, Clone)]
pub struct FailedRun {
    pub seed: u64,
    pub broken: Broken,
    /// The number of executed steps of the script, and of the shortened script's steps.
    pub steps: usize,
    pub steps_left: usize,
    /// The trace: a line for each event and each effect.
    pub trace: Vec<String>,
    /// The trace with the shortened script.
    pub shortened: Vec<String>,
}

/// Counts of a run.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Counts {
    pub events: u64,
    /// Events that only concern connections, which are counted separately.
    pub of_connections: u64,
}

/// The result of many seeds.
#[derive(Debug, Default)]
pub struct Search {
    pub runs: u64,
    pub counts: Counts,
    /// The failure with the lowest seed.
    pub failure: Option<Box<FailedRun>>,
}

/// Runs a script once.
fn play(seed: u64, script: &Rc<[Step]>, options: Options, traces: bool) -> (World, Option<Broken>) {
    let mut world = World::new(seed, Rc::clone(script), options.plant, traces);
    let broken = catch_unwind(AssertUnwindSafe(|| world.run(options.events)));
    let broken = broken.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let seen = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("a panic").to_owned();
        Some(Broken { invariant: Invariant::NeverPanics, seen })
    });
    (world, broken)
}

/// Runs one seed.
pub fn run(seed: u64, options: Options) -> Result<Counts, Box<FailedRun>> {
    let script: Rc<[Step]> = script(seed, options.events * STEPS_PER_100 / 100).into();
    let (world, broken) = play(seed, &script, options, false);
    let Some(broken) = broken else {
        return Ok(Counts { events: world.events as u64, of_connections: world.net.happened as u64 });
    };
    let steps = world.steps;
    let (world, _) = play(seed, &script, options, true);
    let short = script[..steps].to_vec();
    let short = if options.shortens { shorten(seed, short, broken.invariant, options) } else { short };
    let steps_left = short.len();
    let (shorter, again) = play(seed, &short.into(), options, true);
    let shortened = shorter.trace.unwrap_or_default();
    let broken = again.unwrap_or(broken);
    Err(Box::new(FailedRun {
        seed,
        broken,
        steps,
        steps_left,
        trace: world.trace.unwrap_or_default(),
        shortened,
    }))
}

/// Removes steps in ever smaller pieces, as long as the same invariant is violated without them.
fn shorten(seed: u64, mut steps: Vec<Step>, invariant: Invariant, options: Options) -> Vec<Step> {
    let fails = |steps: &[Step]| {
        let (_, broken) = play(seed, &steps.into(), options, false);
        broken.is_some_and(|broken| broken.invariant == invariant)
    };
    let mut runs = 0;
    let mut piece = steps.len().div_ceil(2);
    while piece > 0 && runs < SHORTENING_RUNS_MAX {
        let mut at = 0;
        let mut any = false;
        while at < steps.len() && runs < SHORTENING_RUNS_MAX {
            let end = (at + piece).min(steps.len());
            let without = [&steps[..at], &steps[end..]].concat();
            runs += 1;
            if fails(&without) {
                steps = without;
                any = true;
            } else {
                at = end;
            }
        }
        // With pieces of one step, it is complete when none can be removed.
        if !(piece == 1 && any) {
            piece /= 2;
        }
    }
    steps
}

/// Runs seeds on all cores until one fails.
pub fn search(seeds: Range<u64>, options: Options, mut progress: impl FnMut(&Search)) -> Search {
    let next = AtomicU64::new(seeds.start);
    let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut found = Search::default();
    thread::scope(|scope| {
        let (tell, told) = mpsc::sync_channel(1024);
        for _ in 0..cores {
            let (tell, next) = (tell.clone(), &next);
            scope.spawn(move || {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = run(seed, options);
                    if result.is_err() {
                        next.store(seeds.end, Ordering::Relaxed);
                    }
                    if tell.send(result).is_err() {
                        return;
                    }
                }
            });
        }
        drop(tell);
        for result in told {
            found.runs += 1;
            match result {
                Ok(Counts { events, of_connections }) => {
                    found.counts.events += events;
                    found.counts.of_connections += of_connections;
                }
                Err(failure) => {
                    if found.failure.as_ref().is_none_or(|other| failure.seed < other.seed) {
                        found.failure = Some(failure);
                    }
                }
            }
            if found.runs.is_multiple_of(REPORT_EVERY) {
                progress(&found);
            }
        }
    });
    found
}
