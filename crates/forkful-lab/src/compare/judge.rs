//! From blocks to the document. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use forkful_load::Histogram;

use super::pilot::Pilot;
use super::trial::is_seen;
use super::{Block, Setup, Trial, best, trust, words};
use crate::document::{
    ArmDocument, BlockDocument, CompareDocument, Comparison, Errors, Latency, LatencyRatios, PercentileRatio,
    PlainRatio, PlanDocument, Rate, Ratio, TrialDocument, TrialLatency, VERSION,
};
use crate::measure::{P99_SAMPLES_MIN, percentile_ms};
use crate::plan::{Plan, TAILS};
use crate::statistics::paired::{
    deviation, geometric, hodges_lehmann, log_ratios, mean, signed_rank_p, t_interval,
};
use crate::statistics::power;
use crate::statistics::verdict::{CONFIDENCE, Judgement, Rule, Word, judge};

/// Percentiles of a spectrum, evenly spaced in plots.
const SPECTRUM: [f64; 15] =
    [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 97.5, 99.0, 99.5, 99.75, 99.9, 99.99, 100.0];

/// Blocks without a disturbance.
pub(super) fn undisturbed(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    blocks.iter().filter(|block| block.disturbed().is_none())
}

/// Blocks that count: the undisturbed blocks, or all blocks if fewer than two are undisturbed, because
/// figures with a warning are better than none.
pub(super) fn counting(blocks: &[Block]) -> impl Iterator<Item = &Block> {
    let all = all_count(blocks);
    blocks.iter().filter(move |block| all || block.disturbed().is_none())
}

fn all_count(blocks: &[Block]) -> bool {
    undisturbed(blocks).count() < 2
}

/// Whether the last block counts, so that no look is repeated after a disturbed block.
pub(super) fn just_counted(blocks: &[Block]) -> bool {
    blocks.last().is_some_and(|block| block.disturbed().is_none())
}

/// Whether every comparison has a verdict other than inconclusive.
pub(super) fn is_settled(setup: &Setup, plan: &Plan, blocks: &[Block]) -> bool {
    let rule = Rule::throughput(plan.looks.len());
    (1..setup.arms.len()).all(|arm| {
        let logs = throughput_logs(blocks, 0, arm);
        judge(&logs, &rule, false).word != Word::Inconclusive
    })
}

pub(super) fn document(
    setup: &Setup,
    plan: &Plan,
    pilot: &Pilot,
    blocks: &[Block],
    plan_document: PlanDocument,
) -> CompareDocument {
    let arms: Vec<ArmDocument> = (0..setup.arms.len()).map(|arm| arm_document(setup, blocks, arm)).collect();
    let comparisons: Vec<Comparison> =
        (1..arms.len()).map(|arm| comparison(setup, plan, blocks, &arms, arm)).collect();
    let first = comparisons.first().expect("an experiment has at least two arms");
    let trust = trust::trust(setup, pilot, blocks, first);
    let mut heading = setup.heading.clone();
    let best = best::best(setup, plan, blocks, &arms);
    heading.headline = words::headline(setup, first, best.as_ref());
    let told = usize::from(best.is_none());
    heading.details =
        words::details(setup, &comparisons[told.min(comparisons.len())..], &arms, first, &trust);
    CompareDocument {
        kind: "compare".to_owned(),
        version: VERSION,
        heading,
        aa: setup.self_test,
        verdict: first.verdict,
        throughput: first.throughput.clone(),
        latency: first.latency.clone(),
        trustworthy: trust.is_trustworthy(),
        plan: plan_document,
        arms,
        comparisons,
        best,
        capacity: pilot.curve.clone(),
        blocks: block_documents(setup, blocks),
        trust,
    }
}

fn trials(blocks: &[Block], arm: usize) -> impl Iterator<Item = &Trial> {
    counting(blocks).filter_map(move |block| block.trials.get(arm))
}

pub(super) fn throughput_logs(blocks: &[Block], baseline: usize, arm: usize) -> Vec<f64> {
    log_ratios(trials(blocks, baseline).zip(trials(blocks, arm)).map(|(a, b)| (a.per_second, b.per_second)))
}

fn arm_document(setup: &Setup, blocks: &[Block], index: usize) -> ArmDocument {
    let arm = &setup.arms[index];
    let mine: Vec<&Trial> = trials(blocks, index).collect();
    let rates: Vec<f64> = mine.iter().map(|trial| trial.per_second).collect();
    let interval = geometric(&rates, CONFIDENCE);
    let cpus: Vec<f64> = mine.iter().filter_map(|trial| cpu_us(trial)).collect();
    let mut by_cause: BTreeMap<String, u64> = BTreeMap::new();
    for (cause, count) in mine.iter().flat_map(|trial| &trial.errors) {
        *by_cause.entry(cause.clone()).or_default() += count;
    }
    ArmDocument {
        name: arm.name.clone(),
        label: arm.label.clone(),
        workers: arm.runner.workers(),
        pool: arm.pool,
        baseline: index == 0,
        throughput: Rate {
            per_second: interval.map_or_else(|| mean(&rates), |interval| interval.ratio),
            ci95: interval.map(|interval| interval.bounds),
            blocks: rates,
        },
        cpu_per_request_us: (!cpus.is_empty()).then(|| mean(&cpus)),
        cores_used: mean(&mine.iter().map(|trial| trial.server_cores).collect::<Vec<_>>()),
        memory_bytes: mean(&mine.iter().map(|trial| trial.memory_bytes as f64).collect::<Vec<_>>()) as u64,
        processes: mine.last().map_or(0, |trial| trial.processes),
        start_ms: mean(&mine.iter().map(|trial| ms(trial.started_in)).collect::<Vec<_>>()),
        requests: mine.iter().map(|trial| trial.requests).sum(),
        errors: Errors { total: by_cause.values().sum(), by_cause },
        latency: latencies(&mine),
        service_time: service_time(&mine),
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

fn cpu_us(trial: &Trial) -> Option<f64> {
    trial.cpu_per_request.map(|cpu| cpu.as_secs_f64() * 1e6)
}

fn latencies(trials: &[&Trial]) -> Vec<Latency> {
    let rates = trials.iter().map(|trial| trial.at_rates.len()).min().unwrap_or(0);
    (0..rates)
        .map(|index| {
            let merged = Histogram::of_all(trials.iter().map(|trial| &trial.at_rates[index].sums.response));
            let first = &trials[0].at_rates[index];
            let overloaded = trials.iter().filter(|trial| trial.at_rates[index].overloaded).count();
            // One slow moment in one block does not mean that the arm is overloaded.
            let unfinished = trials.iter().map(|trial| trial.at_rates[index].sums.unfinished).sum();
            Latency {
                overloaded: 2 * overloaded > trials.len(),
                ..latency(first.load, first.rate, &merged, unfinished)
            }
        })
        .collect()
}

fn service_time(trials: &[&Trial]) -> Option<Latency> {
    let merged = Histogram::of_all(trials.iter().map(|trial| &trial.service));
    let rate = mean(&trials.iter().map(|trial| trial.per_second).collect::<Vec<_>>());
    (!merged.is_empty()).then(|| latency(1.0, rate, &merged, 0))
}

/// A merged distribution in the document's form.
pub(crate) fn latency(load: f64, rate: f64, merged: &Histogram, unfinished: u64) -> Latency {
    let at = |percentile| {
        is_seen(percentile, unfinished, merged).then(|| percentile_ms(merged, percentile)).flatten()
    };
    let known = |percentile: f64| percentile >= 100.0 || at(percentile).is_some();
    let spectrum = SPECTRUM
        .iter()
        .filter(|percentile| !merged.is_empty() && known(**percentile))
        .map(|percentile| [*percentile, merged.value_at_quantile(percentile / 100.0) as f64 / 1e6])
        .collect();
    Latency {
        load,
        rate,
        samples: merged.len(),
        unfinished,
        overloaded: false,
        mean_ms: (!merged.is_empty()).then(|| merged.mean() / 1e6),
        p50_ms: at(50.0),
        p90_ms: at(90.0),
        p99_ms: at(99.0),
        p999_ms: at(99.9),
        max_ms: (!merged.is_empty()).then(|| merged.max() as f64 / 1e6),
        spectrum,
    }
}

fn comparison(setup: &Setup, plan: &Plan, blocks: &[Block], arms: &[ArmDocument], arm: usize) -> Comparison {
    let rule = Rule::throughput(plan.looks.len());
    let logs = throughput_logs(blocks, 0, arm);
    let judgement = judge(&logs, &rule, true);
    let cpu = log_ratios(
        trials(blocks, 0)
            .zip(trials(blocks, arm))
            .filter_map(|(baseline, arm)| Some((cpu_us(baseline)?, cpu_us(arm)?))),
    );
    let latency = latency_ratios(plan, blocks, arms, arm);
    let memory = (arms[0].memory_bytes > 0 && arms[arm].memory_bytes > 0)
        .then(|| arms[arm].memory_bytes as f64 / arms[0].memory_bytes as f64);
    let mut comparison = Comparison {
        baseline: arms[0].name.clone(),
        arm: arms[arm].name.clone(),
        throughput: ratio(&logs, &rule),
        cpu_per_request: ratio(&cpu, &rule),
        memory: PlainRatio { ratio: memory },
        latency,
        verdict: judgement.word,
        more_blocks: judgement.more_blocks,
        hidden_percent: judgement.hidden.map(|hidden| hidden * 100.0),
        sentence: String::new(),
    };
    comparison.sentence = words::sentence(setup, &comparison, &judgement, &rule, logs.len());
    comparison
}

/// A ratio with its statistics.
pub(crate) fn ratio(logs: &[f64], rule: &Rule) -> Ratio {
    let interval = t_interval(logs, CONFIDENCE);
    let resolution = power::tellable(deviation(logs), logs.len(), rule.deciding_confidence(), rule.band);
    Ratio {
        ratio: (!logs.is_empty()).then(|| mean(logs).exp()),
        ci95: interval.map(|interval| interval.bounds),
        hodges_lehmann: hodges_lehmann(logs, 0.5).map(|estimate| estimate.ratio),
        signed_rank_p: (!logs.is_empty()).then(|| signed_rank_p(logs)),
        resolution_percent: resolution.map(|log| (log.exp() - 1.0) * 100.0),
    }
}

/// Medians, 99th percentiles, and, if the 99th has no interval, the next lower percentile that has one.
fn latency_ratios(plan: &Plan, blocks: &[Block], arms: &[ArmDocument], arm: usize) -> LatencyRatios {
    let carried = |index: &usize| {
        let at = |arm: usize| arms[arm].latency.get(*index).is_some_and(|latency| !latency.overloaded);
        at(0) && at(arm)
    };
    let mut ratios = LatencyRatios::default();
    let Some(index) = (0..arms[0].latency.len()).rev().find(carried) else {
        let is_measured = !arms[0].latency.is_empty();
        ratios.p99_reason =
            Some(if is_measured { NOT_CARRIED } else { "latency was not measured" }.to_owned());
        return ratios;
    };
    let of = |percentile| percentile_ratio(plan, blocks, [0, arm], index, percentile);
    ratios.p50 = of(50.0);
    ratios.p99 = of(99.0);
    if has_interval(ratios.p99.as_ref()) {
        return ratios;
    }
    ratios.p99_reason = Some(why_no_interval(blocks, [0, arm], index));
    let below = TAILS[1..].iter().map(|percentile| (*percentile, of(*percentile)));
    match below.into_iter().find(|(_, found)| has_interval(found.as_ref())) {
        Some((percentile, found)) if percentile > 90.0 => ratios.p95 = found,
        Some((_, found)) => ratios.p90 = found,
        None => {}
    }
    ratios
}

/// Without a rate that both arms sustain, there is nothing to compare.
const NOT_CARRIED: &str = "the arms do not both keep up with any of the rates";

fn has_interval(found: Option<&PercentileRatio>) -> bool {
    found.is_some_and(|found| found.ci95.is_some())
}

fn why_no_interval(blocks: &[Block], arms: [usize; 2], index: usize) -> String {
    let windows =
        || arms.into_iter().flat_map(|arm| trials(blocks, arm)).filter_map(|trial| trial.at_rates.get(index));
    if counting(blocks).count() < 2 {
        "one block has no spread to tell".to_owned()
    } else if windows().any(|at| !is_seen(99.0, at.sums.unfinished, &at.sums.response)) {
        "more than 1 % of the requests of a window had no answer when the waiting ended".to_owned()
    } else {
        let fewest = windows().map(|at| at.sums.response.len()).min().unwrap_or(0);
        format!("too few requests, {fewest} in a window where {P99_SAMPLES_MIN} are needed")
    }
}

/// Compares two arms at one rate. There is an interval only if every block has enough samples.
fn percentile_ratio(
    plan: &Plan,
    blocks: &[Block],
    arms: [usize; 2],
    index: usize,
    percentile: f64,
) -> Option<PercentileRatio> {
    let merged = |arm: usize| {
        let mine: Vec<&Trial> = trials(blocks, arm).filter(|trial| trial.at_rates.len() > index).collect();
        let all = Histogram::of_all(mine.iter().map(|trial| &trial.at_rates[index].sums.response));
        let unfinished = mine.iter().map(|trial| trial.at_rates[index].sums.unfinished).sum();
        is_seen(percentile, unfinished, &all).then(|| percentile_ms(&all, percentile)).flatten()
    };
    let (baseline_ms, arm_ms) = (merged(arms[0])?, merged(arms[1])?);
    let value = |trial: &Trial| trial.at_rates.get(index)?.percentile_ms(percentile);
    let pairs: Vec<(f64, f64)> = trials(blocks, arms[0])
        .zip(trials(blocks, arms[1]))
        .filter_map(|(baseline, arm)| Some((value(baseline)?, value(arm)?)))
        .collect();
    let logs = log_ratios(pairs);
    let rule = Rule::latency(plan.looks.len());
    let is_complete = logs.len() == counting(blocks).count();
    let judged = if is_complete { judge(&logs, &rule, true).word } else { Word::Inconclusive };
    let interval = if is_complete { t_interval(&logs, CONFIDENCE) } else { None };
    Some(PercentileRatio {
        load: trials(blocks, arms[0]).find_map(|trial| trial.at_rates.get(index))?.load,
        ratio: interval.map(|interval| interval.ratio).or(Some(arm_ms / baseline_ms)),
        ci95: interval.map(|interval| interval.bounds),
        baseline_ms: Some(baseline_ms),
        arm_ms: Some(arm_ms),
        verdict: judged,
    })
}

fn block_documents(setup: &Setup, blocks: &[Block]) -> Vec<BlockDocument> {
    let all = all_count(blocks);
    let name = |index: &usize| setup.arms[*index].name.clone();
    blocks
        .iter()
        .enumerate()
        .map(|(number, block)| BlockDocument {
            number: number + 1,
            order: block.order.iter().map(name).collect(),
            disturbed: block.disturbed(),
            counted: all || block.disturbed().is_none(),
            arms: block
                .trials
                .iter()
                .enumerate()
                .map(|(arm, trial)| (name(&arm), trial_document(trial)))
                .collect(),
        })
        .collect()
}

fn trial_document(trial: &Trial) -> TrialDocument {
    let latency = trial.at_rates.iter().map(|at| {
        let percentiles = TrialLatency { p50_ms: at.percentile_ms(50.0), p99_ms: at.percentile_ms(99.0) };
        (at.load.to_string(), percentiles)
    });
    TrialDocument {
        per_second: trial.per_second,
        cpu_per_request_us: cpu_us(trial),
        latency: latency.collect(),
        timeline: trial.timeline.clone(),
    }
}

/// The judgement of a comparison's throughput, for the text.
pub(super) type ThroughputJudgement = Judgement;
