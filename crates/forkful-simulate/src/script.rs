//! The external events of a run: clients' requests and faults. The script is drawn before the run, so that a
//! failure can be replayed without some of its steps.

use std::fmt;
use std::time::Duration;

use crate::definition::{APPS, Definition, Quality, WORKERS_MAX, name};
use crate::dice::Dice;
use crate::net::{Manner, Port, Rush, Trouble};

/// An action with its delay after the previous one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// Time since the start of the run.
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// An external event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client starts new apps.
    Start { definitions: Vec<Definition>, wait: bool },
    /// A client sends a command for apps.
    Command { verb: ClientAction, target: Target, change: Option<Definition>, wait: bool },
    /// The client of a command in progress disconnects; the number selects it.
    Leave(u64),
    /// Workers are replaced because of their age or memory.
    Renew(usize, Option<u16>),
    /// A live process is killed from outside; the number selects it.
    Kill(u64),
    /// A live process hangs from now on.
    Hang(u64),
    /// An event about a process that a slot no longer has, or never had.
    Stray(u64, Stray),
    /// A slot gets a deadline event although none is due.
    EarlyDeadline(u64),
    /// The daemon crashes with all its workers, and another one begins.
    Crash,
    /// The daemon dies after this many more operations, and another one takes over.
    Die(u64),
    /// A client requests restoring the saved apps.
    Resurrect,
    /// The disk is full for this time.
    FillDisk(Duration),
    /// No process can be started for this time.
    RefuseStarts(Duration),
    /// A client applies a configuration.
    Apply { definitions: Vec<Definition>, prune: bool },
    /// An app's files change.
    Touch(usize),
    /// Clients connect.
    Rush(Rush),
    /// A fault of connections, channels or event loops.
    Trouble(Trouble),
}

/// A client's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClientAction {
    Stop,
    Delete,
    Restart,
    Reload,
    Scale(u16),
    Reset,
}

/// The target of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    All,
    App(usize),
    Slot(usize, u16),
    /// Two slots, or one.
    Slots(usize, [u16; 2]),
}

/// An event that arrives too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stray {
    Ready,
    Exited,
    Drained,
    Disconnected,
    Greeted,
    /// An unexpected answer to a health check.
    Unhealthy,
}

/// Maximum operations of the daemon before it dies: a few events and their effects.
const THINGS_MAX: u64 = 40;

const STRAYS: [Stray; 6] =
    [Stray::Ready, Stray::Exited, Stray::Drained, Stray::Disconnected, Stray::Greeted, Stray::Unhealthy];

/// The script of a seed.
pub(crate) fn script(seed: u64, actions: usize) -> Vec<Step> {
    let mut writer = Writer { dice: Dice::of(&[seed, 1]), last: [None; APPS], versions: 0, seed };
    let mut at = Duration::ZERO;
    (0..actions)
        .map(|number| {
            at += writer.pause();
            let action = if number == 0 { writer.first() } else { writer.action() };
            Step { at, action }
        })
        .collect()
}

struct Writer {
    dice: Dice,
    /// The last definition of each app.
    last: [Option<Definition>; APPS],
    versions: u32,
    seed: u64,
}

impl Writer {
    fn pause(&mut self) -> Duration {
        match self.dice.below(20) {
            0..=3 => Duration::ZERO,
            4..=11 => self.dice.millis(0, 200),
            12..=17 => self.dice.millis(200, 3_000),
            18 => self.dice.millis(3_000, 12_000),
            _ => self.dice.millis(12_000, 60_000),
        }
    }

    fn definition(&mut self, app: usize) -> Definition {
        self.versions += 1;
        let quality = match self.dice.below(10) {
            0..=5 => Quality::Good,
            6..=7 => Quality::Flaky,
            _ => Quality::Broken,
        };
        let instances = 1 + self.dice.below(u64::from(WORKERS_MAX)) as u16;
        // Occasionally another shape: an app changes its mode or its timeouts.
        let shape = if self.dice.percent(85) { self.seed } else { self.dice.bits() };
        let definition = Definition { app, version: self.versions, quality, instances, shape };
        self.last[app] = Some(definition);
        definition
    }

    /// A file that is applied again has changed in part, or only in the number of workers.
    fn definition_or_last(&mut self, app: usize) -> Definition {
        match self.last[app] {
            Some(last) if self.dice.percent(30) => last,
            Some(last) if self.dice.percent(20) => {
                let instances = 1 + self.dice.below(u64::from(WORKERS_MAX)) as u16;
                Definition { instances, ..last }
            }
            Some(_) | None => self.definition(app),
        }
    }

    fn app(&mut self) -> usize {
        self.dice.below(APPS as u64) as usize
    }

    fn first(&mut self) -> Action {
        let apps = 1 + self.dice.below(APPS as u64) as usize;
        let definitions = (0..apps).map(|app| self.definition(app)).collect();
        Action::Start { definitions, wait: true }
    }

    fn action(&mut self) -> Action {
        match self.dice.below(100) {
            0..=21 => return Action::Rush(self.rush()),
            22..=29 => return Action::Trouble(self.trouble()),
            30..=33 => {
                let apps = if self.dice.percent(70) { 0..APPS } else { 0..1 + self.app() };
                let definitions = apps.map(|app| self.definition_or_last(app)).collect();
                return Action::Apply { definitions, prune: self.dice.percent(25) };
            }
            34 | 35 => return Action::Touch(self.app()),
            36 => return Action::Resurrect,
            _ => {}
        }
        match self.dice.below(100) {
            0..=9 => {
                let (first, several) = (self.app(), self.dice.percent(30));
                let apps = if several { 0..APPS } else { first..first + 1 };
                let definitions = apps.map(|app| self.definition(app)).collect();
                Action::Start { definitions, wait: self.dice.percent(80) }
            }
            10..=59 => self.command(),
            60..=64 => Action::Leave(self.dice.bits()),
            65..=69 => {
                let slot = self.slot();
                Action::Renew(self.app(), self.dice.percent(70).then_some(slot))
            }
            70..=79 => Action::Kill(self.dice.bits()),
            80..=83 => Action::Hang(self.dice.bits()),
            84..=89 => Action::Stray(self.dice.bits(), self.dice.choose(&STRAYS)),
            90..=92 => Action::EarlyDeadline(self.dice.bits()),
            93 | 94 => Action::FillDisk(self.dice.millis(10, 5_000)),
            95 => Action::Crash,
            96 | 97 => Action::Die(self.dice.below(THINGS_MAX)),
            _ => Action::RefuseStarts(self.dice.millis(10, 5_000)),
        }
    }

    fn rush(&mut self) -> Rush {
        let app = self.app();
        let port = match self.dice.below(10) {
            0 => Port::Tcp(app, 1),
            1 => Port::Unix(app),
            2 if self.dice.percent(20) => Port::Common,
            _ => Port::Tcp(app, 0),
        };
        let clients = match self.dice.below(200) {
            0 => 300,
            1..=20 => 8 + self.dice.below(20) as u32,
            _ => 1 + self.dice.below(6) as u32,
        };
        let within = if self.dice.percent(70) { self.dice.millis(0, 5) } else { self.dice.millis(5, 2_000) };
        let stays = match self.dice.below(10) {
            0..=5 => self.dice.millis(0, 50),
            6..=8 => self.dice.millis(50, 5_000),
            _ => self.dice.millis(5_000, 60_000),
        };
        let patience =
            if self.dice.percent(85) { self.dice.millis(500, 30_000) } else { self.dice.millis(0, 20) };
        Rush { port, clients, within, stays, patience }
    }

    fn trouble(&mut self) -> Trouble {
        let number = self.dice.bits();
        match self.dice.below(20) {
            0..=4 => Trouble::Block(number, self.dice.millis(1, 2_000)),
            5 | 6 => Trouble::Manner(number, Manner::Refuses, self.dice.millis(1, 5_000)),
            7 | 8 => Trouble::Manner(number, Manner::LosesHandles, self.dice.millis(1, 5_000)),
            9..=11 => Trouble::Chatter(number, 1 + self.dice.below(12) as u32),
            12 | 13 => Trouble::Flood(number, 1 + self.dice.below(40) as u32),
            14 => Trouble::Nonsense(number),
            15 => Trouble::NoDescriptors(self.dice.millis(1, 3_000)),
            16 => Trouble::HandlesFull(self.dice.millis(1, 3_000)),
            17 => Trouble::KernelRefuses(self.dice.millis(1, 3_000)),
            18 => Trouble::Tears(self.dice.millis(1, 10_000)),
            _ => Trouble::ClosesLost(self.dice.millis(1, 30_000)),
        }
    }

    fn slot(&mut self) -> u16 {
        self.dice.below(u64::from(WORKERS_MAX)) as u16
    }

    fn command(&mut self) -> Action {
        let app = self.app();
        let target = match self.dice.below(20) {
            0 | 1 => Target::All,
            2..=4 => Target::Slot(app, self.slot()),
            5 | 6 => Target::Slots(app, [self.slot(), self.slot()]),
            _ => Target::App(app),
        };
        let verb = match self.dice.below(20) {
            0..=2 => ClientAction::Stop,
            3 => ClientAction::Delete,
            4..=7 => ClientAction::Restart,
            8..=15 => ClientAction::Reload,
            16..=18 => ClientAction::Scale(1 + self.dice.below(u64::from(WORKERS_MAX)) as u16),
            _ => ClientAction::Reset,
        };
        let may_change =
            matches!((verb, target), (ClientAction::Restart | ClientAction::Reload, Target::App(_)));
        let change = (may_change && self.dice.percent(60)).then(|| self.definition_or_last(app));
        Action::Command { verb, target, change, wait: self.dice.percent(85) }
    }
}

impl fmt::Display for ClientAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stop => f.write_str("stop"),
            Self::Delete => f.write_str("delete"),
            Self::Restart => f.write_str("restart"),
            Self::Reload => f.write_str("reload"),
            Self::Scale(to) => write!(f, "scale to {to}"),
            Self::Reset => f.write_str("reset"),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::App(app) => write!(f, "{}", name(*app)),
            Self::Slot(app, slot) => write!(f, "worker {slot} of {}", name(*app)),
            Self::Slots(app, [one, other]) => write!(f, "workers {one} and {other} of {}", name(*app)),
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let waits = |wait: &bool| if *wait { "" } else { ", does not wait" };
        match self {
            Self::Start { definitions, wait } => {
                let apps: Vec<String> = definitions.iter().map(ToString::to_string).collect();
                write!(f, "client: start {}{}", apps.join(", "), waits(wait))
            }
            Self::Command { verb, target, change, wait } => {
                write!(f, "client: {verb}, {target}")?;
                if let Some(change) = change {
                    write!(f, ", to {change}")?;
                }
                f.write_str(waits(wait))
            }
            Self::Leave(_) => f.write_str("a client that waits goes"),
            Self::Renew(app, None) => write!(f, "all workers of {} are renewed", name(*app)),
            Self::Renew(app, Some(slot)) => write!(f, "worker {slot} of {} is renewed", name(*app)),
            Self::Kill(_) => f.write_str("a process is killed from outside"),
            Self::Hang(_) => f.write_str("a process hangs"),
            Self::Stray(_, stray) => write!(f, "a late event: {stray:?}"),
            Self::EarlyDeadline(_) => f.write_str("an early deadline"),
            Self::Crash => f.write_str("the daemon crashes, and its workers with it"),
            Self::Die(things) => write!(f, "the daemon dies after {things} things"),
            Self::Resurrect => f.write_str("client: resurrect"),
            Self::FillDisk(span) => write!(f, "the disk is full for {} s", span.as_secs_f64()),
            Self::Apply { definitions, prune } => {
                let apps: Vec<String> = definitions.iter().map(ToString::to_string).collect();
                let rest = if *prune { ", and nothing else" } else { "" };
                write!(f, "client: apply {}{rest}", apps.join(", "))
            }
            Self::Touch(app) => write!(f, "files of {} change", name(*app)),
            Self::Rush(rush) => write!(f, "{} clients connect to {:?}", rush.clients, rush.port),
            Self::Trouble(trouble) => write!(f, "{trouble}"),
            Self::RefuseStarts(span) => write!(f, "starts are refused for {} s", span.as_secs_f64()),
        }
    }
}
