//! `forkful bench --search`: the highest rate at which all expectations hold. `forkful_load::search` decides
//! the next rate; this module runs the loads.

mod document;

use std::time::Duration;

use forkful_core::pages::Page;
use forkful_load::report::spread::thousands;
use forkful_load::report::{Level, Threshold, Trust};
use forkful_load::search::{Document, Limits, Made, Next, Step, Try, Verdict, next};
use forkful_load::{Load, Plan, Report, Stop, StopHandle, Think, run};
use forkful_os::wall_clock::now_ms;

use super::args::BenchArgs;
use super::progress;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::output::progress::Progress;

/// Default length of each run at a rate.
const STEP: Duration = Duration::from_secs(5);

/// A run that needs more requests for its percentile is longer, up to this or the value of `-d`.
const STEP_MAX: Duration = Duration::from_secs(60);

/// Load before each run, so that connections are open.
const LEAD_IN: Duration = Duration::from_millis(500);

/// The closed loop that determines the starting rate, with and without warm-up.
const PILOT: Duration = Duration::from_secs(2);
const PILOT_WARMUP: Duration = Duration::from_secs(3);

/// Factor for the requests that a percentile needs, because some may fail.
const SAMPLES_SPARE: f64 = 1.1;

/// Maximum number of runs. Most searches take ten to fourteen.
const TRIES_MAX: usize = 24;

/// The search ends when the result and the lowest failed rate are this close.
const PRECISION: f64 = 0.03;

/// The highest rate to try, as a multiple of the pilot's rate in a closed loop with as many connections.
const ABOVE_PILOT: f64 = 4.0;

/// The lowest rate to try is the pilot's rate divided by this.
const BELOW_PILOT: f64 = 100.0;

pub(super) fn search(
    args: &BenchArgs,
    plan: &Plan,
    thresholds: &[Threshold],
    stop: &StopHandle,
) -> Result<Exit, Failure> {
    let bar = Progress::bar("{bar:20} {percent:>3} %  {wide_msg}", args.output.no_progress);
    let look = |plan: &Plan, what: &str, done: f64| -> Result<Report, Failure> {
        let mut observe = |progress: &forkful_load::Progress| {
            bar.show(done, || format!("{what}  {}", progress::line(progress)));
        };
        let report = run(plan, &mut observe, stop)?;
        if stop.is_stopped() {
            return Err(Failure::new(Exit::Interrupted, "interrupted"));
        }
        Ok(report)
    };
    let pilot = look(&piloting(plan, args), "pilot", 0.0)?;
    let capacity = pilot.per_second();
    if capacity <= 0.0 && pilot.errors_total() == 0 {
        let error = format!(
            "no answer came within the {} s of the first run: a search needs answers that take less",
            (PILOT + piloting(plan, args).warmup).as_secs()
        );
        return Err(Failure::new(Exit::NotTrustworthy, error)
            .hint("`forkful bench -d 60s` without --search measures how long they take")
            .see(Page::BenchSearch));
    }
    if capacity <= 0.0 {
        return Err(Failure::new(Exit::Unreachable, "the target answers no request as expected")
            .hint("`forkful bench` without --search says what goes wrong")
            .see(Page::BenchSearch));
    }
    let limits = Limits {
        start: capacity / 2.0,
        rate_min: args.load.rate_max.map_or(capacity, |most| most.min(capacity)) / BELOW_PILOT,
        rate_max: args.load.rate_max.unwrap_or(capacity * ABOVE_PILOT),
        precision: PRECISION,
        tries_max: TRIES_MAX,
    };
    let mut steps: Vec<Step> = Vec::new();
    let end = loop {
        let tries: Vec<Try> = steps.iter().map(|step| Try { rate: step.rate, held: step.held }).collect();
        let Next::Try(rate) = next(&limits, &tries) else { break next(&limits, &tries) };
        let number = steps.len() + 1;
        let what = format!("run {number}: {} requests/s", thousands(rate.round() as u64));
        let plan = at_rate(plan, rate, args, thresholds)?;
        let report = look(&plan, &what, number as f64 / (TRIES_MAX + 1) as f64)?;
        steps.push(judged(rate, &plan, &report, thresholds)?);
    };
    drop(bar);
    let verdict = Verdict::of(end, &steps);
    let exit = document::exit(&verdict);
    let made = Made { forkful: crate::connection::VERSION, command: super::this_command(), at_ms: now_ms() };
    let found = Document::of(plan, capacity, thresholds, steps, verdict, made);
    if args.output.json {
        output::print_json(&found)?;
    } else {
        output::print(&document::text(&found))?;
    }
    if let Some(path) = &args.output.html {
        crate::commands::lab::write_page(path, &found)?;
    }
    Ok(exit)
}

/// A closed loop without a limit, to find the order of magnitude and to warm up the target.
fn piloting(plan: &Plan, args: &BenchArgs) -> Plan {
    Plan {
        load: Load::Closed { think: Think::None },
        stop: Stop::Duration(PILOT),
        warmup: args.load.warmup.max(PILOT_WARMUP),
        ..plan.clone()
    }
}

fn at_rate(plan: &Plan, rate: f64, args: &BenchArgs, thresholds: &[Threshold]) -> Result<Plan, Failure> {
    let samples = thresholds.iter().map(Threshold::samples_min).max().unwrap_or(1);
    let needed = Duration::try_from_secs_f64(samples as f64 * SAMPLES_SPARE / rate).unwrap_or(Duration::MAX);
    let most = args.load.duration.unwrap_or_default().max(STEP_MAX);
    if needed > most {
        let error = format!(
            "at {rate} requests/s, {} s are needed for {samples} requests, without which {} cannot be judged",
            needed.as_secs() + 1,
            thresholds.iter().map(Threshold::text).collect::<Vec<_>>().join(" and ")
        );
        return Err(Failure::new(Exit::NotTrustworthy, error)
            .hint("a lower percentile needs fewer; `-d` makes the runs longer")
            .see(Page::BenchSearch));
    }
    let mut plan = plan.clone();
    super::plan::open_loop(&mut plan, rate, args);
    Ok(Plan {
        stop: Stop::Duration(needed.max(args.load.duration.unwrap_or(STEP))),
        warmup: LEAD_IN,
        ramp: Duration::ZERO,
        ..plan
    })
}

/// A rate passes if the target keeps up with it and every expectation is met.
fn judged(rate: f64, plan: &Plan, report: &Report, thresholds: &[Threshold]) -> Result<Step, Failure> {
    let trust = Trust::of(plan, report);
    let is_fault = |key: &str| trust.check(key).is_some_and(|check| check.level() == Level::Fault);
    let is_overload = is_fault("overload") || is_fault("unfinished");
    let judgements: Vec<_> = thresholds.iter().map(|threshold| threshold.judge(report)).collect();
    let missed = judgements.iter().find(|judgement| judgement.kept != Some(true));
    let reason = match missed {
        // An overload leaves too few answers for a percentile; report the overload as the reason.
        _ if is_overload => Some("the target did not keep up".to_owned()),
        Some(judgement) => Some(format!("{}: {}", judgement.expectation, judgement.found)),
        None => None,
    };
    Ok(Step {
        rate,
        held: reason.is_none(),
        reason,
        generator_limited: is_fault("generator_cpu") || is_fault("send_slip") && !is_overload,
        seconds: report.elapsed.as_secs_f64(),
        per_second: report.per_second(),
        p50_ms: document::percentile_ms(report, 0.5),
        p99_ms: document::percentile_ms(report, 0.99),
        errors: report.errors_total(),
    })
}
