//! The habits of other tools: `ab`, `siege`, `loadtest`, `autocannon` and `wrk` by their own flags and with
//! their own reports, field by field, from a measurement by this engine. Where our number is right and theirs
//! would not be, a footnote says so.
//!
//! Command lines and layouts are pure: files and environment come through [`Surroundings`], and what is to be
//! printed or written goes back as [`Printed`].

mod ab;
mod argv;
mod autocannon;
mod loadtest;
mod siege;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod wrk;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::{LoadError, Phase, Plan, Progress, Report};

/// loadtest tells of its progress so often.
const LOADTEST_PROGRESS: Duration = Duration::from_secs(5);

/// A tool whose flags and report are spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// `ab`, of the Apache web server.
    Ab,
    /// Siege.
    Siege,
    /// loadtest, of npm.
    Loadtest,
    /// autocannon, of npm.
    Autocannon,
    /// wrk.
    Wrk,
}

impl Dialect {
    pub const ALL: [Self; 5] = [Self::Ab, Self::Siege, Self::Loadtest, Self::Autocannon, Self::Wrk];

    pub fn name(self) -> &'static str {
        match self {
            Self::Ab => "ab",
            Self::Siege => "siege",
            Self::Loadtest => "loadtest",
            Self::Autocannon => "autocannon",
            Self::Wrk => "wrk",
        }
    }
}

/// What a command line may look at beside itself.
pub struct Surroundings<'a> {
    /// Reads a file.
    pub read: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
    /// Reads a variable of the environment.
    pub variable: &'a dyn Fn(&str) -> Option<String>,
    /// Cores of this machine.
    pub cores: usize,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Surroundings").field("cores", &self.cores).finish_non_exhaustive()
    }
}

/// What is to be printed and written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Printed {
    /// To stdout.
    pub stdout: String,
    /// To stderr.
    pub stderr: String,
    /// Files to write, whole.
    pub files: Vec<(PathBuf, Vec<u8>)>,
    /// Where there is no run: how the tool exits.
    pub exit: u8,
}

impl Printed {
    fn stdout(text: &str, exit: u8) -> Self {
        Self { stdout: text.to_owned(), exit, ..Self::default() }
    }

    fn error(text: &str, exit: u8) -> Self {
        Self { stderr: format!("{text}\n"), exit, ..Self::default() }
    }

    fn unsupported(tool: &str, option: &str, exit: u8) -> Self {
        Self::error(&format!("{tool}: {option} is not supported by `forkful bench --as {tool}`"), exit)
    }
}

/// A tool's command line, understood.
#[derive(Debug, Clone)]
pub struct Invocation {
    options: Options,
}

#[derive(Debug, Clone)]
enum Options {
    Ab(Box<ab::Options>),
    Siege(Box<siege::Options>),
    Loadtest(Box<loadtest::Options>),
    Autocannon(Box<autocannon::Options>),
    Wrk(Box<wrk::Options>),
}

impl Invocation {
    /// Reads a command line. `Err` is what the tool would have printed in place of a run: its usage, its version,
    /// its complaint.
    pub fn parse(dialect: Dialect, argv: &[String], surroundings: &Surroundings) -> Result<Self, Printed> {
        let options = match dialect {
            Dialect::Ab => Options::Ab(Box::new(ab::parse(argv, surroundings)?)),
            Dialect::Siege => Options::Siege(Box::new(siege::parse(argv, surroundings)?)),
            Dialect::Loadtest => Options::Loadtest(Box::new(loadtest::parse(argv, surroundings)?)),
            Dialect::Autocannon => Options::Autocannon(Box::new(autocannon::parse(argv, surroundings)?)),
            Dialect::Wrk => Options::Wrk(Box::new(wrk::parse(argv, surroundings)?)),
        };
        Ok(Self { options })
    }

    pub fn dialect(&self) -> Dialect {
        match self.options {
            Options::Ab(_) => Dialect::Ab,
            Options::Siege(_) => Dialect::Siege,
            Options::Loadtest(_) => Dialect::Loadtest,
            Options::Autocannon(_) => Dialect::Autocannon,
            Options::Wrk(_) => Dialect::Wrk,
        }
    }

    /// The load that it asks for.
    pub fn plan(&self) -> Result<Plan, LoadError> {
        let plan = match &self.options {
            Options::Ab(options) => options.plan(),
            Options::Siege(options) => options.plan(),
            Options::Loadtest(options) => options.plan()?,
            Options::Autocannon(options) => options.plan()?,
            Options::Wrk(options) => options.plan()?,
        };
        Ok(Plan { time_limit: self.time_limit(), ..plan })
    }

    /// Where a number of requests *and* a time were given: the time.
    fn time_limit(&self) -> Option<Duration> {
        match &self.options {
            Options::Ab(options) => options.time_limit.map(Duration::from_secs),
            Options::Loadtest(options) => options.requests.and(options.seconds).map(Duration::from_secs),
            Options::Autocannon(options) => options.time_limit(),
            Options::Siege(_) | Options::Wrk(_) => None,
        }
    }

    /// What the tool says before the first request.
    pub fn opening(&self) -> Printed {
        match &self.options {
            Options::Ab(options) => ab::opening(options),
            Options::Siege(options) => siege::opening(options),
            Options::Loadtest(_) => Printed::default(),
            Options::Autocannon(options) => autocannon::opening(options),
            Options::Wrk(options) => wrk::opening(options),
        }
    }

    /// Whether the tool says that only when it has found a server.
    pub fn opens_when_connected(&self) -> bool {
        matches!(self.options, Options::Wrk(_))
    }

    /// What the tool says while it runs.
    pub fn ticker(&self) -> Ticker<'_> {
        Ticker { invocation: self, told: 0, since: loadtest::Since::default() }
    }

    pub fn report(&self, report: &Report) -> Printed {
        match &self.options {
            Options::Ab(options) => ab::report(options, report),
            Options::Siege(options) => siege::report(options, report),
            Options::Loadtest(options) => loadtest::report(options, report),
            Options::Autocannon(options) => autocannon::report(options, report),
            Options::Wrk(options) => wrk::report(options, report),
        }
    }

    /// What the tool prints when no connection can be made, if it has words for that.
    pub fn unreachable(&self, error: &LoadError) -> Option<Printed> {
        match &self.options {
            Options::Ab(_) => ab::unreachable(error),
            Options::Siege(options) => siege::unreachable(options, error),
            Options::Loadtest(options) => loadtest::unreachable(options, error),
            Options::Autocannon(options) => autocannon::unreachable(options, error),
            Options::Wrk(_) => wrk::unreachable(error),
        }
    }

    /// Where the tool would have told something else, or told it worse.
    pub fn footnotes(&self, report: &Report) -> Vec<String> {
        match &self.options {
            Options::Ab(options) => ab::footnotes(options, report),
            Options::Siege(options) => siege::footnotes(options, report),
            Options::Loadtest(options) => loadtest::footnotes(options, report),
            Options::Autocannon(options) => autocannon::footnotes(options, report),
            Options::Wrk(options) => wrk::footnotes(options, report),
        }
    }

    /// A log file that grows: its path, and what to add to it; `fresh` where it is new.
    pub fn log(&self, report: &Report, fresh: bool) -> Option<(PathBuf, String)> {
        let Options::Siege(options) = &self.options else { return None };
        let path = options.log.clone()?;
        let lines = siege::log_lines(options, report, fresh);
        Some((path, lines))
    }

    /// The path of that log file.
    pub fn log_path(&self) -> Option<&Path> {
        match &self.options {
            Options::Siege(options) => options.log.as_deref(),
            _ => None,
        }
    }
}

/// The lines that a tool prints while it runs.
#[derive(Debug)]
pub struct Ticker<'a> {
    invocation: &'a Invocation,
    told: u64,
    since: loadtest::Since,
}

impl Ticker<'_> {
    /// What is to be printed now.
    pub fn tick(&mut self, progress: &Progress) -> Printed {
        let mut printed = Printed::default();
        if progress.phase != Phase::Measuring {
            return printed;
        }
        match &self.invocation.options {
            Options::Ab(options) => {
                if let Some(each) = options.progress_step() {
                    self.tell_ab(each, progress.completed, &mut printed);
                }
            }
            Options::Loadtest(options)
                if !options.quiet
                    && progress.elapsed.saturating_sub(self.since.elapsed) >= LOADTEST_PROGRESS =>
            {
                printed.stdout = loadtest::progress_line(options, progress, &self.since);
                self.since = loadtest::Since {
                    elapsed: progress.elapsed,
                    completed: progress.completed,
                    errors: progress.errors,
                    answered: progress.answered,
                    response_sum: progress.response_sum,
                };
            }
            _ => {}
        }
        printed
    }

    /// ab's last lines of progress, for what was completed since the last tick.
    pub fn finish(&mut self, completed: u64) -> Printed {
        let mut printed = Printed::default();
        if let Options::Ab(options) = &self.invocation.options
            && let Some(each) = options.progress_step()
        {
            self.tell_ab(each, completed, &mut printed);
        }
        printed
    }

    /// A line for `each` so many requests.
    fn tell_ab(&mut self, each: u64, completed: u64, printed: &mut Printed) {
        while self.told + each <= completed {
            self.told += each;
            let line = format!("Completed {} requests\n", self.told);
            printed.stderr.push_str(&line);
        }
    }
}
