//! When each app is due. Only apps that somebody may have changed are asked again, so that a turn of the loop costs the
//! same with one app and with a thousand.

use std::collections::{BTreeMap, BTreeSet};

use forkful_core::Time;

use super::app::AppId;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Wakes {
    known: BTreeMap<AppId, Time>,
    /// The same in the order of time.
    in_order: BTreeSet<(Time, AppId)>,
    /// Apps that may have another time by now; an app may stand here several times.
    changed: Vec<AppId>,
}

impl Wakes {
    /// Somebody may change an app.
    pub(super) fn note_change(&mut self, app: AppId) {
        if self.changed.last() != Some(&app) {
            self.changed.push(app);
        }
    }

    /// Asks the apps that may have changed; `wake` is nothing for an app that is gone or wants nothing.
    pub(super) fn refresh(&mut self, mut wake: impl FnMut(AppId) -> Option<Time>) {
        for app in self.changed.drain(..) {
            let next = wake(app);
            let before = match next {
                Some(at) => self.known.insert(app, at),
                None => self.known.remove(&app),
            };
            if before != next {
                if let Some(at) = before {
                    self.in_order.remove(&(at, app));
                }
                self.in_order.extend(next.map(|at| (at, app)));
            }
        }
    }

    /// When the first app is due.
    pub(super) fn first(&self) -> Option<Time> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// The apps that are due.
    pub(super) fn due(&self, now: Time) -> Vec<AppId> {
        self.in_order.iter().take_while(|(at, _)| *at <= now).map(|(_, app)| *app).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_apps_that_have_changed_are_asked_and_the_first_is_known() {
        let at = |ms| Time::from_start(Duration::from_millis(ms));
        let (mut wakes, one, two) = (Wakes::default(), AppId(1), AppId(2));
        for app in [one, two, one] {
            wakes.note_change(app);
        }
        wakes.refresh(|app| Some(at(if app == one { 50 } else { 30 })));
        assert_eq!(
            (wakes.first(), wakes.due(at(40)), wakes.due(at(50))),
            (Some(at(30)), vec![two], vec![two, one])
        );
        wakes.refresh(|_| panic!("nothing has changed"));
        wakes.note_change(two);
        wakes.refresh(|_| Some(at(90)));
        assert_eq!((wakes.first(), wakes.due(at(60))), (Some(at(50)), vec![one]));
        wakes.note_change(one);
        wakes.note_change(two);
        wakes.refresh(|_| None);
        assert_eq!((wakes.first(), wakes.due(at(99)).len()), (None, 0));
    }
}
