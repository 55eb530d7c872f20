//! Other tools' command lines and reports over Forkful's load engine: `ab`, `siege`, `loadtest`, `autocannon` and `wrk`
//! by their own flags and with their own reports, field by field. Where our number is right and theirs would not be, a
//! footnote says so.
//!
//! Each tool has an implementation of [`Dialect`] and a row in [`TOOLS`]. Command lines and layouts are pure but for the
//! date in a report: files and environment come through [`Surroundings`], and what is to be printed or written goes
//! back as [`Printed`].

mod ab;
mod argv;
mod autocannon;
mod figures;
mod loadtest;
mod siege;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod wrk;

use std::fmt::Debug;
use std::io;
use std::path::{Path, PathBuf};

use forkful_load::{LoadError, Plan, Progress, Report};

/// A tool whose flags and report are known.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    /// The letters of its options whose values are credentials, headers or cookies.
    pub secret_letters: &'static [char],
    /// Reads a command line. `Err` is what the tool would have printed in place of a run: its usage, its version, its
    /// complaint.
    pub parse: fn(&[String], &Surroundings) -> Result<Box<dyn Dialect>, Printed>,
}

pub static TOOLS: [Tool; 5] = [ab::TOOL, siege::TOOL, loadtest::TOOL, autocannon::TOOL, wrk::TOOL];

/// A command line of a tool, understood.
pub trait Dialect: Debug {
    /// The load that it asks for.
    fn plan(&self) -> Result<Plan, LoadError>;

    /// What the tool prints before the first request.
    fn opening(&self) -> Printed {
        Printed::default()
    }

    /// Whether the tool prints that only when it has found a server.
    fn opens_when_connected(&self) -> bool {
        false
    }

    /// What the tool prints at this moment of the measurement.
    fn tick(&mut self, _progress: &Progress) -> Printed {
        Printed::default()
    }

    /// The last lines of progress, for the requests that were completed since the last tick.
    fn finish(&mut self, _completed: u64) -> Printed {
        Printed::default()
    }

    fn report(&self, report: &Report) -> Printed;

    /// What the tool prints when no connection can be made, if it has words for that.
    fn unreachable(&self, error: &LoadError) -> Option<Printed>;

    /// Where the tool would have reported something else, or measured worse.
    fn footnotes(&self, report: &Report) -> Vec<String>;

    /// A log file that grows with each run.
    fn log(&self) -> Option<&Path> {
        None
    }

    /// What this run adds to the log file; `fresh` where the file is new.
    fn log_lines(&self, _report: &Report, _fresh: bool) -> String {
        String::new()
    }
}

/// What a command line may look at beside itself.
pub struct Surroundings<'a> {
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Reads a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Cores of this machine.
    pub cores: usize,
}

impl Debug for Surroundings<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Surroundings").field("cores", &self.cores).finish_non_exhaustive()
    }
}

/// What is to be printed and written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    pub stdout: String,
    pub stderr: String,
    /// Files to write, whole.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Where there is no run: how the tool exits.
    pub exit: u8,
}

impl Printed {
    fn stdout(text: impl Into<String>, exit: u8) -> Self {
        Self { stdout: text.into(), exit, ..Self::default() }
    }

    fn stderr(text: impl Into<String>, exit: u8) -> Self {
        Self { stderr: text.into(), exit, ..Self::default() }
    }

    fn error(text: &str, exit: u8) -> Self {
        Self::stderr(format!("{text}\n"), exit)
    }

    fn unsupported(tool: &str, option: &str, exit: u8) -> Self {
        Self::error(&format!("{tool}: {option} is not supported by `forkful bench --as {tool}`"), exit)
    }

    /// A complaint, or none where it is empty, on stderr, and the usage on stdout.
    fn usage(what: &str, usage: &str) -> Self {
        let stderr = if what.is_empty() { String::new() } else { format!("{what}\n") };
        Self { stdout: usage.to_owned(), stderr, exit: 1, ..Self::default() }
    }

    /// A complaint, or none where it is empty, and the usage, both on stderr.
    fn usage_on_stderr(what: &str, usage: &str, exit: u8) -> Self {
        let Self { stdout, stderr, .. } = Self::usage(what, usage);
        Self::stderr(stderr + &stdout, exit)
    }
}

/// A header, split at the first of the separators; `None` without a name before it.
fn header(text: &str, separators: &[char]) -> Option<(String, String)> {
    let at = text.find(separators)?;
    let (name, value) = (text[..at].trim(), text[at + 1..].trim());
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

/// A body with something replaced, where it is text.
fn body_with(body: &[u8], replaced: impl Fn(&str) -> String) -> Vec<u8> {
    std::str::from_utf8(body).map_or_else(|_| body.to_vec(), |text| replaced(text).into_bytes())
}

/// Adds a header that is not given yet.
fn default_header(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    if !value.is_empty() && !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
        headers.push((name.to_owned(), value.to_owned()));
    }
}
