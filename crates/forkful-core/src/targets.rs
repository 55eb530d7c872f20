//! Parses the targets of commands.

use std::fmt;

use crate::spec::{AppName, AppNameFault};

/// The target of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// `all`: every app.
    All,
    /// A number: one worker, by its id.
    Id(u32),
    /// `/…/`: every app whose name matches the regular expression between the slashes.
    Pattern(String),
    /// An absolute path: every app that runs this script.
    Script(String),
    /// `/folder/./text`: a text that may be a name or a script, and the folder in which it was typed. A name comes first.
    NameOrScript {
        /// The folder, without a slash at its end.
        folder: String,
        /// The text.
        name: AppName,
    },
    /// Anything else: every worker of the app with this name, or of the apps in this namespace.
    Name(AppName),
}

/// Why a text is not a valid target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetFault {
    /// It is a number too large for an id.
    IdTooLarge(String),
    /// It is an empty pattern.
    EmptyPattern(String),
    /// It cannot be the name of an app.
    NoName {
        text: String,
        /// What is wrong with it.
        fault: AppNameFault,
    },
}

/// Stands between a folder and a text that was typed in it.
const TYPED_IN: &str = "/./";

/// A text as a user typed it, without its folder.
pub fn as_typed(target: &str) -> &str {
    match Target::parse(target) {
        Ok(Target::NameOrScript { folder, .. }) => &target[folder.len() + TYPED_IN.len()..],
        _ => target,
    }
}

/// The regular expression of a target `/…/`. The path of a folder looks the same; folders are not targets.
pub fn pattern_of(text: &str) -> Option<&str> {
    text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'))
}

impl Target {
    /// Parses a target.
    pub fn parse(text: &str) -> Result<Self, TargetFault> {
        if text == "all" {
            return Ok(Self::All);
        }
        if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
            return text.parse().map(Self::Id).map_err(|_| TargetFault::IdTooLarge(text.to_owned()));
        }
        if let Some(pattern) = pattern_of(text) {
            return match pattern {
                "" => Err(TargetFault::EmptyPattern(text.to_owned())),
                pattern => Ok(Self::Pattern(pattern.to_owned())),
            };
        }
        if text.starts_with('/') {
            return Ok(Self::name_or_script(text).unwrap_or_else(|| Self::Script(text.to_owned())));
        }
        AppName::new(text)
            .map(Self::Name)
            .map_err(|fault| TargetFault::NoName { text: text.to_owned(), fault })
    }

    /// A text that was typed in this folder, if it can be a name.
    pub fn typed_in(folder: &str, text: &str) -> Option<Self> {
        Self::name_or_script(&format!("{}{TYPED_IN}{text}", folder.trim_end_matches('/')))
    }

    fn name_or_script(text: &str) -> Option<Self> {
        let (folder, typed) = text.split_once(TYPED_IN).filter(|_| pattern_of(text).is_none())?;
        let name = AppName::new(typed).ok()?;
        Some(Self::NameOrScript { folder: folder.to_owned(), name })
    }

    /// The name that it may be.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Name(name) | Self::NameOrScript { name, .. } => Some(name.as_str()),
            Self::All | Self::Id(_) | Self::Pattern(_) | Self::Script(_) => None,
        }
    }

    /// The script that it may be.
    pub fn script(&self) -> Option<String> {
        match self {
            Self::Script(path) => Some(path.clone()),
            Self::NameOrScript { folder, name } => Some(format!("{folder}/{name}")),
            Self::All | Self::Id(_) | Self::Pattern(_) | Self::Name(_) => None,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Id(id) => id.fmt(f),
            Self::Pattern(pattern) => write!(f, "/{pattern}/"),
            Self::Script(path) => f.write_str(path),
            Self::NameOrScript { folder, name } => write!(f, "{folder}{TYPED_IN}{name}"),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl fmt::Display for TargetFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::IdTooLarge(text) => write!(f, "no worker can have the id {text}"),
            Self::EmptyPattern(text) => write!(f, "`{text}` is an empty pattern"),
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
        for name in ["api", "2nd", "1e3", "0x10", "12-34", "web/api", "@scope/api", "api.js"] {
            let wanted = AppName::new(name).expect("these are names");
            assert_eq!(Target::parse(name), Ok(Target::Name(wanted)));
        }
        assert_eq!(Target::parse("/^api/"), Ok(Target::Pattern("^api".to_owned())));
        assert_eq!(Target::parse("/a/b/"), Ok(Target::Pattern("a/b".to_owned())));
        assert_eq!(Target::parse("/srv/app.js"), Ok(Target::Script("/srv/app.js".to_owned())));
    }

    #[test]
    fn a_target_is_written_as_it_is_read() {
        for text in ["all", "7", "/^api-[0-9]/", "/srv/app.js", "web/api", "/srv/./web/api", "/./app.js"] {
            assert_eq!(Target::parse(text).map(|target| target.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn a_text_that_was_typed_in_a_folder_is_a_name_or_a_script() {
        let typed = |folder, text| {
            let target = Target::typed_in(folder, text)?;
            assert_eq!(Target::parse(&target.to_string()), Ok(target.clone()));
            assert_eq!(as_typed(&target.to_string()), text);
            Some((target.name()?.to_owned(), target.script()?))
        };
        let table =
            [("/srv", "app.js", "/srv/app.js"), ("/", "app.js", "/app.js"), ("/srv", "a/./b", "/srv/a/./b")];
        for (folder, text, script) in table {
            assert_eq!(typed(folder, text), Some((text.to_owned(), script.to_owned())), "{folder} {text}");
        }
        for no_name in ["./app.js", "../app.js", "/app.js", "7", "all", "", "folder/"] {
            assert_eq!(typed("/srv", no_name), None, "{no_name}");
        }
        assert_eq!(as_typed("/srv/app.js"), "/srv/app.js");
        let script = Target::parse("/srv/././app.js");
        assert_eq!(script, Ok(Target::Script("/srv/././app.js".to_owned())));
    }

    #[test]
    fn faults_name_the_text() {
        let told = |text| Target::parse(text).expect_err("no target").to_string();
        assert_eq!(told("4294967296"), "no worker can have the id 4294967296");
        assert_eq!(told(""), "`` is no target: a name needs at least one character that is not a space");
        assert_eq!(told("./app.js"), "`./app.js` is no target: a name cannot start with '.', as paths do");
        assert_eq!(told("//"), "`//` is an empty pattern");
    }
}
