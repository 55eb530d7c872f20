//! What must hold after every event, one function per property.

use std::collections::BTreeSet;

use forkful_core::restart::{FORGET_ONE_EVERY, STABLE_LIFE};
use forkful_core::slot::{Action, Event, Generation, Outcome, Report, Slot, State, Verb};

use crate::world::{Process, World};

/// What the checks remember from event to event.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    /// Per slot, restarts without a delay since somebody asked for a start or a life was stable.
    undelayed: Vec<u32>,
    /// Whether a serving process has died by itself.
    pub(crate) crashed: bool,
    /// Slots that have to serve as long as nothing crashes.
    pub(crate) serving_min: usize,
    /// Processes that died with their traffic open, which is to be closed with their exit event.
    died_open: BTreeSet<(usize, Generation)>,
}

impl Monitor {
    pub(crate) fn new(slots: usize) -> Self {
        Self { undelayed: vec![0; slots], ..Self::default() }
    }

    /// Notes a death before the slot hears of it.
    pub(crate) fn note_death(
        &mut self,
        number: usize,
        generation: Generation,
        process: &Process,
        slot: &Slot,
    ) {
        if process.traffic {
            self.died_open.insert((number, generation));
        }
        if let State::Online(running) | State::Replacing { old: running, .. } = &slot.state {
            self.crashed |= running.generation == generation;
        }
    }
}

/// Closes the traffic of a process that lives, or has just died with it open.
pub(crate) fn close_traffic(world: &mut World, slot: usize, generation: Generation) {
    let was_open = match world.processes.get_mut(&(slot, generation)) {
        Some(process) => std::mem::replace(&mut process.traffic, false),
        None => world.monitor.died_open.remove(&(slot, generation)),
    };
    assert!(was_open, "traffic of generation {generation} was closed but not open");
}

/// All properties of the slot that had the event.
pub(crate) fn after_event(
    world: &mut World,
    number: usize,
    before: &Slot,
    event: &Event,
    actions: &[Action],
) {
    let slot = world.slots[number].clone();
    the_living_are_the_tracked(world, number, &slot);
    one_current_process_or_two_while_replacing(world, number, &slot);
    traffic_is_open_where_a_worker_is_confirmed(world, number, &slot);
    those_who_wait_have_something_to_wait_for(world, number, &slot);
    a_deadline_is_always_asked_for(&slot, actions);
    late_events_change_nothing(before, &slot, event, actions);
    the_stopped_leave_nothing(world, number, actions);
    no_second_restart_without_a_delay(world, number, before, event, actions);
    generations_only_grow(before, &slot);
    no_ready_worker_is_taken_away(world);
}

fn the_living_are_the_tracked(world: &World, number: usize, slot: &Slot) {
    let living: Vec<_> = living(world, number).collect();
    let mut tracked: Vec<_> = slot.generations().collect();
    tracked.sort_unstable();
    assert_eq!(living, tracked, "processes that live and processes that slot {number} holds: {slot:?}");
}

fn one_current_process_or_two_while_replacing(world: &World, number: usize, slot: &Slot) {
    let leaving = slot.leaving.len();
    let allowed = if matches!(slot.state, State::Replacing { .. }) { 2 } else { 1 };
    assert!(living(world, number).count() <= allowed + leaving, "{slot:?}");
    for leaver in &slot.leaving {
        assert_ne!(slot.current(), Some(leaver.generation));
        assert!(!world.processes[&(number, leaver.generation)].traffic, "a leaving process gets traffic");
    }
}

fn traffic_is_open_where_a_worker_is_confirmed(world: &World, number: usize, slot: &Slot) {
    let open: Vec<_> =
        living(world, number).filter(|generation| world.processes[&(number, *generation)].traffic).collect();
    let expected = match &slot.state {
        State::Online(running) | State::Replacing { old: running, .. } if running.confirmed => {
            vec![running.generation]
        }
        State::Online(_)
        | State::Replacing { .. }
        | State::Stopped { .. }
        | State::Starting { .. }
        | State::Stopping { .. }
        | State::Backoff { .. }
        | State::Failed { .. } => Vec::new(),
    };
    assert_eq!(open, expected, "{slot:?}");
    assert!(world.monitor.died_open.is_empty(), "traffic of a dead process stayed open");
}

fn those_who_wait_have_something_to_wait_for(world: &World, number: usize, slot: &Slot) {
    for waiting in &slot.waiting {
        assert_eq!(world.ledger[&(waiting.ticket, number)], None, "answered, and waits on");
        let coming = match waiting.verb {
            Verb::Start | Verb::Restart | Verb::Replace => {
                matches!(
                    slot.state,
                    State::Starting { .. } | State::Replacing { .. } | State::Stopping { .. }
                )
            }
            Verb::Stop | Verb::Delete | Verb::Retire => {
                matches!(slot.state, State::Stopping { .. }) || !slot.leaving.is_empty()
            }
        };
        assert!(coming, "{waiting:?} waits for nothing: {slot:?}");
    }
    let open = world.ledger.iter().filter(|((_, of), answer)| *of == number && answer.is_none()).count();
    assert_eq!(open, slot.waiting.len(), "a command was lost");
}

fn a_deadline_is_always_asked_for(slot: &Slot, actions: &[Action]) {
    let asked = actions.iter().rev().find_map(|action| match action {
        Action::Wake(at) => Some(*at),
        _ => None,
    });
    assert_eq!(asked, slot.next_deadline());
}

fn late_events_change_nothing(before: &Slot, slot: &Slot, event: &Event, actions: &[Action]) {
    let generation = match event {
        Event::SpawnFailed(generation, _)
        | Event::Ready(generation, _)
        | Event::Drained(generation)
        | Event::Begun(generation, _)
        | Event::Greeted(generation)
        | Event::Disconnected(generation)
        | Event::Exited(generation, _) => *generation,
        Event::Command(..) | Event::Deadline | Event::Reset => return,
    };
    if !before.generations().any(|held| held == generation) {
        assert_eq!(before, slot, "{event:?} is none of this slot's business");
        assert!(actions.iter().all(|action| matches!(action, Action::Wake(_))), "{actions:?}");
    }
}

fn the_stopped_leave_nothing(world: &World, number: usize, actions: &[Action]) {
    let stopped = actions.iter().any(|action| matches!(action, Action::Answer(_, Outcome::Stopped)));
    let deleted = actions.iter().any(|action| matches!(action, Action::Answer(_, Outcome::Deleted)));
    // A start that was asked for meanwhile may have begun with the same event.
    let begun = actions.iter().any(|action| matches!(action, Action::Spawn(_)));
    if deleted || (stopped && !begun) {
        let living = living(world, number).count();
        let started_since = matches!(
            world.slots[number].state,
            State::Starting { .. } | State::Online(_) | State::Replacing { .. } | State::Backoff { .. }
        );
        assert!(living == 0 || (started_since && !deleted), "{:?}", world.slots[number]);
    }
}

fn no_second_restart_without_a_delay(
    world: &mut World,
    number: usize,
    before: &Slot,
    event: &Event,
    actions: &[Action],
) {
    let now = world.now;
    let undelayed = &mut world.monitor.undelayed[number];
    if matches!(event, Event::Command(Verb::Start | Verb::Restart | Verb::Replace, _) | Event::Reset) {
        *undelayed = 0;
    }
    for action in actions {
        match action {
            Action::Report(Report::Exited { uptime, .. }) if *uptime >= FORGET_ONE_EVERY => *undelayed = 0,
            Action::Report(Report::Replaced { .. }) => {
                // The old process has had its life, though nobody sees its exit as a crash.
                if let State::Replacing { old, .. } = &before.state
                    && now.since(old.started) >= STABLE_LIFE
                {
                    *undelayed = 0;
                }
            }
            Action::Report(Report::RestartScheduled { delay, .. }) if delay.is_zero() => *undelayed += 1,
            Action::Report(Report::RestartScheduled { .. }) => *undelayed = 1,
            _ => {}
        }
    }
    assert!(*undelayed <= 1, "slot {number} restarts in a loop");
}

fn generations_only_grow(before: &Slot, slot: &Slot) {
    assert!(slot.counters.next_generation >= before.counters.next_generation);
    assert!(slot.generations().all(|generation| generation.0 < slot.counters.next_generation));
}

fn no_ready_worker_is_taken_away(world: &World) {
    let enough = world.serving() >= world.monitor.serving_min;
    assert!(enough || world.monitor.crashed, "{} slots serve", world.serving());
}

fn living(world: &World, number: usize) -> impl Iterator<Item = Generation> + '_ {
    world.processes.keys().filter(move |(slot, _)| *slot == number).map(|(_, generation)| *generation)
}
