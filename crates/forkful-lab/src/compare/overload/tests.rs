//! Queues simulated request by request, in windows like the measured ones: 200 ms of lead-in, an end, a
//! drain.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

use forkful_load::Sample;

use super::*;
use forkful_core::random::Random;

const LEAD_IN: f64 = 0.2;

/// An app that handles this many requests at a time, each for the duration that `service` returns.
struct App<'a> {
    at_a_time: usize,
    service: &'a dyn Fn(&mut Random) -> f64,
}

/// One slice at a rate, in the form of the generator's report.
fn slice(app: &App<'_>, rate: f64, seconds: f64, random: &mut Random) -> Report {
    let mut report = Report::empty("simulated");
    report.elapsed = Duration::from_secs_f64(seconds);
    let drained = seconds + seconds.clamp(1.0, 3.0);
    // End times of the requests in service, soonest first.
    let mut ends = BinaryHeap::new();
    let mut due = -LEAD_IN;
    loop {
        due -= (1.0 - random.unit()).ln() / rate;
        if due >= seconds {
            return report;
        }
        let begin = if ends.len() < app.at_a_time { due } else { nanos_to_seconds(ends.pop()).max(due) };
        let end = begin + (app.service)(random);
        ends.push(Reverse((end * 1e9) as i64));
        if due < 0.0 {
            report.counts.carried_in += u64::from(end >= 0.0 && end < seconds);
            continue;
        }
        report.offered += 1;
        let counts = &mut report.counts;
        *(if end < seconds {
            &mut counts.completed
        } else if end < drained {
            &mut counts.late
        } else {
            &mut counts.unfinished
        }) += 1;
        if end < drained {
            let response = Duration::from_secs_f64(end - due);
            report.samples.push(Sample { at: Duration::from_secs_f64(due), response, status: 200 });
        }
    }
}

fn nanos_to_seconds(nanos: Option<Reverse<i64>>) -> f64 {
    nanos.map_or(f64::MIN, |Reverse(nanos)| nanos as f64 / 1e9)
}

/// Simulated trials of each kind.
const TRIALS: u64 = 30;

/// The number of [`TRIALS`] with this many slices that are classified as overloaded.
fn overloaded(app: &App<'_>, rate: f64, slices: u32, seconds: f64) -> usize {
    let is_overloaded = |seed: &u64| {
        let mut random = Random::new(*seed);
        let mut supply = Supply::default();
        (0..slices).for_each(|_| supply.add(&slice(app, rate, seconds, &mut random)));
        supply.is_overloaded()
    };
    (0..TRIALS).filter(is_overloaded).count()
}

/// Windows of typical plans: rate, slices, seconds of each slice.
const WINDOWS: [(f64, u32, f64); 5] =
    [(2_000.0, 4, 0.25), (2_000.0, 1, 1.5), (400.0, 4, 0.5), (400.0, 1, 3.0), (50.0, 4, 3.0)];

/// How often workers that can handle `share` of the rate are classified as overloaded, in each of
/// [`WINDOWS`]. Each answer takes about the same time, except for occasional garbage collection.
fn computing(workers: usize, share: f64) -> [usize; WINDOWS.len()] {
    WINDOWS.map(|(rate, slices, seconds)| {
        let mean = workers as f64 / (rate * share);
        let service = |random: &mut Random| {
            let garbage = if random.unit() < 0.002 { 10.0 * mean } else { 0.0 };
            mean * (0.78 + 0.4 * random.unit()) + garbage
        };
        overloaded(&App { at_a_time: workers, service: &service }, rate, slices, seconds)
    })
}

#[test]
fn an_arm_that_cannot_do_the_rate_is_overloaded_also_where_all_is_answered_after_the_slice() {
    for workers in [1, 4] {
        for share in [0.3, 0.6, 0.8] {
            let found = computing(workers, share);
            assert!(found.iter().all(|found| *found >= 28), "{workers} workers, {share}: {found:?}");
        }
    }
    let mut random = Random::new(1);
    let service = |_: &mut Random| 1.0 / 1_200.0;
    let report = slice(&App { at_a_time: 1, service: &service }, 2_000.0, 0.25, &mut random);
    assert_eq!(report.counts.completed + report.counts.late, report.offered, "that is how it could hide");
    let mut supply = Supply::default();
    supply.add(&report);
    assert!(supply.is_overloaded());
}

#[test]
fn an_arm_that_keeps_up_with_80_percent_of_its_capacity_is_not() {
    for workers in [1, 4] {
        let found = computing(workers, 1.0 / 0.8);
        assert!(found.iter().all(|found| *found <= 1), "{workers} workers: {found:?}");
    }
}

#[test]
fn a_slow_route_that_keeps_up_is_not_overloaded_however_many_answers_a_slice_leaves_for_later() {
    let slow = |_: &mut Random| 0.3;
    let slower = |_: &mut Random| 0.9;
    let mixed = |random: &mut Random| if random.unit() < 0.1 { 1.0 } else { 0.05 };
    let wild = |random: &mut Random| -0.2 * (1.0 - random.unit()).ln();
    let routes: [&dyn Fn(&mut Random) -> f64; 4] = [&slow, &slower, &mixed, &wild];
    for (index, service) in routes.into_iter().enumerate() {
        for (rate, slices, seconds) in [(1_000.0, 4, 0.5), (200.0, 4, 0.25), (200.0, 1, 1.5), (50.0, 2, 0.5)]
        {
            let app = App { at_a_time: usize::MAX, service };
            let found = overloaded(&app, rate, slices, seconds);
            assert!(found <= 1, "route {index} at {rate}/s, {slices} × {seconds} s: {found}");
        }
    }
    let mut random = Random::new(1);
    let report = slice(&App { at_a_time: usize::MAX, service: &slow }, 1_000.0, 0.5, &mut random);
    let within = report.counts.completed + report.counts.carried_in;
    assert!((within as f64) < 0.9 * report.offered as f64, "it is slow: {within} of {}", report.offered);
}

#[test]
fn a_rate_of_which_a_part_is_never_answered_or_sent_is_overload() {
    let told = |answered: u64, unsent: u64| {
        let mut report = Report::empty("test");
        (report.offered, report.unsent, report.counts.completed) = (1_000, unsent, answered);
        let mut supply = Supply::default();
        supply.add(&report);
        supply.is_overloaded()
    };
    assert!(!told(980, 0));
    assert!(told(900, 0));
    assert!(told(990, 5));
    assert!(Supply::default().is_overloaded(), "nothing came at all");
}
