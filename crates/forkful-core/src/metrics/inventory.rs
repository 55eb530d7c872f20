//! What a worker's process holds when somebody scrapes: the spaces of V8's heap, and what is active in its event loop, by type. Too
//! long to measure each second. The names are prom-client's.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::exposition::{Family, Label, Page};

/// The types, or spaces, that are taken of a list.
const KINDS_MAX: usize = 64;
/// The longest name of one, in bytes.
const KIND_BYTES_MAX: usize = 100;

/// What a process holds, as its agent says it. Hostile input: all of it stays within bounds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(from = "Raw")]
pub struct Inventory {
    /// Each space's bytes: all, those used, those still available.
    spaces: BTreeMap<String, [u64; 3]>,
    /// How many there are, in the order of [`ACTIVE`].
    active: [BTreeMap<String, u64>; ACTIVE.len()],
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Raw {
    spaces: BTreeMap<String, [u64; 3]>,
    resources: BTreeMap<String, u64>,
    handles: BTreeMap<String, u64>,
    requests: BTreeMap<String, u64>,
}

impl From<Raw> for Inventory {
    fn from(raw: Raw) -> Self {
        Self { spaces: bounded(raw.spaces), active: [raw.resources, raw.handles, raw.requests].map(bounded) }
    }
}

fn bounded<T>(all: BTreeMap<String, T>) -> BTreeMap<String, T> {
    all.into_iter().filter(|(kind, _)| kind.len() <= KIND_BYTES_MAX).take(KINDS_MAX).collect()
}

const SPACES: [Family; 3] = [
    Family::gauge("nodejs_heap_space_size_total_bytes", "Size of each space of the heap, in bytes."),
    Family::gauge("nodejs_heap_space_size_used_bytes", "What is used of each space of the heap, in bytes."),
    Family::gauge(
        "nodejs_heap_space_size_available_bytes",
        "What is available of each space of the heap, in bytes.",
    ),
];

/// By type, and all together.
const ACTIVE: [[Family; 2]; 3] = [
    [
        Family::gauge("nodejs_active_resources", "Resources that keep the event loop alive, by type."),
        Family::gauge("nodejs_active_resources_total", "All resources that keep the event loop alive."),
    ],
    [
        Family::gauge("nodejs_active_handles", "Handles of libuv that are active, by type."),
        Family::gauge("nodejs_active_handles_total", "All handles of libuv that are active."),
    ],
    [
        Family::gauge("nodejs_active_requests", "Requests of libuv that are active, by type."),
        Family::gauge("nodejs_active_requests_total", "All requests of libuv that are active."),
    ],
];

/// Whether a family is one of these.
pub(super) fn is_of_inventory(name: &str) -> bool {
    SPACES.iter().chain(ACTIVE.iter().flatten()).any(|family| family.name == name)
}

impl Page {
    /// Adds what a worker's process holds.
    pub fn add_inventory(&mut self, labels: &[Label<'_>], inventory: &Inventory) {
        let with = |label| labels.iter().copied().chain([label]).collect::<Vec<_>>();
        for (at, family) in SPACES.iter().enumerate() {
            for (space, bytes) in &inventory.spaces {
                self.add(family, &with(("space", space)), bytes[at] as f64);
            }
        }
        for ([by_type, total], counts) in ACTIVE.iter().zip(&inventory.active) {
            for (kind, count) in counts {
                self.add(by_type, &with(("type", kind)), *count as f64);
            }
            self.add(total, labels, counts.values().fold(0.0, |sum, count| sum + *count as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::exposition::{Format, is_own};
    use super::*;

    #[test]
    fn the_page_has_what_a_process_holds_under_the_names_of_prom_client() {
        let text =
            r#"{"spaces":{"new":[3,2,1]},"resources":{"TTYWrap":1,"Timeout":2},"handles":{"Socket":4}}"#;
        let mut page = Page::new(Format::Prometheus);
        page.add_inventory(&[("app", "web"), ("worker", "0")], &serde_json::from_str(text).unwrap());
        let page = page.finish("");
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"nodejs_heap_space_size_total_bytes{app="web",worker="0",space="new"} 3.0"#,
                r#"nodejs_heap_space_size_used_bytes{app="web",worker="0",space="new"} 2.0"#,
                r#"nodejs_heap_space_size_available_bytes{app="web",worker="0",space="new"} 1.0"#,
                r#"nodejs_active_resources{app="web",worker="0",type="TTYWrap"} 1.0"#,
                r#"nodejs_active_resources{app="web",worker="0",type="Timeout"} 2.0"#,
                r#"nodejs_active_resources_total{app="web",worker="0"} 3.0"#,
                r#"nodejs_active_handles{app="web",worker="0",type="Socket"} 4.0"#,
                r#"nodejs_active_handles_total{app="web",worker="0"} 4.0"#,
                r#"nodejs_active_requests_total{app="web",worker="0"} 0.0"#,
            ]
        );
        let names = page.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
        assert!(names.clone().count() == 8 && names.clone().all(is_own), "{page}");
    }

    #[test]
    fn what_a_process_says_stays_within_bounds() {
        let kinds = |count: usize| -> String {
            (0..count).map(|at| format!(r#""{at}":1"#)).collect::<Vec<_>>().join(",")
        };
        let long = "x".repeat(KIND_BYTES_MAX + 1);
        let text = format!(r#"{{"handles":{{{}}},"requests":{{"{long}":1}}}}"#, kinds(1000));
        let inventory: Inventory = serde_json::from_str(&text).unwrap();
        assert_eq!(inventory.active.map(|counts| counts.len()), [0, KINDS_MAX, 0]);
        let most = format!(r#"{{"handles":{{"a":{0},"b":{0}}}}}"#, u64::MAX);
        let mut page = Page::new(Format::Prometheus);
        page.add_inventory(&[], &serde_json::from_str(&most).unwrap());
        assert!(page.finish("").contains("nodejs_active_handles_total 3"), "the sum of two of the largest");
        for wrong in [r#"{"spaces":{"new":[1]}}"#, r#"{"handles":{"a":-1}}"#, r#"{"handles":{"a":"1"}}"#, "7"]
        {
            assert!(serde_json::from_str::<Inventory>(wrong).is_err(), "{wrong}");
        }
    }
}
