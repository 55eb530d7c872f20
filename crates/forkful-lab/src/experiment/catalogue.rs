//! The list of experiments: the original report, the app and the load of each.

use serde::Serialize;

use super::throughput::{Length, Shape};

/// What `forkful experiment list --json` prints of an experiment.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ExperimentDescription"))]
pub struct Description {
    /// 1 to 7.
    pub number: u8,
    /// The name on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub question: &'static str,
    /// How the original measurement was made.
    pub original: &'static str,
    /// The directory of the app below `examples/`.
    pub app: &'static str,
    /// How the experiment is performed.
    #[serde(skip)]
    pub(super) kind: Kind,
}

/// The kinds of experiments.
#[derive(Debug)]
pub(super) enum Kind {
    SlowFast,
    ThreadPool,
    Throughput(Shape),
    TwoTabs,
}

/// All experiments, by number.
pub static ALL: [Description; 7] = [
    Description {
        number: 1,
        name: "slow-fast",
        title: "A slow route beside a fast one",
        question: "Does a route that burns seconds of CPU hold up one that answers at once?",
        original: "Express on 12 cores; `ab -c 500 -n 5000` on /fast",
        app: "fast-slow",
        kind: Kind::SlowFast,
    },
    Description {
        number: 2,
        name: "thread-pool",
        title: "The thread pool",
        question: "Do more workers than cores help, and what is it that is busy?",
        original: "crypto.pbkdf2 with 100,000 rounds, 512 bytes, SHA-512, UV_THREADPOOL_SIZE=1, 2 cores",
        app: "thread-pool",
        kind: Kind::ThreadPool,
    },
    Description {
        number: 3,
        name: "busy-loop",
        title: "The busy loop",
        question: "What do workers on all cores do for a route that only computes, and what do more workers than cores do?",
        original: "`siege -c50 -t20s` on 4 cores, one process and 4 workers",
        app: "busy-loop",
        kind: Kind::Throughput(Shape {
            path: "/",
            connections: 50,
            kept: false,
            length: Length::Seconds { short: 5.0, full: 20.0 },
            blocks_short: 2,
            blocks_full: 5,
            arms: &["single", "cluster", "crowd"],
            reported: super::throughput::BUSY_LOOP,
        }),
    },
    Description {
        number: 4,
        name: "heavy",
        title: "/heavy over kept connections",
        question: "Is a cluster faster for everybody, or are its slowest answers slower?",
        original: "`loadtest -n 1200 -c 200 -k` on /heavy, one process, 4 workers, and PM2",
        app: "heavy",
        kind: Kind::Throughput(Shape {
            path: "/heavy",
            connections: 200,
            kept: true,
            length: Length::Requests { short: 1200, full: 1200 },
            blocks_short: 4,
            blocks_full: 10,
            arms: &["single", "cluster", "node-cluster"],
            reported: super::throughput::HEAVY,
        }),
    },
    Description {
        number: 5,
        name: "fibonacci",
        title: "The 30th Fibonacci number",
        question: "What do workers on all cores do for a hundred requests of some CPU each?",
        original: "Express; `ab -n 100 -c 10`, one process and 4 workers",
        app: "fibonacci",
        kind: Kind::Throughput(Shape {
            path: "/",
            connections: 10,
            kept: false,
            length: Length::Requests { short: 100, full: 100 },
            blocks_short: 6,
            blocks_full: 12,
            arms: &["single", "cluster"],
            reported: super::throughput::FIBONACCI,
        }),
    },
    Description {
        number: 6,
        name: "sum",
        title: "The sum up to a hundred million",
        question: "How long do a thousand long computations take?",
        original: "Express; `loadtest -n 1000 -c 100`, one process and a cluster",
        app: "sum",
        kind: Kind::Throughput(Shape {
            path: "/",
            connections: 100,
            kept: false,
            // The interval of two blocks is too wide; more blocks of half the length take no longer.
            length: Length::Requests { short: 100, full: 1000 },
            blocks_short: 4,
            blocks_full: 3,
            arms: &["single", "cluster"],
            reported: super::throughput::SUM,
        }),
    },
    Description {
        number: 7,
        name: "two-tabs",
        title: "Two browser tabs",
        question: "Two tabs ask for a route that burns 5 s of CPU: how long does the second one wait?",
        original: "a browser, one process: the second tab waited 9.5 s",
        app: "fast-slow",
        kind: Kind::TwoTabs,
    },
];

/// The experiment with this name or number.
pub fn find(name: &str) -> Option<&'static Description> {
    ALL.iter().find(|description| description.name == name || description.number.to_string() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_to_one_experiment_each() {
        for (index, description) in ALL.iter().enumerate() {
            assert_eq!(usize::from(description.number), index + 1);
            assert_eq!(find(description.name).map(|found| found.number), Some(description.number));
            assert_eq!(find(&description.number.to_string()).map(|found| found.name), Some(description.name));
        }
        assert!(find("8").is_none());
    }
}
