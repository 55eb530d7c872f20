//! When a thread pauses, against simulated targets on a fake clock.

use super::*;

const MILLISECOND: Nanos = 1_000_000;

fn closed() -> Plan {
    Plan::get("http://127.0.0.1/").expect("it is a URL")
}

/// One second of waits against a target with these rates per second, prompt and with pauses. Returns the
/// share of the time spent with pauses, and the longest pause.
fn a_second(plan: &Plan, under_way: u64, prompt: u64, gathering: u64) -> (f64, Nanos) {
    let mut tried = Gathering::begin(0, plan);
    let (mut now, mut paused, mut longest, mut owed) = (0, 0, 0, 0.0);
    while now < 1_000 * MILLISECOND {
        let pause = tried.pause(now, under_way).unwrap_or(0);
        let rate = (if pause > 0 { gathering } else { prompt }) as f64 / 1e9;
        // Without a pause, the next answer wakes it.
        let took = if pause > 0 { pause } else { (1.0 / rate).ceil() as Nanos };
        owed += took as f64 * rate;
        tried.answers += owed as u64;
        owed = owed.fract();
        now += took;
        longest = longest.max(pause);
        paused += pause;
    }
    (paused as f64 / now as f64, longest)
}

#[test]
fn pauses_where_more_is_answered_with_them() {
    let (share, longest) = a_second(&closed(), 64, 30_000, 40_000);
    assert!(share > 0.8, "{share}");
    assert!(longest <= PAUSE_MAX, "{longest}");
}

#[test]
fn pauses_for_trials_alone_where_less_is_answered_with_them() {
    let (share, _) = a_second(&closed(), 64, 40_000, 38_000);
    assert!((0.02..0.12).contains(&share), "{share}");
}

#[test]
fn a_pause_is_a_small_part_of_the_response_time() {
    // 64 under way at 60,000 a second: 1.07 ms each.
    let (share, longest) = a_second(&closed(), 64, 60_000, 60_001);
    assert!(share > 0.0);
    assert!((36_000..=44_000).contains(&longest), "{longest}");
}

#[test]
fn never_with_few_requests_under_way_nor_at_low_rates_nor_in_short_times() {
    assert_eq!(a_second(&closed(), 16, 40_000, 50_000), (0.0, 0));
    // In 100 µs less than one answer arrives.
    assert_eq!(a_second(&closed(), 64, 8_000, 12_000), (0.0, 0));
    // 1/25 of 0.3 ms is too short for a sleep.
    assert_eq!(a_second(&closed(), 64, 200_000, 220_000), (0.0, 0));
}

#[test]
fn never_in_an_open_loop_nor_with_think_time_nor_when_it_is_switched_off() {
    let open = Load::Open { rate: 1e5, connections_max: 100, arrivals: crate::plan::Arrivals::Even };
    let think = Load::Closed { think: Think::Fixed(Duration::from_millis(1)) };
    for plan in [
        Plan { load: open, ..closed() },
        Plan { load: think, ..closed() },
        Plan { gathering: false, ..closed() },
    ] {
        assert_eq!(a_second(&plan, 64, 30_000, 40_000), (0.0, 0));
    }
}

#[test]
fn never_where_answers_come_together_anyway() {
    let mut tried = Gathering::begin(0, &closed());
    for now in (0..1_000 * MILLISECOND).step_by(100_000) {
        tried.answers += 6;
        assert_eq!(tried.pause(now, 64), None);
    }
}

#[test]
fn the_delay_of_the_system_is_taken_off_the_pause_that_is_asked_for() {
    let mut tried = Gathering::never();
    (0..50).for_each(|_| tried.slept(60_000, 90_000));
    assert!((29_000..=30_000).contains(&tried.overshoot), "{}", tried.overshoot);
    // One sleep a hundred times as long, and a hundred usual sleeps.
    tried.slept(60_000, 9_000_000);
    assert!(tried.overshoot < 45_000, "{}", tried.overshoot);
}
