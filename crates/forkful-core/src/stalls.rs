//! The stall ledger of an app: each time the event loop of a worker was blocked, by function and route, with
//! the cost for waiting requests. Agents report stalls, but apps can write to the same channel: whatever is
//! reported, a ledger stays within its limits.

mod written;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::foreign;
use crate::slot::Exit;
use crate::steering::blocked::blocked_for;

/// By default, shorter blocks of an event loop are not reported. Users notice a response that waits this
/// long.
pub const STALL_THRESHOLD_DEFAULT: Duration = Duration::from_millis(50);
/// Maximum stalls accepted in one message; an agent sends one message per second.
pub const STALLS_TOLD_MAX: usize = 64;
/// Maximum length of a route or function, in characters.
pub const STALL_TEXT_MAX: usize = 200;
/// Maximum stored frames of a stack.
pub const STALL_FRAMES_MAX: usize = 16;
/// Maximum pairs of function and route per app.
pub const STALL_GROUPS_MAX: usize = 128;
/// Maximum individual stalls stored per app, the most recent ones.
pub const STALLS_RECENT_MAX: usize = 32;
/// A stall that is reported as longer, or longer ago, is ignored.
const STALL_MAX: Duration = Duration::from_secs(24 * 3600);

/// A stall, as reported by an agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "StallView"))]
pub struct Stall {
    /// How long ago it began, at the time of the report.
    #[serde(rename = "ago_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub ago: Duration,
    /// Its duration.
    #[serde(rename = "for_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub length: Duration,
    /// CPU time that the process used during it.
    #[serde(rename = "cpu_ms", with = "crate::millis", default)]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub cpu: Duration,
    /// The request that was being handled: its method, and its path without the parts that differ from
    /// request to request.
    #[serde(default)]
    pub route: Option<String>,
    /// The function with most of the time, with file and line.
    #[serde(default)]
    pub function: Option<String>,
    /// That function and its callers, innermost first.
    #[serde(default)]
    pub stack: Vec<String>,
    /// Requests that waited.
    #[serde(default)]
    pub requests: u32,
    /// Their total waiting time.
    #[serde(rename = "waited_ms", with = "crate::millis", default)]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub waited: Duration,
}

impl Stall {
    /// The stall of a worker that was killed while its event loop had not answered for `silent`; `None` if it ended otherwise, or for less
    /// than the app's threshold (0: nothing is recorded). Where it was blocked is not known, nor the CPU time.
    pub fn without_end(silent: Option<Duration>, exit: &Exit, threshold: Duration) -> Option<Self> {
        let is_recorded = matches!(exit, Exit::Signal(_)) && !threshold.is_zero();
        let length = blocked_for(silent).filter(|length| is_recorded && *length >= threshold)?;
        Some(Self {
            ago: length,
            length,
            route: Some("(unknown)".to_owned()),
            function: Some("(blocked until the worker was killed)".to_owned()),
            ..Self::default()
        })
    }

    /// The stall limited to valid values; `None` if it cannot be true.
    pub fn bounded(mut self) -> Option<Self> {
        if self.length.is_zero() || self.length > STALL_MAX || self.ago > STALL_MAX {
            return None;
        }
        self.cpu = self.cpu.min(self.length * 64);
        self.waited = self.waited.min(self.length * self.requests);
        self.route = self.route.as_deref().and_then(shown);
        self.function = self.function.as_deref().and_then(shown);
        self.stack = self.stack.iter().take(STALL_FRAMES_MAX).filter_map(|frame| shown(frame)).collect();
        Some(self)
    }
}

/// A text limited in length, without characters that steer a terminal; `None` if nothing is left.
fn shown(text: &str) -> Option<String> {
    let text: String = text.trim().chars().take(STALL_TEXT_MAX).collect();
    (!text.is_empty()).then(|| foreign::replaced(&text))
}

/// The cost of stalls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StallCost {
    /// Their number.
    pub stalls: u64,
    /// Total duration.
    #[serde(rename = "stalled_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub stalled: Duration,
    /// The longest duration.
    #[serde(rename = "longest_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub longest: Duration,
    /// CPU time that the processes used during them.
    #[serde(rename = "cpu_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub cpu: Duration,
    /// Requests that waited.
    pub requests: u64,
    /// Their total waiting time.
    #[serde(rename = "waited_ms", with = "crate::millis")]
    #[cfg_attr(feature = "schema", schemars(with = "u64"))]
    pub waited: Duration,
}

impl StallCost {
    fn add(&mut self, stall: &Stall) {
        self.stalls += 1;
        self.stalled += stall.length;
        self.longest = self.longest.max(stall.length);
        self.cpu += stall.cpu;
        self.requests += u64::from(stall.requests);
        self.waited += stall.waited;
    }

    fn merge(&mut self, other: &Self) {
        self.stalls += other.stalls;
        self.stalled += other.stalled;
        self.longest = self.longest.max(other.longest);
        self.cpu += other.cpu;
        self.requests += other.requests;
        self.waited += other.waited;
    }

    /// The sort key: the time of the event loop plus that of the waiting requests.
    fn weight(&self) -> Duration {
        self.stalled + self.waited
    }
}

/// Stalls in the same function and route.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StallGroup {
    pub cost: StallCost,
    /// When the most recent stall began, in wall-clock milliseconds.
    pub last_at_ms: u64,
    /// The stack of the longest stall.
    pub stack: Vec<String>,
}

/// One stall of a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerStall {
    /// When it began, in wall-clock milliseconds.
    pub at_ms: u64,
    /// The worker's id.
    pub pm_id: u32,
    pub stall: Stall,
}

/// The place of a stall in words: `render (page.js:3), for GET /report/:id`; `None` if nothing is known.
pub fn place_in_words(route: Option<&str>, function: Option<&str>) -> Option<String> {
    match (function, route) {
        (Some(function), Some(route)) => Some(format!("{function}, for {route}")),
        (Some(only), None) | (None, Some(only)) => Some(only.to_owned()),
        (None, None) => None,
    }
}

/// Route and function, if known.
pub type StallPlace = (Option<String>, Option<String>);

/// See the module's documentation. As bytes it is shorter, see `written`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ledger {
    total: StallCost,
    groups: BTreeMap<StallPlace, StallGroup>,
    /// Groups for which there was no room.
    others: StallCost,
    recent: VecDeque<WorkerStall>,
}

impl Ledger {
    /// Adds a stall that was reported at a wall-clock time in milliseconds. Returns the stored stall.
    pub fn note(&mut self, pm_id: u32, stall: Stall, told_ms: u64) -> &WorkerStall {
        let at_ms = told_ms.saturating_sub(stall.ago.as_millis() as u64);
        self.total.add(&stall);
        let place = (stall.route.clone(), stall.function.clone());
        if self.groups.len() >= STALL_GROUPS_MAX && !self.groups.contains_key(&place) {
            self.make_room();
        }
        let group = self.groups.entry(place).or_default();
        if stall.length > group.cost.longest && !stall.stack.is_empty() || group.stack.is_empty() {
            group.stack.clone_from(&stall.stack);
        }
        group.cost.add(&stall);
        group.last_at_ms = group.last_at_ms.max(at_ms);
        if self.recent.len() >= STALLS_RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(WorkerStall { at_ms, pm_id, stall });
        self.recent.back().expect("it was just added")
    }

    /// Merges the least important group into the others.
    fn make_room(&mut self) {
        let least = self.groups.iter().min_by_key(|(_, group)| group.cost.weight());
        if let Some(place) = least.map(|(place, _)| place.clone())
            && let Some(group) = self.groups.remove(&place)
        {
            self.others.merge(&group.cost);
        }
    }

    /// The total of all stalls.
    pub fn total(&self) -> &StallCost {
        &self.total
    }

    /// The total of groups that are no longer stored.
    pub fn others(&self) -> &StallCost {
        &self.others
    }

    /// The groups, the most expensive first.
    pub fn groups(&self) -> Vec<(&StallPlace, &StallGroup)> {
        let mut groups: Vec<_> = self.groups.iter().collect();
        groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.cost.weight()));
        groups
    }

    /// The most recent stalls, newest first.
    pub fn recent(&self) -> impl Iterator<Item = &WorkerStall> {
        self.recent.iter().rev()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_was_killed_while_it_did_not_answer_has_a_stall() {
        let of = |silent: Option<u64>, exit: &Exit, threshold| {
            let silent = silent.map(Duration::from_millis);
            Stall::without_end(silent, exit, Duration::from_millis(threshold))
                .map(|stall| stall.length.as_millis())
        };
        let killed = Exit::Signal(9);
        assert_eq!(of(Some(3000), &killed, 50), Some(3000));
        assert_eq!(of(Some(199), &killed, 50), None, "it may have answered soon");
        assert_eq!(of(None, &killed, 50), None);
        assert_eq!(of(Some(3000), &killed, 5000), None);
        assert_eq!(of(Some(3000), &killed, 0), None, "nothing is recorded");
        assert_eq!(of(Some(3000), &Exit::Code(0), 50), None, "its agent has reported this stall");
    }

    fn stall(route: &str, function: &str, milliseconds: u64) -> Stall {
        Stall {
            length: Duration::from_millis(milliseconds),
            route: Some(route.to_owned()),
            function: Some(function.to_owned()),
            stack: vec![format!("{function} for {milliseconds}")],
            requests: 2,
            waited: Duration::from_millis(milliseconds),
            ..Stall::default()
        }
    }

    #[test]
    fn stalls_are_grouped_and_those_that_cost_most_come_first() {
        let mut ledger = Ledger::default();
        for (route, function, milliseconds) in [
            ("GET /a", "render", 60),
            ("GET /b", "parse", 500),
            ("GET /a", "render", 70),
            ("GET /a", "sort", 50),
        ] {
            ledger.note(3, stall(route, function, milliseconds), 10_000);
        }
        let told: Vec<_> = ledger
            .groups()
            .into_iter()
            .map(|((route, function), group)| {
                let cost = &group.cost;
                let name = format!("{} {}", route.as_deref().unwrap(), function.as_deref().unwrap());
                (
                    name,
                    cost.stalls,
                    cost.stalled.as_millis(),
                    cost.longest.as_millis(),
                    group.stack[0].clone(),
                )
            })
            .collect();
        let expected = [
            ("GET /b parse", 1, 500, 500, "parse for 500"),
            ("GET /a render", 2, 130, 70, "render for 70"),
            ("GET /a sort", 1, 50, 50, "sort for 50"),
        ];
        assert_eq!(told, expected.map(|(a, b, c, d, e)| (a.to_owned(), b, c, d, e.to_owned())));
        let total = ledger.total();
        assert_eq!((total.stalls, total.stalled.as_millis(), total.requests), (4, 680, 8));
        assert_eq!(ledger.recent().next().unwrap().stall.function.as_deref(), Some("sort"));
    }

    #[test]
    fn when_it_began_is_counted_from_when_it_was_told() {
        let told = Stall { ago: Duration::from_millis(1500), ..stall("GET /a", "f", 60) };
        assert_eq!(Ledger::default().note(0, told, 10_000).at_ms, 8500);
    }

    #[test]
    fn whatever_is_told_a_ledger_stays_within_its_bounds_and_counts_everything() {
        let mut ledger = Ledger::default();
        for number in 0..10_000_u64 {
            ledger.note(1, stall(&format!("GET /{number}"), "f", 50 + number % 100), 1);
        }
        ledger.note(1, stall("GET /heavy", "f", 60_000), 1);
        assert_eq!(ledger.groups().len(), STALL_GROUPS_MAX);
        assert_eq!(ledger.recent().count(), STALLS_RECENT_MAX);
        let kept: u64 = ledger.groups().iter().map(|(_, group)| group.cost.stalls).sum();
        assert_eq!(kept + ledger.others().stalls, 10_001);
        assert_eq!(ledger.groups()[0].0.0.as_deref(), Some("GET /heavy"));
    }

    #[test]
    fn what_cannot_be_true_is_refused_and_the_rest_is_cut() {
        let long = "é".repeat(1000);
        let told = Stall {
            route: Some(format!("GET /\u{1b}[31m\u{202e}{long}")),
            function: Some(" \n ".to_owned()),
            stack: vec![long.clone(); 100],
            waited: Duration::from_secs(3600),
            ..stall("", "", 60)
        };
        let bounded = told.bounded().unwrap();
        let route = bounded.route.unwrap();
        assert!(route.starts_with("GET /\u{fffd}[31m\u{fffd}é") && route.chars().count() == STALL_TEXT_MAX);
        assert_eq!((bounded.function, bounded.stack.len()), (None, STALL_FRAMES_MAX));
        assert_eq!(bounded.waited, Duration::from_millis(120));
        for bad in [0, 25 * 3600 * 1000] {
            assert_eq!(stall("GET /a", "f", bad).bounded(), None, "{bad}");
        }
    }
}
