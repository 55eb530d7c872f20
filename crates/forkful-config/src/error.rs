//! Errors and warnings of a configuration, with their location and a hint. The messages are defined where the
//! errors are detected.

use std::fmt;
use std::path::{Path, PathBuf};

use forkful_core::interpreter::CannotRun;
use forkful_core::pages::{self, Hint, Page};

use crate::keys;
use crate::tree::{Spot, quoted};

/// The location of a setting: file, line and key as far as they are known, or an option of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file, as the user named it; `None` for the command line. Empty for a configuration that a program sent.
    pub file: Option<PathBuf>,
    /// The position in the file, if the format has lines.
    pub at: Option<Spot>,
    /// The key (`apps[0].instances`) or option (`--instances`); may be empty.
    pub key: String,
}

impl Place {
    /// A location in a file.
    pub(crate) fn in_file(file: &Path, at: Option<Spot>, key: impl Into<String>) -> Self {
        Self { file: Some(file.to_owned()), at, key: key.into() }
    }

    /// An option of the command line.
    pub(crate) fn command_line(key: &str) -> Self {
        let key = if key == "script" { key.to_owned() } else { format!("--{}", key.replace('_', "-")) };
        Self { file: None, at: None, key }
    }

    /// The spelling of a key at this location: `name` in a file, `--name` on the command line.
    pub(crate) fn option(&self, key: &str) -> String {
        match self.file {
            Some(_) => format!("`{key}`"),
            None => format!("`--{}`", key.replace('_', "-")),
        }
    }
}

/// `forkful.config.json:4:18: apps[0].instances`, as far as known.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = self.file.as_ref().filter(|file| !file.as_os_str().is_empty()) {
            write!(f, "{}", file.display())?;
            if let Some(at) = &self.at {
                write!(f, ":{at}")?;
            }
            f.write_str(if self.key.is_empty() { ":" } else { ": " })?;
        }
        f.write_str(&self.key)
    }
}

/// A warning, which does not stop anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Its location.
    pub place: Place,
    /// The warning; one sentence without a full stop.
    pub message: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.place == Place::default() {
            f.write_str(&self.message)
        } else {
            write!(f, "{} {}", self.place, self.message)
        }
    }
}

/// Warnings as lines, in their order. Equal warnings become one line, which names the first location and the
/// number of others.
pub fn folded(warnings: &[Warning]) -> Vec<String> {
    let mut lines: Vec<(&Warning, usize)> = Vec::new();
    for warning in warnings {
        match lines.iter_mut().find(|(first, _)| first.message == warning.message) {
            Some((_, others)) => *others += 1,
            None => lines.push((warning, 0)),
        }
    }
    let line = |(first, others): (&Warning, usize)| match others {
        0 => first.to_string(),
        1 => format!("{first} (the same in 1 other place)"),
        others => format!("{first} (the same in {others} other places)"),
    };
    lines.into_iter().map(line).collect()
}

/// Why a configuration cannot be used: the location, one sentence without a full stop, and a hint.
#[derive(Debug)]
pub struct ConfigError {
    place: Option<Place>,
    message: String,
    hint: Option<String>,
    page: Option<Page>,
    cause: Option<std::io::Error>,
}

impl ConfigError {
    /// An error without a location in a configuration; the message has it.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { place: None, message: message.into(), hint: None, page: None, cause: None }
    }

    /// An error at a location, followed by the message.
    pub(crate) fn at(place: Place, message: impl Into<String>) -> Self {
        Self { place: Some(place), ..Self::new(message) }
    }

    /// A value that its key does not accept.
    pub(crate) fn value(place: Place, value: &str, expected: &str) -> Self {
        Self::at(place, format!("is {value}; expected {expected}"))
    }

    /// Two apps of one file have the same name.
    pub(crate) fn duplicate_name(second: Place, name: &str) -> Self {
        Self::at(second, format!("has the name {}, which another app has already", quoted(name)))
            .with_hint("give each app its own `name`; for more workers of one app use `instances`")
    }

    /// A program does not run a script.
    pub(crate) fn refused(fault: &CannotRun) -> Self {
        let error = Self::new(fault.to_string());
        fault
            .hint()
            .into_iter()
            .fold(error, |error, hint| error.with_hint(hint.text).with_page(Page::Interpreter))
    }

    /// Several errors: the first. `validate` may find more of them than a start, so that no number is given.
    pub(crate) fn several(first: Self) -> Self {
        const ALL: &str = "`forkful validate` shows all faults";
        let hint = first.hint.map_or(ALL.to_owned(), |hint| format!("{hint}; {ALL}"));
        Self { hint: Some(hint), cause: None, ..first }
    }

    pub(crate) fn with_hint(self, hint: impl Into<String>) -> Self {
        Self { hint: Some(hint.into()), ..self }
    }

    /// Sets the page that explains the hint, if it is not the key's.
    pub(crate) fn with_page(self, page: Page) -> Self {
        Self { page: Some(page), ..self }
    }

    pub(crate) fn caused_by(self, cause: std::io::Error) -> Self {
        Self { cause: Some(cause), ..self }
    }

    /// The location of the error, if it is in a configuration or on the command line.
    pub fn place(&self) -> Option<&Place> {
        self.place.as_ref()
    }

    /// What to do about it, if there is more to say than the error itself.
    pub fn hint(&self) -> Option<Hint> {
        let text = self.hint.clone()?;
        Some(Hint { text, see: self.page.map_or_else(|| self.page_of_key(), Page::url) })
    }

    /// The part of the reference with the key, or the whole page.
    fn page_of_key(&self) -> String {
        let key = self.place.as_ref().map_or("", |place| place.key.rsplit('.').next().unwrap_or_default());
        let name = key.trim_start_matches("--").replace('-', "_");
        keys::find(&name).map_or_else(|| Page::Config.url(), |key| pages::of_keys(key.group.title()))
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place} ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}
