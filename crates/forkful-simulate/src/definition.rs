//! Apps as clients define them: a few numbers, from which the whole spec is generated.

use std::fmt;
use std::time::Duration;

use forkful_core::autoscale::ScaleBounds;
use forkful_core::spec::{
    AppName, AppSpec, Balance, CronPattern, HealthCheck, HealthProbe, Mode, Readiness, Renewal, RestartDelay,
    RestartPolicy, Runtime, StopPolicy, Warmup, Watch,
};
use forkful_core::start::IfRunning;

use crate::dice::Dice;
use crate::net::Port;

/// The number of apps known to clients.
pub(crate) const APPS: usize = 4;
/// Their names.
const NAMES: [&str; APPS] = ["api", "web", "jobs", "mail"];
/// Maximum workers of an app.
pub(crate) const WORKERS_MAX: u16 = 8;

/// The quality of a version's code.
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
    /// Index, below [`APPS`].
    pub(crate) app: usize,
    /// Increases with each definition of a run.
    pub(crate) version: u32,
    pub(crate) quality: Quality,
    pub(crate) instances: u16,
    /// Seed for the policies; mostly the same for all versions of an app.
    pub(crate) shape: u64,
}

/// Cron patterns by which apps are renewed, and their periods, counted from the full hour.
const CRONS: [(&str, Duration); 2] =
    [("* * * * *", Duration::from_secs(60)), ("*/5 * * * *", Duration::from_secs(300))];

/// The period of an app's cron renewal: whole minutes.
pub(crate) fn period_of(spec: &AppSpec) -> Option<Duration> {
    let pattern = spec.renewal.cron.as_ref()?;
    CRONS.iter().find(|(text, _)| *text == pattern.as_str()).map(|(_, period)| *period)
}

/// The name of an app.
pub(crate) fn name(app: usize) -> AppName {
    AppName::new(NAMES[app]).expect("the names are names")
}

/// The quality of a spec created by [`Definition::spec`].
pub(crate) fn quality_of(spec: &AppSpec) -> Quality {
    match spec.launch.args.get(1).map(String::as_str) {
        Some("broken") => Quality::Broken,
        Some("flaky") => Quality::Flaky,
        _ => Quality::Good,
    }
}

/// The index of a spec's app, below [`APPS`].
fn index_of(spec: &AppSpec) -> usize {
    NAMES.iter().position(|name| *name == spec.name.as_str()).unwrap_or(0)
}

/// The id of the worker in an app's first slot.
pub(crate) fn first_worker_of(spec: &AppSpec) -> u32 {
    index_of(spec) as u32 * 1_000
}

/// The addresses on which a spec's processes listen, drawn randomly.
pub(crate) fn ports_of(spec: &AppSpec, process: u64) -> Vec<Port> {
    let number = |at: usize| spec.launch.args.get(at).and_then(|arg| arg.parse().ok()).unwrap_or(0);
    let app = index_of(spec);
    let mut dice = Dice::of(&[number(2), app as u64, 7]);
    // Occasionally a version listens on other ports.
    let mut moved = Dice::of(&[number(0), 8]);
    let mut has = |percent: u64| dice.percent(percent) != moved.percent(6);
    let ports = [
        (has(95), Port::Tcp(app, 0)),
        (has(25), Port::Tcp(app, 1)),
        (has(12), Port::Unix(app)),
        (has(4), Port::Common),
        (has(2), Port::Taken),
        (has(4), Port::Own(process)),
    ];
    ports.into_iter().filter(|(has, _)| *has).map(|(_, port)| port).collect()
}

/// The balance mode.
fn balance(dice: &mut Dice) -> Balance {
    match dice.below(20) {
        0..=6 => Balance::Auto,
        7..=11 => Balance::Exact,
        12..=15 => Balance::Direct,
        16 | 17 => Balance::Sticky,
        18 => Balance::Least,
        _ => Balance::Shared,
    }
}

impl Definition {
    /// What a start does with the app if the app exists. The version alone decides, so that a step of a script means the same when other
    /// steps are left out.
    pub(crate) fn if_running(&self) -> IfRunning {
        match Dice::of(&[u64::from(self.version), 9]).below(10) {
            0..=4 => IfRunning::Refuse,
            5..=7 => IfRunning::Restart,
            8 => IfRunning::LeaveExisting,
            _ => IfRunning::LeaveRunning,
        }
    }

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
        // Only on apps before it, so that there is no cycle.
        let needed = (0..self.app).filter(|_| dice.percent(25)).map(name).collect();
        let words = vec!["check".to_owned()];
        let health = dice.percent(25).then(|| HealthCheck {
            probe: HealthProbe::Command { words },
            interval: dice.millis(20_000, 60_000),
            timeout: Duration::from_secs(1),
            start_period: dice.millis(0, 5_000),
            failures_max: 1 + dice.below(3) as u32,
            stuck_limit: dice.percent(70).then(|| dice.millis(100, 4_000)),
        });
        let mut spec = AppSpec {
            instances: self.instances,
            mode,
            balance: balance(&mut dice),
            restart: restart_policy(&mut dice),
            readiness,
            stop,
            autostart: dice.percent(92),
            health,
            renewal: renewal(&mut dice),
            watch: dice.percent(30).then(watch),
            depends_on: needed,
            ..AppSpec::new(name(self.app))
        };
        let args = [self.version.to_string(), self.quality.to_string(), self.shape.to_string()];
        spec.launch.args = args.into();
        let cron = dice.choose(&CRONS).0;
        spec.renewal.cron = dice.percent(12).then(|| CronPattern::new(cron).expect("it is a pattern"));
        if spec.renewal.cron.is_some() && dice.percent(50) {
            spec.autostart = false;
        }
        if let Some(health) = spec.health.as_mut().filter(|_| dice.percent(50)) {
            health.probe = HealthProbe::Tcp { port: None };
        }
        spec.limits.millicores = dice.percent(15).then(|| 100 + dice.below(1_900) as u32);
        spec.launch.runtime = if dice.percent(70) { Runtime::Node } else { Runtime::Other };
        spec.warmup = dice.percent(20).then(|| Warmup {
            paths: vec!["/".to_owned()],
            requests: 1 + dice.below(4) as u32,
            timeout: dice.millis(1, 3_000),
        });
        if spec.mode == Mode::Cluster && dice.percent(20) {
            let min = 1 + dice.below(3) as u16;
            let bounds = ScaleBounds { min, max: min + dice.below(4) as u16 };
            spec.autoscale = Some(bounds);
            spec.instances = bounds.nearest(spec.instances);
        }
        spec.slow_start = if dice.percent(20) { dice.millis(0, 20_000) } else { Duration::ZERO };
        spec
    }
}

/// Limits at which workers are renewed: memory, age, number of requests.
fn renewal(dice: &mut Dice) -> Renewal {
    Renewal {
        max_memory_bytes: dice.percent(12).then(|| 60 + dice.below(1_000)),
        max_requests: dice.percent(12).then(|| 1 + dice.below(20)),
        max_age: dice.percent(8).then(|| dice.millis(20_000, 400_000)),
        cron: None,
    }
}

fn watch() -> Watch {
    Watch {
        paths: vec!["/srv".into()],
        ignore: Vec::new(),
        delay: Duration::from_secs(1),
        follow_links: false,
        polling: None,
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
