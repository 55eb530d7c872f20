//! How a plan follows from the pilot.

use super::*;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn facts(left: u64) -> Facts {
    Facts {
        left: seconds(left),
        arms: 2,
        overhead: Duration::from_millis(900),
        answer: Duration::from_micros(200),
        weakest: 5000.0,
        warmup: Duration::from_millis(500),
        disturbed: 0.0,
        with_latency: true,
        blocks: None,
        is_self_test: false,
        extends: false,
    }
}

#[test]
fn a_minute_makes_six_blocks_that_fit_it() {
    let plan = plan(&facts(54));
    assert_eq!(plan.looks, [6]);
    assert!(!plan.exceeds_budget && plan.takes <= seconds(55), "{plan:?}");
    assert!(plan.window > Duration::from_millis(1200), "{plan:?}");
}

#[test]
fn more_time_makes_more_blocks_and_more_looks() {
    assert_eq!(plan(&facts(140)).looks, [6, 12]);
    assert_eq!(plan(&facts(600)).looks, [6, 12, 18]);
    let few = plan(&Facts { blocks: Some(3), ..facts(600) });
    assert_eq!((few.looks.as_slice(), few.exceeds_budget), ([3].as_slice(), false));
}

/// Requests of a latency window at each of the two rates.
fn samples(plan: &Plan, weakest: f64) -> [f64; 2] {
    LOADS.map(|load| load * weakest * plan.latency_window.as_secs_f64())
}

#[test]
fn windows_at_a_rate_are_as_long_as_the_99th_percentile_needs_before_there_are_more_blocks() {
    let slow = Facts { weakest: 400.0, answer: Duration::from_millis(5), ..facts(290) };
    let plan = plan(&slow);
    assert_eq!(plan.looks, [6], "{plan:?}");
    assert!(samples(&plan, 400.0)[0] >= 1_099.0 && !plan.exceeds_budget, "{plan:?}");
    let longer = super::plan(&Facts { left: seconds(600), ..slow });
    assert_eq!(longer.looks, [6, 12, 18], "{longer:?}");
    assert_eq!(longer.latency_window, plan.latency_window, "what is enough is not stretched");
    let quick = super::plan(&facts(600));
    assert!(quick.latency_window < Duration::from_millis(1100), "{quick:?}");
    let without = super::plan(&Facts { with_latency: false, ..slow });
    assert_eq!(without.latency_window, Duration::ZERO);
}

#[test]
fn where_there_is_no_time_for_all_of_it_a_lower_rate_or_percentile_is_given_up_and_not_the_budget() {
    let slow = Facts { weakest: 400.0, answer: Duration::from_millis(5), ..facts(118) };
    let only_at_80 = plan(&slow);
    let [at_50, at_80] = samples(&only_at_80, 400.0);
    assert!(at_50 < 1_000.0 && at_80 >= 1_099.0, "{only_at_80:?}");
    assert!(!only_at_80.exceeds_budget);
    let slower = Facts { weakest: 50.0, answer: Duration::from_millis(20), ..facts(290) };
    let p95 = plan(&slower);
    assert!(samples(&p95, 50.0)[0] >= 259.0 && samples(&p95, 50.0)[1] < 1_000.0, "{p95:?}");
    assert!(!p95.exceeds_budget);
    let hopeless = plan(&Facts { weakest: 0.0, ..slower });
    assert!(hopeless.latency_window < Duration::from_secs(2), "{hopeless:?}");
}

#[test]
fn what_does_not_fit_says_so_and_is_still_the_least_that_means_something() {
    let tight = plan(&facts(6));
    assert_eq!(tight.looks, [6]);
    assert!(tight.exceeds_budget);
    assert_eq!(tight.trial(), Duration::from_millis(500) + MEASURED_MIN);
    let cold = plan(&Facts { warmup: seconds(4), ..facts(40) });
    assert_eq!((cold.warmup, cold.warmth, cold.looks.as_slice()), (seconds(3), 0.75, [6].as_slice()));
    assert!(cold.exceeds_budget && cold.takes < seconds(70), "{cold:?}");
    let slow = plan(&Facts { answer: Duration::from_millis(100), ..facts(54) });
    assert!(slow.window >= Duration::from_millis(2400), "{slow:?}");
    assert!(slow.exceeds_budget);
}

#[test]
fn a_long_warm_up_is_cut_by_a_quarter_at_most_to_keep_the_budget() {
    let enough = plan(&Facts { warmup: seconds(4), ..facts(90) });
    assert_eq!((enough.warmup, enough.warmth), (seconds(4), 1.0));
    let cut = plan(&Facts { warmup: seconds(4), ..facts(60) });
    assert!(cut.warmup > seconds(3) && cut.warmup < seconds(4) && !cut.exceeds_budget, "{cut:?}");
    assert!(cut.takes <= seconds(60) && cut.takes > seconds(56), "{cut:?}");
    assert_eq!(cut.trial() - cut.warmup, MEASURED_MIN);
    assert_eq!(cut.block() * 6, cut.takes);
    let whole = plan(&Facts { warmup: seconds(4), extends: true, ..facts(20) });
    assert_eq!((whole.warmup, whole.warmth, whole.looks.as_slice()), (seconds(4), 1.0, [6].as_slice()));
    assert_eq!(whole.trial() - whole.warmup, MEASURED_MIN);
    let slow = plan(&Facts { warmup: seconds(6), extends: true, ..facts(20) });
    assert_eq!(slow.trial() - slow.warmup, Duration::from_millis(1500), "a quarter of the warm-up");
}

#[test]
fn where_blocks_will_be_repeated_there_is_time_for_it() {
    let quiet = plan(&facts(54));
    let at_times = plan(&Facts { disturbed: 0.1, ..facts(54) });
    assert!(at_times.block() * 7 <= seconds(54) && at_times.window < quiet.window, "{at_times:?}");
    let noisy = plan(&Facts { disturbed: 1.0, ..facts(54) });
    assert!(noisy.block() * 9 <= seconds(54) && noisy.block() * 10 > seconds(54), "{noisy:?}");
    assert_eq!(plan(&Facts { disturbed: 1.0, blocks: Some(6), ..facts(54) }).window, quiet.window);
}

#[test]
fn looks_and_warm_ups_are_for_blocks_that_will_be() {
    let test = Facts { is_self_test: true, with_latency: false, ..facts(110) };
    assert_eq!(plan(&test).looks, [6, 12, 18]);
    let noisy = plan(&Facts { disturbed: 0.5, ..test });
    assert_eq!(noisy.looks, [6, 12], "the rest is for repeats");
    let cold = plan(&Facts { warmup: Duration::from_millis(2500), left: seconds(54), ..test });
    assert_eq!((cold.looks.as_slice(), cold.warmth), ([6].as_slice(), 1.0), "six fit with all of it");
}

#[test]
fn a_self_test_has_more_and_shorter_blocks_without_latency() {
    let test = plan(&Facts { is_self_test: true, with_latency: false, ..facts(54) });
    assert_eq!(test.looks, [6, 12]);
    assert_eq!(test.latency_window, Duration::ZERO);
    assert!(test.takes <= seconds(56), "{test:?}");
    let short = plan(&Facts { is_self_test: true, with_latency: false, ..facts(20) });
    assert_eq!(short.looks, [6]);
}

#[test]
fn connections_feed_every_worker_but_do_not_pile_up_before_a_slow_route() {
    let window = Duration::from_millis(1200);
    assert_eq!(connections(2, 5000.0, window), 64);
    assert_eq!(connections(2, 100.0, window), 30, "20 ms of CPU");
    assert_eq!(connections(2, 0.2, window), 4, "five seconds");
    assert_eq!(connections(1, 0.0, window), 2);
    assert_eq!(connections(64, 50_000.0, window), CONNECTIONS_MAX);
}

#[test]
fn senseless_numbers_are_refused() {
    assert!(check(seconds(60), None, None).is_ok());
    for (budget, blocks, connections) in [
        (1, None, None),
        (100_000, None, None),
        (60, Some(1), None),
        (60, Some(5000), None),
        (60, None, Some(0)),
        (60, None, Some(30_000)),
    ] {
        assert!(check(seconds(budget), blocks, connections).is_err(), "{budget} {blocks:?} {connections:?}");
    }
}

#[test]
fn a_budget_that_is_too_small_is_told_with_one_in_which_the_plan_fits() {
    let told = |spent, takes| too_small(seconds(8), seconds(spent), seconds(takes), 0.4).to_string();
    let short = told(12, 14);
    assert!(short.starts_with("a budget of 8 s is too small: 12 s went into"), "{short}");
    assert!(short.contains("takes 14 s more") && short.ends_with("`--budget 30s` would do"), "{short}");
    // A pilot that uses its share of the larger budget leaves enough.
    assert!(told(2, 60).ends_with("`--budget 105s` would do"), "{}", told(2, 60));
}

#[test]
fn blocks_that_take_longer_than_planned_are_shortened_until_they_fit() {
    let facts = facts(54);
    let plan = plan(&facts);
    let beside = plan.block().saturating_sub(plan.measured(2));
    let as_planned = plan.fitted(&facts, beside, 1, plan.block() * 5);
    assert!(as_planned.window.abs_diff(plan.window) < Duration::from_millis(1), "{as_planned:?}");
    // Each block takes a second longer than planned.
    let slower = |seconds_more: u64| {
        let more = seconds(seconds_more);
        let left = seconds(54).saturating_sub(plan.block() + more);
        (plan.fitted(&facts, beside + more, 1, left), left)
    };
    let (fitted, left) = slower(1);
    assert!(
        fitted.window < plan.window && fitted.block() * 5 <= left + Duration::from_millis(1),
        "{fitted:?}"
    );
    assert!(fitted.block() * 5 + seconds(1) > left, "and no more than that: {fitted:?}");
    // Once shortened, they stay the same.
    let again = plan.fitted(&facts, beside + seconds(1), 2, left.saturating_sub(fitted.block()));
    assert!(again.window.abs_diff(fitted.window) < Duration::from_millis(1), "{again:?}");
    // Six seconds more: the minimum is planned, and the caller sees that it does not fit.
    let (least, left) = slower(6);
    assert!(least.measured(1).abs_diff(MEASURED_MIN) < Duration::from_millis(1), "{least:?}");
    assert!(least.block() * 5 > left, "{least:?}");
    // After the first look, a block may use all of the remaining time.
    assert_eq!(plan.fitted(&facts, beside, 6, plan.block()).window, plan.window);
}
