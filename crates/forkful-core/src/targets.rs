//! What a command's target text means.

use std::fmt;

use crate::spec::{AppName, AppNameFault};

/// Whom a command is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `all`: every app.
    All,
    /// A number: one worker, by its id.
    Id(u32),
    /// Anything else: every worker of the app of this name.
    Name(AppName),
}

/// Why a text is no target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFault {
    /// It is a number too large for an id.
    IdTooLarge(String),
    /// It could not be the name of an app.
    NoName {
        /// The text.
        text: String,
        /// What is wrong with it.
        fault: AppNameFault,
    },
}

impl Target {
    /// Reads a target.
    pub fn parse(text: &str) -> Result<Self, TargetFault> {
        if text == "all" {
            return Ok(Self::All);
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::Id).map_err(|_| TargetFault::IdTooLarge(text.to_owned()));
        }
        AppName::new(text)
            .map(Self::Name)
            .map_err(|fault| TargetFault::NoName { text: text.to_owned(), fault })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Id(id) => id.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for TargetFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdTooLarge(text) => write!(f, "no worker can have the id {text}"),
            Self::NoName { text, fault } => write!(f, "`{text}` is no target: {fault}"),
        }
    }
}

impl std::error::Error for TargetFault {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_told_apart() {
        assert_eq!(Target::parse("all"), Ok(Target::All));
        assert_eq!(Target::parse("0"), Ok(Target::Id(0)));
        assert_eq!(Target::parse("007"), Ok(Target::Id(7)));
        let name = AppName::new("api").expect("a plain word is a name");
        assert_eq!(Target::parse("api"), Ok(Target::Name(name)));
        assert!(matches!(Target::parse("2nd"), Ok(Target::Name(_))));
    }

    #[test]
    fn faults_name_the_text() {
        let too_large = Target::parse("4294967296").expect_err("one above the largest id");
        assert_eq!(too_large.to_string(), "no worker can have the id 4294967296");
        let empty = Target::parse("").expect_err("nothing");
        assert_eq!(empty.to_string(), "`` is no target: a name needs at least one character");
        let path = Target::parse("./app.js").expect_err("a path");
        assert_eq!(path.to_string(), "`./app.js` is no target: a name cannot hold '/'");
    }
}
