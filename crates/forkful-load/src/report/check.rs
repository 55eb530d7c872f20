//! One line of the trust box: a possible problem of a measurement and the result of the check for it. Shared
//! by `bench`, `compare`, `tune` and the experiments.

use serde::Serialize;

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "CheckLevel"))]
#[serde(rename_all = "lowercase")]
pub enum Level {
    Fine,
    /// Worth knowing; the results are valid.
    Note,
    /// The results may be slightly off.
    Warning,
    /// The results do not mean what they seem to mean.
    Fault,
}

impl Level {
    /// The level of a value for which larger is worse.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Check {
    /// A stable key, such as `generator_cpu`; `None` if the check is identified by its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'static str>,
    /// What was checked, in words.
    pub name: String,
    /// The level, if it is not `ok`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<Level>,
    /// Whether the check passed; `None` if it cannot be judged.
    pub ok: Option<bool>,
    /// The measured value with its unit.
    pub value: String,
    /// The limit from which it matters.
    pub limit: String,
    /// What the result means, if it matters.
    pub meaning: String,
}

impl Check {
    /// A check with a level; a warning neither passes nor fails.
    pub fn graded(key: &'static str, name: &str, level: Level) -> Self {
        let ok = match level {
            Level::Fine | Level::Note => Some(true),
            Level::Warning => None,
            Level::Fault => Some(false),
        };
        Self { key: Some(key), level: Some(level), ..Self::judged(name, ok) }
    }

    /// A check that passes, fails, or cannot be judged.
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

    /// Sets the measured value and its limit.
    #[must_use]
    pub fn found(self, value: impl Into<String>, limit: impl Into<String>) -> Self {
        Self { value: value.into(), limit: limit.into(), ..self }
    }

    #[must_use]
    pub fn means(self, meaning: impl Into<String>) -> Self {
        Self { meaning: meaning.into(), ..self }
    }

    /// Without what it would mean if it had not passed.
    #[must_use]
    pub fn without_idle_meaning(self) -> Self {
        match self.level() {
            Level::Fine => self.means(""),
            Level::Note | Level::Warning | Level::Fault => self,
        }
    }

    /// The level of the result.
    pub fn level(&self) -> Level {
        self.level.unwrap_or(match self.ok {
            Some(true) => Level::Fine,
            None => Level::Warning,
            Some(false) => Level::Fault,
        })
    }
}
