//! What happens to the daemon from outside: what clients ask, and what goes wrong. It is drawn before the run, so that a
//! failure can be replayed with parts of it left out.

use std::fmt;
use std::time::Duration;

use crate::definition::{APPS, Definition, Quality, WORKERS_MAX, name};
use crate::dice::Dice;

/// An action, and how long after the one before it comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    /// From the beginning of the run.
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// What happens from outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Action {
    /// A client starts apps that are new.
    Start { definitions: Vec<Definition>, wait: bool },
    /// A client gives apps a command.
    Command { verb: Verb, target: Target, change: Option<Definition>, wait: bool },
    /// The client of a command under way goes; which one, of those that wait.
    Leave(u64),
    /// Workers are replaced because they are too old or too large.
    Renew(usize, Option<u16>),
    /// A living process is killed by somebody else; which one.
    Kill(u64),
    /// A living process does nothing any more.
    Hang(u64),
    /// An event about a process that a slot has had, or never had.
    Stray(u64, Stray),
    /// A slot is told that time has passed though none of its deadlines has come.
    EarlyDeadline(u64),
    /// The daemon crashes with all its workers, and another one begins.
    Crash,
    /// The daemon dies after this many things that it does, and another one goes on.
    Die(u64),
    /// Nothing can be written for so long.
    FillDisk(Duration),
    /// No process can be started for so long.
    RefuseStarts(Duration),
}

/// A client's command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verb {
    Stop,
    Delete,
    Restart,
    Reload,
    Scale(u16),
    Reset,
}

/// What a command is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    All,
    App(usize),
    Slot(usize, u16),
}

/// An event that comes too late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stray {
    Ready,
    Exited,
    Drained,
    Disconnected,
    Greeted,
}

/// What a daemon does before it dies, at most: some events and their effects.
const THINGS_MAX: u64 = 40;

const STRAYS: [Stray; 5] = [Stray::Ready, Stray::Exited, Stray::Drained, Stray::Disconnected, Stray::Greeted];

/// The script of a seed.
pub(crate) fn script(seed: u64, actions: usize) -> Vec<Step> {
    let mut writer = Writer { dice: Dice::of(&[seed, 1]), versions: 0, seed };
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
        // Another shape now and then: an app changes its mode or its patience.
        let shape = if self.dice.percent(85) { self.seed } else { self.dice.bits() };
        Definition { app, version: self.versions, quality, instances, shape }
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
            0..=9 => {
                let (first, several) = (self.app(), self.dice.percent(30));
                let apps = if several { 0..APPS } else { first..first + 1 };
                let definitions = apps.map(|app| self.definition(app)).collect();
                Action::Start { definitions, wait: self.dice.percent(80) }
            }
            10..=59 => self.command(),
            60..=64 => Action::Leave(self.dice.bits()),
            65..=69 => {
                let slot = self.dice.below(u64::from(WORKERS_MAX)) as u16;
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

    fn command(&mut self) -> Action {
        let app = self.app();
        let target = match self.dice.below(20) {
            0 | 1 => Target::All,
            2..=5 => Target::Slot(app, self.dice.below(u64::from(WORKERS_MAX)) as u16),
            _ => Target::App(app),
        };
        let verb = match self.dice.below(20) {
            0..=2 => Verb::Stop,
            3 => Verb::Delete,
            4..=7 => Verb::Restart,
            8..=15 => Verb::Reload,
            16..=18 => Verb::Scale(1 + self.dice.below(u64::from(WORKERS_MAX)) as u16),
            _ => Verb::Reset,
        };
        let may_change = matches!((verb, target), (Verb::Restart | Verb::Reload, Target::App(_)));
        let change = (may_change && self.dice.percent(60)).then(|| self.definition(app));
        Action::Command { verb, target, change, wait: self.dice.percent(85) }
    }
}

impl fmt::Display for Verb {
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
            Self::FillDisk(span) => write!(f, "the disk is full for {} s", span.as_secs_f64()),
            Self::RefuseStarts(span) => write!(f, "starts are refused for {} s", span.as_secs_f64()),
        }
    }
}
