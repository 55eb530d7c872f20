//! The arms of an experiment: what is started, and the syntax of a list of arms.
//!
//! `single,cluster` · `workers=1,2,4` · `pool=1,4` · `balance=direct,exact,shared` · `node=PATH1,PATH2` ·
//! `node-cluster` · `pm2`; mixed as in `single,workers=2,4`. The first arm is the baseline.

pub mod naming;

use std::path::PathBuf;

use forkful_core::spec::{Balance, INSTANCES_MAX, Named as _};
use forkful_core::words;

use crate::LabError;

/// Maximum arms of an experiment. With more, the many comparisons weaken the confidence of the intervals, and
/// a minute is not enough for any arm.
pub const ARMS_MAX: usize = 12;

/// The largest thread pool that libuv supports.
pub const POOL_MAX: u32 = 1024;

/// What runs the app.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runner {
    /// `node script`, as it is.
    Plain,
    Forkful {
        workers: u16,
        /// How connections are distributed; `None`: as in the app's configuration.
        balance: Option<Balance>,
    },
    /// A script that forks workers with Node's cluster module.
    NodeCluster { workers: u16 },
    /// PM2's cluster mode, if PM2 is installed.
    Pm2 { workers: u16 },
}

impl Runner {
    /// The number of workers.
    pub fn workers(&self) -> u16 {
        match self {
            Self::Plain => 1,
            Self::Forkful { workers, .. } | Self::NodeCluster { workers } | Self::Pm2 { workers } => *workers,
        }
    }
}

/// One side of an experiment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arm {
    /// Short and unique: `single`, `workers=4`.
    pub name: String,
    /// A label for people: `one plain process`.
    pub label: String,
    pub runner: Runner,
    /// `UV_THREADPOOL_SIZE`; `None`: the environment is unchanged.
    pub pool: Option<u32>,
    /// A Node.js other than the app's.
    pub node: Option<PathBuf>,
    /// Index of the script, from 0.
    pub app: usize,
}

impl Arm {
    pub(crate) fn of(name: impl Into<String>, label: impl Into<String>, runner: Runner) -> Self {
        Self { name: name.into(), label: label.into(), runner, pool: None, node: None, app: 0 }
    }
}

/// The defaults for reading a list of arms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Defaults {
    /// Workers of `cluster` and of arms that vary another setting; by default one per usable core.
    pub workers: u16,
    /// The user set the number of workers, so arms that would be one plain process (`node=…`) become
    /// clusters.
    pub workers_given: bool,
    /// The number of apps.
    pub apps: usize,
}

/// Reads a list of arms; with several apps, each arm is created for each app.
pub fn parse(list: &str, defaults: Defaults) -> Result<Vec<Arm>, LabError> {
    let arms = read(list, defaults)?;
    if arms.len() < 2 {
        return Err(refuse(list, "a comparison needs at least two arms"));
    }
    Ok(arms)
}

/// The last arm of a list twice, for a self-test: any difference between the two comes from the machine.
pub fn self_test(list: &str, defaults: Defaults) -> Result<Vec<Arm>, LabError> {
    let arms = read(list, defaults)?;
    let arm = arms.last().expect("a list has at least one arm");
    Ok(["A", "B"].map(|letter| Arm { name: format!("{} {letter}", arm.name), ..arm.clone() }).to_vec())
}

fn read(list: &str, defaults: Defaults) -> Result<Vec<Arm>, LabError> {
    let mut arms = Vec::new();
    let mut key: Option<&str> = None;
    for part in list.split(',').map(str::trim) {
        if part.is_empty() {
            return Err(refuse(list, "there is nothing between two commas"));
        }
        let value = match part.split_once('=') {
            Some((name, value)) => {
                key = Some(name);
                value
            }
            None => part,
        };
        let named = if part.contains('=') { None } else { by_name(part, defaults) };
        let arm = match (named, key) {
            (Some(arm), _) => arm,
            (None, Some(key)) => by_key(key, value, defaults)?,
            (None, None) => return Err(refuse(part, "there is no arm of that name")),
        };
        arms.push(arm);
    }
    for_each_app(&mut arms, defaults.apps);
    check(list, &arms)?;
    Ok(arms)
}

fn refuse(text: &str, reason: impl Into<String>) -> LabError {
    LabError::Arms { text: text.to_owned(), reason: reason.into() }
}

/// `1 worker`, `2 workers`.
pub(crate) fn workers_text(workers: u16) -> String {
    forkful_core::words::count(workers.into(), "worker")
}

fn by_name(name: &str, defaults: Defaults) -> Option<Arm> {
    let workers = defaults.workers;
    let text = workers_text(workers);
    Some(match name {
        "single" => Arm::of(name, "one plain process", Runner::Plain),
        "cluster" => {
            Arm::of(name, format!("Forkful cluster, {text}"), Runner::Forkful { workers, balance: None })
        }
        "node-cluster" => {
            Arm::of(name, format!("Node's cluster module, {text}"), Runner::NodeCluster { workers })
        }
        "pm2" => Arm::of(name, format!("PM2 cluster mode, {text}"), Runner::Pm2 { workers }),
        _ => return None,
    })
}

/// An arm that varies one setting.
fn by_key(key: &str, value: &str, defaults: Defaults) -> Result<Arm, LabError> {
    let name = format!("{key}={value}");
    let cluster = Runner::Forkful { workers: defaults.workers, balance: None };
    match key {
        "workers" => {
            let workers = number(&name, value, u32::from(INSTANCES_MAX))? as u16;
            let runner = Runner::Forkful { workers, balance: None };
            Ok(Arm::of(name, format!("Forkful cluster, {}", workers_text(workers)), runner))
        }
        "pool" => {
            let pool = number(&name, value, POOL_MAX)?;
            let label = format!("{} with a thread pool of {pool}", workers_text(defaults.workers));
            Ok(Arm { pool: Some(pool), ..Arm::of(name, label, cluster) })
        }
        "balance" => {
            let Some(balance) = Balance::named(value) else {
                return Err(refuse(&name, format!("balance is {}", words::one_of(Balance::NAMES))));
            };
            let runner = Runner::Forkful { workers: defaults.workers, balance: Some(balance) };
            let label = format!("{}, balance {value}", workers_text(defaults.workers));
            Ok(Arm::of(name, label, runner))
        }
        "node" => {
            if value.is_empty() {
                return Err(refuse(&name, "a path of a Node.js program is missing"));
            }
            let runner = if defaults.workers_given { cluster } else { Runner::Plain };
            let label = format!("{} on {value}", workers_text(runner.workers()));
            Ok(Arm { node: Some(PathBuf::from(value)), ..Arm::of(name, label, runner) })
        }
        _ => Err(refuse(&name, "an arm can differ in workers, pool, balance or node")),
    }
}

fn number(name: &str, value: &str, max: u32) -> Result<u32, LabError> {
    match value.parse::<u32>() {
        Ok(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(refuse(name, format!("expected a number from 1 to {max}"))),
    }
}

/// Each arm once for each app, with the apps of an arm next to each other, because these are compared.
fn for_each_app(arms: &mut Vec<Arm>, apps: usize) {
    if apps < 2 {
        return;
    }
    *arms = arms
        .iter()
        .flat_map(|arm| {
            (0..apps).map(|app| Arm {
                name: format!("{}#{}", arm.name, app + 1),
                label: arm.label.clone(),
                app,
                ..arm.clone()
            })
        })
        .collect();
}

fn check(list: &str, arms: &[Arm]) -> Result<(), LabError> {
    if arms.len() > ARMS_MAX {
        return Err(refuse(list, format!("{} arms are more than {ARMS_MAX}", arms.len())));
    }
    match arms
        .iter()
        .enumerate()
        .find(|(index, arm)| arms[..*index].iter().any(|other| other.name == arm.name))
    {
        Some((_, twice)) => {
            Err(refuse(list, format!("`{}` is in it twice; `--aa` compares an arm with itself", twice.name)))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Defaults = Defaults { workers: 2, workers_given: false, apps: 1 };

    fn names(list: &str) -> Vec<String> {
        parse(list, TWO).unwrap().into_iter().map(|arm| arm.name).collect()
    }

    #[test]
    fn lists_mix_names_and_settings() {
        assert_eq!(names("single,cluster"), ["single", "cluster"]);
        assert_eq!(names("workers=1,2,4"), ["workers=1", "workers=2", "workers=4"]);
        assert_eq!(names("single, pool=1,4,node-cluster"), ["single", "pool=1", "pool=4", "node-cluster"]);
        assert_eq!(names("balance=direct,exact"), ["balance=direct", "balance=exact"]);
        let arms = parse("node=/a/node,/b/node", Defaults { workers_given: true, ..TWO }).unwrap();
        assert_eq!(arms[1].node.as_deref(), Some(std::path::Path::new("/b/node")));
        assert_eq!(arms[1].runner.workers(), 2);
        assert_eq!(parse("node=/a/node,/b/node", TWO).unwrap()[0].runner, Runner::Plain);
    }

    #[test]
    fn two_apps_double_the_arms() {
        let arms = parse("single", Defaults { apps: 2, ..TWO }).unwrap();
        assert_eq!(
            arms.iter().map(|arm| (arm.name.as_str(), arm.app)).collect::<Vec<_>>(),
            [("single#1", 0), ("single#2", 1)]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_what_was_expected() {
        for (list, expected) in [
            ("single", "at least two arms"),
            ("single,clutser", "no arm of that name"),
            ("workers=0,2", "a number from 1 to 1024"),
            ("workers=2,two", "a number from 1 to 1024"),
            ("single,single", "twice"),
            ("speed=1,2", "workers, pool, balance or node"),
            ("balance=direct,fair", "auto, direct, exact, least, shared or sticky"),
            ("single,,cluster", "nothing between"),
            ("", "nothing between"),
            ("workers=1,2,3,4,5,6,7,8,9,10,11,12,13", "more than 12"),
            ("node=,x", "is missing"),
        ] {
            let error = parse(list, TWO).unwrap_err().to_string();
            assert!(error.contains(expected), "{list}: {error}");
        }
    }

    #[test]
    fn an_arm_against_itself_has_two_names() {
        let twice = self_test("single,cluster", TWO).unwrap();
        assert_eq!(twice.iter().map(|arm| arm.name.as_str()).collect::<Vec<_>>(), ["cluster A", "cluster B"]);
        assert_eq!(twice[0].runner, twice[1].runner);
    }
}
