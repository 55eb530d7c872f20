//! What a program needs to run a script, for a new app and for another interpreter of an existing one. What version a
//! Node.js is, and whether a file is executable, is found out by callers.

use std::fmt;
use std::path::Path;

use crate::pages::{Hint, Page};

/// The first Node.js that runs TypeScript without a flag.
const TYPESCRIPT_NEEDS: (u32, u32) = (22, 18);
const TYPESCRIPT_NEEDS_TEXT: &str = "22.18";

/// Arguments by which Node.js runs TypeScript before it can by itself.
const TYPESCRIPT_LOADERS: [&str; 7] = [
    "--experimental-strip-types",
    "--experimental-transform-types",
    "--import",
    "--require",
    "-r",
    "--loader",
    "--experimental-loader",
];

/// Why a program does not run a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CannotRun {
    /// This Node.js does not run TypeScript by itself; `what` needs that.
    OldNode { what: String, node: String, version: String },
    /// A Node.js that has to run TypeScript does not tell its version.
    UnknownNode { node: String },
    /// The script is to run itself, and is not executable.
    NotExecutable { script: String, option: String },
}

impl CannotRun {
    /// What to do about it; `None` if that is not known.
    pub fn hint(&self) -> Option<Hint> {
        match self {
            Self::OldNode { .. } => {
                Some(Page::Interpreter.hint("use a newer Node.js, or compile it to JavaScript first"))
            }
            Self::UnknownNode { .. } => None,
            Self::NotExecutable { script, option } => {
                let hint = format!("`chmod +x {script}`, or name what runs it with {option}");
                Some(Page::Interpreter.hint(hint))
            }
        }
    }
}

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OldNode { what, node, version } => {
                write!(f, "{what} needs Node.js {TYPESCRIPT_NEEDS_TEXT} or newer, and {node} is {version}")
            }
            Self::UnknownNode { node } => write!(f, "cannot run {node} --version"),
            Self::NotExecutable { script, .. } => write!(f, "{script} is not executable"),
        }
    }
}

impl std::error::Error for CannotRun {}

/// Whether a file is TypeScript that Node.js strips the types of.
pub fn is_typescript(path: &Path) -> bool {
    path.extension().is_some_and(|extension| matches!(extension.to_str(), Some("ts" | "mts" | "cts")))
}

/// Whether Node.js has to strip the types of this script, because none of its arguments and of the words in `NODE_OPTIONS`
/// loads what does.
pub fn needs_types_stripped(script: &Path, node_args: &[String], node_options: Option<&str>) -> bool {
    let words = node_options.unwrap_or_default().split_whitespace();
    let mut words = node_args.iter().map(String::as_str).chain(words);
    let is_loader =
        |word: &str| TYPESCRIPT_LOADERS.contains(&word.split_once('=').map_or(word, |(name, _)| name));
    is_typescript(script) && !words.any(is_loader)
}

/// Refuses a Node.js that does not strip types, for `what` that needs it.
pub fn check_strips_types(what: &str, node: &str, version: Option<&str>) -> Result<(), CannotRun> {
    let (what, node) = (what.to_owned(), node.to_owned());
    match version {
        Some(version) if strips_types(version) => Ok(()),
        Some(version) => Err(CannotRun::OldNode { what, node, version: version.to_owned() }),
        None => Err(CannotRun::UnknownNode { node }),
    }
}

/// 22.18 and later, and 23.6 and later.
fn strips_types(version: &str) -> bool {
    let mut numbers = version.trim_start_matches('v').split('.').map(|part| part.parse::<u32>().unwrap_or(0));
    let major = numbers.next().unwrap_or(0);
    let minor = numbers.next().unwrap_or(0);
    if major == 23 { minor >= 6 } else { (major, minor) >= TYPESCRIPT_NEEDS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_run_typescript() {
        for (version, expected) in [
            ("18.20.8", false),
            ("20.20.2", false),
            ("22.17.1", false),
            ("22.18.0", true),
            ("23.5.0", false),
            ("23.6.0", true),
            ("24.0.0", true),
            ("26.1.0-nightly", true),
        ] {
            assert_eq!(check_strips_types("a.ts", "node", Some(version)).is_ok(), expected, "{version}");
        }
        assert!(check_strips_types("a.ts", "node", None).is_err());
    }

    #[test]
    fn types_are_stripped_by_node_where_nothing_else_does() {
        let needs = |script: &str, args: &[&str], options: Option<&str>| {
            let args: Vec<String> = args.iter().copied().map(str::to_owned).collect();
            needs_types_stripped(Path::new(script), &args, options)
        };
        assert!(needs("/srv/a.mts", &["--inspect"], Some("--max-old-space-size=100")));
        assert!(!needs("/srv/a.js", &[], None));
        assert!(!needs("/srv/a.ts", &["--import=tsx"], None));
        assert!(!needs("/srv/a.ts", &[], Some("--no-warnings --require ts-node/register")));
    }
}
