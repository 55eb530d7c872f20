//! The rule of autoscaling: by load that is simulated second by second, and by signals at random.

use std::time::Duration;

use forkful_core::Time;
use forkful_core::autoscale::{
    Autoscaler, Cpu, DOWN_AFTER, Decision, Limit, MemoryOf, MemoryRoom, ScaleBounds, Signals, WorkerSignals,
};
use forkful_core::slot::Generation;
use proptest::prelude::*;

const MIB: u64 = 1 << 20;

fn at(second: u64) -> Time {
    Time::from_start(Duration::from_secs(1000 + second))
}

fn worker(slot: u16, permille: u32) -> WorkerSignals {
    WorkerSignals {
        slot,
        generation: Generation(0),
        loop_permille: Some(permille),
        cpu_millicores: permille,
        wait_permille: 0,
        throttled_permille: 0,
        queued: 0,
        memory_bytes: 100 * MIB,
    }
}

/// Workers that are equally busy, on a machine with many cores.
fn signals(workers: u16, permille: u32) -> Signals {
    Signals {
        workers: (0..workers).map(|slot| worker(slot, permille)).collect(),
        waiting: 0,
        cpu: vec![Cpu { used_millicores: permille * u32::from(workers), of_millicores: 64_000 }],
        memory: Some(MemoryRoom { bytes: 64 << 30, of: MemoryOf::Machine }),
    }
}

/// An app under a load, on virtual time: a new worker serves after a second.
struct World {
    rule: Autoscaler,
    bounds: ScaleBounds,
    workers: u16,
    second: u64,
    starting_until: u64,
    /// When the number changed, and to what.
    changes: Vec<(u64, u16)>,
    held: Vec<Limit>,
    /// Changes what is seen.
    limits: fn(&mut Signals),
}

impl World {
    fn new(min: u16, max: u16) -> Self {
        Self {
            rule: Autoscaler::default(),
            bounds: ScaleBounds { min, max },
            workers: min,
            second: 0,
            starting_until: 0,
            changes: Vec::new(),
            held: Vec::new(),
            limits: |_| {},
        }
    }

    /// A second in which there is work for so many workers.
    fn second(&mut self, demand: f64) {
        self.second += 1;
        if self.second <= self.starting_until {
            return self.rule.interrupt();
        }
        let permille = (demand / f64::from(self.workers) * 1000.0).min(1000.0) as u32;
        let mut seen = signals(self.workers, permille);
        (self.limits)(&mut seen);
        match self.rule.step(self.bounds, &seen, at(self.second)) {
            None => {}
            Some(Decision::Scale { to, .. }) => {
                assert!(self.bounds.allow(to) && to != self.workers);
                self.changes.push((self.second, to));
                self.workers = to;
                self.starting_until = self.second + 1;
            }
            Some(Decision::Hold { limit, .. }) => self.held.push(limit),
        }
    }

    fn run(&mut self, seconds: u64, demand: impl Fn(u64) -> f64) {
        for second in 0..seconds {
            self.second(demand(second));
        }
    }

    /// How often the number began to go the other way.
    fn turns(&self) -> usize {
        let mut before = self.bounds.min;
        let rises: Vec<bool> =
            self.changes.iter().map(|(_, to)| *to > std::mem::replace(&mut before, *to)).collect();
        rises.windows(2).filter(|pair| pair[0] != pair[1]).count()
    }
}

#[test]
fn a_step_of_load_is_followed_within_ten_seconds_and_its_end_after_the_cool_down() {
    let mut world = World::new(1, 4);
    world.run(120, |_| 0.2);
    assert_eq!(world.changes, []);
    world.run(60, |_| 2.2);
    assert!(world.changes[0].0 <= 130, "{:?}", world.changes);
    assert!(world.workers >= 3, "{:?}", world.changes);
    let (ups, calm) = (world.changes.len(), world.second);
    world.run(DOWN_AFTER.as_secs() - 2, |_| 0.2);
    assert_eq!(world.changes.len(), ups, "it waits before it goes down");
    world.run(240, |_| 0.2);
    assert_eq!(world.workers, 1);
    assert!(world.changes[ups].0 <= calm + DOWN_AFTER.as_secs() + 5, "{:?}", world.changes);
    assert_eq!(world.turns(), 1);
}

#[test]
fn ten_minutes_of_a_sine_do_not_make_it_flap() {
    let sine = |period: f64, second: u64| {
        let phase = second as f64 / period * std::f64::consts::TAU;
        2.0 - 1.8 * phase.cos()
    };
    for period in [10.0, 30.0, 60.0, 90.0, 120.0, 150.0, 200.0, 300.0, 400.0, 600.0] {
        let mut world = World::new(1, 8);
        world.run(600, |second| sine(period, second));
        // It goes up once, and up and down with each slow wave.
        let follows = if period < 200.0 { 1 } else { (2.0 * 600.0 / period) as usize };
        assert!(world.turns() <= follows + 2, "period {period}: {:?}", world.changes);
        assert!(world.turns() <= 4, "period {period}: {:?}", world.changes);
        // The load is served: it is never above what the workers can do for long.
        assert!(world.workers >= 1);
    }
    let mut slow = World::new(1, 8);
    slow.run(600, |second| sine(600.0, second));
    assert!(slow.turns() <= 2, "{:?}", slow.changes);
    assert!(slow.changes.iter().any(|(_, to)| *to >= 5), "it follows: {:?}", slow.changes);
    assert!(slow.workers < 5, "and comes back: {:?}", slow.changes);
}

#[test]
fn nothing_is_added_while_a_quota_throttles() {
    let mut world = World::new(1, 4);
    world.limits = |seen| seen.workers[0].throttled_permille = 300;
    world.run(3600, |_| 3.0);
    assert_eq!((world.workers, world.held.as_slice()), (1, &[Limit::Throttled][..]), "told once");
    // The quota was used up some seconds ago.
    world.limits = |_| {};
    world.run(8, |_| 3.0);
    assert_eq!(world.workers, 1);
    world.run(8, |_| 3.0);
    assert_eq!(world.workers, 2);
}

#[test]
fn nothing_is_added_where_cores_or_memory_are_used_up() {
    let tables: [(fn(&mut Signals), Limit); 4] = [
        (|seen| seen.cpu[0].of_millicores = seen.cpu[0].used_millicores + 300, Limit::Cpu),
        (|seen| seen.workers[0].wait_permille = 400, Limit::Cpu),
        (|seen| seen.memory = Some(MemoryRoom { bytes: 99 * MIB, of: MemoryOf::AppLimit }), Limit::Memory),
        (|seen| seen.cpu.push(Cpu { used_millicores: 1000, of_millicores: 1000 }), Limit::Cpu),
    ];
    for (limits, expected) in tables {
        let mut world = World::new(1, 4);
        world.limits = limits;
        world.run(60, |_| 3.0);
        assert_eq!((world.workers, world.held.as_slice()), (1, &[expected][..]));
    }
    let mut world = World::new(1, 2);
    world.run(60, |_| 3.0);
    assert_eq!((world.workers, world.held.as_slice()), (2, &[Limit::Max][..]));
}

#[test]
fn what_is_left_bounds_how_many_come_at_once() {
    let mut world = World::new(4, 16);
    world.limits = |seen| seen.memory = Some(MemoryRoom { bytes: 210 * MIB, of: MemoryOf::Group });
    world.run(8, |_| 16.0);
    assert_eq!(world.workers, 6, "room for two more");
    let mut world = World::new(4, 16);
    world.limits = |seen| seen.cpu[0].of_millicores = 5200;
    world.run(60, |_| 16.0);
    assert_eq!((world.workers, world.held.as_slice()), (5, &[Limit::Cpu][..]), "a core more");
}

#[test]
fn connections_that_wait_count_where_workers_are_busy() {
    let queued = |permille: u32| {
        let mut rule = Autoscaler::default();
        let seen = Signals { waiting: 3, ..signals(2, permille) };
        let bounds = ScaleBounds { min: 1, max: 4 };
        (0..10).find_map(|second| rule.step(bounds, &seen, at(second)))
    };
    assert_eq!(queued(300), None, "something else holds them up");
    let Some(Decision::Scale { to: 3, why }) = queued(700) else { panic!() };
    insta::assert_snapshot!(why, @"event loops were 70 % busy and 3 connections waited for 5 s");
}

#[test]
fn without_an_agent_it_goes_by_cpu() {
    let mut rule = Autoscaler::default();
    let mut seen = signals(1, 900);
    seen.workers[0].loop_permille = None;
    let bounds = ScaleBounds { min: 1, max: 4 };
    let decision = (0..10).find_map(|second| rule.step(bounds, &seen, at(second)));
    let Some(Decision::Scale { to: 2, why }) = decision else { panic!("{decision:?}") };
    insta::assert_snapshot!(why, @"the worker was 90 % busy for 5 s");
    insta::assert_snapshot!(rule.last().unwrap(), @"scaled up from 1 to 2 workers: the worker was 90 % busy for 5 s");
}

#[test]
fn decisions_say_why() {
    let mut world = World::new(1, 2);
    world.run(8, |_| 1.4);
    insta::assert_snapshot!(world.rule.last().unwrap(), @"scaled up from 1 to 2 workers: the event loop was 100 % busy for 5 s");
    world.run(70, |_| 0.3);
    insta::assert_snapshot!(world.rule.last().unwrap(), @"scaled down from 2 to 1 worker: with 1 worker, each would have been at most 30 % busy for 60 s");
    let why = |change: fn(&mut Signals)| {
        let (mut rule, mut seen) = (Autoscaler::default(), signals(2, 970));
        change(&mut seen);
        let bounds = ScaleBounds { min: 1, max: 4 };
        let decision = (0..10).find_map(|second| rule.step(bounds, &seen, at(second)));
        let Some(Decision::Hold { why, .. }) = decision else { panic!("{decision:?}") };
        why
    };
    let all = [
        why(|seen| seen.workers[1].throttled_permille = 500),
        why(|seen| seen.cpu[0].of_millicores = 2000),
        why(|seen| seen.workers.iter_mut().for_each(|worker| worker.wait_permille = 222)),
        why(|seen| seen.memory = Some(MemoryRoom { bytes: 50 * MIB, of: MemoryOf::AppLimit })),
    ];
    insta::assert_snapshot!(all.join("\n"), @"
    event loops were 97 % busy, but a CPU quota keeps the workers from running: more workers would get no more of it
    event loops were 97 % busy, but 1.9 of 2.0 cores are in use
    event loops were 97 % busy, but all cores are in use: workers waited 22 % of the time for one
    event loops were 97 % busy, but 50 MiB of the app's `memory_max` are free and a worker has 100 MiB
    ");
}

#[test]
fn a_scale_down_that_was_regretted_makes_the_next_one_wait_longer() {
    let mut world = World::new(1, 4);
    // Busy for 20 s, then nothing for 100 s, again and again.
    world.run(3600, |second| if second % 120 < 20 { 1.4 } else { 0.1 });
    let downs = world.changes.windows(2).filter(|pair| pair[1].1 < pair[0].1).count();
    assert!((1..=3).contains(&downs), "{:?}", world.changes);
}

#[test]
fn signals_that_are_far_apart_do_not_add_up() {
    let mut rule = Autoscaler::default();
    let bounds = ScaleBounds { min: 1, max: 4 };
    for second in [0, 40, 80, 120] {
        assert_eq!(rule.step(bounds, &signals(1, 1000), at(second)), None);
    }
}

#[test]
fn other_bounds_are_kept_at_once() {
    let mut rule = Autoscaler::default();
    let bounds = ScaleBounds { min: 2, max: 4 };
    let to = |decision| match decision {
        Some(Decision::Scale { to, .. }) => to,
        other => panic!("{other:?}"),
    };
    assert_eq!(to(rule.step(bounds, &signals(1, 100), at(0))), 2);
    assert_eq!(to(rule.step(bounds, &signals(7, 900), at(1))), 4);
}

fn arbitrary_signals() -> impl Strategy<Value = Signals> {
    let worker = (0..=1000u32, any::<bool>(), 0..=4000u32, 0..=1000u32, 0..3u32, 0..5u32, 0..400u64);
    let memory = proptest::option::of(0..2000u64);
    (proptest::collection::vec(worker, 1), 0..4u32, 0..5000u32, memory).prop_map(
        |(workers, waiting, free, memory)| {
            let (busy, has_agent, cpu, wait, throttled, queued, mib) = workers[0];
            let one = WorkerSignals {
                slot: 0,
                generation: Generation(0),
                loop_permille: has_agent.then_some(busy),
                cpu_millicores: cpu,
                wait_permille: wait,
                throttled_permille: throttled * 100,
                queued,
                memory_bytes: mib * MIB,
            };
            Signals {
                workers: vec![one],
                waiting,
                cpu: vec![Cpu { used_millicores: 4000, of_millicores: 4000 + free }],
                memory: memory.map(|mib| MemoryRoom { bytes: mib * MIB, of: MemoryOf::Machine }),
            }
        },
    )
}

proptest! {
    #[test]
    fn bounds_and_pauses_hold_for_any_signals(
        min in 1..5u16,
        more in 0..12u16,
        seen in proptest::collection::vec((arbitrary_signals(), 1..12u64), 1..300),
    ) {
        let bounds = ScaleBounds { min, max: min + more };
        let (mut rule, mut workers, mut now) = (Autoscaler::default(), min, 0);
        let (mut changed, mut throttled, mut held) = (0, None, Vec::new());
        for (mut signals, seconds) in seen {
            now += seconds;
            let one = signals.workers[0];
            signals.workers = (0..workers).map(|slot| WorkerSignals { slot, ..one }).collect();
            if one.throttled_permille > 0 {
                throttled = Some(now);
            }
            // Another daemon goes on with what was written down.
            let text = serde_json::to_string(&rule).unwrap();
            rule = serde_json::from_str(&text).unwrap();
            match rule.step(bounds, &signals, at(now)) {
                None => {}
                Some(Decision::Hold { limit, .. }) => {
                    prop_assert!(!held.contains(&limit), "told once within an hour");
                    held.push(limit);
                }
                Some(Decision::Scale { to, .. }) => {
                    prop_assert!(bounds.allow(to) && to != workers);
                    let pause = now - changed;
                    if to > workers {
                        prop_assert!(pause >= 5, "up after {pause} s");
                        prop_assert!(throttled.is_none_or(|at| now - at >= 10));
                        prop_assert!(to <= workers * 2);
                        let room = signals.memory.map_or(u64::MAX, |room| room.bytes);
                        prop_assert!(u64::from(to - workers) * one.memory_bytes <= room);
                    } else {
                        prop_assert!(pause >= DOWN_AFTER.as_secs(), "down after {pause} s");
                    }
                    (workers, changed) = (to, now);
                }
            }
        }
    }
}
