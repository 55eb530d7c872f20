//! The environment and the size of an experiment.

use std::path::PathBuf;
use std::time::Duration;

use forkful_core::spec::AppSpec;
use forkful_load::StopHandle;

use crate::arms::{Arm, Runner};

/// Timeout for a server's start.
pub(super) const START_TIMEOUT: Duration = Duration::from_secs(30);

/// The input of an experiment.
#[derive(Debug)]
pub struct Setting {
    /// The app, resolved for this machine and the caller's environment.
    pub app: AppSpec,
    /// Express is not installed; a small module with the same routes replaces it.
    pub is_stand_in: bool,
    /// Path of the `forkful` program.
    pub forkful: PathBuf,
    /// Workers of the cluster; by default one per usable core.
    pub workers: u16,
    /// Usable cores.
    pub cores: u16,
    /// The size of the experiment.
    pub extent: Extent,
    /// Seed for the order of arms.
    pub seed: u64,
    /// Path of a Chromium, if installed.
    pub browser: Option<PathBuf>,
    /// The command that the user typed, to repeat the run.
    pub command: String,
    /// Stops the experiment early.
    pub stop: StopHandle,
}

impl Setting {
    pub(super) fn single() -> Arm {
        Arm::of("single", "one plain process", Runner::Plain)
    }

    /// Forkful's cluster with this many workers.
    pub(super) fn cluster(name: &str, workers: u16) -> Arm {
        let label = format!("Forkful, {}", crate::arms::workers_text(workers));
        Arm::of(name, label, Runner::Forkful { workers, balance: None })
    }

    /// Node's own cluster module (round robin).
    pub(super) fn node_cluster(&self) -> Arm {
        let label = format!("Node's cluster module, {} workers", self.workers);
        Arm::of("node-cluster", label, Runner::NodeCluster { workers: self.workers })
    }
}

/// The size of an experiment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extent {
    /// One or two minutes.
    Short,
    /// With the original's numbers.
    Full,
    /// A fraction of [`Extent::Short`], for testing that it works; its figures mean little.
    Part(f64),
}

impl Extent {
    /// A number of requests, at least `least`.
    pub(super) fn requests(self, short: u64, full: u64, least: u64) -> u64 {
        match self {
            Self::Short => short,
            Self::Full => full,
            Self::Part(part) => ((short as f64 * part).round() as u64).max(least),
        }
    }

    /// A number of seconds.
    pub(super) fn seconds(self, short: f64, full: f64) -> Duration {
        let seconds = match self {
            Self::Short => short,
            Self::Full => full,
            Self::Part(part) => (short * part).max(0.2),
        };
        Duration::from_secs_f64(seconds)
    }

    /// A number of blocks, at least two, so that there is something to compare.
    pub(super) fn blocks(self, short: u32, full: u32) -> u32 {
        match self {
            Self::Short => short,
            Self::Full => full,
            Self::Part(part) => ((f64::from(short) * part).round() as u32).clamp(2, short),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_never_nothing() {
        let part = Extent::Part(0.01);
        assert_eq!(part.requests(5000, 5000, 8), 50);
        assert_eq!(part.requests(100, 100, 8), 8);
        assert_eq!(part.blocks(6, 12), 2);
        assert_eq!(part.seconds(5.0, 20.0), Duration::from_millis(200));
        assert_eq!(Extent::Full.requests(200, 1000, 1), 1000);
        assert_eq!(Extent::Short.blocks(6, 12), 6);
    }
}
