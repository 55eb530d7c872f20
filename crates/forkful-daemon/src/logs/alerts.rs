//! What is told of log files that cannot be written: once for a folder and a kind of fault, not once for each of
//! hundreds of files.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::file::Incident;
use super::writer::Report;

/// How long the same is not told again.
pub(super) const ALERT_EVERY: Duration = Duration::from_secs(60);
/// Different alerts that are remembered.
const REMEMBERED_MAX: usize = 1024;

/// Hears of a file whose disk is full.
pub(super) type TellFull = Box<dyn Fn(PathBuf, String) + Send>;

/// What was told, and when.
pub(super) struct Alerts {
    report: Report,
    full: TellFull,
    told: HashMap<(PathBuf, What), Instant>,
    /// Lines that were dropped and not told of, and when the last were.
    shed_lines: u64,
    shed_told: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum What {
    NotWritten(io::ErrorKind),
    Removed,
    NotSetAside(io::ErrorKind),
}

impl Alerts {
    pub(super) fn new(report: Report, full: TellFull) -> Self {
        Self { report, full, told: HashMap::new(), shed_lines: 0, shed_told: None }
    }

    /// A file cannot be written. Says whether that was told.
    pub(super) fn not_written(&mut self, path: &Path, cause: &io::Error, now: Instant) -> bool {
        let is_new = self.is_new(path, What::NotWritten(cause.kind()), now);
        if is_new {
            self.tell(&format!(
                "error: cannot write the log file {}: {cause}; lines are dropped and counted until it can be written again",
                path.display()
            ));
            if matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                (self.full)(path.to_owned(), cause.to_string());
            }
        }
        is_new
    }

    /// A file that was reported as failing is written again.
    pub(super) fn written_again(&self, path: &Path, lost_lines: u64) {
        let lines = if lost_lines == 1 { "line was" } else { "lines were" };
        self.tell(&format!(
            "the log file {} is written again; {lost_lines} {lines} dropped meanwhile",
            path.display()
        ));
    }

    pub(super) fn incident(&mut self, path: &Path, incident: &Incident, now: Instant) {
        match incident {
            Incident::Removed if self.is_new(path, What::Removed, now) => self.tell(&format!(
                "warning: the log file {} was removed while it was written to; a new one is begun",
                path.display()
            )),
            Incident::NotSetAside(cause) if self.is_new(path, What::NotSetAside(cause.kind()), now) => {
                self.tell(&format!(
                    "warning: the log file {} cannot be set aside and grows beyond its bound: {cause}",
                    path.display()
                ));
            }
            Incident::Removed | Incident::NotSetAside(_) => {}
        }
    }

    /// Lines were dropped because the disk did not keep up.
    pub(super) fn shed(&mut self, lines: u64, now: Instant) {
        self.shed_lines += lines;
        if self.shed_told.is_none_or(|told| now.saturating_duration_since(told) >= ALERT_EVERY) {
            self.tell(&format!(
                "warning: {} log lines were dropped: the disk did not keep up with them",
                self.shed_lines
            ));
            self.shed_lines = 0;
            self.shed_told = Some(now);
        }
    }

    fn is_new(&mut self, path: &Path, what: What, now: Instant) -> bool {
        let folder = path.parent().unwrap_or(path).to_owned();
        if self.told.len() >= REMEMBERED_MAX {
            self.told.retain(|_, at| now.saturating_duration_since(*at) < ALERT_EVERY);
        }
        if self.told.len() >= REMEMBERED_MAX {
            self.told.clear();
        }
        let told = self.told.insert((folder, what), now);
        told.is_none_or(|at| now.saturating_duration_since(at) >= ALERT_EVERY)
    }

    fn tell(&self, text: &str) {
        let report = &self.report;
        report(text);
    }
}
