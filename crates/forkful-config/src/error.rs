//! What can be wrong with a configuration, and what to do about it. One sentence each, without a
//! full stop; [`ConfigError::hint`] says the next step.

use std::fmt;
use std::path::{Path, PathBuf};

use forkful_core::spec::AppNameFault;

use crate::tree::{Spot, quoted};

/// Where something was said: file, line and key as far as they are known, or an option of the command line.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Place {
    /// The file, as the user named it; `None` for the command line.
    pub file: Option<PathBuf>,
    /// Where in the file, where the format has lines.
    pub at: Option<Spot>,
    /// The key (`apps[0].instances`) or option (`--instances`); may be empty.
    pub key: String,
}

impl Place {
    /// An option of the command line.
    pub(crate) fn command_line(key: &str) -> Self {
        let key = if key == "script" { key.to_owned() } else { format!("--{}", key.replace('_', "-")) };
        Self { file: None, at: None, key }
    }

    /// How a key is spelled where this place is: `name` in a file, `--name` on the command line.
    fn option(&self, key: &str) -> String {
        match self.file {
            Some(_) => format!("`{key}`"),
            None => format!("`--{}`", key.replace('_', "-")),
        }
    }
}

/// `forkful.config.json:4:18: apps[0].instances`, with what is known.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}", file.display())?;
            if let Some(at) = &self.at {
                write!(f, ":{at}")?;
            }
            f.write_str(if self.key.is_empty() { ":" } else { ": " })?;
        }
        f.write_str(&self.key)
    }
}

/// Something odd that does not stop anything.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Where it was said.
    pub place: Place,
    /// What is odd; one sentence without a full stop.
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

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// The file is larger than any configuration.
    #[error("{} has {bytes} bytes; a configuration has at most {bytes_max}", path.display())]
    TooLarge {
        path: PathBuf,
        bytes: u64,
        /// The bound.
        bytes_max: u64,
    },
    /// The file's name says nothing about its format.
    #[error("cannot tell the format of {} by its name", path.display())]
    UnknownFormat { path: PathBuf },
    /// The text does not follow its format's grammar.
    #[error("{place} {message}")]
    Syntax {
        /// File and line.
        place: Place,
        message: String,
    },
    /// A JavaScript config could not be evaluated.
    #[error("{place} {message}")]
    Evaluate {
        /// File and line.
        place: Place,
        /// The error that the script threw, or how the evaluation went wrong.
        message: String,
        /// What to do about it.
        hint: Option<String>,
    },
    /// The document holds no apps where they are expected.
    #[error("{place} {message}")]
    Shape { place: Place, message: String },
    /// A key has a value of the wrong kind.
    #[error("{place} is {value}; expected {expected}")]
    Value { place: Place, value: String, expected: String },
    /// One thing is said twice.
    #[error("{place} is given twice, the other time as `{other}`")]
    DuplicateKey {
        /// The second one.
        place: Place,
        /// How the first is spelled.
        other: String,
    },
    /// Two apps of one file have the same name.
    #[error("{place} has the name {}, which another app has already", quoted(name))]
    DuplicateName {
        /// The second app.
        place: Place,
        name: String,
    },
    /// There is no such user or group.
    #[error("{place} is {}, which is not a {kind} of this system", quoted(name))]
    UnknownUser {
        place: Place,
        /// The name or number.
        name: String,
        /// `user` or `group`.
        kind: &'static str,
    },
    /// Only root may start processes as another user.
    #[error("{place} is {}, but only root can start processes as another user", quoted(name))]
    NotRoot {
        place: Place,
        /// The name or number.
        name: String,
    },
    /// A `.env` file cannot be read.
    #[error("{place} cannot be read: {}", file.display())]
    EnvFile {
        /// Where it was named.
        place: Place,
        file: PathBuf,
        source: std::io::Error,
    },
    /// A `.env` file has a line that is none.
    #[error("{}:{line}: {message}", file.display())]
    EnvFileSyntax { file: PathBuf, line: usize, message: &'static str },
    /// `increment_var` names a variable that holds no number.
    #[error("{place} is {}, but that variable {fault}", quoted(name))]
    NoNumber {
        place: Place,
        name: String,
        /// What it is instead.
        fault: String,
    },
    /// Apps that wait for each other.
    #[error("{place} {message}")]
    Dependency { place: Place, message: String },
    /// An app without a script.
    #[error("{place} has no script")]
    NoScript { place: Place },
    /// The script is no file, no program and no command line.
    #[error("{place} {} does not exist in {}", quoted(script), tried.display())]
    ScriptMissing {
        /// Where it was named.
        place: Place,
        /// As the user named it.
        script: String,
        /// The directory that was searched.
        tried: Box<Path>,
        /// A file of a similar name.
        near: Option<Box<str>>,
    },
    /// The script is a directory.
    #[error("{place} {} is a directory", quoted(script))]
    ScriptIsDirectory {
        /// Where it was named.
        place: Place,
        /// As the user named it.
        script: String,
        /// The file in it that was probably meant.
        near: Option<String>,
    },
    /// The script cannot be opened.
    #[error("{place} {} cannot be read", quoted(script))]
    ScriptUnreadable {
        /// Where it was named.
        place: Place,
        /// As the user named it.
        script: String,
        source: std::io::Error,
    },
    /// The script has to be executed itself, and is not executable.
    #[error("{place} {} is not executable", quoted(script))]
    NotExecutable {
        /// Where it was named.
        place: Place,
        /// As the user named it.
        script: String,
    },
    /// Nothing says how the script is run.
    #[error("{place} {} has an extension that no interpreter is known for", quoted(script))]
    NoInterpreter {
        /// Where it was named.
        place: Place,
        /// As the user named it.
        script: String,
    },
    /// The interpreter is not installed.
    #[error("cannot find the interpreter {} {}", quoted(name), search(path_variable.as_deref()))]
    InterpreterMissing {
        name: String,
        /// What was searched; `None` when the name is a path.
        path_variable: Option<String>,
    },
    /// The installed Node is too old for what the app or the config is.
    #[error("{subject} needs Node.js {needed} or newer, and {} is {found}", program.display())]
    NodeTooOld {
        subject: String,
        /// The least version.
        needed: &'static str,
        /// The program that was asked.
        program: PathBuf,
        found: String,
    },
    /// `node --version` does not work.
    #[error("cannot run {} --version", program.display())]
    NodeVersion { program: PathBuf, source: std::io::Error },
    /// The working directory cannot be used.
    #[error("{place} {} {fault}", quoted(&cwd.display().to_string()))]
    WorkingDirectory {
        /// Where it was named.
        place: Place,
        cwd: PathBuf,
        /// What is wrong with it.
        fault: &'static str,
    },
    /// The name cannot be one.
    #[error("{place} cannot be {}: {fault}", quoted(name))]
    BadName {
        /// Where it was given, or the app whose script it was taken from.
        place: Place,
        name: String,
        /// What is wrong with it.
        fault: AppNameFault,
    },
    /// More than one thing is wrong.
    #[error("{first}")]
    Several {
        first: Box<ConfigError>,
        /// How many there are, with the first.
        count: usize,
    },
    /// The chosen `env_<name>` does not exist.
    #[error("{place} has no `env_{name}`")]
    UnknownEnvironment {
        /// The app or the file.
        place: Place,
        /// The name that was asked for.
        name: String,
        /// The names that there are.
        known: Vec<String>,
    },
}

fn search(path_variable: Option<&str>) -> String {
    match path_variable {
        Some(path) => format!("in the app's PATH ({path})"),
        None => "at that path".to_owned(),
    }
}

impl ConfigError {
    /// Where the fault is, as far as it is in a configuration or on the command line.
    pub fn place(&self) -> Option<&Place> {
        match self {
            Self::Syntax { place, .. }
            | Self::Evaluate { place, .. }
            | Self::Shape { place, .. }
            | Self::Value { place, .. }
            | Self::DuplicateKey { place, .. }
            | Self::DuplicateName { place, .. }
            | Self::UnknownUser { place, .. }
            | Self::NotRoot { place, .. }
            | Self::EnvFile { place, .. }
            | Self::NoNumber { place, .. }
            | Self::Dependency { place, .. }
            | Self::NoScript { place }
            | Self::ScriptMissing { place, .. }
            | Self::ScriptIsDirectory { place, .. }
            | Self::ScriptUnreadable { place, .. }
            | Self::NotExecutable { place, .. }
            | Self::NoInterpreter { place, .. }
            | Self::WorkingDirectory { place, .. }
            | Self::BadName { place, .. }
            | Self::UnknownEnvironment { place, .. } => Some(place),
            Self::Several { first, .. } => first.place(),
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::UnknownFormat { .. }
            | Self::EnvFileSyntax { .. }
            | Self::InterpreterMissing { .. }
            | Self::NodeTooOld { .. }
            | Self::NodeVersion { .. } => None,
        }
    }

    /// What to do about it, where there is more to say than the error itself.
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Read { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Some("name a script or a configuration file; `forkful.config.js` is the usual one".to_owned())
            }
            Self::UnknownFormat { .. } => {
                Some("known are .js, .cjs, .mjs, .ts, .json, .yaml, .yml and .toml".to_owned())
            }
            Self::Evaluate { hint, .. } => hint.clone(),
            Self::Several { first, count } => {
                let all = format!("`forkful validate` shows all {count} faults");
                Some(first.hint().map_or(all.clone(), |hint| format!("{hint}; {all}")))
            }
            Self::Shape { .. } => {
                Some(r#"a configuration is { "apps": [{ "script": "app.js" }] }"#.to_owned())
            }
            Self::DuplicateKey { .. } => Some("keep one of the two".to_owned()),
            Self::DuplicateName { .. } => {
                Some("give each app its own `name`; for more workers of one app use `instances`".to_owned())
            }
            Self::NotRoot { .. } => Some("run the daemon as that user, or start it as root".to_owned()),
            Self::EnvFile { .. } => Some("paths of env_file start at the app's working directory".to_owned()),
            Self::NoNumber { name, .. } => Some(format!("give `{name}` a number in `env`")),
            Self::NoScript { .. } => Some("name what to start, such as app.js".to_owned()),
            Self::ScriptMissing { near, script, .. } => Some(match near {
                Some(near) => format!("did you mean {near}?"),
                None if script.contains('/') => "check the path and the working directory".to_owned(),
                None => "a script is a file, a program in PATH, or a quoted command line".to_owned(),
            }),
            Self::ScriptIsDirectory { near, .. } => Some(match near {
                Some(near) => format!("name a file in it, such as {near}"),
                None => "name the file to start".to_owned(),
            }),
            Self::ScriptUnreadable { .. } => Some("check the file's permissions".to_owned()),
            Self::NotExecutable { script, place } => Some(format!(
                "`chmod +x {script}`, or name what runs it with {}",
                place.option("interpreter")
            )),
            Self::NoInterpreter { place, .. } => Some(format!(
                "name one with {}, or make the file executable and begin it with `#!`",
                place.option("interpreter")
            )),
            Self::InterpreterMissing { path_variable, .. } => path_variable.as_ref().map(|_| {
                "install it, give its full path as the interpreter, or set PATH in the app's `env`".to_owned()
            }),
            Self::NodeTooOld { .. } => {
                Some("use a newer Node.js, or compile it to JavaScript first".to_owned())
            }
            Self::UnknownEnvironment { known, .. } => Some(if known.is_empty() {
                "an `env_<name>` block of a configuration file is chosen by its <name>; there is none"
                    .to_owned()
            } else {
                format!("there is {}", known.join(", "))
            }),
            Self::BadName { place, .. } if !place.key.ends_with("name") => {
                Some(format!("choose a name with {}", place.option("name")))
            }
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::Syntax { .. }
            | Self::Value { .. }
            | Self::UnknownUser { .. }
            | Self::EnvFileSyntax { .. }
            | Self::Dependency { .. }
            | Self::NodeVersion { .. }
            | Self::WorkingDirectory { .. }
            | Self::BadName { .. } => None,
        }
    }
}
