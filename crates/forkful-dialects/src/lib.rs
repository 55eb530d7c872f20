//! Command lines and reports of other tools over Forkful's load engine: `ab`, `siege`, `loadtest`,
//! `autocannon` and `wrk` with their own options and their own reports, field by field. If our number is
//! right and theirs would be wrong, a footnote says so.
//!
//! Each tool has an implementation of [`Dialect`] and a row in [`TOOLS`]. Parsing and printing are pure,
//! except for the date in a report: files and environment are passed in as [`Surroundings`], and output is
//! returned as [`Printed`].

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

/// A supported tool.
#[derive(Debug, Clone, Copy)]
pub struct Tool {
    pub name: &'static str,
    options: argv::Options,
    /// Its options whose values are credentials, headers or cookies, by their keys.
    secrets: &'static [&'static str],
    /// Parses a command line. `Err` is what the tool prints instead of a run: usage, version or error
    /// message.
    pub parse: fn(&[String], &Surroundings) -> Result<Box<dyn Dialect>, Printed>,
}

impl Tool {
    /// Where a secret begins if a word of its command line gives one, such as `-H` or `--header=Cookie:a`: at the end of the word, it is
    /// the next word.
    pub fn secret_at(&self, word: &str) -> Option<usize> {
        let is_secret = |name: &str| self.secrets.contains(&name);
        if let Some(long) = word.strip_prefix("--") {
            let given = long.split('=').next()?;
            // autocannon also takes letters with two dashes.
            let (name, _) = self.options.find_long(given).or_else(|| self.options.find(given))?;
            return is_secret(name).then(|| word.find('=').map_or(word.len(), |at| at + 1));
        }
        let letters = word.strip_prefix('-')?.char_indices();
        for (at, letter) in letters {
            if let Some((name, takes)) = self.options.find(letter.encode_utf8(&mut [0; 4]))
                && takes != argv::Takes::Nothing
            {
                return is_secret(name).then_some("-".len() + at + letter.len_utf8());
            }
        }
        None
    }
}

pub static TOOLS: [Tool; 5] = [ab::TOOL, siege::TOOL, loadtest::TOOL, autocannon::TOOL, wrk::TOOL];

/// A parsed command line of a tool.
pub trait Dialect: Debug {
    /// The load that it describes.
    fn plan(&self) -> Result<Plan, LoadError>;

    /// The tool's output before the first request.
    fn opening(&self) -> Printed {
        Printed::default()
    }

    /// Whether the tool prints that only after it has connected.
    fn opens_when_connected(&self) -> bool {
        false
    }

    /// The tool's output at this point of the measurement.
    fn tick(&mut self, _progress: &Progress) -> Printed {
        Printed::default()
    }

    /// The last progress lines, for the requests completed since the last tick.
    fn finish(&mut self, _completed: u64) -> Printed {
        Printed::default()
    }

    fn report(&self, report: &Report) -> Printed;

    /// The tool's output if no connection is possible, if it has any.
    fn unreachable(&self, error: &LoadError) -> Option<Printed>;

    /// Notes about where the tool would have reported something else, or measured worse.
    fn footnotes(&self, report: &Report) -> Vec<String>;

    /// A log file that is extended by each run.
    fn log(&self) -> Option<&Path> {
        None
    }

    /// This run's lines for the log file; `fresh`: the file is new.
    fn log_lines(&self, _report: &Report, _fresh: bool) -> String {
        String::new()
    }
}

/// The inputs of a command line beside its arguments.
pub struct Surroundings<'a> {
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Reads an environment variable.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Number of cores of this machine.
    pub cores: usize,
}

impl Debug for Surroundings<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Surroundings").field("cores", &self.cores).finish_non_exhaustive()
    }
}

/// Output to print and files to write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    pub stdout: String,
    pub stderr: String,
    /// Files to write, with their contents.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// The exit code if there is no run.
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

    /// An error message (if not empty) on stderr, and the usage on stdout.
    fn usage(what: &str, usage: &str) -> Self {
        let stderr = if what.is_empty() { String::new() } else { format!("{what}\n") };
        Self { stdout: usage.to_owned(), stderr, exit: 1, ..Self::default() }
    }

    /// An error message (if not empty) and the usage, both on stderr.
    fn usage_on_stderr(what: &str, usage: &str, exit: u8) -> Self {
        let Self { stdout, stderr, .. } = Self::usage(what, usage);
        Self::stderr(stderr + &stdout, exit)
    }
}

/// A header, split at the first separator; `None` if there is no name before it.
fn header(text: &str, separators: &[char]) -> Option<(String, String)> {
    let at = text.find(separators)?;
    let (name, value) = (text[..at].trim(), text[at + 1..].trim());
    (!name.is_empty()).then(|| (name.to_owned(), value.to_owned()))
}

/// A body with a replacement applied, if it is text.
fn body_with(body: &[u8], replaced: impl Fn(&str) -> String) -> Vec<u8> {
    std::str::from_utf8(body).map_or_else(|_| body.to_vec(), |text| replaced(text).into_bytes())
}

/// Adds a header if it is missing.
fn default_header(headers: &mut Vec<(String, String)>, name: &str, value: &str) {
    if !value.is_empty() && !headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
        headers.push((name.to_owned(), value.to_owned()));
    }
}
