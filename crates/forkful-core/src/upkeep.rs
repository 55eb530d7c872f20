//! Maintenance of running workers: when a worker is renewed ([`renewal`], and by schedule [`cron`]), whether
//! it still works ([`health`], and [`thrashing`] below a memory limit), whether dependencies between apps are valid ([`needs`]), and in which order
//! apps start and stop ([`order`]).
//!
//! The user's settings are in [`crate::spec`]; a renewal is a reload of one slot, so it loses no request, and
//! a new worker that does not start leaves the old one running.

pub mod burst;
pub mod cron;
pub mod health;
pub mod needs;
pub mod order;
pub mod renewal;
pub mod thrashing;

use std::path::{Path, PathBuf};

use crate::foreign::visible;

/// The reason of a renewal for changed files, on one line: `src/a.js and 2 more changed (`watch`)`. Files below the app's folder are
/// named without it.
pub fn changed_in_words(paths: &[PathBuf], cwd: &Path) -> String {
    let first = paths.first().map_or_else(String::new, |path| {
        let path = path.strip_prefix(cwd).unwrap_or(path);
        visible(&path.to_string_lossy(), &[])
    });
    let more = match paths.len() {
        0 | 1 => String::new(),
        n => format!(" and {} more", n - 1),
    };
    format!("{first}{more} changed (`watch`)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_named_on_one_line() {
        let told = |names: &[&str]| {
            let paths: Vec<PathBuf> = names.iter().map(PathBuf::from).collect();
            changed_in_words(&paths, Path::new("/srv"))
        };
        assert_eq!(told(&["/srv/src/a.js"]), "src/a.js changed (`watch`)");
        assert_eq!(told(&["/else/b", "/srv/c", "/srv/d"]), "/else/b and 2 more changed (`watch`)");
        assert_eq!(
            told(&["/srv/a\n2026 forkful: FAKE\u{1b}]0;PWN\u{7}"]),
            "a\\n2026 forkful: FAKE\\u{1b}]0;PWN\\u{7} changed (`watch`)"
        );
    }
}
