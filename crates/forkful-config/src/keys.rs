//! The one table of all keys that a configuration may have: reading, messages and documentation
//! come from it.

mod table;

use forkful_core::spec::{Balance, Named as _};

use crate::options::AppOptions;
use crate::tree::Node;
use crate::values::Refusal;
use table::KNOWN_KEYS;

/// What kind of value a key takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    Path,
    /// A list of texts, or a text that is split as a shell would.
    Words,
    /// A number, `max` or a negative number.
    Instances,
    /// `cluster` or `fork`.
    ExecMode,
    /// Milliseconds, or a text with a unit.
    Duration,
    /// A whole number from 0.
    Count,
    Port,
    /// `true` or `false`.
    Flag,
    /// One exit code or a list of them.
    ExitCodes,
    /// A signal's name or number.
    Signal,
    /// A way of spreading connections.
    Balance,
    /// An object of variables.
    Environment,
    /// Bytes, or a text with a unit.
    Bytes,
    /// Cores, or a share of one in percent.
    Cores,
    /// A cron pattern, or 0 for none.
    Cron,
    /// `true`, or what of the environment is left out.
    FilterEnv,
    /// A user or group, by name or id.
    User,
    /// `true`, or a path.
    FlagOrPath,
    /// `raw` or `json`.
    LogType,
    /// A form of dates.
    DateFormat,
    /// `true`, or paths.
    Watch,
    /// Patterns of paths.
    WatchIgnore,
    /// Options of the watcher.
    WatchOptions,
    Health,
    /// How log files are set aside.
    LogRotation,
    /// `keep` or `strip`.
    LogAnsi,
    /// One path or a list of them.
    Paths,
    /// Names of apps.
    Names,
    /// Not read.
    Any,
}

impl Kind {
    /// The kind in a few words, for tables of documentation.
    pub fn describe(self) -> String {
        let fixed = match self {
            Self::Text => "text",
            Self::Path => "path",
            Self::Words => "list or text",
            Self::Instances => "number, \"max\", negative number",
            Self::ExecMode => "\"cluster\" or \"fork\"",
            Self::Duration => "milliseconds, or \"10s\"",
            Self::Count => "whole number",
            Self::Port => "port",
            Self::Flag => "true or false",
            Self::ExitCodes => "exit code or list",
            Self::Signal => "signal",
            Self::Balance => {
                let names: Vec<String> = Balance::NAMES.iter().map(|name| format!("{name:?}")).collect();
                return names.join(", ");
            }
            Self::Environment => "object",
            Self::Bytes => "bytes, or \"200M\"",
            Self::Cores => "cores, or \"150%\"",
            Self::Cron => "cron pattern, or 0",
            Self::FilterEnv => "true, name, or list",
            Self::User => "name or number",
            Self::FlagOrPath => "true or path",
            Self::LogType => "\"raw\" or \"json\"",
            Self::DateFormat => "\"YYYY-MM-DD HH:mm:ss\"",
            Self::Watch => "true, path, or list",
            Self::WatchIgnore => "pattern or list",
            Self::WatchOptions => "object",
            Self::Health => "path, URL, or object",
            Self::LogRotation => "true, false, or object",
            Self::LogAnsi => "\"keep\" or \"strip\"",
            Self::Paths => "path or list",
            Self::Names => "name or list",
            Self::Any => "any",
        };
        fixed.to_owned()
    }
}

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Now,
    /// PM2 has it, and here it is not needed or has no meaning: ignored with a warning that says why.
    Foreign,
}

pub(super) type Setter = fn(&mut AppOptions, &Node) -> Result<(), Refusal>;

/// One key of a configuration.
#[derive(Debug, Clone, Copy)]
pub struct KnownKey {
    /// The name, in `snake_case`; the same in camelCase is accepted.
    pub name: &'static str,
    /// Other names, of PM2.
    pub aliases: &'static [&'static str],
    pub kind: Kind,
    /// What becomes of it.
    pub support: Support,
    /// The default as JSON; empty where the default depends on other keys or is "not set".
    pub default: &'static str,
    /// What it means; for keys that are not supported, what to do instead, or empty.
    pub doc: &'static str,
    /// A value as one would write it in JSON.
    pub example: &'static str,
    set: Option<Setter>,
}

/// All keys, in the order in which documentation shows them.
pub fn known_keys() -> &'static [KnownKey] {
    KNOWN_KEYS
}

impl KnownKey {
    /// Puts a value into the field that this key means; does nothing for a key that is not supported.
    pub(crate) fn set(&self, options: &mut AppOptions, node: &Node) -> Result<(), Refusal> {
        match self.set {
            Some(set) => set(options, node),
            None => Ok(()),
        }
    }
}

/// The key of this name or alias, in `snake_case` or camelCase.
pub(crate) fn find(written: &str) -> Option<&'static KnownKey> {
    let snake = snake_case(written);
    KNOWN_KEYS.iter().find(|key| key.name == snake || key.aliases.contains(&snake.as_str()))
}

/// The known name that is most like this one, when it is like enough to have been meant.
pub(crate) fn nearest_key(written: &str) -> Option<&'static str> {
    let names = KNOWN_KEYS.iter().filter(|key| key.support != Support::Foreign);
    nearest(
        &snake_case(written),
        names.flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied())),
    )
}

/// The candidate that is most like a word, when at most a third of its letters differ.
pub(crate) fn nearest<'a>(word: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance_max = (word.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (strsim::damerau_levenshtein(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

pub(crate) fn snake_case(written: &str) -> String {
    let mut snake = String::with_capacity(written.len() + 4);
    for c in written.chars() {
        if c.is_ascii_uppercase() {
            if !snake.is_empty() {
                snake.push('_');
            }
            snake.push(c.to_ascii_lowercase());
        } else {
            snake.push(c);
        }
    }
    snake
}
