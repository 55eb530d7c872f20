//! The plan of a simulated process's life.

use std::time::Duration;

use forkful_core::slot::{Exit, ReadySign};

use crate::definition::Quality;
use crate::dice::Dice;
use crate::net::Port;

/// The life of a process, from the order to start it.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// How long the order is queued.
    pub(crate) queued: Duration,
    pub(crate) start: StartPlan,
    /// Time from its start to its hello.
    pub(crate) hello: Option<Duration>,
    pub(crate) ready: Option<(Duration, ReadySign)>,
    pub(crate) dies: Option<(Duration, Exit)>,
    /// When it closes its channel by itself.
    pub(crate) disconnects: Option<Duration>,
    /// Time from the stop signal to its exit; `None`: it ignores the signal.
    pub(crate) obeys: Option<Duration>,
    pub(crate) drains: Drains,
    /// The addresses of a cluster worker, and how long after the first it requests each.
    pub(crate) listens: Vec<(Duration, Port)>,
    /// A server that it closes, how long after its start, and for how long.
    pub(crate) closes: Option<(Duration, Port, Duration)>,
    /// Bytes of memory: initial, and growth per second.
    pub(crate) memory: (u64, u64),
    /// It exits if it cannot listen.
    pub(crate) dies_when_refused: bool,
    /// On the stop signal it closes its servers, and exits when nothing is left.
    pub(crate) closes_when_stopped: bool,
    /// Its app handles the stop signal, and its agent reports that with the end of a drain.
    pub(crate) handles_stop: bool,
    /// How long it takes until the daemon reads its messages.
    pub(crate) latency: Duration,
    /// How long it takes until the daemon learns of its end.
    pub(crate) mourning: Duration,
}

/// The result of starting a process.
#[derive(Debug, Clone, Copy)]
pub(crate) enum StartPlan {
    Runs(Duration),
    Refused(Duration),
    /// It waits for a file system that does not respond.
    Hangs,
}

/// What a process does when it is disconnected.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Drains {
    Exits(Duration),
    Reports(Duration),
    Never,
}

const MS: Duration = Duration::from_millis(1);

impl Plan {
    /// A process without faults.
    pub(crate) fn good(ports: &[Port], dice: &mut Dice) -> Self {
        Self {
            queued: dice.millis(0, 2),
            start: StartPlan::Runs(dice.millis(1, 3)),
            hello: Some(30 * MS),
            // Before its shortest timeout.
            ready: Some((dice.millis(40, 180), ReadySign::Message)),
            dies: None,
            disconnects: None,
            obeys: Some(dice.millis(0, 20)),
            drains: Drains::Exits(dice.millis(0, 300)),
            listens: ports.iter().map(|port| (Duration::ZERO, *port)).collect(),
            closes: None,
            memory: (50, dice.below(8)),
            dies_when_refused: false,
            closes_when_stopped: false,
            handles_stop: dice.percent(30),
            latency: Duration::ZERO,
            mourning: MS,
        }
    }

    /// The plan for a process of a version with this quality.
    pub(crate) fn of(quality: Quality, ports: &[Port], dice: &mut Dice) -> Self {
        match quality {
            Quality::Good if dice.percent(85) => Self::good(ports, dice),
            Quality::Broken => Self { ready: None, ..Self::any(ports, dice, 70) },
            Quality::Good | Quality::Flaky => Self::any(ports, dice, 35),
        }
    }

    fn any(ports: &[Port], dice: &mut Dice, dies_percent: u64) -> Self {
        let start = match dice.below(40) {
            0 => StartPlan::Hangs,
            1 | 2 => StartPlan::Refused(dice.millis(0, 20)),
            3 => StartPlan::Runs(dice.millis(100, 9_000)),
            _ => StartPlan::Runs(dice.millis(0, 5)),
        };
        let life = match dice.below(3) {
            0 => dice.millis(0, 50),
            1 => dice.millis(50, 6_000),
            _ => dice.millis(6_000, 60_000),
        };
        let exit = dice.choose(&[0, 0, 1, 3, 137, -6, -9, -11, -15]);
        let exit = if exit < 0 { Exit::Signal(-exit) } else { Exit::Code(exit) };
        let late = |port: &Port| {
            let after = if dice.percent(60) { Duration::ZERO } else { dice.millis(1, 3_000) };
            (after, *port)
        };
        let listens: Vec<(Duration, Port)> = ports.iter().map(late).collect();
        let closes = ports.first().filter(|_| dice.percent(15));
        let closes = closes.map(|port| (dice.millis(0, 20_000), *port, dice.millis(0, 40_000)));
        let sign = if dice.percent(50) { ReadySign::Listening } else { ReadySign::Message };
        Self {
            queued: if dice.percent(80) { dice.millis(0, 3) } else { dice.millis(0, 100) },
            start,
            hello: dice.percent(80).then(|| dice.millis(0, 15_000)),
            ready: dice.percent(80).then(|| (dice.millis(0, 6_000), sign)),
            dies: dice.percent(dies_percent).then_some((life, exit)),
            disconnects: dice.percent(15).then(|| dice.millis(0, 20_000)),
            obeys: dice.percent(75).then(|| dice.millis(0, 4_000)),
            drains: match dice.below(4) {
                0 => Drains::Never,
                1 => Drains::Reports(dice.millis(0, 8_000)),
                _ => Drains::Exits(dice.millis(0, 8_000)),
            },
            listens,
            closes,
            memory: (50, dice.below(200)),
            dies_when_refused: dice.percent(50),
            closes_when_stopped: dice.percent(25),
            handles_stop: dice.percent(40),
            latency: if dice.percent(70) { Duration::ZERO } else { dice.millis(0, 200) },
            mourning: if dice.percent(80) { dice.millis(0, 10) } else { dice.millis(0, 2_000) },
        }
    }
}
