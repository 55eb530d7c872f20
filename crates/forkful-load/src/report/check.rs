//! One line of a trust box: what could have spoilt a measurement, and how the look at it came out. `bench`, `compare`,
//! `tune` and the experiments share it.

use serde::Serialize;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Fine,
    /// Worth knowing; the numbers hold.
    Note,
    /// The numbers may be off a little.
    Warning,
    /// The numbers do not say what they seem to say.
    Fault,
}

impl Level {
    /// The level of a value that is worse the larger it is.
    pub fn above(value: f64, warning: f64, fault: f64) -> Self {
        if value > fault {
            Self::Fault
        } else if value > warning {
            Self::Warning
        } else {
            Self::Fine
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    /// A stable key, `generator_cpu`; `None` where the check is known by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'static str>,
    /// What was looked at, in words.
    pub name: String,
    /// How it came out, where that is more than `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Whether it was as it should be; `None` when that is not to be judged.
    pub ok: Option<bool>,
    /// What was found, with its unit.
    pub value: String,
    /// From where on it would matter.
    pub limit: String,
    /// What that means, where it matters.
    pub meaning: String,
}

impl Check {
    /// A check with a level; a warning is neither right nor wrong.
    pub fn graded(key: &'static str, name: &str, level: Level) -> Self {
        let ok = match level {
            Level::Fine | Level::Note => Some(true),
            Level::Warning => None,
            Level::Fault => Some(false),
        };
        Self { key: Some(key), level: Some(level), ..Self::judged(name, ok) }
    }

    /// A check that is right, wrong, or not to be judged.
    pub fn judged(name: impl Into<String>, ok: Option<bool>) -> Self {
        Self {
            key: None,
            name: name.into(),
            level: None,
            ok,
            value: String::new(),
            limit: String::new(),
            meaning: String::new(),
        }
    }

    /// What was found, and from where on it would matter.
    #[must_use]
    pub fn found(self, value: impl Into<String>, limit: impl Into<String>) -> Self {
        Self { value: value.into(), limit: limit.into(), ..self }
    }

    #[must_use]
    pub fn means(self, meaning: impl Into<String>) -> Self {
        Self { meaning: meaning.into(), ..self }
    }

    /// How it came out.
    pub fn level(&self) -> Level {
        self.level.unwrap_or(match self.ok {
            Some(true) => Level::Fine,
            None => Level::Warning,
            Some(false) => Level::Fault,
        })
    }
}
