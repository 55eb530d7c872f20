//! Apps and packages that expect a primary written in JavaScript. With Forkful the daemon is the primary, so the part of
//! an app that is meant for the primary does not run. The daemon does some of its work (it forwards lines of log4js);
//! for the rest it tells the user what does not work, and what to change.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

/// Something that does not work without a primary written in JavaScript.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Lack {
    /// The main script calls `cluster.fork`.
    OwnPrimary,
    /// prom-client's `AggregatorRegistry.clusterMetrics()` was called in a worker.
    ClusterMetrics,
    /// log4js sends its lines to a primary.
    Log4js,
    /// No worker writes the log files of log4js. With `pm2: true`, log4js writes in the worker whose instance variable
    /// is 0, and the first worker does not have that variable.
    Log4jsVariable,
    /// Log lines could not be sent to the first worker, which writes the log files of log4js (`pm2: true`).
    Log4jsWriter,
    /// A scrape of the app's own metrics got those of one worker alone (`metrics: "merge"`).
    Unmerged,
}

impl fmt::Display for Lack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OwnPrimary => {
                "the script calls `cluster.fork`: in cluster mode Forkful is the primary, and every worker runs the worker \
                 part of the script; if the primary part does more than start workers, start the app without `-i` \
                 (`exec_mode: \"fork\"`)"
            }
            Self::ClusterMetrics => {
                "prom-client's `clusterMetrics()` gives an empty text: a worker cannot collect the metrics of others; \
                 `forkful metrics` has the merged metrics, or serve `register.metrics()` on a port per worker \
                 (9100 + NODE_APP_INSTANCE)"
            }
            Self::Log4js => {
                "log lines are lost: log4js sends them to a primary in JavaScript, which does not exist here; set \
                 `disableClustering: true` (each worker writes) or `pm2: true` (the first worker writes) in \
                 `log4js.configure`"
            }
            Self::Log4jsVariable => {
                "log lines are lost: log4js (`pm2: true`) finds no worker that writes; set `pm2InstanceVar` in \
                 `log4js.configure` to the name of the instance variable (NODE_APP_INSTANCE by default), or \
                 `disableClustering: true`"
            }
            Self::Log4jsWriter => {
                "log lines were lost: log4js (`pm2: true`) has the first worker write, which did not run or did not read \
                 its messages; with `disableClustering: true` each worker writes"
            }
            Self::Unmerged => {
                "a scrape of the app's own metrics got those of one worker alone (`metrics: \"merge\"`): the daemon did not \
                 answer the worker within 5 s, or all metrics together are longer than 500 KB; `forkful metrics` has the merged \
                 metrics without these limits"
            }
        })
    }
}

/// A log line that log4js sends to the primary instead of writing it to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Log4jsLine {
    /// Whether the line names its worker. A line for the primary does; with `pm2: true`, the line is for the worker that
    /// writes and names none.
    pub names_worker: bool,
    /// The slot of the worker that sent the line.
    pub slot: u16,
}

/// What the daemon does with a line of log4js.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Log4jsStep {
    /// Send the line to the worker of slot 0, which writes for all. If that is impossible, report
    /// [`Lack::Log4jsWriter`].
    SendToFirst,
    /// Drop the line, which no worker would write, and report why.
    Tell(Lack),
}

impl Log4jsLine {
    /// Decides on the line; `first` is what the worker of slot 0 is known to lack.
    pub fn step(self, first: &BTreeSet<Lack>) -> Log4jsStep {
        // The worker that writes sends no lines. A first worker that sends lines does not write, and does not listen for
        // lines either: Node.js would keep them in that worker's memory.
        let first_sends = self.slot == 0 || first.contains(&Lack::Log4jsVariable);
        match (self.names_worker, first_sends) {
            (true, _) => Log4jsStep::Tell(Lack::Log4js),
            (false, true) => Log4jsStep::Tell(Lack::Log4jsVariable),
            (false, false) => Log4jsStep::SendToFirst,
        }
    }
}

/// The longest script that is looked into. A bundle is longer, and says nothing about its author's code.
pub const SCRIPT_BYTES_MAX: u64 = 256 * 1024;

/// Whether a script starts cluster workers: it has `cluster.fork(` outside a line of comment, also in the spelling of
/// compilers (`cluster_1.default.fork(`, `node_cluster_1.fork(`). A search in the text, for a hint and no more.
pub fn calls_cluster_fork(script: &[u8]) -> bool {
    script.split(|byte| *byte == b'\n').any(|line| {
        let line = line.trim_ascii_start();
        !line.starts_with(b"//") && !line.starts_with(b"*") && has_fork_call(line)
    })
}

fn has_fork_call(line: &[u8]) -> bool {
    const CALL: &[u8] = b".fork(";
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    line.windows(CALL.len()).enumerate().filter(|(_, window)| *window == CALL).any(|(at, _)| {
        let object = &line[..at];
        let object = object.strip_suffix(b".default").unwrap_or(object);
        let begin = object.iter().rposition(|byte| !is_word(byte)).map_or(0, |before| before + 1);
        let name = object[begin..].to_ascii_lowercase();
        // `child_process.fork` and an app's own objects are something else.
        name.starts_with(b"cluster")
            || name.starts_with(b"node_cluster")
            || name.starts_with(b"import_cluster")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_log4js_go_to_the_first_worker_or_are_told_to_be_lost() {
        let fine = BTreeSet::from([Lack::OwnPrimary, Lack::Log4jsWriter]);
        let wrong = BTreeSet::from([Lack::Log4jsVariable]);
        let table = [
            (true, 0, &fine, Log4jsStep::Tell(Lack::Log4js)),
            (true, 3, &wrong, Log4jsStep::Tell(Lack::Log4js)),
            (false, 0, &fine, Log4jsStep::Tell(Lack::Log4jsVariable)),
            (false, 1, &wrong, Log4jsStep::Tell(Lack::Log4jsVariable)),
            (false, 1, &fine, Log4jsStep::SendToFirst),
            (false, u16::MAX, &fine, Log4jsStep::SendToFirst),
        ];
        for (names_worker, slot, first, step) in table {
            assert_eq!(Log4jsLine { names_worker, slot }.step(first), step, "{names_worker} {slot}");
        }
    }

    #[test]
    fn scripts_that_start_cluster_workers_are_found() {
        let own = [
            "cluster.fork()",
            "if (cluster.isPrimary) for (const _ of cpus) cluster.fork({ A: 1 });",
            "a;\n  cluster_1.default.fork();\n",
            "node_cluster_1.fork();",
            "import_cluster.default.fork()",
            "Cluster.fork()",
            "\u{fe}cluster.fork()",
        ];
        for script in own {
            assert!(calls_cluster_fork(script.as_bytes()), "{script}");
        }
        let other = [
            "",
            "// cluster.fork()",
            " * cluster.fork()",
            "child_process.fork('x.js')",
            "mycluster.fork()",
            "cluster.forked()",
            ".fork(",
            "fork('cluster')",
        ];
        for script in other {
            assert!(!calls_cluster_fork(script.as_bytes()), "{script}");
        }
    }

    #[test]
    fn what_is_told_says_what_to_do() {
        let all = [
            (Lack::OwnPrimary, "without `-i`"),
            (Lack::ClusterMetrics, "register.metrics()"),
            (Lack::Log4js, "pm2: true"),
            (Lack::Log4jsVariable, "pm2InstanceVar"),
            (Lack::Log4jsWriter, "disableClustering: true"),
            (Lack::Unmerged, "forkful metrics"),
        ];
        for (lack, step) in all {
            let text = lack.to_string();
            assert!(text.contains(step) && !text.ends_with('.') && !text.contains("  "), "{text}");
        }
    }
}
