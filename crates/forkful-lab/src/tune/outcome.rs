//! From a finished race to the document: the table, the fitted law, the choice and its reasons. Pure.

use forkful_load::report::Level;
use forkful_load::report::spread::three_digits;

use super::pareto::{mark_pareto, tail};
use super::race::{CLOSE_MAX, Entry, Race};
use super::{Costs, Raced, TuneSetup};
use crate::arms::workers_text;
use crate::compare::AtRate;
use crate::document::{
    CandidateDocument, Choice, PlanDocument, Refused, Trust, TuneDocument, UslDocument, VERSION,
};
use crate::error::refusal;
use crate::measure::P99_SAMPLES_MIN;
use crate::statistics::paired::{deviation, geometric, mean};
use crate::statistics::usl::{COUNTS_MIN, Point, Usl, fit};
use crate::statistics::verdict::CONFIDENCE;

/// Below this share of resamples a choice counts as close.
const STABLE: f64 = 0.8;

/// A choice whose p99 exceeds the best's by this factor gets a note.
const P99_WORSE: f64 = 1.5;

pub(super) fn document(tune: &TuneSetup, raced: &Raced, plan: PlanDocument, cores: u16) -> TuneDocument {
    let present = tune.present_pool();
    let chosen = raced.race.choose(present);
    let shares = raced.race.stability(present, tune.setup.seed);
    let mut table = table(&raced.race, &raced.costs, chosen, &shares);
    mark_pareto(&mut table);
    table.sort_by(|a, b| b.best.cmp(&a.best).then(b.per_second.total_cmp(&a.per_second)));
    let usl = law(&raced.race, &raced.costs, present, cores);
    let trust = trust(raced, cores);
    let trustworthy = trust.is_trustworthy();
    let mut choice = choice(tune, raced, &table, cores);
    if !trustworthy {
        choice.sentence = no_advice(&table);
        choice.stability = 0.0;
        table.iter_mut().for_each(|row| row.chosen = false);
    }
    let mut heading = tune.setup.heading.clone();
    heading.headline.clone_from(&choice.sentence);
    heading.details = details(raced, &table, &choice, usl.as_ref(), &trust);
    TuneDocument {
        kind: "tune".to_owned(),
        version: VERSION,
        heading,
        choice,
        trustworthy,
        plan,
        table,
        usl,
        refused: raced
            .refused
            .iter()
            .map(|(workers, load)| Refused { workers: *workers, host: load.clone() })
            .collect(),
        patch: None,
        trust,
    }
}

fn table(race: &Race, costs: &[Costs], chosen: Option<usize>, shares: &[f64]) -> Vec<CandidateDocument> {
    let leader = race.leader();
    let rates = race.rates();
    let of_leader = leader.and_then(|leader| rates[leader]);
    let relative = |ratio: f64| (ratio - 1.0) * 100.0;
    let row = |(index, entry): (usize, &Entry)| {
        let is_best = leader == Some(index);
        let values = race.level_values(index);
        let per_second = rates[index].unwrap_or_default();
        let others = leader.filter(|_| !is_best);
        let against = others.and_then(|leader| race.against(index, leader));
        let cost = &costs[index];
        CandidateDocument {
            workers: entry.candidate.workers,
            pool: entry.candidate.pool,
            per_second,
            ci95: geometric(&values, CONFIDENCE).map(|interval| interval.bounds),
            best: is_best,
            // With one window each there is a ratio, but no interval.
            relative_percent: of_leader
                .filter(|_| !is_best)
                .map_or(0.0, |of_leader| relative(per_second / of_leader)),
            relative_ci95_percent: against.map(|interval| interval.bounds.map(relative)),
            carries_70: cost.carries,
            p99_at_70_ms: at_load(cost.at_load.as_ref(), 99.0),
            p95_at_70_ms: at_load(cost.at_load.as_ref(), 95.0),
            p90_at_70_ms: at_load(cost.at_load.as_ref(), 90.0),
            p99_at_own_70_ms: at_load(cost.at_own_load.as_ref(), 99.0),
            memory_bytes: mean(&cost.memory_bytes) as u64,
            cpu_per_request_us: (!cost.cpu_us.is_empty()).then(|| mean(&cost.cpu_us)),
            rounds: race.runs(index),
            dropped_in_round: entry.dropped.map(|(round, _)| round),
            pareto: false,
            chosen: Some(index) == chosen,
            share_percent: shares.get(index).copied().unwrap_or(0.0) * 100.0,
            blocks: entry.values(),
        }
    };
    race.entries().iter().enumerate().filter(|(_, entry)| !entry.values().is_empty()).map(row).collect()
}

/// Only for a candidate that keeps up: an overload has no steady state for percentiles to describe.
fn at_load(found: Option<&AtRate>, percentile: f64) -> Option<f64> {
    found.filter(|found| !found.overloaded)?.percentile_ms(percentile)
}

/// The law over workers at the current pool size, from all rounds.
fn law(race: &Race, costs: &[Costs], present: u32, cores: u16) -> Option<UslDocument> {
    let pool = most_measured_pool(race, present);
    let Fitted { law, most, is_clean } = fitted(race, costs, pool, cores)?;
    let curve = (1..=most).map(|workers| [f64::from(workers), law.throughput(f64::from(workers))]).collect();
    let is_only = race.entries().iter().all(|entry| entry.candidate.pool == pool);
    let of = if is_only { String::new() } else { format!("with a pool of {pool}, ") };
    let sentence = format!("{of}{}", explain(&law, most, is_clean, cores));
    Some(UslDocument { law, pool, peak: law.peak(), sentence, curve })
}

/// A law fitted to a race.
pub(super) struct Fitted {
    pub(super) law: Usl,
    /// The largest number of workers in the fit.
    most: u16,
    /// Whether the fit contains no more workers than cores.
    is_clean: bool,
}

/// Fits the law to the rounds of a pool size. Counts beyond the cores distort it for reasons outside the app,
/// and are left out if enough others remain.
pub(super) fn fitted(race: &Race, costs: &[Costs], pool: u32, cores: u16) -> Option<Fitted> {
    let entries: Vec<(usize, &Entry)> =
        race.entries().iter().enumerate().filter(|(_, entry)| entry.candidate.pool == pool).collect();
    let generator =
        entries.iter().flat_map(|(index, _)| &costs[*index].generator_cores).copied().fold(0.0, f64::max);
    let limit = (f64::from(cores) - generator).floor().max(1.0);
    let within: Vec<(usize, &Entry)> =
        entries.iter().copied().filter(|(_, entry)| f64::from(entry.candidate.workers) <= limit).collect();
    let is_clean = within.len() >= COUNTS_MIN;
    let used = if is_clean { within } else { entries };
    let points: Vec<Point> = used
        .iter()
        .flat_map(|(index, entry)| points(entry.candidate.workers, race.level_values(*index)))
        .collect();
    let law = fit(&points)?;
    let most = used.iter().map(|(_, entry)| entry.candidate.workers).max().unwrap_or(1);
    Some(Fitted { law, most, is_clean })
}

fn most_measured_pool(race: &Race, present: u32) -> u32 {
    let workers_of = |pool: u32| race.entries().iter().filter(|entry| entry.candidate.pool == pool).count();
    let pools = race.entries().iter().map(|entry| entry.candidate.pool);
    pools.max_by_key(|pool| (workers_of(*pool), *pool == present)).unwrap_or(present)
}

fn points(workers: u16, values: Vec<f64>) -> Vec<Point> {
    // A deviation below 1 % from so few rounds is luck.
    let deviation = deviation(&values).max(0.01 * mean(&values));
    let weight = 1.0 / (deviation * deviation);
    values.into_iter().map(|throughput| Point { workers: f64::from(workers), throughput, weight }).collect()
}

fn explain(law: &Usl, most: u16, is_clean: bool, cores: u16) -> String {
    let mut text = format!(
        "contention {:.1} %, coherency {:.2} %: {}",
        law.sigma * 100.0,
        law.kappa * 100.0,
        match law.peak() {
            Some(peak) if peak < f64::from(most) =>
                format!("throughput is highest at about {peak:.1} workers"),
            _ => format!("no loss by more workers up to {most}"),
        }
    );
    if !is_clean {
        text.push_str(&format_more_than_cores(cores));
    }
    text
}

fn format_more_than_cores(cores: u16) -> String {
    format!(
        "; counts beyond the {cores} cores are in the fit, so that it describes the machine more than the app"
    )
}

fn choice(tune: &TuneSetup, raced: &Raced, table: &[CandidateDocument], cores: u16) -> Choice {
    let Some(row) = table.iter().find(|row| row.chosen) else {
        return Choice {
            workers: tune.present_workers(),
            pool: tune.present_pool(),
            pool_matters: raced.pool_matters,
            stability: 0.0,
            sentence: match raced.refused.first_key_value() {
                Some((_, load)) => {
                    format!(
                        "{}, and no other number of workers is left, so that nothing is advised",
                        refusal(load)
                    )
                }
                None => "nothing could be measured, so that nothing is advised".to_owned(),
            },
        };
    };
    let workers = workers_text(row.workers);
    let pool =
        if raced.pool_matters { format!(" with UV_THREADPOOL_SIZE={}", row.pool) } else { String::new() };
    let best = table.iter().find(|best| best.best).filter(|best| !best.chosen);
    let figure = format!("{} requests/s", three_digits(row.per_second));
    let reason = match best {
        None => format!("{figure}, the best of {}", table.len()),
        // They differ only in a pool size that does not matter.
        Some(best) if best.workers == row.workers && !raced.pool_matters => {
            format!("{figure}, as good as any of {}", table.len())
        }
        Some(best) => format!(
            "{figure}, {:.1} % from the best ({}{})",
            row.relative_percent.abs(),
            workers_text(best.workers),
            if raced.pool_matters { format!(", pool {}", best.pool) } else { String::new() }
        ),
    };
    let gain = gain_over_one(row, table, cores);
    Choice {
        workers: row.workers,
        pool: row.pool,
        pool_matters: raced.pool_matters,
        stability: row.share_percent / 100.0,
        sentence: format!("{workers}{pool}: {reason}{gain}"),
    }
}

/// Which numbers of workers are excluded because a host refuses connections.
fn excluded(raced: &Raced) -> Option<String> {
    let (workers, load) = raced.refused.first_key_value()?;
    Some(format!(
        "{} or more are never chosen: {}; smaller pools, a higher limit of the server or a pooler would allow more",
        workers_text(*workers),
        refusal(load)
    ))
}

/// For untrusted figures, only reports what was measured.
fn no_advice(table: &[CandidateDocument]) -> String {
    table.iter().find(|row| row.best).map_or_else(
        || "no advice: nothing could be measured".to_owned(),
        |best| {
            format!(
                "no advice: the figures cannot be trusted; {} with a pool of {} measured best ({} requests/s)",
                workers_text(best.workers),
                best.pool,
                three_digits(best.per_second)
            )
        },
    )
}

/// The gain of the choice over one worker, or that there is none.
fn gain_over_one(row: &CandidateDocument, table: &[CandidateDocument], cores: u16) -> String {
    if row.workers == 1 {
        let has_more = table.iter().any(|other| other.workers > 1);
        return if has_more && cores > 1 {
            "; more workers gain nothing at this load".to_owned()
        } else {
            String::new()
        };
    }
    let one =
        table.iter().filter(|other| other.workers == 1).map(|other| other.per_second).fold(0.0, f64::max);
    if one > 0.0 { format!("; {:.2} × one worker", row.per_second / one) } else { String::new() }
}

fn details(
    raced: &Raced,
    table: &[CandidateDocument],
    choice: &Choice,
    usl: Option<&UslDocument>,
    trust: &Trust,
) -> Vec<String> {
    let mut details = Vec::new();
    if choice.stability > 0.0 {
        let others: Vec<String> = table
            .iter()
            .filter(|row| !row.chosen && row.share_percent >= 5.0)
            .map(|row| {
                format!("{}, pool {} in {:.0} %", workers_text(row.workers), row.pool, row.share_percent)
            })
            .collect();
        let rest = if others.is_empty() { String::new() } else { format!("; {}", others.join("; ")) };
        let close = if choice.stability < STABLE { ", so that it is a close call" } else { "" };
        details.push(format!(
            "the choice is the same in {:.0} % of resamples over {} rounds{close}{rest}",
            choice.stability * 100.0,
            raced.race.rounds()
        ));
    }
    details.extend(excluded(raced));
    let pools = raced.race.entries().iter().map(|entry| entry.candidate.pool);
    if !raced.pool_matters && pools.collect::<std::collections::BTreeSet<_>>().len() > 1 {
        details.push("the size of the thread pool makes no difference for this route".to_owned());
    }
    let tail = tail(table);
    let chosen = table.iter().find(|row| row.chosen).and_then(tail.of);
    let best = table.iter().filter_map(tail.of).reduce(f64::min);
    if let (Some(chosen), Some(best)) = (chosen, best)
        && chosen > P99_WORSE * best
    {
        details.push(format!(
            "its {} at 70 % load is {} ms where another has {}: see the table when the tail matters more",
            tail.long,
            three_digits(chosen),
            three_digits(best)
        ));
    }
    details.extend(usl.map(|usl| usl.sentence.clone()));
    details.extend(trust.texts(Level::Note).map(str::to_owned));
    details
}

fn trust(raced: &Raced, cores: u16) -> Trust {
    let busiest = raced.costs.iter().map(|cost| cost.generator_busy).fold(0.0, f64::max);
    let generator = raced.costs.iter().flat_map(|cost| &cost.generator_cores).copied().fold(0.0, f64::max);
    let mut trust = Trust::of_generator(busiest, generator, "more workers may do more");
    if generator > 0.05 * f64::from(cores) {
        let server = raced.costs.iter().flat_map(|cost| &cost.server_cores).copied().fold(0.0, f64::max);
        if generator + server > 0.9 * f64::from(cores) {
            trust.note(
                Level::Note,
                "generator_shares_cores",
                format!(
                    "the load generator took up to {generator:.2} of the {cores} cores that it shares with the app; with a \
                     generator elsewhere, more workers may still gain where CPU per request is the same"
                ),
            );
        }
    }
    disturbances(&mut trust, raced);
    if !raced.failed.is_empty() {
        trust.note(
            Level::Warning,
            "failed",
            format!("left out, because the app failed: {}", raced.failed.join("; ")),
        );
    }
    if let Some(text) = &raced.unmeasured {
        trust.note(Level::Note, "few_candidates", text);
    }
    few_samples(&mut trust, raced);
    trust.concluded()
}

/// Windows disturbed by other processes, and rounds with random differences.
fn disturbances(trust: &mut Trust, raced: &Raced) {
    if raced.trials > 0 && 5 * raced.disturbed > raced.trials {
        trust.note(
            Level::Warning,
            "disturbed",
            format!(
                "{} of {} windows were disturbed by other processes, and were used because no clean windows were available",
                raced.disturbed, raced.trials
            ),
        );
    } else if raced.disturbed > 0 {
        trust.note(
            Level::Note,
            "disturbed",
            format!("{} of {} windows were disturbed by other processes", raced.disturbed, raced.trials),
        );
    }
    if let Some(noise) = raced.race.noise().filter(|noise| *noise > CLOSE_MAX) {
        let text = format!(
            "the windows differ so much from round to round that two candidates may be {:.0} % apart by chance; a quiet machine \
             or a larger `--budget` would tell more",
            noise * 100.0
        );
        trust.note(Level::Warning, "noise", text);
    }
}

/// Too few requests for a 99th percentile.
fn few_samples(trust: &mut Trust, raced: &Raced) {
    let measured = raced.costs.iter().filter_map(|cost| cost.at_load.as_ref());
    let fewest = measured.filter(|found| !found.overloaded).map(|found| found.sums.response.len()).min();
    if let Some(fewest) = fewest.filter(|fewest| *fewest < P99_SAMPLES_MIN) {
        let text = format!(
            "a window at 70 % load has only {fewest} requests, too few for a 99th percentile ({P99_SAMPLES_MIN}); a larger \
             `--budget` makes longer windows"
        );
        trust.note(Level::Note, "few_samples", text);
    }
}

#[cfg(test)]
mod tests;
