//! Apps as clients define them: a few numbers, from which the whole spec is made.

use std::fmt;
use std::time::Duration;

use forkful_core::spec::{
    AppName, AppSpec, HealthCheck, HealthProbe, Mode, Readiness, RestartDelay, RestartPolicy, Runtime,
    StopPolicy,
};

use crate::dice::Dice;

/// Apps that clients know of.
pub(crate) const APPS: usize = 4;
/// Their names.
const NAMES: [&str; APPS] = ["api", "web", "jobs", "mail"];
/// The most workers of an app.
pub(crate) const WORKERS_MAX: u16 = 8;

/// How good the code of a version is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Quality {
    Good,
    /// Some of its processes fail.
    Flaky,
    /// None of its processes becomes ready.
    Broken,
}

/// A definition of an app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Definition {
    /// Which of [`APPS`].
    pub(crate) app: usize,
    /// Counts up with each definition of a run.
    pub(crate) version: u32,
    pub(crate) quality: Quality,
    pub(crate) instances: u16,
    /// What the policies are made from; mostly the same for all versions of an app.
    pub(crate) shape: u64,
}

/// The name of an app.
pub(crate) fn name(app: usize) -> AppName {
    AppName::new(NAMES[app]).expect("the names are names")
}

/// The version and the quality of a spec that [`Definition::spec`] has made.
pub(crate) fn read(spec: &AppSpec) -> (u32, Quality) {
    let [version, quality] = spec.launch.args.as_slice() else { return (0, Quality::Good) };
    let quality = match quality.as_str() {
        "broken" => Quality::Broken,
        "flaky" => Quality::Flaky,
        _ => Quality::Good,
    };
    (version.parse().unwrap_or(0), quality)
}

impl Definition {
    pub(crate) fn spec(&self) -> AppSpec {
        let mut dice = Dice::of(&[self.shape, self.app as u64]);
        let mode = if dice.percent(75) { Mode::Cluster } else { Mode::Fork };
        let readiness = Readiness {
            wait_ready: dice.percent(30),
            listen_timeout: dice.percent(60).then(|| dice.millis(200, 4_000)),
        };
        let stop = StopPolicy {
            kill_timeout: dice.millis(0, 3_000),
            drain_timeout: dice.millis(0, 6_000),
            ..StopPolicy::default()
        };
        // Only on apps before it, so that there is no circle.
        let needed = (0..self.app).filter(|_| dice.percent(25)).map(name).collect();
        let health = dice.percent(20).then(|| HealthCheck {
            probe: HealthProbe::Loop,
            interval: dice.millis(20_000, 60_000),
            timeout: Duration::from_secs(1),
            start_period: dice.millis(0, 5_000),
            failures_max: 1 + dice.below(3) as u32,
            stuck_limit: None,
        });
        let mut spec = AppSpec {
            instances: self.instances,
            mode,
            restart: restart_policy(&mut dice),
            readiness,
            stop,
            autostart: dice.percent(92),
            health,
            depends_on: needed,
            ..AppSpec::new(name(self.app))
        };
        spec.launch.args = vec![self.version.to_string(), self.quality.to_string()];
        spec.launch.runtime = if dice.percent(70) { Runtime::Node } else { Runtime::Other };
        spec
    }
}

fn restart_policy(dice: &mut Dice) -> RestartPolicy {
    let delay = match dice.below(4) {
        0 => RestartDelay::Fixed(Duration::ZERO),
        1 => RestartDelay::Fixed(dice.millis(0, 2_000)),
        2 => RestartDelay::Exponential { initial: dice.millis(0, 500), max: dice.millis(500, 15_000) },
        _ => RestartDelay::default(),
    };
    RestartPolicy {
        autorestart: dice.percent(90),
        restart_finished: dice.percent(50),
        max_restarts: if dice.percent(70) { 16 } else { dice.below(6) as u32 },
        window: dice.millis(1_000, 600_000),
        min_uptime: dice.millis(0, 2_000),
        delay,
        stop_exit_codes: if dice.percent(20) { vec![3] } else { Vec::new() },
    }
}

impl fmt::Display for Quality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Flaky => "flaky",
            Self::Broken => "broken",
        })
    }
}

impl fmt::Display for Definition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { app, version, quality, instances, .. } = self;
        write!(f, "{} (version {version}, {quality}, {instances} workers)", NAMES[*app])
    }
}
