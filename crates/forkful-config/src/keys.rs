//! The one table of all keys that a configuration may have. From it come: what is read and how it is checked, the options of
//! the command line, which keys of a running app may change and how, `describe`, messages, the schema for editors, the types
//! for JavaScript, and the reference.

mod kind;
mod option;
mod parts;
mod table;

pub use kind::{Forms, Kind};
pub use option::{CliOption, Many};
pub use parts::Part;
use table::KNOWN_KEYS;

/// What becomes of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Support {
    Now,
    /// PM2 has it, and here it is not needed or has no meaning: ignored with a warning that says why.
    Foreign,
}

/// Where documentation, `describe` and `--help` show a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
    App,
    Environment,
    User,
    Workers,
    Start,
    Stop,
    Restart,
    Renew,
    Limits,
    Logs,
}

/// What it takes to change a key of an app that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing: the workers run on.
    Live,
    /// New workers: `restart` or `reload`.
    NewWorkers,
    /// A new app: `delete` and `start`, or a configuration file that says otherwise.
    NewApp,
}

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
    pub group: Group,
    /// The version that has it first.
    pub since: &'static str,
    pub change: Change,
    /// The fields of `AppDefinition` that it decides; `describe` shows the first.
    pub fields: &'static [&'static str],
    /// Whether its value, as [`Kind`] has it, is the first of these fields as it is; else resolution makes the fields.
    pub is_plain: bool,
    /// The key that this one yields to where both are given; empty for none.
    pub yields_to: &'static str,
    /// The option of `start`, `restart` and `reload` that gives it.
    pub option: Option<CliOption>,
    /// What the option `--no-<name>` does, which gives `false`.
    pub negation: Option<&'static str>,
}

impl Group {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::App,
        Self::Workers,
        Self::Environment,
        Self::User,
        Self::Start,
        Self::Stop,
        Self::Restart,
        Self::Renew,
        Self::Limits,
        Self::Logs,
    ];

    /// Its heading in the configuration reference.
    pub fn title(self) -> &'static str {
        match self {
            Self::App => "The app",
            Self::Workers => "Workers and connections",
            Self::Environment => "Environment",
            Self::User => "User",
            Self::Start => "Start and readiness",
            Self::Stop => "Stop",
            Self::Restart => "Restart after an exit",
            Self::Renew => "Reload by a rule",
            Self::Limits => "Limits",
            Self::Logs => "Logs",
        }
    }

    /// What `describe` calls it.
    pub fn short(self) -> &'static str {
        match self {
            Self::App | Self::Environment | Self::User => "process",
            Self::Workers => "workers",
            Self::Start => "starting",
            Self::Stop => "stopping",
            Self::Restart => "restarting",
            Self::Renew | Self::Limits => "reloading",
            Self::Logs => "logs",
        }
    }

    /// Its heading in `--help`; `None` for options that come first.
    pub fn heading(self) -> Option<&'static str> {
        match self {
            Self::App | Self::Workers => None,
            Self::Environment | Self::User => Some("Environment and user"),
            Self::Start => Some("Starting"),
            Self::Stop => Some("Stopping"),
            Self::Restart => Some("Restarting"),
            Self::Renew | Self::Limits => Some("Renewing and limiting workers"),
            Self::Logs => Some("Output"),
        }
    }
}

/// All keys, in the order in which documentation shows them.
pub fn known_keys() -> &'static [KnownKey] {
    KNOWN_KEYS
}

/// The keys that have a meaning here.
pub fn supported_keys() -> impl Iterator<Item = &'static KnownKey> {
    KNOWN_KEYS.iter().filter(|key| key.support == Support::Now)
}

/// The key of this name or alias, in `snake_case` or camelCase.
pub(crate) fn find(written: &str) -> Option<&'static KnownKey> {
    let snake = snake_case(written);
    KNOWN_KEYS.iter().find(|key| key.name == snake || key.aliases.contains(&snake.as_str()))
}

/// The key of this name in the table.
pub(crate) fn named(name: &str) -> &'static KnownKey {
    KNOWN_KEYS.iter().find(|key| key.name == name).expect("the sources name keys of the table alone")
}

/// The known name that is most like this one, when it is like enough to have been meant.
pub(crate) fn nearest_key(written: &str) -> Option<&'static str> {
    nearest(
        &snake_case(written),
        supported_keys().flat_map(|key| std::iter::once(key.name).chain(key.aliases.iter().copied())),
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

pub(crate) fn camel_case(snake: &str) -> String {
    let mut camel = String::with_capacity(snake.len());
    let mut upper = false;
    for c in snake.chars() {
        match c {
            '_' => upper = true,
            c if std::mem::take(&mut upper) => camel.push(c.to_ascii_uppercase()),
            c => camel.push(c),
        }
    }
    camel
}
