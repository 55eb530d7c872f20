//! A ledger as it is written down for the next daemon. An app is written down often, so this is short: the groups
//! that cost most and the last stalls, with the inner frames of their stacks. The cost of all other groups stays in
//! the sum of the others.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{Ledger, STALL_GROUPS_MAX, STALLS_RECENT_MAX, StallCost, StallGroup, StallPlace, WorkerStall};

/// Groups that are written down.
const GROUPS_WRITTEN_MAX: usize = 32;
/// Last stalls that are written down.
const RECENT_WRITTEN_MAX: usize = 8;
/// Frames of a stack that are written down.
const FRAMES_WRITTEN_MAX: usize = 4;

#[derive(Serialize, Deserialize)]
struct Written {
    total: StallCost,
    /// The most expensive first.
    groups: Vec<(StallPlace, StallGroup)>,
    others: StallCost,
    /// The oldest first.
    recent: Vec<WorkerStall>,
}

fn inner_frames(stack: &[String]) -> Vec<String> {
    stack.iter().take(FRAMES_WRITTEN_MAX).cloned().collect()
}

impl Serialize for Ledger {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut groups = self.groups();
        let rest = groups.split_off(groups.len().min(GROUPS_WRITTEN_MAX));
        let mut others = self.others;
        rest.iter().for_each(|(_, group)| others.merge(&group.cost));
        let group = |(place, group): (&StallPlace, &StallGroup)| {
            let StallGroup { cost, last_at_ms, stack } = group;
            (place.clone(), StallGroup { cost: *cost, last_at_ms: *last_at_ms, stack: inner_frames(stack) })
        };
        let older = self.recent.len().saturating_sub(RECENT_WRITTEN_MAX);
        let recent = self.recent.iter().skip(older).cloned().map(|mut noted| {
            noted.stall.stack = inner_frames(&noted.stall.stack);
            noted
        });
        let written = Written {
            total: self.total,
            groups: groups.into_iter().map(group).collect(),
            others,
            recent: recent.collect(),
        };
        written.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ledger {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { total, groups, others, recent } = Written::deserialize(deserializer)?;
        Ok(Self {
            total,
            groups: groups.into_iter().take(STALL_GROUPS_MAX).collect(),
            others,
            recent: recent.into_iter().take(STALLS_RECENT_MAX).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::Stall;
    use super::*;

    fn stall(route: &str, function: &str, milliseconds: u64) -> Stall {
        Stall {
            length: Duration::from_millis(milliseconds),
            route: Some(route.to_owned()),
            function: Some(function.to_owned()),
            stack: (0..10).map(|frame| format!("{function} {frame}")).collect(),
            requests: 2,
            waited: Duration::from_millis(milliseconds),
            ..Stall::default()
        }
    }

    fn again(ledger: &Ledger) -> (Ledger, usize) {
        let text = serde_json::to_string(ledger).unwrap();
        (serde_json::from_str(&text).unwrap(), text.len())
    }

    #[test]
    fn the_next_daemon_goes_on_with_a_ledger() {
        let mut ledger = Ledger::default();
        ledger.note(3, stall("GET /a", "render", 60), 10_000);
        ledger.note(4, Stall { route: None, ..stall("", "tick", 90) }, 11_000);
        let (mut next, _) = again(&ledger);
        assert_eq!((next.total(), next.others()), (ledger.total(), ledger.others()));
        let places = |ledger: &Ledger| {
            ledger.groups().into_iter().map(|(place, group)| (place.clone(), group.cost)).collect::<Vec<_>>()
        };
        assert_eq!(places(&next), places(&ledger));
        assert_eq!(next.groups()[0].1.stack, ["tick 0", "tick 1", "tick 2", "tick 3"]);
        assert_eq!(
            next.recent().map(|noted| (noted.pm_id, noted.at_ms)).collect::<Vec<_>>(),
            [(4, 11_000), (3, 10_000)]
        );
        next.note(3, stall("GET /a", "render", 60), 20_000);
        let (place, group) = next.groups()[0];
        assert_eq!((place.1.as_deref(), group.cost.stalls, group.last_at_ms), (Some("render"), 2, 20_000));
    }

    #[test]
    fn a_full_ledger_is_short_when_it_is_written_down_and_its_sums_are_whole() {
        let mut ledger = Ledger::default();
        for number in 0..1000_u64 {
            let (route, function) = (format!("GET /{}{number}", "x".repeat(180)), "f".repeat(200));
            ledger.note(1, stall(&route, &function, 50 + number), number);
        }
        let (next, bytes) = again(&ledger);
        assert!(bytes < 64 << 10, "{bytes}");
        assert_eq!(next.groups().len(), GROUPS_WRITTEN_MAX);
        assert_eq!(next.groups()[0].0, ledger.groups()[0].0);
        assert_eq!(next.recent().next().unwrap().at_ms, ledger.recent().next().unwrap().at_ms);
        let kept: u64 = next.groups().iter().map(|(_, group)| group.cost.stalls).sum();
        assert_eq!((kept + next.others().stalls, next.total().stalls), (1000, 1000));
        assert_eq!(again(&next).0, next);
    }
}
