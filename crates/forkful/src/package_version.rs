//! The version of an app, from the `package.json` nearest to its script.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use forkful_api::jlist::JlistEntry;
use serde::Deserialize;

/// The largest `package.json` that is read.
const PACKAGE_BYTES_MAX: u64 = 1 << 20;

/// How many directories upwards to search.
const DIRECTORIES_MAX: usize = 32;

#[derive(Deserialize)]
struct Package {
    version: Option<String>,
}

/// The versions found so far; each package is read once.
#[derive(Debug, Default)]
pub(crate) struct Versions(HashMap<PathBuf, Option<String>>);

impl Versions {
    /// The version of the package that contains a script.
    pub(crate) fn of(&mut self, script: &str) -> Option<String> {
        self.0.entry(PathBuf::from(script)).or_insert_with_key(|script| nearest(script)).clone()
    }
}

/// Sets each app's version.
pub(crate) fn fill_in(entries: &mut [JlistEntry]) {
    let mut versions = Versions::default();
    for entry in entries {
        if let Some(version) = versions.of(&entry.pm2_env.pm_exec_path) {
            entry.pm2_env.version = version;
        }
    }
}

fn nearest(script: &Path) -> Option<String> {
    let directories = script.parent()?.ancestors().take(DIRECTORIES_MAX);
    let package = directories.map(|directory| directory.join("package.json")).find(|path| path.is_file())?;
    if fs_err::metadata(&package).ok()?.len() > PACKAGE_BYTES_MAX {
        return None;
    }
    let package: Package = serde_json::from_slice(&fs_err::read(&package).ok()?).ok()?;
    package.version
}
