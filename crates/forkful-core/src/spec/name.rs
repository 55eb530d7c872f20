//! Names of apps, and of the namespaces that group them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::foreign::is_steering;

/// An app's name: 1 to 128 characters without control characters and without characters that change the
/// direction of the surrounding text; not `all`, not a number, without a leading `-`, `.` or `/` (which have
/// another meaning on the command line or in a path).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct AppName(String);

/// Why a text is not a valid app name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppNameFault {
    /// It is empty.
    Empty,
    /// More than 128 characters.
    TooLong,
    /// It contains a control character, or a character that reorders the surrounding text.
    BadCharacter(char),
    /// `all` is the target for every app.
    ReservedAll,
    /// A number means an id.
    Number,
    /// Starts with `-`, `.` or `/`.
    BadStart(char),
}

impl AppName {
    /// Checks a name.
    pub fn new(name: impl Into<String>) -> Result<Self, AppNameFault> {
        let name = name.into();
        if name.trim().is_empty() {
            return Err(AppNameFault::Empty);
        }
        if name.chars().count() > 128 {
            return Err(AppNameFault::TooLong);
        }
        if let Some(bad) = name.chars().find(|c| is_steering(*c)) {
            return Err(AppNameFault::BadCharacter(bad));
        }
        if let Some(first) = name.chars().next().filter(|c| matches!(c, '-' | '.' | '/')) {
            return Err(AppNameFault::BadStart(first));
        }
        if name == "all" {
            return Err(AppNameFault::ReservedAll);
        }
        if name.bytes().all(|b| b.is_ascii_digit()) {
            return Err(AppNameFault::Number);
        }
        Ok(Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for AppName {
    type Error = AppNameFault;
    fn try_from(name: String) -> Result<Self, AppNameFault> {
        Self::new(name)
    }
}

impl TryFrom<String> for Namespace {
    type Error = AppNameFault;
    fn try_from(name: String) -> Result<Self, AppNameFault> {
        Self::new(name)
    }
}

impl fmt::Display for AppName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for AppNameFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a name needs at least one character that is not a space"),
            Self::TooLong => f.write_str("a name has at most 128 characters"),
            Self::BadCharacter(c) => write!(f, "a name cannot hold {c:?}"),
            Self::ReservedAll => f.write_str("`all` means every app and cannot be a name"),
            Self::Number => f.write_str("a number would be taken for an id"),
            Self::BadStart('-') => f.write_str("a name cannot start with '-', as options do"),
            Self::BadStart(c) => write!(f, "a name cannot start with {c:?}, as paths do"),
        }
    }
}

impl std::error::Error for AppNameFault {}

/// A group of apps that a command can address by name; the rules of app names apply.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct Namespace(String);

/// The namespace of an app without an explicit one.
pub const NAMESPACE_DEFAULT: &str = "default";

impl Namespace {
    /// Checks a name.
    pub fn new(name: impl Into<String>) -> Result<Self, AppNameFault> {
        AppName::new(name).map(|AppName(name)| Self(name))
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Self {
        Self(NAMESPACE_DEFAULT.to_owned())
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_reorder_the_text_around_it() {
        for bad in ['\u{202e}', '\u{202a}', '\u{2066}', '\u{2069}', '\u{200e}', '\u{61c}'] {
            assert_eq!(AppName::new(format!("a{bad}b")), Err(AppNameFault::BadCharacter(bad)));
            assert_eq!(Namespace::new(format!("a{bad}b")), Err(AppNameFault::BadCharacter(bad)));
        }
        for good in ["שלום", "日本", "e\u{301}", "a\u{2065}b"] {
            assert!(AppName::new(good).is_ok(), "{good}");
        }
    }
}
