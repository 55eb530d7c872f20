//! How the watcher of direct mode comes to suspect a worker, and how it comes to trust it again.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::steering::{Action, PROBE_PATIENCE, PROBE_TIME_MAX, STUCK_SAMPLES, Suspicion};

fn at(micros: u64) -> Time {
    Time::from_start(Duration::from_micros(micros))
}

fn watcher(workers: u8) -> Suspicion<u8> {
    let mut suspicion = Suspicion::default();
    (0..workers).for_each(|id| suspicion.add(id));
    suspicion
}

/// Samples with one connection waiting until a probe is wanted; gives the time of the probe.
fn doubt(suspicion: &mut Suspicion<u8>, id: u8, from_us: u64) -> Time {
    for sample in 1..STUCK_SAMPLES {
        assert_eq!(suspicion.on_sample(at(from_us), id, 1), None, "sample {sample}");
    }
    assert_eq!(suspicion.on_sample(at(from_us), id, 1), Some(Action::Probe(id)));
    at(from_us)
}

#[test]
fn a_queue_that_empties_in_between_is_no_reason_to_probe() {
    let mut suspicion = watcher(2);
    for round in 0..20 {
        for waiting in [3, 3, 0] {
            assert_eq!(suspicion.on_sample(at(round), 0, waiting), None);
        }
    }
}

#[test]
fn a_queue_that_gets_shorter_is_being_worked_on() {
    let mut suspicion = watcher(2);
    for round in 0..20 {
        for waiting in [9, 30, 29] {
            assert_eq!(suspicion.on_sample(at(round), 0, waiting), None);
        }
    }
    for waiting in [29, 40] {
        assert_eq!(suspicion.on_sample(at(20), 0, waiting), None);
    }
    assert_eq!(suspicion.on_sample(at(21), 0, 40), Some(Action::Probe(0)), "it has not for three samples");
}

#[test]
fn a_worker_that_answers_its_probe_stays_trusted() {
    let mut suspicion = watcher(2);
    doubt(&mut suspicion, 0, 0);
    assert_eq!(suspicion.on_answer(at(60), 0), []);
    assert_eq!(suspicion.on_time(at(60_000)), []);
    assert_eq!(suspicion.trusted(), [0, 1]);
    assert_eq!(suspicion.next_check(at(60)), None);
}

#[test]
fn a_late_probe_makes_a_suspect_once_another_worker_answers() {
    let mut suspicion = watcher(2);
    let sent = doubt(&mut suspicion, 0, 0);
    let late = sent + PROBE_PATIENCE;
    assert_eq!(suspicion.next_check(sent), Some(late));
    assert_eq!(suspicion.on_time(late - Duration::from_nanos(1)), []);
    assert_eq!(suspicion.on_time(late), [Action::Probe(1)], "a witness is called");
    assert_eq!(suspicion.on_time(late), [], "and called once");
    assert_eq!(suspicion.on_answer(late + Duration::from_micros(50), 1), [Action::Suspect(0)]);
    assert!(suspicion.is_suspect(0));
    assert_eq!(suspicion.trusted(), [1]);
}

#[test]
fn an_answer_given_meanwhile_is_witness_enough() {
    let mut suspicion = watcher(2);
    let sent = doubt(&mut suspicion, 0, 0);
    doubt(&mut suspicion, 1, 100);
    assert_eq!(suspicion.on_answer(at(150), 1), []);
    assert_eq!(suspicion.on_time(sent + PROBE_PATIENCE), [Action::Suspect(0)]);
}

#[test]
fn a_suspects_queue_is_rescued_until_it_answers() {
    let mut suspicion = watcher(2);
    let sent = doubt(&mut suspicion, 0, 0);
    let _ = suspicion.on_time(sent + PROBE_PATIENCE);
    let _ = suspicion.on_answer(at(6_100), 1);
    assert_eq!(suspicion.on_sample(at(7_000), 0, 2), Some(Action::Rescue(0)));
    assert_eq!(suspicion.on_sample(at(8_000), 0, 0), None);
    assert_eq!(suspicion.on_answer(at(700_000), 0), [Action::Trust(0)]);
    assert_eq!(suspicion.trusted(), [0, 1]);
    assert_eq!(suspicion.on_sample(at(700_001), 0, 2), None, "trust begins anew");
}

#[test]
fn when_nobody_answers_the_queues_are_left_alone() {
    let mut suspicion = watcher(3);
    for id in 0..3 {
        doubt(&mut suspicion, id, 0);
    }
    for ms in 1..2_000 {
        assert_eq!(suspicion.on_time(at(ms * 1000)), []);
        assert_eq!(suspicion.on_sample(at(ms * 1000), 0, 5), None);
    }
    assert_eq!(suspicion.trusted(), [0, 1, 2]);
    assert_eq!(
        suspicion.on_answer(at(2_000_000), 1),
        [Action::Suspect(0), Action::Suspect(2)],
        "the first to answer takes over at once, however late it was itself"
    );
}

#[test]
fn the_last_trusted_worker_is_never_suspected() {
    let mut suspicion = watcher(2);
    let sent = doubt(&mut suspicion, 0, 0);
    let _ = suspicion.on_time(sent + PROBE_PATIENCE);
    let _ = suspicion.on_answer(at(6_100), 1);
    doubt(&mut suspicion, 1, 10_000);
    assert_eq!(suspicion.on_time(at(1_000_000)), []);
    assert_eq!(suspicion.trusted(), [1]);
    suspicion.remove(1);
    assert_eq!(suspicion.trusted(), [0], "better a suspect than nobody");
    assert_eq!(suspicion.on_sample(at(1_000_001), 0, 4), None, "and nobody to rescue to");
}

#[test]
fn a_slow_machine_is_given_more_patience_up_to_a_bound() {
    let mut suspicion = watcher(2);
    doubt(&mut suspicion, 1, 0);
    let _ = suspicion.on_answer(at(2_000), 1);
    let sent = doubt(&mut suspicion, 0, 10_000);
    assert_eq!(suspicion.next_check(sent), Some(sent + Duration::from_millis(8)), "4 × 2 ms");
    let _ = suspicion.on_answer(at(10_050), 0);
    doubt(&mut suspicion, 1, 20_000);
    let _ = suspicion.on_answer(at(900_000), 1);
    let sent = doubt(&mut suspicion, 0, 1_000_000);
    assert_eq!(suspicion.next_check(sent), Some(sent + 4 * PROBE_TIME_MAX));
}

#[test]
fn a_lone_worker_is_not_probed() {
    let mut suspicion = watcher(1);
    for sample in 0..10 {
        assert_eq!(suspicion.on_sample(at(sample), 0, 9), None);
    }
}

#[test]
fn a_witness_whose_own_queue_fills_is_doubted_too() {
    let mut suspicion = watcher(3);
    let sent = doubt(&mut suspicion, 0, 0);
    assert_eq!(suspicion.on_time(sent + PROBE_PATIENCE), [Action::Probe(1), Action::Probe(2)]);
    assert_eq!(suspicion.on_sample(at(7_000), 1, 1), None);
    assert_eq!(suspicion.on_answer(at(7_100), 2), [Action::Suspect(0)]);
    assert_eq!(suspicion.on_time(at(13_000)), [Action::Suspect(1)]);
}

#[test]
fn answers_nobody_waits_for_change_nothing() {
    let mut suspicion = watcher(2);
    let before = suspicion.clone();
    assert_eq!(suspicion.on_answer(at(5), 0), []);
    assert_eq!(suspicion.on_answer(at(5), 77), []);
    assert_eq!(suspicion.on_sample(at(5), 77, 1), None);
    assert_eq!(suspicion, before);
}
