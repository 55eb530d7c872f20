//! The due times of many items. Only items that may have changed are asked again, so an event costs the same
//! with one and with a thousand.

use std::collections::{BTreeMap, BTreeSet};

use crate::Time;

/// See the module's documentation. `K` identifies an item.
#[derive(Debug, Clone)]
pub struct Wakes<K> {
    known: BTreeMap<K, Time>,
    /// The same in order of time.
    in_order: BTreeSet<(Time, K)>,
    /// Items whose time may have changed, with duplicates.
    changed: Vec<K>,
    /// Total number of calls of `wake`.
    asked: u64,
}

impl<K> Default for Wakes<K> {
    fn default() -> Self {
        Self { known: BTreeMap::new(), in_order: BTreeSet::new(), changed: Vec::new(), asked: 0 }
    }
}

impl<K: Copy + Ord> Wakes<K> {
    /// An item may change.
    pub fn note_change(&mut self, key: K) {
        if self.changed.last() != Some(&key) {
            self.changed.push(key);
        }
    }

    /// Calls `wake` for each item that may have changed, to get its next due time. `wake` returns `None` for
    /// an item that no longer exists or has no due time.
    pub fn refresh(&mut self, mut wake: impl FnMut(K) -> Option<Time>) {
        self.changed.sort_unstable();
        self.changed.dedup();
        for key in self.changed.drain(..) {
            self.asked += 1;
            let next = wake(key);
            let before = match next {
                Some(at) => self.known.insert(key, at),
                None => self.known.remove(&key),
            };
            if before != next {
                if let Some(at) = before {
                    self.in_order.remove(&(at, key));
                }
                self.in_order.extend(next.map(|at| (at, key)));
            }
        }
    }

    /// When the first item is due.
    pub fn first(&self) -> Option<Time> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// The due items, earliest first.
    pub fn due(&self, now: Time) -> Vec<K> {
        self.in_order.iter().take_while(|(at, _)| *at <= now).map(|(_, key)| *key).collect()
    }

    /// Total number of calls of `wake`, for tests of costs.
    pub fn asked(&self) -> u64 {
        self.asked
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_what_has_changed_is_asked_and_the_first_is_known() {
        let at = |ms| Time::from_start(Duration::from_millis(ms));
        let (mut wakes, one, two) = (Wakes::default(), 1, 2);
        for app in [one, two, one] {
            wakes.note_change(app);
        }
        wakes.refresh(|app| Some(at(if app == one { 50 } else { 30 })));
        assert_eq!(
            (wakes.first(), wakes.due(at(40)), wakes.due(at(50))),
            (Some(at(30)), vec![two], vec![two, one])
        );
        let asked = wakes.asked();
        assert_eq!(asked, 2, "once each");
        wakes.refresh(|_| panic!("nothing has changed"));
        assert_eq!(wakes.asked(), asked);
        wakes.note_change(two);
        wakes.refresh(|_| Some(at(90)));
        assert_eq!((wakes.first(), wakes.due(at(60))), (Some(at(50)), vec![one]));
        wakes.note_change(one);
        wakes.note_change(two);
        wakes.refresh(|_| None);
        assert_eq!((wakes.first(), wakes.due(at(99)).len()), (None, 0));
    }
}
