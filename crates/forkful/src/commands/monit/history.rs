//! CPU and memory of apps and workers in the last minute, for the graphs.

use std::collections::{BTreeMap, VecDeque};

use forkful_api::types::{AppList, WorkerView};

use super::state::Choice;

/// Samples kept for each line, one per second.
const SAMPLES_MAX: usize = 60;

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// The resource use of a line at one time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sample {
    pub(super) cpu_percent: f32,
    pub(super) memory_bytes: u64,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct History(BTreeMap<Choice, VecDeque<Sample>>);

impl History {
    /// Adds a sample for each line; lines that are gone are removed.
    pub(super) fn take(&mut self, list: &AppList) {
        let mut now: BTreeMap<Choice, Sample> = BTreeMap::new();
        for app in &list.apps {
            let total = app.workers.iter().map(sample).fold(Sample::default(), |sum, one| Sample {
                cpu_percent: sum.cpu_percent + one.cpu_percent,
                memory_bytes: sum.memory_bytes + one.memory_bytes,
            });
            now.insert(Choice::App(app.definition.name.clone()), total);
            now.extend(app.workers.iter().map(|worker| (Choice::Worker(worker.pm_id), sample(worker))));
        }
        self.0.retain(|choice, _| now.contains_key(choice));
        for (choice, sample) in now {
            let samples = self.0.entry(choice).or_default();
            if samples.len() == SAMPLES_MAX {
                samples.pop_front();
            }
            samples.push_back(sample);
        }
    }

    /// The samples of a line, oldest first.
    pub(super) fn of(&self, choice: &Choice) -> impl Iterator<Item = Sample> {
        self.0.get(choice).into_iter().flatten().copied()
    }
}

fn sample(worker: &WorkerView) -> Sample {
    Sample { cpu_percent: worker.cpu_percent, memory_bytes: worker.memory_bytes }
}

/// A bar for each of the last values, scaled to the highest; `least` is the minimum value of a full bar.
pub(super) fn bars(values: &[f64], width: usize, least: f64) -> String {
    let values = &values[values.len().saturating_sub(width)..];
    let most = values.iter().copied().fold(least, f64::max);
    let bar = |value: &f64| BARS[((value / most * 7.0).round() as usize).min(7)];
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::bars;

    #[test]
    fn the_highest_value_has_a_full_bar() {
        assert_eq!(bars(&[0.0, 50.0, 100.0, 25.0], 10, 1.0), "▁▅█▃");
        assert_eq!(bars(&[1.0, 2.0], 10, 100.0), "▁▁", "little is not drawn large");
        assert_eq!(bars(&[9.0, 1.0, 2.0], 2, 2.0), "▅█", "only the last values that fit");
        assert_eq!(bars(&[], 10, 1.0), "");
    }
}
