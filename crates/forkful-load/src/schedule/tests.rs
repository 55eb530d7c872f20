//! Properties of the schedule, for all threads together.

use proptest::prelude::*;

use super::*;

fn options(rate: f64, threads: usize) -> ScheduleOptions {
    ScheduleOptions {
        rate,
        arrivals: Arrivals::Even,
        thread: 0,
        threads,
        start: 0,
        ramp_end: 0,
        measure_from: 0,
        measured_max: u64::MAX,
    }
}

/// All threads' arrivals before `until`, in order of time.
fn merged(options: ScheduleOptions, until: Nanos) -> Vec<Arrival> {
    let mut all = Vec::new();
    for thread in 0..options.threads {
        let mut schedule = Schedule::new(ScheduleOptions { thread, ..options });
        let offered = schedule.offered(until);
        let before = all.len();
        while let Some(arrival) = schedule.peek().filter(|arrival| arrival.at < until) {
            assert_eq!(schedule.take_due(arrival.at), Some(arrival));
            all.push(arrival);
        }
        assert_eq!(all[before..].iter().filter(|arrival| arrival.measured).count() as u64, offered);
    }
    all.sort_by_key(|arrival| arrival.at);
    all
}

#[test]
fn a_thousand_a_second_are_a_hundred_in_every_tenth_of_a_second() {
    for threads in [1, 3] {
        let all = merged(options(1_000.0, threads), 2_000_000_000);
        assert_eq!(all.len(), 2_000);
        for window in 0..20 {
            let range = window * 100_000_000..(window + 1) * 100_000_000;
            assert_eq!(all.iter().filter(|arrival| range.contains(&arrival.at)).count(), 100);
        }
        assert!(all.windows(2).all(|pair| pair[1].at - pair[0].at == 1_000_000));
    }
}

#[test]
fn the_ramp_sends_half_of_what_full_load_would() {
    let ramped =
        ScheduleOptions { ramp_end: 2_000_000_000, measure_from: 3_000_000_000, ..options(500.0, 2) };
    let all = merged(ramped, 4_000_000_000);
    let count = |from, to| all.iter().filter(|arrival| (from..to).contains(&arrival.at)).count();
    assert_eq!(count(0, 2_000_000_000), 500);
    assert_eq!(count(0, 1_000_000_000), 125);
    assert_eq!(count(2_000_000_000, 3_000_000_000), 500);
    assert!(all.iter().all(|arrival| arrival.measured == (arrival.at >= 3_000_000_000)));
    assert_eq!(all.iter().filter(|arrival| arrival.measured).count(), 500);
}

#[test]
fn a_poisson_process_has_its_mean_and_its_variance() {
    let poisson = ScheduleOptions { arrivals: Arrivals::Poisson { seed: 7 }, ..options(1_000.0, 2) };
    let all = merged(poisson, 100_000_000_000);
    // 100,000 expected; five standard deviations are 1,600.
    assert!((98_400..101_600).contains(&all.len()), "{}", all.len());
    let gaps: Vec<f64> = all.windows(2).map(|pair| (pair[1].at - pair[0].at) as f64).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let variance = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
    assert!((variance.sqrt() / mean - 1.0).abs() < 0.03, "exponential gaps have a variation of 1");
}

proptest! {
    #[test]
    fn a_limited_number_is_exact_and_each_number_occurs_once(
        total in 0u64..2_000, threads in 1usize..9, rate in 1.0f64..1e6, seed in any::<Option<u64>>(),
    ) {
        let arrivals = seed.map_or(Arrivals::Even, |seed| Arrivals::Poisson { seed });
        let all = merged(ScheduleOptions { measured_max: total, arrivals, ..options(rate, threads) }, NEVER);
        let mut numbers: Vec<u64> = all.iter().map(|arrival| arrival.number).collect();
        numbers.sort_unstable();
        prop_assert_eq!(numbers, (0..total).collect::<Vec<_>>());
    }

    #[test]
    fn shares_add_up(total in 0u64..1_000_000, threads in 1usize..64) {
        let shares: Vec<u64> = (0..threads).map(|index| share(total, index, threads)).collect();
        prop_assert_eq!(shares.iter().sum::<u64>(), total);
        prop_assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
    }
}
